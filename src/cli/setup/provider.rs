//! `reedclaw provider`: the configured models, and whether one answers, how fast and what it can do.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};

use crate::agent::unknown_model;
use crate::app;
use crate::cli::exit;
use crate::cli::out::{errln, outln, report};
use crate::config::{self, Env, KeySource, LoadRequest, ModelSettings, Settings};
use crate::host;
use crate::model::{
    Cancel, Capabilities, ChatEvent, Crossing, Item, ModelError, Models, Provider, Request, Response, Sink, Tool,
};
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;
use crate::render::text::width;

/// The question of a test: its answer is short and shows that the model understood.
pub(in crate::cli) const QUESTION: &str = "Answer with the one word: ready";

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("provider")
        .about("Lists and tests the configured models")
        .subcommand_required(true)
        .subcommand(Command::new("list").about("Lists the models, their places and the sources of their keys"))
        .subcommand(
            Command::new("test")
                .about("Asks a model a short question: does it answer, how fast, and what can it do")
                .arg(Arg::new("name").value_name("NAME").required(true)),
        )
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, explicit: Option<PathBuf>) -> ExitCode {
    let env = host::environment();
    let request = LoadRequest { explicit, env, cwd: host::working_directory() };
    let loaded = match config::load(&request) {
        Ok(loaded) => loaded,
        Err(error) => {
            return exit::failed(&Failure::from(error));
        }
    };
    app::config_problems(&loaded.problems).iter().for_each(report);
    match matches.subcommand() {
        Some(("list", _)) => list(&loaded.settings, &request.env),
        Some(("test", inner)) => {
            let name = inner.get_one::<String>("name").map_or("", String::as_str);
            test(&loaded.settings, &request.env, name).map_or_else(|failure| exit::failed(&failure), ExitCode::from)
        }
        _ => ExitCode::from(exit::USAGE),
    }
}

fn models_of(settings: &Settings, env: &Env) -> Models {
    Models::new(settings.models.iter().map(|(name, model)| app::spec_of(name, model, env)).collect())
}

fn list(settings: &Settings, env: &Env) -> ExitCode {
    let models = models_of(settings, env);
    if models.specs().is_empty() {
        outln!("no model is set up; `reedclaw onboard` finds one");
        return ExitCode::SUCCESS;
    }
    let head = ["", "name", "kind", "model", "where", "key"].map(str::to_owned).to_vec();
    let rows = models.specs().iter().filter_map(|spec| {
        let can = models.get(spec.name())?.capabilities();
        let model = &settings.models[spec.name()];
        let mark = if settings.default_model.as_deref() == Some(spec.name()) { "*" } else { "" };
        let shown_model = if model.endpoint.is_empty() { "" } else { spec.model() };
        let place =
            if model.endpoint.is_empty() { can.place } else { format!("{} ({})", can.place, can.reach.words()) };
        let row = [mark, spec.name(), can.kind, shown_model, &place, &key_words(model, env)];
        Some(row.map(|cell| sanitise(cell).into_owned()).to_vec())
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> =
        (0..6).map(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or_default()).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, most)| format!("{cell}{}", " ".repeat(most - width(cell))));
        outln!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    ExitCode::SUCCESS
}

/// The source of a key, and whether there is a key; never the key itself.
fn key_words(model: &ModelSettings, env: &Env) -> String {
    match &model.key {
        None => "none".to_owned(),
        Some(KeySource::Variable(name)) => {
            let is_set = env.get(std::ffi::OsStr::new(name)).is_some_and(|value| !value.is_empty());
            format!("${name}{}", if is_set { "" } else { " (not set)" })
        }
        Some(KeySource::Command(words)) => format!("printed by {}", words.first().map_or("", String::as_str)),
        Some(KeySource::File(path)) => path.display().to_string(),
        Some(KeySource::Literal(_)) => "in the config".to_owned(),
    }
}

