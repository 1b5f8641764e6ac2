//! `reedclaw plugin`: tools by other authors. Installing shows a plugin's whole declaration to a person at a terminal
//! and asks; nothing of a plugin runs before that, nor after it has changed.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use crate::app;
use crate::base::text::counted;
use crate::cli::exit;
use crate::cli::out::{is_yes, outln};
use crate::host;
use crate::proto::Failure;
use crate::render::text::escape_visible;
use crate::tools::plugin::{Bundle, PluginError, Plugins, Standing};
use crate::tools::{Registry, Spec};

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true);
    Command::new("plugin")
        .about("Manages tools made by others")
        .subcommand_required(true)
        .subcommand(Command::new("list").about("Lists the plugins, their tools and their state"))
        .subcommand(
            Command::new("install")
                .about("Shows a plugin and, after your yes at a terminal, installs and allows it; also after a change")
                .arg(
                    Arg::new("path")
                        .value_name("PATH")
                        .required(true)
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("A directory with manifest.toml and programs"),
                ),
        )
        .subcommand(Command::new("remove").about("Removes a plugin and its permissions").arg(name()))
}

/// Carries it out.
pub(in crate::cli) fn run(matches: &ArgMatches) -> ExitCode {
    let done = app::plugins(&host::environment()).and_then(|plugins| match matches.subcommand() {
        Some(("list", _)) => {
            list(&plugins);
            Ok(())
        }
        Some(("install", matches)) => match matches.get_one::<PathBuf>("path") {
            Some(path) => install(&plugins, path),
            None => Ok(()),
        },
        Some(("remove", matches)) => match matches.get_one::<String>("name") {
            Some(name) => remove(&plugins, name),
            None => Ok(()),
        },
        _ => Ok(()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

fn list(plugins: &Plugins) {
    let all = plugins.all();
    if all.is_empty() {
        outln!("there are no plugins; reedclaw plugin install PATH installs one");
    }
    for plugin in all {
        let name = escape_visible(&plugin.name);
        let (how, bundle) = match plugin.standing {
            Standing::Allowed(bundle) => ("allowed".to_owned(), Some(bundle)),
            Standing::Unknown(bundle) => ("not allowed: no one was asked".to_owned(), Some(bundle)),
            Standing::Changed(bundle) => ("not allowed: it has changed since it was".to_owned(), Some(bundle)),
            Standing::Broken(why) => (format!("can't be used: {}", escape_visible(&why)), None),
        };
        let version = bundle.as_ref().map(|it| format!(" {}", escape_visible(&it.manifest().version)));
        outln!("{name}{}  {how}", version.unwrap_or_default());
        for tool in bundle.iter().flat_map(|it| &it.manifest().tools) {
            outln!("  {}", escape_visible(&tool.full_name));
        }
    }
}

fn install(plugins: &Plugins, path: &Path) -> Result<(), Failure> {
    let bundle = Bundle::read(path).map_err(|error| of_plugin(&error, "it is a directory with manifest.toml"))?;
    let manifest = bundle.manifest();
    let registry = Registry::new();
    let own: Vec<&str> = registry.specs().map(|spec: &Spec| spec.name.as_str()).chain(app::OWN_TOOLS).collect();
    if let Some(own_tool) = manifest.tools.iter().find(|tool| own.contains(&tool.full_name.as_str())) {
        return Err(Failure::user(format!("{} is one of ReedClaw's own tools", own_tool.full_name))
            .hint("the plugin needs another name"));
    }
    show(&bundle, &own);
    if !io::stdin().is_terminal() {
        return Err(refused(
            "a plugin is installed only if someone can be asked; nothing was installed",
            "run it at a terminal",
        ));
    }
    if !is_yes(&format!("Install {} and allow all of this?", escape_visible(&manifest.name))) {
        return Err(refused("nothing was installed", ""));
    }
    let target = plugins.install(&bundle).map_err(|error| of_plugin(&error, ""))?;
    outln!("installed in {}; a model has it from the next session on", escape_visible(&target.display().to_string()));
    Ok(())
}

/// Shows everything about a plugin, every byte of it escaped.
fn show(bundle: &Bundle, own: &[&str]) {
    let manifest = bundle.manifest();
    let plain = escape_visible;
    outln!("plugin        {} {}", plain(&manifest.name), plain(&manifest.version));
    let capabilities = match &manifest.capabilities[..] {
        [] => "none: no network".to_owned(),
        words => {
            let network = if manifest.has_network() { "" } else { " (no network)" };
            format!("{}{network}", plain(&words.join(", ")))
        }
    };
    outln!("capabilities  {capabilities}");
    let size: usize = bundle.files().map(|(_, bytes)| bytes).sum();
    outln!("files         {}, {size} bytes, SHA-256 {}", counted(bundle.files().count(), "file"), bundle.sha256());
    for (path, bytes) in bundle.files() {
        outln!("              {} ({bytes} bytes)", plain(path));
    }
    for tool in &manifest.tools {
        outln!("tool          {}", plain(&tool.full_name));
        outln!("  runs        {}", plain(&tool.command.join(" ")));
        outln!("  says        {}", plain(&tool.description));
        for warning in tool.warnings(own) {
            outln!("  careful     {}", plain(&warning));
        }
    }
    outln!("Its programs run on this machine when a model calls them and you say yes. Read them first.");
}

fn remove(plugins: &Plugins, name: &str) -> Result<(), Failure> {
    if plugins.remove(name).map_err(|error| of_plugin(&error, ""))? {
        outln!("removed {}", escape_visible(name));
        return Ok(());
    }
    Err(Failure::user(format!("there is no plugin called {name}")).hint("reedclaw plugin list lists them"))
}
fn refused(message: &str, hint: &str) -> Failure {
    Failure::refused(message.to_owned()).hint(hint)
}

fn of_plugin(error: &PluginError, hint: &str) -> Failure {
    Failure::user(error.to_string()).hint(hint)
}
