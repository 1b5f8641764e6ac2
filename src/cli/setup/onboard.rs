//! `reedclaw onboard`: finds models on this machine and keys in the environment, tries them out, and writes a config. A
//! key never goes into it, and a config that is there stays unless the person says otherwise.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::cli::exit;
use crate::cli::out::{is_yes, out, outln};
use crate::cli::setup::provider::{times, try_out};
use crate::config::{self, Env};
use crate::files::create_private;
use crate::host;
use crate::model::{Endpoint, Protocol, Secret, Server, list_models};
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;

/// Usual ports of model servers, with the server's name.
const PORTS: [(u16, &str); 7] = [
    (8080, "llama.cpp"),
    (11434, "Ollama"),
    (1234, "LM Studio"),
    (8000, "vLLM"),
    (1337, "Jan"),
    (5001, "KoboldCpp"),
    (4000, "LiteLLM"),
];
/// Time limit for a connection to a server on this machine, which accepts at once.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a server's list of models, which needs no model's answer.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Names of models that a comment lists.
const NAMES_SHOWN_MAX: usize = 8;

/// A provider whose key may be in the environment.
struct Known {
    variables: &'static [&'static str],
    name: &'static str,
    protocol: Protocol,
    endpoint: &'static str,
    /// The variable that moves its address.
    base_variable: &'static str,
    /// Parts of names of models that suit a shell, best first.
    preferred: &'static [&'static str],
}

const KNOWN: [Known; 6] = [
    Known {
        variables: &["ANTHROPIC_API_KEY"],
        name: "anthropic",
        protocol: Protocol::Anthropic,
        endpoint: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        preferred: &["sonnet", "haiku"],
    },
    Known {
        variables: &["OPENAI_API_KEY"],
        name: "openai",
        protocol: Protocol::Responses,
        endpoint: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        preferred: &["gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini", "gpt-"],
    },
    Known {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        name: "gemini",
        protocol: Protocol::Gemini,
        endpoint: "https://generativelanguage.googleapis.com",
        base_variable: "GEMINI_BASE_URL",
        preferred: &["flash-latest", "flash"],
    },
    Known {
        variables: &["OPENROUTER_API_KEY"],
        name: "openrouter",
        protocol: Protocol::OpenAi,
        endpoint: "https://openrouter.ai/api/v1",
        base_variable: "OPENROUTER_BASE_URL",
        preferred: &["openrouter/auto"],
    },
    Known {
        variables: &["MISTRAL_API_KEY"],
        name: "mistral",
        protocol: Protocol::OpenAi,
        endpoint: "https://api.mistral.ai/v1",
        base_variable: "MISTRAL_BASE_URL",
        preferred: &["mistral-small-latest", "small"],
    },
    Known {
        variables: &["DEEPSEEK_API_KEY"],
        name: "deepseek",
        protocol: Protocol::OpenAi,
        endpoint: "https://api.deepseek.com",
        base_variable: "DEEPSEEK_BASE_URL",
        preferred: &["deepseek-chat"],
    },
];

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("onboard")
        .about("Finds models on this machine and keys in the environment, tries them, writes a config")
        .arg(
            Arg::new("port")
                .long("port")
                .value_name("PORT")
                .action(ArgAction::Append)
                .value_parser(clap::value_parser!(u16).range(1..))
                .help("Looks only at this port of this machine; can be repeated"),
        )
        // The shell reads the new config by itself.
        .arg(Arg::new("in-session").long("in-session").action(ArgAction::SetTrue).hide(true))
        .arg(Arg::new("print").long("print").action(ArgAction::SetTrue).help("Prints the config and writes nothing"))
        .arg(
            Arg::new("yes")
                .long("yes")
                .short('y')
                .action(ArgAction::SetTrue)
                .help("Tries the keys and writes a new config without asking; never replaces one"),
        )
}

