-- A llama.cpp server on this machine:  llama-server -m MODEL.gguf --port 8080 -c 16384
return {
  default_model = "llama",

  models = {
    llama = {
      endpoint = "http://127.0.0.1:8080",
      model = "llama", -- llama.cpp serves the one model it was started with, whatever it is called here
      temperature = 0.2,
      first_byte_timeout_ms = 300000, -- without a GPU, a long question takes minutes to read
    },
  },

  -- Below the server's -c, with room for the answer.
  context = { token_budget = 12000, exec_output_tokens = 3000 },
}
