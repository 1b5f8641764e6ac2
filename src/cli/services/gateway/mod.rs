//! `reedclaw gateway`: serves the team gateway, and looks after its tokens, members and logs.

mod qr;
mod upkeep;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{IsTerminal, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::app::{ChannelKind, Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{outln, report, says_yes};
use crate::config::{self, Env, GatewaySettings, LoadRequest, Settings};
use crate::files::make_private;
use crate::gateway::{self, Homes, Listening, Options, Parts};
use crate::host;
use crate::ledger::{
    FILE_NAME, Ledger, LedgerError, NewLimit, NewToken, Put, Span, Target, archive, backends, figures,
};
use crate::proto::Failure;
use crate::proto::team::{Mode, TeamRole, TokenKind};
use crate::render::sanitise;
use crate::render::text::table;

/// Columns of lists when the terminal doesn't say.
const COLUMNS: usize = 120;
/// The tenant of one machine.
const TENANT: &str = "local";

fn option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

fn one_of(arg: Arg, words: &'static [&'static str]) -> Arg {
    arg.value_parser(PossibleValuesParser::new(words))
}

fn tenant_option() -> Arg {
    option("tenant", "TENANT").default_value(TENANT).help("The tenant")
}

fn role_option(default: &'static str) -> Arg {
    one_of(option("role", "ROLE"), TeamRole::WORDS).default_value(default).help("The most that it may do")
}

fn named_argument(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

/// Flags of a tenant.
const FLAGS: &[&str] = &["canvas.gestures", "pii", "strategy_locks", "train_ok"];
/// Comparisons of a figure with its threshold, each with its operator.
const COMPARISONS: &[&str] = &["at-most", "at-least", "none"];
/// Sums that a budget bounds.
const LIMITS: &[&str] = &["calls", "cost_pico_usd", "tokens"];

/// Spans of time of a budget's limit.
const SPANS: &[&str] = &["total", "run", "hour", "day", "week", "month"];

/// The variable that names the database for all of these commands.
const DATABASE: &str = "REEDCLAW_GATEWAY_DATABASE";
const DATABASE_HELP: &str = "file:PATH, postgres://HOST/NAME, or env:NAME for a variable with one of these; else \
                             REEDCLAW_GATEWAY_DATABASE, else gateway.database in the config";

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let mode = one_of(option("mode", "MODE"), Mode::WORDS);
    Command::new("gateway")
        .about("Serves the team gateway on this machine over HTTP; looks after its tokens and logs")
        .after_help("Exit status: 0 ended or done, 1 failed or a log is broken, 2 usage, 3 refused.")
        .arg(option("listen", "ADDR:PORT").help("The address; else gateway.listen in the config"))
        .arg(mode.help("How tenants are run; else gateway.mode. saas and enterprise need PostgreSQL"))
        .arg(option("database", "URL").global(true).help(DATABASE_HELP))
        .arg(
            Arg::new("open")
                .long("open")
                .action(ArgAction::SetTrue)
                .help("Prints an address that signs a browser in, once"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints the start as a line of JSON"))
        .subcommand(token_definition())
        .subcommand(
            Command::new("pair")
                .about("Prints a code by which a browser or program begins a session; it holds five minutes, once")
                .arg(option("user", "USER").default_value("me").help("The user of the session"))
                .arg(tenant_option())
                .arg(role_option("admin")),
        )
        .subcommands(tenant_definitions())
        .subcommand(
            Command::new("estop")
                .about("Lifts the kill switches of a tenant; asks, and only at a terminal")
                .arg(Arg::new("clear").long("clear").action(ArgAction::SetTrue).required(true).help("Lifts them"))
                .arg(tenant_option()),
        )
        .subcommand(
            Command::new("routes")
                .about("Lists which back-end stores what for each tenant")
                .arg(tenant_option())
                .arg(
                    Arg::new("check")
                        .long("check")
                        .action(ArgAction::SetTrue)
                        .help("Exit status 1 if a back-end can't be served"),
                )
                .arg(
                    one_of(option("forget", "SERVICE"), &backends::SERVICES).help("Takes the route of a service away"),
                ),
        )
        .subcommand(
            Command::new("verify")
                .about("Checks each tenant's log from its beginning and names the first fault")
                .arg(option("tenant", "TENANT").help("Only this tenant"))
                .arg(option("file", "FILE").help("Checks an archive instead, without the database")),
        )
        .subcommand(
            Command::new("export")
                .about("Writes everything of a tenant to a new file, as lines that verify --file checks")
                .arg(named_argument("name", "TENANT", "The tenant"))
                .arg(named_argument("file", "FILE", "File to create")),
        )
        .subcommand(
            Command::new("erase")
                .about("Erases the texts of a person; asks, and only at a terminal. The log's chain holds without them")
                .arg(named_argument("name", "TENANT", "The tenant"))
                .arg(named_argument("user", "USER", "The person")),
        )
        .subcommands(upkeep::definitions())
        .subcommand(Command::new("openapi").about("Prints the OpenAPI 3.1 document of the gateway"))
}

fn token_definition() -> Command {
    let kind = one_of(option("kind", "KIND"), TokenKind::WORDS).default_value("person");
    Command::new("token")
        .about("Makes, lists and revokes tokens")
        .subcommand_required(true)
        .subcommand(
            Command::new("create")
                .about("Makes a token and prints its secret, once")
                .arg(kind.help("Who holds it"))
                .arg(option("user", "USER").required(true).help("The user that it is bound to"))
                .arg(tenant_option())
                .arg(role_option("member"))
                .arg(option("expires", "TIME").help("When it ends, such as 30d, 12h or 10m; never if absent")),
        )
        .subcommand(Command::new("list").about("Lists tokens, without their secrets"))
        .subcommand(Command::new("revoke").about("Ends a token at once").arg(named_argument(
            "id",
            "ID",
            "The token's id",
        )))
}

fn tenant_definitions() -> [Command; 2] {
    let named = || named_argument("name", "TENANT", "The tenant");
    let user = || named_argument("user", "USER", "The user");
    let mode = || one_of(option("mode", "MODE"), Mode::WORDS).default_value("lab").help("How the tenant is run");
    let tenants = Command::new("tenant")
        .about("Adds and lists tenants")
        .subcommand_required(true)
        .subcommand(Command::new("add").about("Adds a tenant").arg(named()).arg(mode()))
        .subcommand(Command::new("list").about("Lists tenants and their modes"))
        .subcommand(upkeep::keep_definition())
        .subcommand(
            Command::new("flag")
                .about("Sets a flag of a tenant")
                .arg(named())
                .arg(one_of(named_argument("flag", "FLAG", "The flag"), FLAGS))
                .arg(one_of(named_argument("value", "on|off", "Its value"), &["on", "off"])),
        )
        .subcommand(
            Command::new("kpi")
                .about("Sets a rule over a measured figure: while it is broken, nothing runs")
                .arg(named())
                .arg(named_argument("kpi", "FIGURE", "error_rate, denial_rate, p95_ms, or one that clients send"))
                .arg(one_of(named_argument("op", "at-most|at-least|none", "The comparison, or none"), COMPARISONS))
                .arg(Arg::new("threshold").value_name("NUMBER").help("The threshold"))
                .arg(option("window", "TIME").default_value("1h").help("How far back it looks, 24h at most"))
                .arg(option("samples", "N").default_value("5").help("With fewer values it says nothing"))
                .arg(option("action", "NAME").help("Only calls of this action")),
        )
        .subcommand(
            Command::new("limit")
                .about("Sets a limit of a tenant's budget")
                .arg(named())
                .arg(one_of(named_argument("kind", "KIND", "The sum that it bounds"), LIMITS))
                .arg(named_argument("value", "NUMBER|none", "The most, or none"))
                .arg(option("project", "PROJECT").help("Only what is used in this project"))
                .arg(option("user", "USER").help("Only what this user uses"))
                .arg(one_of(option("per", "SPAN").default_value("total").help("The time that it is for"), SPANS)),
        );
    let give = Command::new("add").about("Gives a user a role").arg(named()).arg(user()).arg(role_option("member"));
    let take = Command::new("remove").about("Ends a user's membership").arg(named()).arg(user());
    let members = Command::new("member").about("Gives and takes roles in a tenant").subcommand_required(true);
    [tenants, members.subcommand(give).subcommand(take)]
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let named = matches.get_one::<String>("database").cloned();
    let at = &Stores { named, config, env: host::environment() };
    let done = match matches.subcommand() {
        None => serve(matches, at),
        Some(("token", matches)) => token(matches, at),
        Some(("pair", matches)) => pair(matches, at),
        Some(("tenant", matches)) => tenant(matches, at),
        Some(("member", matches)) => member(matches, at),
        Some(("estop", matches)) => lift(matches, at),
        Some(("routes", matches)) => routes(matches, at),
        Some(("verify", matches)) => verify(matches, at),
        Some(("export", matches)) => export(matches, at),
        Some(("erase", matches)) => erase(matches, at),
        Some(("status", matches)) => upkeep::status(matches, at),
        Some(("migrate", matches)) => upkeep::migrate(matches, at),
        Some(("purge", matches)) => upkeep::purge(matches, at),
        Some(("openapi", _)) => {
            outln!("{:#}", gateway::openapi());
            Ok(exit::DONE)
        }
        Some(_) => Ok(exit::USAGE),
    };
    ExitCode::from(done.unwrap_or_else(|failure| {
        report(&failure);
        exit::of(&failure)
    }))
}

/// The gateway's stores and settings, as the command line names them.
struct Stores {
    /// The value of `--database`.
    named: Option<String>,
    /// The value of `--config`.
    config: Option<PathBuf>,
    env: Env,
}

impl Stores {
    fn settings(&self) -> Result<GatewaySettings, Failure> {
        Ok(self.all_settings()?.gateway)
    }

    fn all_settings(&self) -> Result<Settings, Failure> {
        let request =
            LoadRequest { explicit: self.config.clone(), env: self.env.clone(), cwd: host::working_directory() };
        Ok(config::load(&request)?.settings)
    }

    /// The homes of the tenants' agents on this machine.
    fn homes(&self, ledger: &Ledger) -> Result<(Homes, Parts), Failure> {
        let parts = Parts::at_rest(self.all_settings()?, self.env.clone())?;
        let database = ledger.system_id().map_err(|error| gateway::of_ledger(&error))?;
        Ok((Homes::new(&parts, &database), parts))
    }

    /// The database that `--database`, the environment or the config names, or the usual one.
    fn database(&self) -> Result<Target, Failure> {
        self.database_of(|| Ok(self.settings()?.database))
    }

    fn database_of(&self, configured: impl FnOnce() -> Result<String, Failure>) -> Result<Target, Failure> {
        if let Some(named) = &self.named {
            return gateway::database_target(named, "--database", &self.env);
        }
        if self.env.contains_key(OsStr::new(DATABASE)) {
            return gateway::database_target(&format!("env:{DATABASE}"), DATABASE, &self.env);
        }
        let configured = configured()?;
        if !configured.is_empty() {
            return gateway::database_target(&configured, "gateway.database", &self.env);
        }
        let state = config::state_directory(&self.env).ok_or_else(|| {
            Failure::unavailable("no HOME is set, so there is no place for the gateway's database")
                .hint("set HOME, or name a file: --database file:PATH")
        })?;
        Ok(Target::File(state.join(FILE_NAME)))
    }

    /// Makes the directory of the usual database, before that database is made. For another path nothing is made, since
    /// it may be mistyped.
    fn with_directory(&self, target: Target) -> Result<Target, Failure> {
        if let (Target::File(path), Some(state)) = (&target, config::state_directory(&self.env))
            && path.parent() == Some(&state)
        {
            make_private(&state).map_err(|error| {
                Failure::unavailable(format!("{} can't be made: {error}", state.display()))
                    .hint("name a file elsewhere: --database file:PATH")
            })?;
        }
        Ok(target)
    }

    /// Opens the database, and makes it if it doesn't exist.
    fn open(&self) -> Result<Ledger, Failure> {
        gateway::open(&self.with_directory(self.database()?)?)
    }

    /// Opens the database that is there.
    fn open_existing(&self) -> Result<Ledger, Failure> {
        gateway::open_existing(&self.database()?)
    }

    /// Opens the database that is there, and makes sure that it has a tenant.
    fn open_tenant(&self, tenant: &str) -> Result<Ledger, Failure> {
        with_tenant(self.open_existing()?, tenant)
    }
}

/// Returns a database that has a tenant.
fn with_tenant(ledger: Ledger, tenant: &str) -> Result<Ledger, Failure> {
    match ledger.accounts().mode(tenant).map_err(|error| gateway::of_ledger(&error))? {
        Some(_) => Ok(ledger),
        None => Err(Failure::user(format!("there is no tenant {tenant}"))
            .hint("reedclaw gateway tenant list shows those that there are")),
    }
}
/// Makes a pairing code, with hyphens as a person reads it.
fn pair_code(ledger: &Ledger, tenant: &str, user: &str, role: TeamRole) -> Result<String, Failure> {
    let code = ledger.accounts().create_pair_code(tenant, user, role).map_err(|error| gateway::of_ledger(&error))?;
    Ok([&code[..4], &code[4..8], &code[8..]].join("-"))
}

fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

fn serve(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::internal(format!("signals can't be received: {error}")))?;
    let is_json = matches.get_flag("json");
    let runtime =
        Runtime::start(&Request { config: at.config.clone(), channel: ChannelKind::Gateway, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let settings = &runtime.settings().gateway;
    if runtime.has_broken_config() {
        return Err(Failure::refused(
            "the gateway doesn't serve with a config that has a mistake: a rule that you set could be missing",
        )
        .hint("mend it first; reedclaw config validate shows what is wrong"));
    }
    let database = at.with_directory(at.database_of(|| Ok(settings.database.clone()))?)?;
    let word = |name: &str, else_: &String| matches.get_one::<String>(name).unwrap_or(else_).clone();
    let options = Options { listen: word("listen", &settings.listen), mode: word("mode", &settings.mode), database };
    let parts = Parts {
        settings: runtime.settings().clone(),
        env: runtime.env().clone(),
        store: std::sync::Arc::clone(runtime.store()),
        config: runtime.config().path.clone(),
    };
    // Anyone who reads the terminal is let in; a file or a program isn't.
    let code = match matches.get_flag("open") && stdout().is_terminal() {
        true => Some(pair_code(&gateway::open(&options.database)?, TENANT, "me", TeamRole::Admin)?),
        false => None,
    };
    let begun = |listening: &Listening| {
        report_missing_secrets(&runtime);
        match is_json {
            true => {
                let Listening { address, url, mode, database } = listening;
                let begun =
                    json!({"event": "listening", "url": url, "address": address, "mode": mode, "database": database});
                outln!("{begun}");
            }
            false => announce(listening, code.as_deref()),
        }
    };
    let ended = || {
        signals.forever().next();
        // The terminal has written ^C.
        if stdout().is_terminal() {
            outln!();
        }
    };
    gateway::serve(&options, parts, begun, ended)?;
    Ok(exit::DONE)
}

/// Shows at the start where the gateway is and what can be done next; `code` signs a browser in.
fn announce(listening: &Listening, code: Option<&str>) {
    let Listening { address, url, mode, database } = listening;
    let engine = if database == "PostgreSQL" { database.as_str() } else { "SQLite" };
    let whom = if *mode == "lab" { format!("tenant {TENANT}, ") } else { String::new() };
    outln!("ReedClaw gateway on http://{address}  (mode {mode}, {whom}{engine})");
    match code {
        Some(code) => outln!("Console: {url}/ui/#pair={code}   the code holds 5 minutes, once"),
        None => outln!("Console: {url}/ui/   reedclaw gateway pair prints a code for it"),
    }
    outln!("Ctrl-C ends the gateway; reedclaw gateway token create --user NAME makes a token for a program");
    if *mode == "lab" {
        outln!("Type :share watch in a ReedClaw shell to share its session");
    }
    outln!("Health: curl -s http://{address}/health");
}

/// Reports the webhooks of the config whose variable with the secret isn't set: their requests are refused.
fn report_missing_secrets(runtime: &Runtime) {
    for (name, hook) in &runtime.settings().gateway.hooks {
        if !runtime.env().contains_key(OsStr::new(&hook.secret_env)) {
            report(
                &Failure::user(format!("the webhook {name} is refused: its variable {} isn't set", hook.secret_env))
                    .hint("set it to the secret that signs the requests, and start the gateway again"),
            );
        }
    }
}

fn token(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let failed = |error| gateway::of_ledger(&error);
    match matches.subcommand() {
        Some(("create", matches)) => {
            let new = NewToken {
                kind: TokenKind::of(&text(matches, "kind")).unwrap_or(TokenKind::Person),
                user: named(text(matches, "user"))?,
                tenant: text(matches, "tenant"),
                role: TeamRole::of(&text(matches, "role")).unwrap_or(TeamRole::Viewer),
                lifetime_ms: matches.get_one::<String>("expires").map(|it| lifetime(it)).transpose()?,
            };
            let ledger = with_tenant(at.open()?, &new.tenant)?;
            let (id, secret) = ledger.accounts().create_token(&new).map_err(failed)?;
            outln!("{secret}");
            if stdout().is_terminal() {
                outln!("This is shown once. Its id is {id}; reedclaw gateway token revoke {id} ends it.");
            }
        }
        Some(("list", _)) => {
            let tokens = at.open_existing()?.accounts().tokens().map_err(failed)?;
            if tokens.is_empty() {
                outln!("there are no tokens; reedclaw gateway token create --user NAME makes one");
                return Ok(exit::DONE);
            }
            let row = |it: &crate::ledger::TokenRow| {
                let ends = it.expires_at.clone().unwrap_or_else(|| "no end".into());
                [&it.id, it.state, &it.kind, &it.role, &it.user, &it.tenant, &ends].map(|cell| cell.to_owned()).to_vec()
            };
            print_list(["id", "state", "kind", "role", "user", "tenant", "ends"], tokens.iter().map(row));
        }
        Some(("revoke", matches)) => {
            let id = text(matches, "id");
            at.open_existing()?.accounts().revoke_token(None, &id).map_err(|error| match error {
                LedgerError::NotFound => {
                    Failure::user(format!("there is no token {id}")).hint("reedclaw gateway token list shows the ids")
                }
                error => gateway::of_ledger(&error),
            })?;
            outln!("the token is revoked");
        }
        _ => return Ok(exit::USAGE),
    }
    Ok(exit::DONE)
}

fn pair(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::refused("a pairing code is printed at a terminal only")
            .hint("programs use tokens: reedclaw gateway token create"));
    }
    let role = TeamRole::of(&text(matches, "role")).unwrap_or(TeamRole::Viewer);
    let (tenant, user) = (text(matches, "tenant"), named(text(matches, "user"))?);
    let ledger = with_tenant(at.open()?, &tenant)?;
    let console = gateway::console_at(&at.settings()?, &ledger)?;
    let code = pair_code(&ledger, &tenant, &user, role)?;
    let url = format!("{console}/ui/#pair={code}");
    outln!("{code}   for {}, once, within five minutes", sanitise(&user));
    outln!("{url}");
    // A phone can't reach what listens to this machine alone.
    if url.starts_with("https:") {
        outln!("{}", qr::drawn(&url).unwrap_or_default());
    }
    Ok(exit::DONE)
}

fn tenant(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let failed = |error| gateway::of_ledger(&error);
    match matches.subcommand() {
        Some(("add", matches)) => {
            let name = named(text(matches, "name"))?;
            let mode = Mode::of(&text(matches, "mode")).unwrap_or(Mode::Lab);
            gateway::check_mode(mode, &at.database()?)?;
            at.open()?.accounts().add_tenant(&name, mode).map_err(failed)?;
            outln!("the tenant {} is there, in mode {}", sanitise(&name), mode.word());
        }
        Some(("flag", matches)) => {
            let is_on = text(matches, "value") == "on";
            let (name, flag) = (text(matches, "name"), text(matches, "flag"));
            at.open_tenant(&name)?.safety().set_flag(&name, None, &flag, is_on).map_err(failed)?;
            outln!("{} is {} for {}", flag, text(matches, "value"), sanitise(&name));
        }
        Some(("kpi", matches)) => set_rule(matches, at)?,
        Some(("keep", matches)) => upkeep::keep(matches, at)?,
        Some(("limit", matches)) => {
            let value = text(matches, "value");
            let limit = match value.as_str() {
                "none" => None,
                number => Some(number.parse::<i64>().ok().filter(|it| *it >= 0).ok_or_else(|| {
                    Failure::user(format!("{number:?} isn't a limit")).hint("a whole number from 0, or none")
                })?),
            };
            let (name, kind) = (text(matches, "name"), text(matches, "kind"));
            let one = |key: &str| matches.get_one::<String>(key).cloned().map(named).transpose();
            let span = Span::of(&text(matches, "per")).unwrap_or(Span::Total);
            let new = NewLimit { kind: kind.clone(), project: one("project")?, actor: one("user")?, span, limit };
            at.open_tenant(&name)?.safety().set_limit(&name, &new).map_err(failed)?;
            let whose = new.project.iter().map(|it| format!(", project {it}"));
            let whose: String = whose.chain(new.actor.iter().map(|it| format!(", user {it}"))).collect();
            outln!("the limit of {kind} is {value} for {}{whose}, per {}", sanitise(&name), span.word());
        }
        Some(("list", _)) => {
            let rows = at.open_existing()?.accounts().tenants().map_err(failed)?;
            print_list(["tenant", "mode"], rows.into_iter().map(|(tenant, mode)| vec![tenant, mode]));
        }
        _ => return Ok(exit::USAGE),
    }
    Ok(exit::DONE)
}

/// Sets a rule over a figure of a tenant.
fn set_rule(matches: &ArgMatches, at: &Stores) -> Result<(), Failure> {
    let (tenant, kpi) = (text(matches, "name"), named(text(matches, "kpi"))?);
    let action = matches.get_one::<String>("action").cloned().map(named).transpose()?.unwrap_or_default();
    let op = match text(matches, "op").as_str() {
        "at-most" => Some("<="),
        "at-least" => Some(">="),
        _ => None,
    };
    let rule = match op {
        None => None,
        Some(op) => {
            let number = text(matches, "threshold");
            let value = number.parse::<f64>().ok().filter(|it| it.abs() <= 1e12);
            let value = value
                .ok_or_else(|| Failure::user(format!("{number:?} isn't a threshold")).hint("a number, such as 0.2"))?;
            let window_s = lifetime(&text(matches, "window"))? / 1_000;
            let samples_min = text(matches, "samples").parse::<i64>().ok().filter(|it| (1..=100_000).contains(it));
            let samples_min =
                samples_min.ok_or_else(|| Failure::user("--samples isn't a number").hint("1 to 100000"))?;
            if window_s > figures::WINDOW_S_MAX {
                return Err(Failure::user("the window is too long").hint("24h at most"));
            }
            #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
            let threshold = (value * 1_000.0).round() as i64;
            let (kpi, action) = (kpi.clone(), action.clone());
            Some(figures::Rule {
                kpi,
                action,
                op: op.into(),
                threshold,
                window_s,
                samples_min,
                ..figures::Rule::default()
            })
        }
    };
    let done = at.open_tenant(&tenant)?.figures().set_rule(&tenant, &kpi, &action, rule.as_ref());
    done.map_err(|error| gateway::of_ledger(&error))?;
    match rule {
        None => outln!("there is no rule about {kpi} for {} any more", sanitise(&tenant)),
        Some(rule) => {
            outln!("{kpi} must be {} within {} s for {}", rule.bound(), rule.window_s, sanitise(&tenant));
        }
    }
    Ok(())
}

/// Lists routes, or removes one.
fn routes(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let failed = |error| gateway::of_ledger(&error);
    let tenant = text(matches, "tenant");
    let ledger = at.open_tenant(&tenant)?;
    if let Some(service) = matches.get_one::<String>("forget") {
        ledger.backends().forget(&tenant, service).map_err(|error| match error {
            LedgerError::NotFound => {
                Failure::user(format!("{service} has no route of its own in the tenant {}", sanitise(&tenant)))
                    .hint("reedclaw gateway routes lists the routes; --tenant names another tenant")
            }
            error => gateway::of_ledger(&error),
        })?;
        outln!("{service} has the usual back-end again");
        return Ok(exit::DONE);
    }
    let routes = ledger.backends().list(&tenant).map_err(failed)?;
    let row = |it: &crate::ledger::Backend| {
        vec![it.service.clone(), it.backend.clone(), it.location.clone().unwrap_or_default(), it.version.to_string()]
    };
    print_list(["service", "back-end", "location", "version"], routes.iter().map(row));
    let is_unfit = matches.get_flag("check") && backends::unfit(&routes, ledger.engine()).is_some();
    Ok(if is_unfit { exit::FAILED } else { exit::DONE })
}

/// Lifts kill switches, if a person at the terminal confirms it.
fn lift(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::refused("only a person at a terminal lifts a kill switch")
            .hint("run reedclaw gateway estop --clear at a terminal, without a pipe"));
    }
    let tenant = text(matches, "tenant");
    let ledger = at.open_tenant(&tenant)?;
    let question = format!("Let actions of the tenant {} run again? Type yes:", sanitise(&tenant));
    if !says_yes(&question) {
        outln!("nothing was changed");
        return Ok(exit::FAILED);
    }
    let lifted = ledger.safety().lift(&tenant).map_err(|error| gateway::of_ledger(&error))?;
    let switches = if lifted == 1 { "kill switch" } else { "kill switches" };
    outln!("{lifted} {switches} lifted; reedclaw estop --clear lifts that of this machine");
    Ok(exit::DONE)
}