/// A model that was found.
struct Found {
    /// Its name in the config.
    name: String,
    endpoint: Endpoint,
    /// Its note in the config.
    note: String,
    /// The variable that holds its key.
    key_env: Option<&'static str>,
    /// `true` if it has answered.
    answers: bool,
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, explicit: Option<PathBuf>) -> ExitCode {
    let env = host::environment();
    let ports: Vec<u16> = matches.get_many::<u16>("port").unwrap_or_default().copied().collect();
    let asks = Asks {
        yes: matches.get_flag("yes"),
        at_terminal: std::io::stdin().is_terminal(),
        in_session: matches.get_flag("in-session"),
    };
    let mut found = local_models(&ports);
    for known in &KNOWN {
        found.extend(remote_model(known, &env, &asks));
    }
    let result = finish(&found, &env, explicit, matches.get_flag("print"), &asks);
    result.err().map_or(ExitCode::SUCCESS, |failure| exit::failed(&failure))
}

/// The ways to get an answer from the person.
struct Asks {
    yes: bool,
    at_terminal: bool,
    in_session: bool,
}

impl Asks {
    /// Asks for a plain yes; no if there is no person to ask.
    fn ask(&self, question: &str) -> bool {
        self.at_terminal && is_yes(question)
    }
}

/// Looks at the ports of this machine, all at once.
fn local_models(ports: &[u16]) -> Vec<Found> {
    let ports: Vec<(u16, &str)> =
        if ports.is_empty() { PORTS.to_vec() } else { ports.iter().map(|port| (*port, "local")).collect() };
    let listed = std::thread::scope(|scope| {
        let looks: Vec<_> =
            ports.iter().map(|(port, _)| scope.spawn(move || list_models(&local(*port, "x")))).collect();
        looks.into_iter().map(|look| look.join()).collect::<Vec<_>>()
    });
    let mut found: Vec<Found> = Vec::new();
    for ((port, whose), list) in ports.into_iter().zip(listed) {
        let Ok(Ok(models)) = list else { continue };
        // A server whose list is empty has no model loaded; one of embeddings answers no question.
        let Some(model) = models.iter().find(|model| !model.contains("embed")) else {
            outln!("127.0.0.1:{port} ({whose}): a server without a model");
            continue;
        };
        let mut name = whose.to_lowercase().replace([' ', '.'], "-");
        if found.iter().any(|other| other.name == name) {
            name = format!("{name}-{port}");
        }
        let endpoint = Endpoint { name: name.clone(), ..local(port, model) };
        let note = format!("127.0.0.1:{port}, the usual port of {whose}. {}", has(&models));
        let note = if whose == "local" { format!("127.0.0.1:{port}. {}", has(&models)) } else { note };
        found.push(tried(Found { name, endpoint, note, key_env: None, answers: false }));
    }
    found
}

fn local(port: u16, model: &str) -> Endpoint {
    Endpoint {
        connect_timeout: CONNECT_TIMEOUT,
        first_byte_timeout: LIST_TIMEOUT,
        idle_timeout: LIST_TIMEOUT,
        ..Endpoint::new("local", &format!("http://127.0.0.1:{port}"), model)
    }
}

/// Looks at a provider whose key is there. Nothing goes out without a yes.
fn remote_model(known: &Known, env: &Env, asks: &Asks) -> Option<Found> {
    let value = |name: &str| env.get(OsStr::new(name)).and_then(|it| it.to_str()).filter(|it| !it.trim().is_empty());
    let variable = *known.variables.iter().find(|name| value(name).is_some())?;
    let address = value(known.base_variable).unwrap_or(known.endpoint);
    let endpoint = Endpoint {
        protocol: known.protocol,
        key: value(variable).map(Secret::new),
        key_env: Some(variable.to_owned()),
        first_byte_timeout: Duration::from_secs(30),
        ..Endpoint::new(known.name, address, "MODEL")
    };
    let name = known.name.to_owned();
    let found = Found { name, endpoint, note: String::new(), key_env: Some(variable), answers: false };
    let place = found.endpoint.place();
    outln!("{}: a key is in ${variable}", known.name);
    if !(asks.yes || asks.ask(&format!("Send the key to {place}, list its models and put one short question to one?")))
    {
        return Some(Found {
            note: format!("Not tried. Put the name of a model in place of MODEL. {place}."),
            ..found
        });
    }
    match list_models(&found.endpoint) {
        Ok(models) => {
            let preferred = known.preferred.iter().find_map(|part| models.iter().find(|model| model.contains(part)));
            let Some(model) = preferred.or_else(|| models.first()) else {
                return Some(Found { note: format!("{place} lists no model."), ..found });
            };
            let endpoint = Endpoint { model: model.clone(), ..found.endpoint };
            Some(tried(Found { note: format!("{place}. {}", has(&models)), endpoint, ..found }))
        }
        Err(error) => {
            outln!("  {}", sanitise(&error.to_string()));
            Some(Found { note: format!("{place} did not list its models: {}.", error.fault), ..found })
        }
    }
}