fn test(settings: &Settings, env: &Env, name: &str) -> Result<u8, Failure> {
    let models = models_of(settings, env);
    let by_alias = || settings.models.iter().find(|(_, model)| model.aliases.iter().any(|alias| alias == name));
    let found = models.get(name).or_else(|| models.get(by_alias()?.0));
    let Some(model) = found else {
        return Err(unknown_model(FailureKind::User, name, &models));
    };
    let can = model.capabilities();
    outln!("{}: {} at {} ({})", sanitise(model.name()), can.kind, sanitise(&can.place), can.reach.words());
    outln!("asked: {QUESTION}");
    let trial = match try_out(model.as_ref()) {
        Ok(trial) => trial,
        Err(error) => {
            let failure = error.to_failure();
            report(&failure);
            return Ok(exit::of_answer(failure.kind));
        }
    };
    outln!("answer: {}", sanitise(&shortened(&trial.response.text)));
    if trial.response.model != model.name() {
        outln!("answered by: {}", sanitise(&trial.response.model));
    }
    outln!("time: {}", times(&trial));
    outln!("tokens: {}", token_words(&trial.response));
    outln!("can: {}", abilities(&can));
    outln!("tools: {}", tool_words(model.as_ref()));
    Ok(exit::DONE)
}

/// The result of a short question.
pub(in crate::cli) struct Trial {
    /// The answer.
    pub response: Response,
    /// The time until its first piece.
    pub first: Option<Duration>,
    /// The time until its end.
    pub whole: Duration,
}

/// Asks the short question.
pub(in crate::cli) fn try_out(model: &dyn Provider) -> Result<Trial, Box<ModelError>> {
    let request = Request { messages: vec![Item::User(QUESTION.to_owned())], ..Request::default() };
    let mut watch = Watch { began: Instant::now(), first: None, cancel: Cancel::new() };
    let response = model.chat(&request, &mut watch)?;
    Ok(Trial { response, first: watch.first, whole: watch.began.elapsed() })
}

/// The duration of an answer.
pub(in crate::cli) fn times(trial: &Trial) -> String {
    let ms = |time: Duration| format!("{} ms", time.as_millis());
    match trial.first {
        Some(first) => format!("{} to the first token, {} to the end", ms(first), ms(trial.whole)),
        None => format!("{} to the end", ms(trial.whole)),
    }
}

fn token_words(response: &Response) -> String {
    let Some(usage) = &response.usage else { return "the server doesn't say".to_owned() };
    let (read, wrote) = (usage.total_in(), usage.total_out());
    format!(
        "{read} in ({} from the cache, {} into it), {wrote} out ({} of them thoughts)",
        usage.cache_read, usage.cache_write, usage.reasoning_out
    )
}

fn abilities(can: &Capabilities) -> String {
    let all = [
        (can.streaming, "streams"),
        (can.tools, "takes tools"),
        (can.caching, "marks the part that may be cached"),
        (can.keeps_state, "gets its own thoughts back unchanged"),
    ];
    all.iter().filter(|(it_can, _)| *it_can).map(|(_, words)| *words).collect::<Vec<_>>().join(", ")
}

/// Offers the model a tool and asks for it.
fn tool_words(model: &dyn Provider) -> String {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    let tool = Tool {
        name: "get_weather".to_owned(),
        description: "Gives the weather of a city".to_owned(),
        schema: schema.to_owned(),
    };
    let question = "What is the weather in Oslo? Use the tool.";
    let messages = vec![Item::User(question.to_owned())];
    let request = Request { messages, tools: vec![tool], ..Request::default() };
    let mut watch = Watch { began: Instant::now(), first: None, cancel: Cancel::new() };
    match model.chat(&request, &mut watch) {
        Ok(response) => match response.calls.first() {
            Some(call) => format!("it called {} with {}", sanitise(&call.name), sanitise(&shortened(&call.arguments))),
            None => "it was offered one and didn't call it".to_owned(),
        },
        Err(error) => format!("it was offered one and failed: {}", sanitise(&error.fault.to_string())),
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(100) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Measures the time and shows notices; refuses more distant models, since no person is asked.
struct Watch {
    began: Instant,
    first: Option<Duration>,
    cancel: Cancel,
}

impl Sink for Watch {
    fn event(&mut self, event: ChatEvent) {
        match event {
            ChatEvent::Text(_) | ChatEvent::Thought(_) => {
                self.first.get_or_insert_with(|| self.began.elapsed());
            }
            ChatEvent::Notice(text) => errln!("{}", sanitise(&text)),
            ChatEvent::Pause => {}
        }
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// A test that the person has asked for, of a few tokens.
    fn permit(&mut self, _: &crate::model::Sending<'_>) -> Result<Option<u64>, crate::proto::Failure> {
        Ok(None)
    }

    fn consent(&mut self, _: &Crossing) -> bool {
        false
    }
}
