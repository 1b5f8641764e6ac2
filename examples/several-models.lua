-- Several models; `:model NAME` switches between them. Keys stay in the environment.
return {
  default_model = "fast",

  model_defaults = { temperature = 0.3 },

  models = {
    fast = { endpoint = "http://127.0.0.1:8080", model = "qwen2.5-7b-instruct" },
    code = { endpoint = "http://127.0.0.1:8081/v1", model = "qwen2.5-coder-32b", idle_timeout_ms = 120000 },
    cloud = {
      endpoint = "https://api.openai.com/v1/chat/completions",
      model = "gpt-4.1-mini",
      key_env = "OPENAI_API_KEY",
    },
  },
}
