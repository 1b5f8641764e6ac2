-- ReedClaw's defaults, and the reference of every setting.
--
-- This file is built into the program. It runs first, and your config overrides it, so yours needs only the settings that
-- differ. Yours is the first of: `--config PATH`, $REEDCLAW_CONFIG, $XDG_CONFIG_HOME/reedclaw/config.lua (that is
-- ~/.config/reedclaw/config.lua).
-- The nearest .reedclaw.lua overrides both, from the working directory upwards, once you have trusted it (without a config
-- of your own and a .reedclaw.lua, ./config.lua of the directory where ReedClaw starts). A file in a
-- directory can only tighten: settings that grant something (addresses, keys, programs, the shell, the place of the
-- history, abbreviations, commands of hooks) come from your own config only. docs/settings.md has the right of each key.
--
-- A config is a Luau script that returns a table. It has no files, no processes and no network, 32 MiB of memory
-- and 50 ms; it has os.getenv, os.time, os.date, os.clock and the string, table, math, utf8 and bit32 libraries.
-- A mistake costs its own key and nothing else: it is reported, and the default stays; in `security` the strictest
-- value applies. If the whole file can't be read, autonomy is "readonly".
--
-- A key with `--` in front has no default; its line shows an example.

-- Where programs keep their data: $XDG_DATA_HOME counts only if it is absolute, as the XDG specification says.
local data_home = os.getenv("XDG_DATA_HOME")
if data_home == nil or string.sub(data_home, 1, 1) ~= "/" then
  data_home = "~/.local/share"
end