fn member(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let (role, matches) = match matches.subcommand() {
        Some(("add", matches)) => (TeamRole::of(&text(matches, "role")), matches),
        Some(("remove", matches)) => (None, matches),
        _ => return Ok(exit::USAGE),
    };
    let (tenant, user) = (text(matches, "name"), named(text(matches, "user"))?);
    let failed = |error| gateway::of_ledger(&error);
    let ledger = at.open_tenant(&tenant)?;
    if role.is_none() && ledger.accounts().member(&tenant, &user).map_err(failed)?.is_none() {
        return Err(Failure::user(format!("{user} is no member of {tenant}")));
    }
    ledger.accounts().set_member(&tenant, None, &user, role).map_err(failed)?;
    match role {
        Some(role) => outln!("{} has the role {}", sanitise(&user), role.word()),
        None => outln!("{} is no member any more", sanitise(&user)),
    }
    Ok(exit::DONE)
}

/// Writes the archive of a tenant.
fn export(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let (tenant, path) = (text(matches, "name"), text(matches, "file"));
    let ledger = at.open_tenant(&tenant)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut to = made.map(std::io::BufWriter::new).map_err(|error| {
        Failure::user(format!("{path} can't be made: {error}")).hint("name a file that isn't there yet")
    })?;
    let (homes, parts) = at.homes(&ledger)?;
    let more = |put: Put<'_>| homes.export(&parts, &tenant, put);
    let events = ledger.archive().export(&tenant, None, &mut to, &more).map_err(|error| gateway::of_ledger(&error))?;
    outln!(
        "{events} events of {}; reedclaw gateway verify --file {} checks the file",
        sanitise(&tenant),
        sanitise(&path)
    );
    Ok(exit::DONE)
}

