-- Every setting once, with values that differ from the defaults. What each one means: config/default.lua.
local home = os.getenv("HOME") or ""

return {
  default_model = "local",

  models = {
    ["local"] = {
      endpoint = "http://127.0.0.1:8080/v1",
      model = "qwen2.5-7b-instruct",
      temperature = 0.1,
      key_env = "LOCAL_MODEL_KEY",
      system_prompt = "You help in a terminal. Propose a command on a line that starts with `CMD: `. Be brief.",
      connect_timeout_ms = 2000,
      first_byte_timeout_ms = 60000,
      idle_timeout_ms = 30000,
    },
  },

  model_defaults = {
    temperature = 0.4,
    connect_timeout_ms = 3000,
    first_byte_timeout_ms = 90000,
    idle_timeout_ms = 45000,
  },

  system_prompt = "You help in a terminal. Propose a command on a line that starts with `CMD: `.",

  shell = {
    program = "/bin/bash",
    known_commands = { "deploy", "vpn" },
    capture_output = true,
    capture_head_bytes = 64 * 1024,
    capture_tail_bytes = 512 * 1024,
    confirm_cmd = true,
  },

  context = { max_turns = 20, token_budget = 8000, exec_output_tokens = 2000 },

  history = { dir = home .. "/.reedclaw-history", entries_max = 50000, ignore_space = false },

  prompt = "shell",

  editor = {
    mode = "vi",
    highlight = false,
    autosuggest = false,
    completion_timeout_ms = 800,
    abbreviations = { gs = "git status", gd = "git diff" },
  },

  console = { color = "never", markdown = false },
}