/// Describes the number of models, and the first names.
fn has(models: &[String]) -> String {
    let shown: Vec<&str> = models.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect();
    let more = if models.len() > shown.len() { ", …" } else { "" };
    format!("It has {}: {}{more}.", models.len(), shown.join(", "))
}

/// Asks the short question and notes the result.
fn tried(found: Found) -> Found {
    let place = found.endpoint.place();
    outln!("{}: trying {} at {place} …", sanitise(&found.name), sanitise(&found.endpoint.model));
    let endpoint = Endpoint {
        // A server may have to load the model first.
        first_byte_timeout: Duration::from_secs(120),
        idle_timeout: Duration::from_secs(60),
        ..found.endpoint.clone()
    };
    match try_out(&Server::new(endpoint)) {
        Ok(trial) => {
            let took = times(&trial);
            outln!("  it answers: {took}");
            Found { note: format!("{} It answered: {took}.", found.note), answers: true, ..found }
        }
        Err(error) => {
            outln!("  {}", sanitise(&error.to_string()));
            Found { note: format!("{} It did not answer: {}.", found.note, error.fault), ..found }
        }
    }
}

/// Writes the config, or returns the reason why not.
fn finish(found: &[Found], env: &Env, explicit: Option<PathBuf>, print: bool, asks: &Asks) -> Result<(), Failure> {
    let fail = |kind, message: String, hint: &str| Failure::new(kind, message).hint(hint);
    if found.is_empty() {
        let message = "no model server on the usual ports of this machine and no known key in the environment";
        let hint =
            "start one (llama.cpp: llama-server -m MODEL.gguf) or set a key such as ANTHROPIC_API_KEY, then try again";
        return Err(fail(FailureKind::Unavailable, message.to_owned(), hint));
    }
    let text = config_text(found);
    if print {
        out!("\n{text}");
        return Ok(());
    }
    let Some(path) = explicit.or_else(|| config::own_path(env)) else {
        return Err(fail(FailureKind::Config, "no HOME is set, so no config has a place".to_owned(), "use --print"));
    };
    let shown = config::display_path(&path, env);
    let is_there = std::fs::symlink_metadata(&path).is_ok();
    let may = if is_there {
        asks.ask(&format!("{shown} is there. Put the new one in its place? The old one stays beside it"))
    } else {
        asks.yes || asks.ask(&format!("Write {shown}?"))
    };
    if !may {
        out!("\n{text}");
        if is_there {
            let message = format!("{shown} is there and stays as it is");
            return Err(fail(FailureKind::User, message, "take what you need from the text above"));
        }
        outln!("\nnothing was written; --yes writes it to {shown}");
        return Ok(());
    }
    let written =
        if is_there { keep_aside(&path) } else { Ok(None) }.and_then(|old| write_new(&path, &text).map(|()| old));
    match written {
        Ok(None) => outln!("wrote {shown}"),
        Ok(Some(old)) => outln!("wrote {shown}; the old one is {}", config::display_path(&old, env)),
        Err(error) => {
            let message = format!("{shown} can't be written: {error}");
            return Err(fail(FailureKind::Unavailable, message, "see the directory, or use --print"));
        }
    }
    if !asks.in_session {
        outln!("start `reedclaw` and ask something; a running session uses it from the next question on");
    }
    Ok(())
}

/// Moves the old config to a name that is free.
fn keep_aside(path: &Path) -> std::io::Result<Option<PathBuf>> {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 0 { ".old".to_owned() } else { format!(".old.{number}") });
        PathBuf::from(name)
    };
    let free = (0..1000).map(named).find(|aside| std::fs::symlink_metadata(aside).is_err());
    let free = free.ok_or_else(|| std::io::Error::other("there are too many old ones beside it"))?;
    std::fs::rename(path, &free)?;
    Ok(Some(free))
}