/// Erases the texts of a person, if a person at the terminal confirms it.
fn erase(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::refused("texts are erased only by a person at a terminal, or over HTTP")
            .hint("run reedclaw gateway erase at a terminal, without a pipe"));
    }
    let (tenant, user) = (text(matches, "name"), named(text(matches, "user"))?);
    let ledger = at.open_tenant(&tenant)?;
    if !says_yes(&format!(
        "Erase what {user} has written in {}? It can't be brought back. Type yes:",
        sanitise(&tenant)
    )) {
        outln!("nothing was changed");
        return Ok(exit::FAILED);
    }
    let (homes, parts) = at.homes(&ledger)?;
    // The conversations are found by the questions in the database, so these go last.
    let conversations = homes.erase(&parts, &ledger, &tenant, &user);
    let conversations = conversations.map_err(|problem| Failure::unavailable(problem.message))?;
    let erased = ledger.archive().erase(&tenant, None, &user).map_err(|error| gateway::of_ledger(&error))?;
    outln!("{erased} texts are erased; reedclaw gateway verify counts them");
    outln!("{conversations} conversations on this machine are deleted");
    Ok(exit::DONE)
}

/// Checks an archive.
fn verify_file(path: &str) -> Result<u8, Failure> {
    let file = std::fs::File::open(path).map_err(|error| Failure::user(format!("{path}: {error}")))?;
    match archive::verify(&mut std::io::BufReader::new(file)).map_err(|error| Failure::user(error.to_string()))? {
        Ok(verified) => {
            outln!("{} events hold, {} of them erased, head {}", verified.events, verified.erased, verified.head);
            Ok(exit::DONE)
        }
        Err(broken) => {
            outln!("broken at position {}: {}", broken.position, sanitise(&broken.why));
            Ok(exit::FAILED)
        }
    }
}