return {
  -- string: a NAME in `models`. The model that answers at the start; `:model NAME` switches.
  -- None given: the only model, if there is just one; else none is chosen for you.
  -- default_model = "local",

  -- table: NAME = { … }, one for each model. Any NAME without white space, up to 64 bytes.
  -- There is none by default: ReedClaw is a complete shell without one.
  models = {
    -- ["local"] = {
    --   "openai-compatible" (the default: llama.cpp, vLLM, Ollama, LM Studio, OpenRouter, OpenAI), "openai-responses",
    --   "anthropic", "gemini": the protocol of the server. "mock": answers from a file, for tests. "reliable": asks other
    --   models in turn. "router": chooses one of them.
    --   kind = "openai-compatible",
    --   string: http:// or https:// address of the server; with or without /v1 or /v1/chat/completions. Required for
    --   "openai-compatible": a model without it is left out. The other three have their provider's own.
    --   endpoint = "http://127.0.0.1:8080",
    --   string: the server's name for the model. Default: NAME. A llama.cpp server accepts anything.
    --   model = "qwen2.5-7b-instruct",
    --   number, 0 to 2: how freely the model words its answers. Default: the server's own.
    --   temperature = 0.2,
    --   whole number, 1 to 10000000: maximum tokens of an answer. Default: the server's own; 8192 for "anthropic".
    --   max_output_tokens = 4096,
    --   whole number, 256 to 10000000: the model's context window, request and answer together. Default: the value that a
    --   llama.cpp server reports (`/props`); known for some models by name; for others only `context.token_budget` counts.
    --   context_tokens = 32768,
    --   true or false: the model takes pictures (`@picture.png`). Default: what a llama.cpp server reports; known for some
    --   models by name; others get none.
    --   images = true,
    --   true or false: the provider has promised not to train on what it gets. A tenant of the gateway without the flag
    --   `train_ok` has runs only if each model says so.
    --   no_training = true,
    --   "off", "low", "medium" or "high", or a whole number of tokens, 1024 to 10000000: how much the model thinks before it
    --   answers. Default: the server's own. A server that knows only efforts gets the nearest one, and vice versa;
    --   a server that refuses it is asked again without. With this setting thoughts are requested too, if available.
    --   thinking = "medium",
    --   string: the NAME of the environment variable that holds the key. Default: no key is sent.
    --   key_env = "OPENAI_API_KEY",
    --   list of strings: a program and its arguments; the first line that it prints is the key. It runs with the first
    --   question, without a terminal, for 10 s at most. For a password store.
    --   key_command = { "pass", "show", "openai" },
    --   path: a file whose first line is the key, and which only you can read (chmod 600).
    --   key_file = "~/.config/reedclaw/openai.key",
    --   string: the key itself. It works, and each start warns of it: a config is shown and shared.
    --   key = "sk-…",
    --   list of words: other names that :model and default_model know it by.
    --   aliases = { "l", "fast" },
    --   string: instructions for this model instead of the general `system_prompt`.
    --   system_prompt = "Answer in French.",
    --   milliseconds, 1 to 600000: as in `model_defaults`, for this model.
    --   connect_timeout_ms = 5000,
    --   milliseconds, 1 to 3600000: as in `model_defaults`, for this model.
    --   first_byte_timeout_ms = 600000,
    --   milliseconds, 1 to 3600000: as in `model_defaults`, for this model.
    --   busy_timeout_ms = 3600000,
    --   milliseconds, 1 to 3600000: as in `model_defaults`, for this model.
    --   idle_timeout_ms = 60000,
    --   whole number, 0 to 10: as in `model_defaults`, for this model.
    --   retries = 2,
    --   list of words, for "reliable": models in the order in which they are asked. The next one is asked if there is
    --   no connection or no answer in time, and on 429, 5xx and 401; a line reports it each time.
    --   of = { "local", "cloud" },
    --   true or false, for "reliable": whether a question to a model on this machine or your network may fall back to one
    --   that is more distant. Default: you are asked, once a session.
    --   allow_remote = true,
    --   table of strings, for "router": the model for a task (chat, code, summary, plan, commit), for a hint (long: a
    --   long conversation; images: pictures), or for the rest (default). A hint counts before a task.
    --   rules = { default = "local", code = "cloud" },
    --   path, for "mock": a file with its answers, JSON lines; docs/models.md shows one.
    --   script = "~/answers.jsonl",
    -- },
  },

  -- Values for every model that doesn't set its own.
  model_defaults = {
    -- number, 0 to 2: sent with each question. None by default, since some servers refuse it.
    -- temperature = 0.2,
    -- milliseconds, 1 to 600000: until the server accepts the connection. A reachable server accepts it at once.
    connect_timeout_ms = 5000,
    -- milliseconds, 1 to 3600000: until the answer starts. Long: a small machine reads a long question slowly.
    first_byte_timeout_ms = 300000,
    -- milliseconds, 1 to 3600000: the same while a server on this machine or your network says that it is at work, as
    -- llama.cpp's does (/slots, or else /health). A line reports the wait. One that hangs may say so for ever.
    busy_timeout_ms = 1800000,
    -- milliseconds, 1 to 3600000: between two pieces of an answer. A stream that stops for longer is dead.
    idle_timeout_ms = 60000,
    -- whole number, 0 to 10: how often a refused request (429, 5xx, a connection closed at once) is sent again
    -- before its answer began. The wait grows and follows the server's own request; a line reports each one.
    retries = 2,
  },

  -- table: NAME = { … }, dollars for a million tokens, for models that the built-in list lacks or has wrong. NAME is one of
  -- `models`, or what a server calls a model. A price needs input and output; a model that costs nothing has 0 for both.
  -- A model without a price is shown as unknown, and a budget in money refuses it, unless it is on this machine or your network.
  prices = {
    -- cloud = {
    --   number, 0 to 1000000: for input tokens.
    --   input = 3,
    --   number, 0 to 1000000: for input tokens read from the provider's cache. Default: `input`.
    --   cache_read = 0.3,
    --   number, 0 to 1000000: for input tokens written into the cache. Default: `input`.
    --   cache_write = 3.75,
    --   number, 0 to 1000000: for output tokens, thoughts included.
    --   output = 15,
    -- },
  },

  -- Limits on spending; there is none unless you set one. A request whose worst case would exceed a limit isn't
  -- sent. A project's file can only make these smaller.
  budget = {
    per_turn = {
      -- number, 0 to 1000000: dollars for one question, with all its requests.
      -- usd = 0.5,
      -- whole number, 0 to 1000000000000: tokens for one question, read and written.
      -- tokens = 100000,
    },
    per_conversation = {
      -- number, 0 to 1000000: dollars for one conversation.
      -- usd = 2,
      -- whole number, 0 to 1000000000000: tokens for one conversation.
      -- tokens = 1000000,
    },
    per_day = {
      -- number, 0 to 1000000: dollars a day, over all sessions.
      -- usd = 5,
      -- whole number, 0 to 1000000000000: tokens a day, over all sessions.
      -- tokens = 5000000,
    },
    -- number, 0 to 1: you are warned at this fraction of a limit.
    warn_at = 0.8,
  },

  -- string: the instructions that open each conversation. After them the model learns how to use its tools or, if it
  -- has none, how to propose commands (`CMD:`); a blank text omits that too.
  -- Default: config/prompts/system.txt.
  -- system_prompt = "Answer in French.",

  -- The live shell.
  shell = {
    -- path: the shell that runs commands; `~`, `$VAR` and `${VAR}` expand; absolute. Default: your bash, else /bin/sh.
    -- program = "/usr/bin/zsh",
    -- list of strings: first words that are commands although the shell can't find them, so such a line never
    -- goes to the model. At most 1000.
    known_commands = {},
    -- true or false: keep a copy of each command's output for the next question. `false`: the model sees neither the
    -- output nor the command.
    capture_output = true,
    -- bytes, 0 to 67108864: stored from the start of a command's output.
    capture_head_bytes = 128 * 1024,
    -- bytes, 0 to 67108864: stored from its end. Larger than the head, because errors come at the end.
    capture_tail_bytes = 1024 * 1024,
    -- true: ask before a model's command runs. `false` is refused at this stage: such a command always needs a yes.
    confirm_cmd = true,
  },

  -- The context of a question.
  context = {
    -- whole number, 1 to 1000: turns (a question and its answer) that a request carries; beyond that the oldest are dropped.
    max_turns = 40,
    -- tokens, 256 to 10000000: size of a whole request. Keep it below the context length of your model.
    token_budget = 24000,
    -- tokens, 0 to 10000000: how much output of commands goes in front of a question. Less than `token_budget`.
    exec_output_tokens = 4000,
    -- number, 0 to 1: at this fraction of the window a model summarises the older turns: your router's model for
    -- "summary" if there is one. The window is the smaller of `token_budget` and the model's own. 0: never.
    compact_at = 0.8,
    -- true or false: a question asked inside a git repository carries the names of its files, AGENTS.md from the root down,
    -- a card (readme, languages, commands, files that change most) and git's state. A project's file can only switch it off.
    project = true,
    -- tokens, 0 to 10000000: maximum of all these: AGENTS.md half, the card a quarter, names the rest.
    project_tokens = 2000,
    -- milliseconds, 0 to 3600000: how long a question waits for git's state. If git needs longer, as in a very large repository,
    -- the question carries the branch and git's previous answer with its age.
    git_ms = 150,
  },

  -- Memories: short notes that outlive a conversation, in the same database (see `:memory`).
  memory = {
    -- true or false: when a conversation of three turns or more ends, a model writes a memory of it (120 words, by the
    -- model for summaries), in the background. A project's file can only switch it off.
    auto = true,
    -- tokens, 0 to 10000000: maximum of the memories before a conversation's first question. 0: none.
    tokens = 500,
  },

  -- Answers without a model (see `:man`).
  manual = {
    -- true or false: programs outside of the home that have no manual page are asked for their `--help`, in the sandbox, when a question
    -- first needs them. It needs the overlay sandbox or bubblewrap. A project's file can only switch it off.
    help = true,
  },

  -- Lines and conversations, in an SQLite database.
  history = {
    -- path: directory of the database, created if it is missing; `~`, `$VAR` and `${VAR}` expand; absolute.
    dir = data_home .. "/reedclaw",
    -- whole number, 0 to 100000000: maximum number of lines; then the oldest are deleted.
    entries_max = 100000,
    -- true or false: a line that starts with a space stays out of the history and out of the model's context.
    ignore_space = true,
  },

  -- Receipts: a log of each tool call, whether it was allowed or denied, and how it ended.
  receipts = {
    -- true or false: write them. Without them there is no record of what was done on your machine.
    enabled = true,
    -- path: the file; `~`, `$VAR` and `${VAR}` expand; absolute. Default: receipts.jsonl in the state directory
    -- (~/.local/state/reedclaw, or $XDG_STATE_HOME/reedclaw).
    -- path = "~/receipts/reedclaw.jsonl",
    -- true or false: seal each with a key that changes every 64 receipts, so that older ones can't be rewritten even with
    -- the key. Take receipts-keys/*.verify.json out of the state directory to another machine; it checks the seals.
    hmac = false,
  },

  -- path: the directory that a model works in; `~`, `$VAR` and `${VAR}` expand; absolute.
  workspace_dir = "~/reedclaw-workspace",

  -- What a model may do. Commands that you type yourself are never judged. `:policy` shows the rules in force,
  -- `:policy explain CMD` and `reedclaw policy explain CMD` judge a command and run nothing.
  security = {
    -- "readonly", "supervised" or "full". "readonly": only calls that look run. "supervised": calls that only
    -- look run, you are asked about the rest. "full": calls that stay in the workspace run too; you are asked about
    -- those that reach further. Blocked calls are blocked in each of them.
    autonomy = "supervised",
    -- true or false: file tools neither read nor write outside the workspace. A command that would write a file there is
    -- asked about each time, and one that would delete there is refused, even with `false`.
    workspace_only = true,
    -- list of absolute paths, `~` is your home: a model reads and writes nothing below them. At most 1000.
    forbidden_paths = { "/etc", "/sys", "/boot", "~/.ssh" },
    -- list of strings: commands that a model never runs, however they are written. At most 1000.
    forbidden_commands = { "shutdown", "reboot", "poweroff", "halt" },
    -- list of rules "PROGRAM WORD…: ask", ": deny", ": network" or ": host": commands of a model with this program and these
    -- words need more than ReedClaw's own table of programs says. Nothing becomes less strict by it. At most 1000.
    programs = {},
    -- "ask" or "deny": what "supervised" does with high risk.
    high = "ask",
    -- list of strings: hosts that a model may request with GET without asking, such as "docs.rs"; ".rust-lang.org" includes all subdomains.
    allow_domains = {},
    -- path: a file that gets a line for each decision, beside the receipts. None given: there is none.
    -- audit_log = "~/reedclaw-audit.log",
    -- "require", "prefer" or "off". "require": commands of a model run in a complete sandbox or not at all. "prefer": in the
    -- best available; without any, only proven harmless commands run without a question. "off": without one;
    -- then you are asked about every command that may run code, in "full", too.
    sandbox = "prefer",
    -- "overlay", "bubblewrap" or "landlock": the strongest sandbox to try. "overlay": a command runs at once on a
    -- copy of the workspace, and you are asked about what it changed. With the others you are asked before it runs.
    tier = "overlay",
  },

  -- "default", "shell" or a function (the hook, see below). "default": user and machine over ssh and as root, virtual
  -- environment, directory, git branch, last status if not 0, a long duration, and the model. "shell": your own prompt, right
  -- prompt and continuation prompt, as your shell draws them.
  prompt = "default",

  -- Where a line goes: a command to the shell, a sentence to the model.
  route = {
    -- "auto", "shell", "ask" or "shadow". "auto": ReedClaw decides. "shell", "ask": every line goes there, except those
    -- with a prefix (`!`, `?`). "shadow": as "shell", and the prompt shows what "auto" would do. `:mode` changes it.
    mode = "auto",
    -- "glyph" or "words": `❯ ? : ~`, or `shell> model> meta> ask first>`, which a screen reader reads better.
    verdict = "glyph",
    -- true or false: remember the lines that you sent the other way (Ctrl-T, or your answer to the question), and learn
    -- from them. This stays in the history's database; `:route forget` deletes it.
    learn = true,
  },

  -- The line editor.
  editor = {
    -- "emacs" or "vi": key bindings.
    mode = "emacs",
    -- true or false: colour the line while it is typed.
    highlight = true,
    -- true or false: suggest the rest of the line from the history, dimmed.
    autosuggest = true,
    -- "blank" or "word": whether Ctrl-W takes everything back to a blank, as bash does, or one word of letters and digits.
    kill_word = "blank",
    -- milliseconds, 1 to 10000: how long Tab waits for your shell's own completion before it shows ReedClaw's alone.
    completion_timeout_ms = 1000,
    -- table of strings: a word and its expansion when a space or Enter follows it, such as { gs = "git status" }.
    abbreviations = {},
  },

  -- What is printed.
  console = {
    -- "auto" or "never". "auto": colours on a terminal that has them, unless $NO_COLOR is set.
    color = "auto",
    -- true or false: draw the Markdown of answers; `false` prints it unchanged.
    markdown = true,
    -- true or false: show at the right edge of ReedClaw's own prompt how full the context was at the last answer, and
    -- the cost of the conversation; nothing before the first answer. A right_prompt hook replaces it.
    usage = true,
    -- "auto", "always" or "never": name the user and the machine in ReedClaw's own prompt. "auto": over ssh, and as root,
    -- who also gets a `#`.
    who = "auto",
    -- seconds, 0 to 86400: ReedClaw's own prompt shows the duration of a command that took longer. 0: never.
    duration_s = 2,
    -- "auto", "bell" or "off": announces the end of a command while you look at something else. "auto": by a
    -- notification of the desktop if the terminal is known to show them, by the bell otherwise. The terminal must report
    -- whether it is looked at; tmux does so with `set -g focus-events on`.
    notify = "auto",
    -- seconds, 1 to 86400: announce only commands that took longer.
    notify_s = 10,
    -- true or false: for screen readers. No spinner, no colours, no dimmed suggestions; words instead of colours.
    accessible = false,
  },

  -- The project that a model works on.
  project = {
    -- text: a command of bash that runs after edits you have accepted, once for each round of them, in the sandbox, at the
    -- top of the project. The model gets the result and can mend failures. No project's file can set it.
    -- Default: none. This one knows several kinds of projects:
    -- check = "if [ -f Cargo.toml ]; then cargo check; elif [ -f go.mod ]; then go vet ./...; fi",
    check = "",
    -- milliseconds, 1 to 3600000: its maximum time.
    check_ms = 120000,
  },

  -- The model's tools; `reedclaw tool list` lists them.
  tools = {
    -- true or false: `http` may send data with POST, beside GET and HEAD. Data that was sent can't be recalled.
    http_post = false,
    -- list of whole numbers, 1 to 65535: ports that `http` may connect to.
    http_ports = { 80, 443 },
    -- true or false: `http` may reach this machine and private networks. `false`: public addresses only, because
    -- services on your machine often trust every local caller.
    http_allow_private = false,
    -- "off", "searxng", "brave" or "tavily": the service that `web_search` asks. The keys are in the environment:
    -- BRAVE_API_KEY, TAVILY_API_KEY.
    search = "off",
    -- text: the address of that service, for SearXNG such as "http://127.0.0.1:8888". Empty: the service's usual address.
    search_url = "",
    -- "auto", "core" or "all": the tools that the model learns about. "core": shell, file_read, file_write, edit_replace_exact,
    -- search_text, and those of plugins. "auto": the core for windows up to 16384 tokens and for models on this machine,
    -- which do better with few; else all except those that another one replaces. A list in `tools_allow` counts as "all" of it.
    set = "auto",
  },

  -- Ways to a model. Commands and `:` lines work in any case.
  channels = {
    shell = {
      -- true or false: questions in the shell.
      enabled = true,
    },
    agent = {
      -- true or false: questions by `reedclaw agent`.
      enabled = true,
    },
    acp = {
      -- true or false: questions by `reedclaw acp`, in an editor.
      enabled = true,
    },
    gateway = {
      -- true or false: questions by `reedclaw gateway`, over HTTP.
      enabled = true,
    },
  },

  -- The only tools that a model has, by channel; names as `reedclaw tool list` has them. Default: all. {} is none.
  tools_allow = {
    -- list of words: in the shell.
    -- shell = { "time", "file_list", "file_read" },
    -- list of words: in `reedclaw agent`.
    -- agent = { "time" },
    -- list of words: in an editor (`reedclaw acp`).
    -- acp = { "file_read", "edit_replace_exact" },
    -- list of words: of other agents (`reedclaw mcp serve`).
    -- serve = { "file_list", "file_read" },
    -- list of words: of `reedclaw gateway`.
    -- gateway = { "time", "file_read" },
    -- list of words: of procedures that a trigger began.
    -- service = { "file_list", "file_read", "file_write", "shell" },
  },

  -- Limits of a model's work. Reaching one is reported.
  limits = {
    -- whole number, 1 to 1000: rounds of tool calls for one question; then the model must answer.
    tool_rounds = 25,
    -- whole number, 1 to 1000: the same for `reedclaw agent -m`, which runs unattended.
    tool_rounds_once = 25,
    -- bytes, 1024 to 268435456: of an answer; a longer one is stopped.
    response_bytes = 1024 * 1024,
    -- milliseconds, 1 to 600000: maximum time of a tool without a limit of its own.
    tool_ms = 30000,
    -- milliseconds, 1 to 3600000: time after which you are asked about a model's running command; if nobody can be asked it
    -- becomes a job.
    shell_ms = 15000,
    -- milliseconds, 1 to 600000: maximum time of an `http` request, redirects included.
    http_ms = 20000,
    -- whole number, 2 to 100: a turn ends when the same call has given the same result this often.
    repeats = 3,
    -- bytes, 1024 to 16777216: maximum of a tool's output for the model; it gets head and tail of a longer one, and
    -- can read the rest.
    output_bytes = 32 * 1024,
  },

  -- Servers of tools (Model Context Protocol), which only your own config can name. A tool is offered to a model after you have
  -- allowed it with `:mcp allow NAME`, and only as long as it stays as it was.
  mcp = {
    -- true or false: use them at all.
    enabled = true,
    -- "lazy": start an unknown server with the first question that can use tools. "eager": start all with the first line of a
    -- session. "never": only by `:mcp connect NAME`.
    start = "lazy",
    -- milliseconds, 0 to 60000: maximum wait of a question for servers that were never started before.
    wait_ms = 1500,
    -- whole number, 0 to 100000: tokens of tool schemas that are sent at once, and never more than a tenth of the model's window.
    -- If the allowed tools have more, the model gets `tool_search` instead.
    tools_tokens = 4000,
    -- Other agents that use this shell through `reedclaw mcp serve`.
    serve = {
      -- "observe": they can look at your sessions, your history and your costs. "tools": they can use the built-in tools, too,
      -- through the same questions. `--offer` overrides it.
      offer = "observe",
      -- true or false: they can see the output of the last command of each session that runs, and its jobs.
      outputs = false,
    },
    -- table: NAME = { … }, one for each server. A NAME has small letters, digits and hyphens, 20 at most.
    servers = {
      -- git = {
      --   list of strings: the program and its arguments. A server has a command or a url.
      --   command = { "mcp-server-git" },
      --   http address: a server that is reached over the network (streamable HTTP), in place of a program.
      --   url = "https://mcp.example.com/mcp",
      --   table: headers that it is sent. A value is a string, { from = "VARIABLE" }, or { command = { … } } whose output it is.
      --   headers = { ["X-Team"] = "shell" },
      --   variable name, list of strings, path: where the key is that it is sent as a bearer token.
      --   key_env = "TRACKER_KEY",
      --   key_command = { "pass", "show", "tracker" },
      --   key_file = "~/.config/reedclaw/tracker.key",
      --   table: logins at it, with `:mcp login NAME` and your browser.
      --   oauth = {
      --     "auto" (the default): log in if it asks for that. "off": never.
      --     mode = "auto",
      --     text: your own registration there. Default: the program registers itself, if the server allows that.
      --     client_id = "reedclaw",
      --     variable name, list of strings, path: where the secret of that registration is.
      --     client_secret_env = "TRACKER_SECRET",
      --     client_secret_command = { "pass", "show", "tracker-secret" },
      --     client_secret_file = "~/.config/reedclaw/tracker.secret",
      --     http address: a document that describes the program, in place of a registration.
      --     client_id_url = "https://example.com/reedclaw.json",
      --     list of words: the permissions to ask for. Default: those that the server names.
      --     scopes = { "read" },
      --     whole number, 0 to 65535: the port of this machine to which the browser returns. 0 (the default): any free one.
      --     port = 0,
      --   },
      --   true or false: let it ask you something while one of its tools works. Default: true.
      --   elicit = true,
      --   true or false: use its resources. Default: true.
      --   resources = true,
      --   true or false: use its prompts. Default: true.
      --   prompts = true,
      --   table: variables that are set for it. A value is a string, { from = "VARIABLE" }, or { command = { … } } whose output it is.
      --   env = { LOG_LEVEL = "warning", TOKEN = { command = { "pass", "show", "tracker" } } },
      --   list of words: variables of yours that it gets, beside PATH, HOME, the language, TZ, TERM and USER.
      --   pass = { "TRACKER_TOKEN" },
      --   "read": it reads the workspace. "workspace" (the default): it writes there, too. "off": it runs outside any sandbox.
      --   sandbox = "read",
      --   true or false: give it the network. Default: false.
      --   network = false,
      --   path: the directory in which its program starts. Default: the workspace.
      --   cwd = "~/notes",
      --   list of paths: further paths that it may read.
      --   readable = { "~/notes" },
      --   list of paths: further paths that it may write.
      --   writable = { "~/drafts" },
      --   list of words: the only tools of this server that are offered. Default: all.
      --   only = { "git_log", "git_diff" },
      --   list of words: tools of this server that aren't offered.
      --   without = { "git_reset" },
      --   list of words: its tools that are sent even if `tools_tokens` is too small for all.
      --   load = { "git_log" },
      --   text: the hash of everything that it offers, from `:mcp show NAME`. What has it is allowed without `:mcp allow`, for
      --   machines without a terminal.
      --   pin = "4f1c…",
      --   table of strings: "run" runs a tool without a question as long as it is the one that you allowed, "ask" always asks,
      --   "deny" never offers it.
      --   tools = { git_log = "run" },
      --   "auto" (the default): find the version of the protocol out. "2025-11-25" (or older) or "2026-07-28": use this one.
      --   era = "auto",
      --   "http" (the default): streamable HTTP at its url. "sse": the older HTTP with events, of servers from 2024.
      --   transport = "http",
      --   milliseconds, 1 to 3600000: maximum time of its start. Default: 30000.
      --   start_ms = 30000,
      --   milliseconds, 1 to 3600000: maximum wait for an answer or a sign of progress. Default: 60000.
      --   call_ms = 60000,
      --   milliseconds, 1 to 3600000: maximum time of a call. Default: 600000.
      --   call_max_ms = 600000,
      --   milliseconds, 1 to 86400000: time without a call after which it is ended. Default: 600000.
      --   idle_ms = 600000,
      -- },
    },
  },

  -- Sessions on git: `:session start` gives a conversation a branch on which each turn is a commit.
  sessions = {
    -- "never", "ask" or "always": the first question of a conversation in a repository begins a session automatically, after a
    -- question to you, or never.
    auto = "never",
    -- "branches" or "hidden": new sessions are branches, or references that `git branch` doesn't list and
    -- `git push --all` doesn't send.
    refs = "branches",
    -- "full" or "talk": the commit of a turn has all that was said, or question and answer without the calls of tools.
    record = "full",
    -- "shared", "copy" or "off": commands of sessions share the files that none of them has changed, each session has a copy
    -- of its own, or no command runs.
    bench = "shared",
    -- whole number, 0 to 10000000: files of a repository up to which a session's first question has them written out for commands,
    -- while the model works; in a larger one, and with 0, its first command waits for that.
    prepare = 20000,
    -- list of directories of the checkout that git ignores, such as "node_modules" or ".venv": a session's commands get a copy of
    -- each, made with the session's first command.
    share = {},
    -- table from names to strings: variables that a session's commands have, beside the usual ones, such as { RUST_LOG = "debug" }.
    -- Not for keys: a model can read them.
    env = {},
    -- true or false: ask about edits of a session's files as about edits of the workspace.
    ask_edits = false,
    -- true or false: offer the tools of a repository (tools/NAME.luau) that you have allowed.
    tools = true,
    -- "squash", "merge" or "rebase": the commits that `:session merge` makes, unless an option says otherwise.
    merge = "squash",
    -- "user" or "model": the author of the commits of a model's turns.
    author = "user",
    -- true or false: name the models in the message of a merge with one commit (Assisted-by).
    assisted_by = false,
    -- days, 1 to 3650: after them `session gc` forgets what a rewind or an abandoned session left.
    keep_days = 30,
    -- true or false: have the repository's hooks pre-commit and commit-msg check the commit of a merge.
    hooks = true,
    -- milliseconds, 0 to 60000: maximum wait for the first line of a turn's commit by the model for summaries; 0: none.
    message_ms = 2000,
  },

  -- The gateway (`reedclaw gateway`).
  gateway = {
    -- text: its address, with a port. One that other machines can reach needs the mode saas or enterprise, behind_tls_proxy,
    -- and trusted_proxies.
    listen = "127.0.0.1:4117",
    -- "lab": one user; "saas", "enterprise": tenants that don't trust each other, on PostgreSQL.
    mode = "lab",
    -- text: file:PATH, postgres://HOST/NAME, or env:NAME for a variable with one of these. Empty: gateway.db in the state directory.
    database = "",
    -- text: postgres://HOST/NAME, or env:NAME for a variable with one: the server itself, if `database` is a pool that changes
    -- connections with each transaction, since hints of other gateways need one that stays. Empty: `database`.
    listen_database = "",
    -- text: postgres://HOST/NAME, or env:NAME for a variable with one: a replica of the server. Lists and replays of events with the
    -- header `X-Consistency: eventual` are read there. Empty: all is read from the server itself.
    read_database = "",
    -- list of NAME=CLASS: actions that need a licence whatever the policy finds in them, such as "shop__pay=money". The classes are
    -- exec, delete, network, money and canvas_purge.
    dangerous = {},
    -- text: https://NAME, under which a proxy that encrypts serves the gateway. Links use it. Empty: none.
    public_url = "",
    -- text: https://NAME, or http:// with an address of this machine: where other gateways of the database reach this one, to pass on
    -- requests about what it has. Empty: they answer that they don't have it.
    node_url = "",
    -- list of names, with a port if it isn't the usual one: further names by which the gateway may be called.
    allowed_hosts = {},
    -- list of addresses such as https://NAME: further ones under which the console is opened.
    allowed_origins = {},
    -- list of addresses and networks such as 10.0.0.0/8: proxies whose X-Forwarded-For counts.
    trusted_proxies = {},
    -- true or false: other machines reach it only by a proxy that encrypts. Without it the gateway listens to this machine alone.
    behind_tls_proxy = false,
    -- seconds, 1 to 3600: a question that nobody answers in this time counts as no.
    question_timeout = 120,
    -- 1 to 64: runs of the agent at once.
    runs_max = 8,
    -- "node" or "shared": where the workspaces of projects lie if gateways on several machines share a database. "node": each
    -- machine has its own. "shared": their directory (reedclaw-workspaces beside the data directory) is the same one, on a file system
    -- that all machines mount; then one gateway at a time works in a project. All gateways of a database need the same word.
    workspaces = "node",
    -- true or false: whoever started a call doesn't answer its question.
    four_eyes = false,
    -- Another sign-in whose tokens (JSON Web Tokens, RS256 or ES256) count beside the gateway's own. Only the user's name is taken
    -- from them; what a user may do is said by `reedclaw gateway member`.
    auth = {
      -- text: who makes the tokens, as they say it.
      issuer = "",
      -- text: whom they are for, as they say it.
      audience = "",
      -- path: the file with its keys, a JWK set; read again every ten minutes. Empty: such tokens don't count.
      jwks = "",
    },
    -- All events are passed on to a stream of NATS JetStream, too, for programs elsewhere.
    nats = {
      -- text: nats://HOST:PORT of a server on this machine, tls://HOST:PORT, or env:NAME for a variable with one. Empty: none.
      url = "",
      -- text: the stream; it has the subjects reedclaw.events.>
      stream = "",
    },
    -- text: the whole path of a file that gets spans of requests, runs, requests to models and calls of tools, in OpenTelemetry's form
    -- (OTLP as JSON lines), without content. After 16 MiB a new one begins, and the previous one ends in .1. Empty: none.
    traces = "",
    -- Bounds of what clients may use. Whoever is above one gets an error that says so.
    limits = {
      -- 16 to 100000: connections at once; others wait.
      connections = 1024,
      -- 1 to 1000000: requests of a tenant in a second; for a moment, twice as many.
      tenant_requests = 200,
      -- 1 to 1000000: requests of a user in a second; for a moment, four times as many.
      user_requests = 50,
      -- 1 to 100000: streams of a tenant at once.
      tenant_streams = 2000,
      -- 1 to 100000: streams of a user at once.
      user_streams = 16,
      -- 1 to 64: runs of a user at once, outside of the mode lab; others wait for their turn.
      user_runs = 2,
    },
    -- Webhooks by name: a signed request to /hooks/NAME asks the model a question, and nobody is asked for a yes.
    hooks = {
      -- builds = {
      --   variable name: the variable with the secret that requests are signed with.
      --   secret_env = "BUILDS_SECRET",
      --   text: the question; the request's body follows it.
      --   question = "A build failed. Find out why.",
      --   text: the tenant in which it asks; empty: "local".
      --   tenant = "",
      --   text: the project in which it asks; empty: "default".
      --   project = "",
      --   text: the persona that answers; empty: "default".
      --   persona = "",
      -- },
    },
    -- Personas by name: system prompts that a question over HTTP can name. "default" is the model's own.
    personas = {
      -- reviewer = {
      --   text: the system prompt.
      --   system_prompt = "You review changes. Name the worst problem first.",
      -- },
    },
  },

  -- The gateway to which `:share` and `reedclaw agent --share` publish.
  share = {
    -- text: https://NAME or https://NAME:PORT of a team's gateway; http:// for one on this machine. Empty: your own gateway, by
    -- its socket.
    gateway = "",
    -- variable name: the variable with your token for it, as `reedclaw gateway token create` makes one.
    token_env = "REEDCLAW_SHARE_TOKEN",
    -- "lab", "saas", "enterprise": the mode of your tenant there.
    mode = "saas",
    -- text: your tenant there.
    tenant = "local",
    -- text: the project there that your sessions belong to.
    project = "default",
  },

  -- Runs towards goals (`:norris GOAL`, `reedclaw norris GOAL`). Options of the command line count before these.
  norris = {
    -- the name of a model: it plans the work. Empty: the model that works.
    preplanner = "",
    -- the name of a model: it works through the tasks. Empty: the model that answers.
    executor = "",
    -- the name of a model: it gives a second opinion on each call of medium risk that would run without a question. It can
    -- only make the call asked; a reviewer that can't be reached does so too. Empty: none.
    reviewer = "",
    -- true or false: the model that works may give side work to a helper, which reads and searches files, with a fifth of
    -- what is left of each budget.
    delegate = true,
    -- list of commands: the goal is reached when each ends with status 0. Empty: `project.check`, if it is set.
    checks = {},
    -- What a run may do without a question. Its checks may run as well.
    grant = {
      -- list of patterns: paths below the workspace that it may change.
      writes = { "**" },
      -- list of command lines: those that it may run, each exactly.
      commands = {},
    },
    -- list of patterns: paths that it never changes without a question, and that the checks depend on.
    protect = {},
    -- A run ends when it has used one of these up.
    budget = {
      -- number, 0 to 1000000: dollars.
      usd = 1.0,
      -- whole number, 0 to 1000000000000: tokens, read and written.
      tokens = 1000000,
      -- number, 0 to 100000: minutes of work.
      minutes = 60,
      -- whole number, 0 to 100000: questions to models.
      steps = 20,
      -- whole number, 0 to 100000: calls of tools.
      calls = 200,
    },
    -- whole number, 1 to 20: attempts of a task before a new plan is made.
    attempts = 3,
    -- whole number, 0 to 20: new plans before the run is stuck.
    replans = 2,
    -- whole number, 1 to 20: attempts without progress before a new plan is made.
    stall = 3,
    -- list: a program and its arguments, which runs when a run ends or waits for you. It reads the run's state as JSON on its
    -- standard input and has ten seconds. Empty: none.
    notify = {},
  },

  -- Procedures (`reedclaw sop`).
  sop = {
    -- list of absolute paths: directories with procedures, beside `sops` of a workspace and of the config directory.
    dirs = {},
    -- The most that a run may use; its file may name less.
    budget = {
      -- number, 0 to 1000000: dollars.
      usd = 0.5,
      -- whole number, 0 to 1000000000000: tokens, read and written.
      tokens = 300000,
      -- number, 0 to 100000: minutes of work.
      minutes = 30,
    },
    -- whole number, 1 to 100000: finished runs of a procedure that are stored; older ones are deleted.
    keep_runs = 200,
  },

  -- The service (`reedclaw service`), which runs procedures at their times.
  service = {
    -- true or false: times, files and webhooks begin runs.
    triggers = true,
    -- whole number, 1 to 16: runs at once, of which one works in a workspace.
    parallel = 2,
    -- text "HH:MM-HH:MM": local times in which no run begins by the clock; it begins afterwards. Empty: none.
    quiet = "",
    -- list: a program and its arguments, which runs when a run ends or waits for you, as `norris.notify`. Empty: none.
    notify = {},
  },

  -- `:undo` reverts changes by a model's commands and edits. Nothing is stored before a model runs something.
  undo = {
    -- true or false: record these changes.
    enabled = true,
    -- bytes, 1048576 to 1099511627776: maximum stored for a workspace; then the oldest steps leave.
    bytes_max = 512 * 1024 * 1024,
    -- bytes, 1024 to 268435456: the largest file that is stored; changes of a larger one can't be reverted.
    file_bytes_max = 10 * 1024 * 1024,
    -- whole number, 1 to 10000000: maximum files and folders of a workspace; a larger one isn't covered.
    files_max = 200000,
  },

  -- Hooks: functions that ReedClaw calls, each within 5 ms. They have no files and no processes either. One that fails
  -- or takes longer is reported once and is off until :config reload. They may stand here or in `hooks`. `ctx` holds path,
  -- directory, branch, status, duration_ms, model, columns, and for keys the line.
  -- hooks = {
  --   text before the glyph; nil: as the setting `prompt`.
  --   prompt = function(ctx) return ctx.directory .. " " end,
  --   text at the right edge; nil for none.
  --   right_prompt = function(ctx) return os.date("%H:%M") end,
  --   "shell", "ask" or nil for the rules; asked while you type, but not for a line with a prefix. Not for projects.
  --   route = function(line, ctx) if string.match(line, "^deploy ") then return "shell" end end,
  --   a list of words or of { value = "…", description = "…" } for the word at `pos`, or nil.
  --   complete = function(line, pos, ctx) if string.match(line, "^deploy ") then return { "staging", "live" } end end,
  --   called after each command; outcome has status, duration_ms and directory. A returned string is shown.
  --   on_command = function(cmd, outcome) if outcome.duration_ms > 60000 then return "that took long" end end,
  --   called for each new working directory.
  --   on_directory = function(path) end,
  --   called for each complete answer.
  --   on_answer = function(text) end,
  -- },

  -- What keys do: { insert = "text" }, { meta = ":command" }, { shell = "function of your bash" }, which may change
  -- READLINE_LINE and READLINE_POINT, or a function(ctx) that returns an action, which is one of
  -- { exec = "command" }, { insert = "text" }, { ask = "text" }, { print = "text" }, a string to show, or nil.
  -- keys = { ["ctrl-g"] = { insert = "git " }, ["f5"] = { meta = ":models" } },

  -- Your own meta commands; `run` gets the text after the name and returns an action as above.
  -- meta = { deploy = { help = "deploys", run = function(args) return { exec = "make deploy " .. args } end } },
}
