//! The values in force, in their layers: the defaults, the user's config, and a project's file over them. It knows where each
//! value comes from; it reads no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::engine::OverlayHooks;
use crate::config::overlay::tighten::{self, Own, Project};
use crate::config::overlay::trust::Trusted;
use crate::config::reading::checked::{KeySource, Setting, Tree};
use crate::config::reading::expand::project_env;
use crate::config::reading::problem::{Problem, Problems, Source, dotted};
use crate::config::settings::{self, Settings};
use crate::config::tools::grant_mistake;
use crate::config::{Env, schema};
use crate::lua::Sandbox;

/// Longest value that is shown, in characters: a system prompt is cut.
const SHOWN_CHARS_MAX: usize = 200;

/// The origin of a default model that the config doesn't name.
const ONLY_MODEL: &str = "the only model of the config";

/// Values and their origins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    defaults: Arc<Tree>,
    own: Own,
    /// The user's config.
    user: Arc<Source>,
    /// The sources of values that don't come from the user's config.
    others: BTreeMap<Vec<String>, Arc<Source>>,
    hooks: Vec<(Vec<String>, Arc<Source>)>,
}

/// One setting in force, as `config show` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownRow {
    /// The key, from the top.
    pub key: String,
    /// The value as Lua writes it; stars for a secret.
    pub value: String,
    /// `default`, or the file and line.
    pub origin: String,
}

/// The settings with a project's file.
#[derive(Debug)]
pub struct Effective {
    /// The settings.
    pub settings: Settings,
    /// The problems of the project's file, refusals among them.
    pub problems: Vec<Problem>,
    /// The project's hooks.
    pub hooks: OverlayHooks,
    /// The values from which the settings were built.
    pub layers: Layers,
    /// The keys that the project set, from the top.
    pub changed: Vec<String>,
}

impl Layers {
    /// The reason why a project can't set `key` to the value in `source`, as far as it can be found without running the
    /// source.
    pub(in crate::config) fn refusal(&self, key: &[String], source: &str) -> Option<String> {
        tighten::refused_as(key, source, &self.own, &self.defaults)
    }

    pub(in crate::config) fn new(defaults: Tree, own: Own, user: Arc<Source>, hooks: Vec<Vec<String>>) -> Self {
        let hooks = hooks.into_iter().map(|key| (key, Arc::clone(&user))).collect();
        Self { defaults: Arc::new(defaults), own, user, others: BTreeMap::new(), hooks }
    }

    /// Merges a project's file over the values: runs exactly the bytes that were trusted, within the limits of a load.
    #[must_use]
    pub fn with(&self, overlay: &Trusted, env: &Env) -> Effective {
        let env = project_env(env);
        let mut problems = Problems::of(&overlay.shown());
        let nothing = "none of it applies";
        let (checked, sandbox) = match Sandbox::new(&env) {
            Ok(sandbox) => {
                let holds = self.tree();
                (
                    crate::config::run(&sandbox, overlay.text(), &env, (&holds, false), nothing, &mut problems),
                    Some(sandbox),
                )
            }
            Err(error) => {
                problems.file(None, format!("{}; {nothing}", error.message));
                (crate::config::Checked::default(), None)
            }
        };
        let mistake = grant_mistake(&problems);
        let mut tightened = tighten::tighten(&self.own, &self.defaults, Project::of(checked), &mut problems);
        let mut before = Problems::of(problems.file_name());
        // Problems of the user's own config were reported earlier; the project isn't blamed for them.
        let without = settings::build(&self.defaults, &self.own, &mut before);
        tightened.own.keep_default_model(without.ok().and_then(|settings| settings.default_model));
        let known: Vec<(String, String)> =
            before.finish().into_iter().map(|problem| (problem.key, problem.message)).collect();
        let (mut settings, own) = match settings::build(&self.defaults, &tightened.own, &mut problems) {
            Ok(settings) => (settings, tightened.own),
            // This fails only if a default is missing, which would have failed at the start already.
            Err(_) => (self.settings(), self.own.clone()),
        };
        settings.norris.mistake = mistake.unwrap_or(settings.norris.mistake);
        let mut layers = Self { own, ..self.clone() };
        let model = vec!["default_model".to_owned()];
        if !self.own.tree().contains_key(&model) {
            layers.others.insert(model, Arc::new(Source::named(ONLY_MODEL)));
        }
        layers.others.extend(tightened.changed.iter().map(|key| (key.clone(), problems.source())));
        let added = tightened.hooks.0.names();
        layers.hooks.retain(|(key, _)| key[0] == "hooks" || !added.contains(key));
        layers.hooks.extend(added.iter().map(|key| (key.clone(), problems.source())));
        let changed = tightened.changed.iter().chain(&added).map(|key| dotted(key)).collect();
        let hooks = match sandbox {
            Some(sandbox) => OverlayHooks::project(sandbox, tightened.hooks, problems.file_name()),
            None => OverlayHooks::default(),
        };
        let mut problems = problems.finish();
        problems.retain(|problem| !known.contains(&(problem.key.clone(), problem.message.clone())));
        Effective { settings, problems, hooks, layers, changed }
    }