/// Writes a file that isn't there yet and that only the user can read.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    config::make_directory_for(path)?;
    create_private(path, text.as_bytes())
}

/// The config: models that answered are on, the others are comments.
fn config_text(found: &[Found]) -> String {
    let mut text = String::from(
        "-- Written by `reedclaw onboard`. Every setting with its value: `reedclaw config show`.\n\
         -- Keys stay in the environment: this file only names the variables.\n\nreturn {\n",
    );
    match found.iter().find(|it| it.answers) {
        Some(first) => {
            text.push_str("  -- The model that answers at the start; `:model NAME` switches to another.\n");
            text.push_str(&format!("  default_model = {},\n", quoted(&first.name)));
        }
        None => {
            text.push_str("  -- None answered. Remove the two dashes before the one that you want, and fill it in.\n")
        }
    }
    text.push_str("  models = {\n");
    for it in found {
        text.push_str(&format!("    -- {}\n", comment(&it.note)));
        let dashes = if it.answers { "" } else { "-- " };
        let mut parts = Vec::new();
        if it.endpoint.protocol != Protocol::OpenAi {
            parts.push(format!("kind = {}", quoted(it.endpoint.protocol.word())));
        }
        if it.endpoint.protocol.usual_endpoint() != Some(it.endpoint.endpoint.as_str()) {
            parts.push(format!("endpoint = {}", quoted(it.endpoint.shown())));
        }
        parts.push(format!("model = {}", quoted(&it.endpoint.model)));
        parts.extend(it.key_env.map(|variable| format!("key_env = {}", quoted(variable))));
        text.push_str(&format!("    {dashes}[{}] = {{ {} }},\n", quoted(&it.name), parts.join(", ")));
    }
    text.push_str("  },\n}\n");
    text
}

/// A text as Lua writes it, without control characters; names of models come from servers.
fn quoted(text: &str) -> String {
    config::lua_string(&text.replace(char::is_control, ""))
}

/// A text for inside a comment: one line, without the opening of a long comment.
fn comment(text: &str) -> String {
    sanitise(text).replace(['\n', '\r'], " ").trim_start_matches('[').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_loads_names_the_found_models_and_holds_no_key() {
        let hostile = "x\"}}, shell = { program = \"/bin/evil\" } --[[\n\u{1b}[31m";
        let found = |name: &str, protocol, endpoint: &str, model: &str, answers| Found {
            name: name.into(),
            endpoint: Endpoint {
                protocol,
                key: Some(Secret::new("sk-secret")),
                ..Endpoint::new(name, endpoint, model)
            },
            note: format!("It has 1: {model}."),
            key_env: Some("SOME_KEY"),
            answers,
        };
        let text = config_text(&[
            found("anthropic", Protocol::Anthropic, "https://api.anthropic.com", "MODEL", false),
            found("lm-studio", Protocol::OpenAi, "http://127.0.0.1:1", hostile, true),
            found("far", Protocol::Gemini, "http://h", "m", true),
        ]);
        assert!(!text.contains("sk-secret"), "{text}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.lua");
        write_new(&path, &text).expect("it is written");
        assert!(write_new(&path, &text).is_err(), "a file that is there isn't written over");
        let env: Env = [("HOME".into(), folder.path().into())].into();
        let request = config::LoadRequest { explicit: Some(path.clone()), env, cwd: folder.path().into() };
        let loaded = config::load(&request).expect("it loads");
        assert_eq!(loaded.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new(), "{text}");
        let settings = loaded.settings;
        assert_eq!(settings.models.keys().collect::<Vec<_>>(), ["far", "lm-studio"]);
        assert_eq!(settings.default_model.as_deref(), Some("lm-studio"));
        assert!(settings.shell.program.is_none() && settings.models["far"].kind == "gemini");
        assert_eq!(settings.models["lm-studio"].model, hostile.replace(['\n', '\u{1b}'], ""));
        let aside = keep_aside(&path).expect("it is moved").expect("a path");
        assert!(aside.ends_with("config.lua.old") && !path.exists());
    }
}
