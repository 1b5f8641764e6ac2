-- Every setting once, with values that differ from the defaults. What each one means: config/default.lua.
local home = os.getenv("HOME") or ""

return {
  default_model = "local",

  models = {
    ["local"] = {
      kind = "openai-compatible",
      endpoint = "http://127.0.0.1:8080/v1",
      model = "qwen2.5-7b-instruct",
      temperature = 0.1,
      key_env = "LOCAL_MODEL_KEY",
      aliases = { "l" },
      system_prompt = "You help in a terminal. Propose a command on a line that starts with `CMD: `. Be brief.",
      connect_timeout_ms = 2000,
      first_byte_timeout_ms = 60000,
      busy_timeout_ms = 600000,
      idle_timeout_ms = 30000,
      max_output_tokens = 2000,
      context_tokens = 16000,
      images = false,
      no_training = true,
      thinking = "low",
      retries = 1,
    },
    claude = { kind = "anthropic", model = "claude-sonnet-4-5", key_env = "ANTHROPIC_API_KEY" },
    both = { kind = "reliable", of = { "local", "claude" }, allow_remote = true },
    chosen = { kind = "router", rules = { default = "local", code = "claude", long = "cloud" } },
    played = { kind = "mock", script = "/tmp/answers.jsonl" },
    cloud = { endpoint = "https://api.openai.com/v1", key_file = "/etc/reedclaw/cloud.key" },
  },

  model_defaults = {
    temperature = 0.4,
    connect_timeout_ms = 3000,
    first_byte_timeout_ms = 90000,
    busy_timeout_ms = 900000,
    idle_timeout_ms = 45000,
    retries = 3,
  },

  prices = { ["some-model"] = { input = 0.4, cache_read = 0.04, cache_write = 0.5, output = 1.6 } },
  budget = {
    per_turn = { usd = 0.2, tokens = 200000 },
    per_conversation = { usd = 2 },
    per_day = { usd = 5 },
    warn_at = 0.7,
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

  context = {
    max_turns = 20,
    token_budget = 8000,
    exec_output_tokens = 2000,
    compact_at = 0.7,
    project = true,
    project_tokens = 1500,
    git_ms = 200,
  },

  receipts = { enabled = true, path = home .. "/receipts/reedclaw.jsonl", hmac = true },
  memory = { auto = false, tokens = 300 },
  manual = { help = false },

  workspace_dir = "~/reedclaw-workspace",
  security = {
    autonomy = "supervised",
    workspace_only = true,
    forbidden_paths = { "/etc", "/sys", "/boot", "~/.ssh", "/srv/secrets" },
    forbidden_commands = { "shutdown", "reboot", "poweroff", "halt", "scp" },
    programs = { "terraform apply: deny", "deploy: network", "git push --force: ask" },
    high = "ask",
    allow_domains = { "docs.rs", ".rust-lang.org" },
    audit_log = "~/reedclaw-audit.log",
    sandbox = "prefer",
    tier = "overlay",
  },
  history = { dir = home .. "/.reedclaw-history", entries_max = 50000, ignore_space = false },

  prompt = "shell",

  route = { mode = "shadow", verdict = "words", learn = false },

  editor = {
    mode = "vi",
    highlight = false,
    autosuggest = false,
    kill_word = "word",
    completion_timeout_ms = 800,
    abbreviations = { gs = "git status", gd = "git diff" },
  },

  console = {
    color = "never",
    markdown = false,
    usage = false,
    who = "always",
    duration_s = 5,
    notify = "bell",
    notify_s = 30,
    accessible = true,
  },

  project = { check = "cargo check", check_ms = 60000 },
  tools = { http_post = true, http_ports = { 80, 443, 8080 }, http_allow_private = true, search = "searxng", search_url = "http://127.0.0.1:8888", set = "core" },
  channels = { shell = { enabled = true }, agent = { enabled = false }, acp = { enabled = true }, gateway = { enabled = false } },
  tools_allow = { shell = { "time", "file_list", "file_read", "http" }, agent = { "time" }, acp = { "time", "file_read" }, serve = { "file_read" }, gateway = { "time" }, service = { "time", "file_read" } },
  limits = {
    tool_rounds = 10,
    tool_rounds_once = 3,
    response_bytes = 100000,
    tool_ms = 10000,
    shell_ms = 60000,
    http_ms = 5000,
    repeats = 2,
    output_bytes = 8192,
  },

  mcp = {
    enabled = true,
    start = "lazy",
    wait_ms = 1000,
    tools_tokens = 3000,
    serve = { offer = "tools", outputs = true },
    servers = {
      files = {
        command = { "mcp-server-filesystem", "." },
        env = { LOG_LEVEL = "warning", TOKEN = { from = "FILES_TOKEN" }, KEY = { command = { "pass", "show", "files" } } },
        pass = { "FILES_TOKEN" },
        sandbox = "workspace",
        network = false,
        readable = { "~/notes" },
        writable = { "~/drafts" },
        only = { "read_file", "list_directory" },
        without = { "move_file" },
        load = { "read_file" },
        pin = "0000000000000000000000000000000000000000000000000000000000000000",
        cwd = "~/notes",
        resources = true,
        prompts = true,
        tools = { read_file = "run", list_directory = "ask" },
        era = "auto",
        start_ms = 20000,
        call_ms = 30000,
        call_max_ms = 300000,
        idle_ms = 300000,
        elicit = true,
      },
      tracker = {
        url = "https://mcp.example.com/mcp",
        headers = { ["X-Team"] = "shell" },
        key_env = "TRACKER_KEY",
        oauth = {
          mode = "auto",
          client_id = "reedclaw",
          client_secret_env = "TRACKER_SECRET",
          client_id_url = "https://example.com/reedclaw.json",
          scopes = { "read", "write" },
          port = 8765,
        },
      },
      board = { url = "https://board.example.com/sse", transport = "sse", key_command = { "pass", "show", "board" } },
      wiki = { url = "https://wiki.example.com/mcp", key_file = "~/.config/reedclaw/wiki.key" },
    },
  },

  sessions = {
    refs = "hidden",
    record = "talk",
    bench = "copy",
    prepare = 5000,
    env = { RUST_LOG = "debug" },
    ask_edits = true,
    tools = false,
    merge = "rebase",
    author = "model",
    assisted_by = true,
    keep_days = 90,
    hooks = false,
    message_ms = 1000,
  },

  gateway = {
    listen = "127.0.0.1:4117",
    mode = "saas",
    database = "env:GATEWAY_DATABASE",
    listen_database = "env:GATEWAY_LISTEN_DATABASE",
    read_database = "env:GATEWAY_READ_DATABASE",
    dangerous = { "shop__pay=money" },
    public_url = "https://team.example",
    node_url = "https://one.team.example",
    allowed_hosts = { "old.team.example" },
    allowed_origins = { "https://old.team.example" },
    trusted_proxies = { "127.0.0.1", "10.0.0.0/24" },
    behind_tls_proxy = true,
    question_timeout = 60,
    runs_max = 4,
    workspaces = "shared",
    four_eyes = true,
    auth = { issuer = "https://sign-in.example", audience = "reedclaw", jwks = "~/.config/reedclaw/sign-in-keys.json" },
    nats = { url = "nats://127.0.0.1:4222", stream = "EVENTS" },
    traces = "/var/log/reedclaw/gateway-traces.jsonl",
    limits = { connections = 512, tenant_requests = 100, user_requests = 20, tenant_streams = 500, user_streams = 8, user_runs = 3 },
    hooks = { builds = { secret_env = "BUILDS_SECRET", question = "A build failed. Find out why.", persona = "reviewer" } },
    personas = { reviewer = { system_prompt = "You review changes. Name the worst problem first." } },
  },
  share = {
    gateway = "https://team.example",
    token_env = "TEAM_TOKEN",
    mode = "enterprise",
    tenant = "acme",
    project = "shop",
  },

  norris = {
    preplanner = "",
    executor = "",
    reviewer = "",
    delegate = false,
    checks = { "make test" },
    grant = { writes = { "src/**", "tests/**" }, commands = { "make" } },
    protect = { "tests/golden/**" },
    budget = { usd = 2.5, tokens = 2000000, minutes = 90, steps = 40, calls = 400 },
    attempts = 4,
    replans = 3,
    stall = 2,
    notify = { "notify-send", "a run of reedclaw" },
  },

  sop = {
    dirs = { "~/procedures" },
    budget = { usd = 0.25, tokens = 100000, minutes = 15 },
    keep_runs = 50,
  },
  service = {
    triggers = true,
    parallel = 3,
    quiet = "22:00-06:00",
    notify = { "notify-send", "a procedure of reedclaw" },
  },

  undo = {
    enabled = true,
    bytes_max = 1024 * 1024 * 1024,
    file_bytes_max = 4 * 1024 * 1024,
    files_max = 500000,
  },

  hooks = {
    prompt = function(ctx)
      return ctx.directory .. (ctx.branch and " on " .. ctx.branch or "") .. " "
    end,
    right_prompt = function(ctx)
      return ctx.status ~= 0 and "status " .. ctx.status or nil
    end,
    route = function(line)
      if string.match(line, "^deploy ") then return "shell" end
      return nil
    end,
    complete = function(line, pos)
      if string.match(string.sub(line, 1, pos), "^deploy %S*$") then
        return { "staging", { value = "live", description = "the customers' machines" } }
      end
      return nil
    end,
    on_command = function(cmd, outcome)
      return outcome.duration_ms > 60000 and "that took " .. outcome.duration_ms // 1000 .. " s" or nil
    end,
    on_directory = function(path)
      return path == "/etc" and "careful here" or nil
    end,
    on_answer = function(text)
      return #text > 4000 and "a long answer" or nil
    end,
  },

  keys = {
    ["ctrl-g"] = { insert = "git " },
    ["f5"] = { meta = ":models" },
    ["alt-q"] = function(ctx)
      return { insert = " # " .. os.date("%Y-%m-%d") .. " " .. ctx.directory }
    end,
  },

  meta = {
    deploy = {
      help = "runs the deployment",
      run = function(args)
        return { exec = "make deploy " .. args }
      end,
    },
  },
}
