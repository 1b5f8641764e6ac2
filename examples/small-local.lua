-- A very small model on this machine, such as SmolLM2-135M-Instruct (no GPU needed):
--   llama-server -m SmolLM2-135M-Instruct.gguf --port 8080 -c 8192 -t 1 --chat-template-file tests/llama/smollm2.jinja
-- The model's own template has no place for tools; the one in tests/llama has. With more than this in front of a question,
-- or more tools than it needs, so small a model loses its way.
return {
  models = {
    small = {
      endpoint = "http://127.0.0.1:8080",
      temperature = 0,
      max_output_tokens = 200, -- it doesn't always find an end
      -- An example shows more than any words do. Here it has the form in which the template writes a call.
      system_prompt = [[
You edit files. For example, when the user says: In src/main.c replace `int x = 1;` by `int x = 3;`
you answer:
<tool_call>
{"name": "edit_replace_exact", "arguments": {"path": "src/main.c", "old": "int x = 1;", "new": "int x = 3;", "expectedOccurrences": 1}}
</tool_call>]],
    },
  },
  tools_allow = { shell = { "edit_replace_exact" } },
  context = { project = false, exec_output_tokens = 0 },
  -- Runs by itself after each change that you have accepted.
  project = { check = "./check" },
}
