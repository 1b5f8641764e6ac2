-- A Neovim without a screen, in which CodeCompanion talks with ReedClaw as its documentation sets it up: an answer, a change that
-- its person accepts, one that they reject, and an answer that is stopped. Prints what it saw as JSON.
for _, plugin in ipairs({ "plenary.nvim", "codecompanion.nvim" }) do
  vim.opt.runtimepath:append(vim.env.PLUGINS .. "/" .. plugin)
end
local setup = assert(io.open(vim.env.SETUP)):read("a")
setup = setup:gsub('"reedclaw", "acp"', string.format('%q, "acp"', vim.env.REEDCLAW))
vim.cmd("runtime plugin/codecompanion.lua")
assert(load(setup))()

local chat = require("codecompanion").chat()
local labels = require("codecompanion.interactions.chat.tools.labels")

local function content()
  return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n")
end

local function wait(what, is_so)
  if not vim.wait(60000, is_so, 50) then
    print("it never came to be: " .. what .. "\n" .. content() .. "\n" .. vim.fn.execute("messages"))
    os.exit(1)
  end
end

local function wait_for(part)
  wait(part, function() return content():find(part, 1, true) ~= nil end)
end

local function ask(question)
  -- The plugin opens the next turn when an answer has ended.
  wait("the end of an answer", function() return chat.current_request == nil and content():match("## Me%s*$") ~= nil end)
  chat:add_buf_message({ role = "user", content = question })
  chat:submit()
end

-- Presses the key that the plugin has for a choice.
local function choose(label)
  local key
  wait(label, function()
    for _, map in ipairs(vim.api.nvim_buf_get_keymap(chat.bufnr, "n")) do
      if map.desc == label then key = map.callback end
    end
    return key ~= nil
  end)
  key()
end

-- The plugin connects when it has drawn the chat, and would begin a second session for a question before that.
wait("a session", function() return chat.acp_connection ~= nil and chat.acp_connection.session_id ~= nil end)
ask("hello")
wait_for("Hi")
ask("make it")
choose(labels.accept)
wait_for("made")
ask("refuse it")
choose(labels.reject)
wait_for("not made")
ask("slow one")
wait_for("begun")
chat:stop()
wait("the stop", function() return chat.current_request == nil end)
print(vim.json.encode({ thought = content():find("hm", 1, true) ~= nil }))
os.exit(0)
