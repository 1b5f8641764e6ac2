-- A project's own config: what holds in this directory and below, once you have trusted it. It can only tighten;
-- docs/settings.md says for each key what a project may do with it.
return {
  -- A model that the project's own server answers for, on this machine.
  models = {
    docs = { endpoint = "http://127.0.0.1:9090", aliases = { "d" } },
  },

  context = { max_turns = 10 },

  -- First words that are commands here.
  shell = { known_commands = { "release" } },

  hooks = {
    prompt = function(ctx)
      return "site " .. (ctx.branch or "?") .. " "
    end,
    complete = function(line, pos)
      if string.match(string.sub(line, 1, pos), "^make %S*$") then
        return { "serve", "test", { value = "release", description = "tags and publishes" } }
      end
      return nil
    end,
  },

  -- A project's hooks run nothing: they put text into the line, for you to read.
  meta = {
    serve = {
      help = "the command that serves the site",
      run = function(args)
        return { insert = "make serve PORT=" .. (args ~= "" and args or "8000") }
      end,
    },
  },
}