    /// Builds the settings from the values.
    ///
    /// # Panics
    /// Never after a load, which has built the same settings.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let built = settings::build(&self.defaults, &self.own, &mut Problems::of(""));
        built.unwrap_or_else(|key| unreachable!("{key} was there when the config was loaded"))
    }

    /// The value in force of a key, as Lua writes it.
    pub(in crate::config) fn shown(&self, key: &[String]) -> Option<String> {
        self.own.tree().get(key).or_else(|| self.defaults.get(key)).map(show)
    }

    /// Every setting that has a value, and every hook, in the order of the reference.
    #[must_use]
    pub fn rows(&self) -> Vec<ShownRow> {
        let settings = self.settings();
        let mut rows = Vec::new();
        let tree = self.tree();
        let place = |key: &[String]| match schema::place(key) {
            schema::Place::Leaf(row) => schema::ROWS.iter().position(|it| it.path == row.path),
            _ => None,
        };
        let mut found: Vec<_> = tree.iter().filter_map(|(key, value)| Some((place(key)?, key, value))).collect();
        found.sort_by_key(|(place, ..)| *place);
        for (_, key, value) in found {
            let user = self.own.tree().contains_key(key).then_some(&self.user);
            let source = self.others.get(key).or(user);
            let origin = source.map_or_else(|| "default".to_owned(), |source| origin(source, key));
            rows.push(ShownRow { key: dotted(key), value: show(value), origin });
        }
        // Two settings depend on other settings.
        if let Some(row) = rows.iter_mut().find(|row| row.key == "context.exec_output_tokens") {
            let tokens = settings.context.exec_output_tokens.to_string();
            if row.value != tokens {
                (row.value, row.origin) = (tokens, "half of context.token_budget".into());
            }
        }
        match (settings.default_model, rows.iter().position(|row| row.key == "default_model")) {
            // Shows the model's own name if the config has an alias.
            (Some(name), Some(at)) => rows[at].value = quote(&name),
            (Some(name), None) => {
                let row = ShownRow { key: "default_model".into(), value: quote(&name), origin: ONLY_MODEL.into() };
                rows.insert(0, row);
            }
            (None, _) => rows.retain(|row| row.key != "default_model"),
        }
        for (key, source) in &self.hooks {
            rows.push(ShownRow { key: dotted(key), value: "a hook".into(), origin: origin(source, key) });
        }
        rows
    }

    /// The settings and hooks as lines for a person to read.
    #[must_use]
    pub fn lines(&self, with_origin: bool) -> Vec<String> {
        let line = |row: ShownRow| {
            let origin = if with_origin { format!("  -- {}", row.origin) } else { String::new() };
            format!("{} = {}{origin}", row.key, row.value)
        };
        self.rows().into_iter().map(line).collect()
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::clone(&self.defaults);
        tree.extend(self.own.tree().clone());
        tree
    }
}

/// The file of a key, with its line if the key is written out. A hook may be in `hooks` or at the top level.
fn origin(source: &Source, key: &[String]) -> String {
    let at_top =
        || key.split_last().filter(|_| key[0] == "hooks").and_then(|(name, _)| source.line(std::slice::from_ref(name)));
    let line = source.line(key).or_else(at_top);
    line.map_or_else(|| source.file().to_owned(), |line| format!("{}:{line}", source.file()))
}

impl Effective {
    /// The layers without a project's file.
    #[must_use]
    pub fn plain(layers: &Layers) -> Self {
        Self {
            settings: layers.settings(),
            problems: Vec::new(),
            hooks: OverlayHooks::default(),
            layers: layers.clone(),
            changed: Vec::new(),
        }
    }
}

/// Writes a value as Lua does; a secret is never written.
fn show(value: &Setting) -> String {
    match value {
        Setting::Text(text) => quote(&hide_secrets(text)),
        Setting::Path(path) => quote(&path.to_string_lossy()),
        Setting::Integer(number) => number.to_string(),
        Setting::Number(number) => number.to_string(),
        Setting::Bool(value) => value.to_string(),
        Setting::Words(words) => list(words.iter().map(|word| quote(word))),
        Setting::WordMap(map) => list(map.iter().map(|(word, text)| format!("[{}] = {}", quote(word), quote(text)))),
        Setting::Sources(map) => list(map.iter().map(|(word, source)| {
            let source = match source {
                KeySource::Variable(name) => format!("{{ from = {} }}", quote(name)),
                KeySource::Command(_) => "{ command = … }".into(),
                KeySource::File(_) | KeySource::Literal(_) => "***".into(),
            };
            format!("[{}] = {source}", quote(word))
        })),
        Setting::Ports(ports) => list(ports.iter().map(ToString::to_string)),
        // An argument may be a secret itself.
        Setting::Argv(words) => match &words[..] {
            [program, rest @ ..] if !rest.is_empty() => format!("{{ {}, … {} more }}", quote(program), rest.len()),
            words => list(words.iter().map(|word| quote(word))),
        },
        Setting::Secret(_) => "***".into(),
    }
}

/// Hides the parts of an address that may be a secret: a password, which is before an `@`, and what is after a `?`.
fn hide_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://").filter(|_| !text.contains(char::is_whitespace)) else {
        return text.to_owned();
    };
    // A password may contain any character, so the last `@` ends it.
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("***@", rest));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?***"));
    format!("{scheme}://{user}{rest}{query}")
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "{}".into() } else { format!("{{ {} }}", items.join(", ")) }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars().take(SHOWN_CHARS_MAX) {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || c.escape_debug().len() > 1 => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push_str(if text.chars().nth(SHOWN_CHARS_MAX).is_some() { "…\"" } else { "\"" });
    out
}
