-- Your config of ReedClaw. What isn't here holds as the defaults say; `reedclaw config show --origin` prints what
-- holds, `reedclaw config validate` what is wrong, and :config reload takes over a change. Two dashes make a comment:
-- take them away in front of what you want to change.
return {
  -- Models. `reedclaw onboard --print` finds those on this machine and those that you have a key for.
  models = {
    -- ["local"] = { endpoint = "http://127.0.0.1:8080" },
    -- cloud = { endpoint = "https://api.openai.com/v1", model = "gpt-4.1-mini", key_env = "OPENAI_API_KEY" },
  },
  -- default_model = "local",

  -- Tools that a model has; all of them where this says nothing.
  -- tools_allow = { shell = { "time", "file_list", "file_read" } },

  -- shell = { known_commands = { "deploy" } },
  -- editor = { mode = "vi", abbreviations = { gs = "git status" } },
  -- console = { color = "never" },
}