fn verify(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    if let Some(path) = matches.get_one::<String>("file") {
        return verify_file(path);
    }
    let failed = |error| gateway::of_ledger(&error);
    let only = matches.get_one::<String>("tenant");
    let ledger = only.map_or_else(|| at.open_existing(), |tenant| at.open_tenant(tenant))?;
    let tenants = match only {
        Some(tenant) => vec![tenant.clone()],
        None => ledger.accounts().tenants().map_err(failed)?.into_iter().map(|(tenant, _)| tenant).collect(),
    };
    let mut code = exit::DONE;
    for tenant in tenants {
        let name = sanitise(&tenant).into_owned();
        match ledger.verify(&tenant).map_err(failed)? {
            Ok(verified) => {
                let erased = match verified.erased {
                    0 => String::new(),
                    count => format!(", {count} of them erased"),
                };
                outln!("{name}: {} events hold{erased}, head {}", verified.events, verified.head);
            }
            Err(broken) => {
                outln!("{name}: broken at position {}: {}", broken.position, sanitise(&broken.why));
                code = exit::FAILED;
            }
        }
    }
    Ok(code)
}

/// Prints a table under the names of its columns.
fn print_list<const N: usize>(columns: [&str; N], rows: impl Iterator<Item = Vec<String>>) {
    let columns = std::iter::once(columns.map(str::to_owned).to_vec());
    print_table(&columns.chain(rows).collect::<Vec<_>>());
}

fn print_table(rows: &[Vec<String>]) {
    let columns = crate::console::terminal_size().map_or(COLUMNS, |(columns, _)| usize::from(columns).max(COLUMNS));
    outln!("{}", sanitise(table(rows, columns).trim_end()));
}

/// A name that headers can carry.
fn named(name: String) -> Result<String, Failure> {
    if gateway::is_id(&name) {
        return Ok(name);
    }
    Err(Failure::user(format!("{name:?} can't be a name here")).hint("a name has 1 to 128 of A–Z a–z 0–9 . _ : -"))
}

/// A time such as `30d`, in milliseconds.
fn lifetime(word: &str) -> Result<i64, Failure> {
    let wrong = || Failure::user(format!("{word:?} isn't a time")).hint("such as 30d, 12h or 10m");
    let unit = word.chars().next_back().ok_or_else(wrong)?;
    let minutes = match unit {
        'd' => 24 * 60,
        'h' => 60,
        'm' => 1,
        _ => return Err(wrong()),
    };
    let number: i64 = word[..word.len() - 1].parse().map_err(|_| wrong())?;
    if !(1..=100_000).contains(&number) {
        return Err(wrong());
    }
    Ok(number * minutes * 60 * 1_000)
}
