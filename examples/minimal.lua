-- The least that connects a model: a server on this machine.
return {
  models = {
    ["local"] = { endpoint = "http://127.0.0.1:8080" },
  },
}
