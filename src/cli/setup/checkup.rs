//! The checks of `reedclaw doctor` beside those of the database and of the tools' guards: config, backing shell, model,
//! directories, plugins, servers of tools. Contacts no server beyond the person's own network.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::AccessFlags;

use crate::app;
use crate::base::text::counted;
use crate::cli::backing;
use crate::config::{self, Env, KeySource, Loaded, Settings};
use crate::model::{Fault, Models, Reach, Spec, list_models};
use crate::proto::served::PinStanding;
use crate::shell::spawn::Dialect;
use crate::tools::plugin::Standing;
use crate::tools::served::LAUNCHERS;

/// Words of launchers that precede the package.
const LAUNCHER_WORDS: [&str; 4] = ["run", "tool", "x", "exec"];

/// The results in order, a line each.
#[derive(Default)]
pub(in crate::cli) struct Found {
    pub(in crate::cli) lines: Vec<String>,
    /// `true` if something is wrong.
    pub(in crate::cli) is_ill: bool,
}

impl Found {
    fn fact(&mut self, text: String) {
        self.lines.push(text);
    }

    fn fault(&mut self, text: String) {
        self.lines.push(format!("wrong: {text}"));
        self.is_ill = true;
    }
}

/// Looks at everything.
pub(in crate::cli) fn look(loaded: &Loaded, env: &Env, cwd: &Path) -> Found {
    let mut found = Found::default();
    config_file(&mut found, loaded, env);
    shell(&mut found, &loaded.settings);
    models(&mut found, &loaded.settings, env);
    places(&mut found, &loaded.settings, env, cwd);
    plugins(&mut found, env);
    servers(&mut found, &loaded.settings, env, cwd);
    sessions(&mut found, &loaded.settings, env, cwd);
    found
}

/// The sessions on git of the repository around the working directory.
fn sessions(found: &mut Found, settings: &Settings, env: &Env, cwd: &Path) {
    let workspace = app::workspace_for(env, cwd, &app::workspace_dir(settings, env));
    let all = app::sessions_here(env, &workspace);
    if all.is_empty() {
        return;
    }
    let of = |state: &str| all.iter().filter(|it| it.state() == state).count();
    let (sandbox, _) = app::sandbox_in_use(settings, env, &workspace);
    let commands = match (settings.sessions.bench.as_str(), sandbox) {
        ("off", _) => "none of their commands runs (sessions.bench)",
        (_, "none") => "none of their commands runs, since that needs a sandbox",
        (_, "bubblewrap") => "each session's commands have a copy of all files, at the project's path (bubblewrap)",
        (_, "landlock") => "each session's commands have a copy of all files, in a separate directory (Landlock)",
        ("copy", _) => "each session's commands have a copy of all files (sessions.bench)",
        _ => "their commands share unchanged files",
    };
    let cut = match of("cut") {
        0 => String::new(),
        count => format!(", {count} with a turn that was cut off"),
    };
    found.fact(format!("sessions here: {}{cut}; {commands}", all.len()));
    if of("damaged") > 0 {
        let how = "reedclaw session doctor --repair makes them again";
        found.fault(format!("sessions here: {} with records that can't be read; {how}", of("damaged")));
    }
}

fn config_file(found: &mut Found, loaded: &Loaded, env: &Env) {
    for (key, name) in app::unknown_tools(&loaded.settings, env) {
        found.fault(format!("{key} names {name}, and there is no such tool; reedclaw tool list lists them"));
    }
    let Some(path) = &loaded.path else {
        return found.fact("config: none, using the defaults".to_owned());
    };
    let path = config::display_path(path, env);
    let wrong = loaded.problems.iter().filter(|problem| !problem.is_warning).count();
    match (wrong, loaded.problems.len() - wrong) {
        (0, 0) => found.fact(format!("config: {path}")),
        (0, warnings) => {
            found
                .fact(format!("config: {path}, {}; reedclaw config validate lists them", counted(warnings, "warning")));
        }
        (wrong, _) => {
            let keys = counted(wrong, "problem");
            found.fault(format!("config: {path} has {keys}; reedclaw config validate lists them"));
        }
    }
}

fn shell(found: &mut Found, settings: &Settings) {
    let program = backing::find(settings.shell.program.clone());
    if let Some(why) = backing::why_another(settings.shell.program.as_deref()) {
        return found.fault(format!("shell: {why}; set shell.program"));
    }
    match Dialect::of(&program) {
        Some(_) => found.fact(format!("shell: {}", program.display())),
        None => found.fault(format!(
            "shell: {} is not one of bash, zsh and fish, so you get it as it is; set shell.program",
            program.display()
        )),
    }
}

fn models(found: &mut Found, settings: &Settings, env: &Env) {
    if settings.models.is_empty() {
        return found.fact("model: none; reedclaw onboard finds models and keys".to_owned());
    }
    let specs = settings.models.iter().map(|(name, model)| app::spec_of(name, model, env)).collect();
    let models = Models::new(specs);
    for (name, settings) in &settings.models {
        if let Some(KeySource::Variable(variable)) = &settings.key
            && env.get(OsStr::new(variable)).is_none_or(|value| value.is_empty())
        {
            found.fault(format!("model: {name} takes its key from ${variable}, which is not set"));
            continue;
        }
        let Some(can) = models.get(name).map(|model| model.capabilities()) else { continue };
        let place = format!("{name} at {} ({})", can.place, can.reach.words());
        match models.specs().iter().find(|spec| spec.name() == name) {
            Some(Spec::Server(endpoint)) if can.reach < Reach::Internet => match list_models(endpoint) {
                Ok(_) => found.fact(format!("model: {place} answers")),
                // A server needn't list its models.
                Err(error) if matches!(error.fault, Fault::NotFound { .. } | Fault::Garbage { .. }) => {
                    found.fact(format!("model: {place} answers"));
                }
                Err(error) => found.fault(format!("model: {place}: {}", error.fault)),
            },
            Some(Spec::Server(_)) => {
                found.fact(format!("model: {place}, not asked; reedclaw provider test {name} asks it"));
            }
            _ => found.fact(format!("model: {name}, {}", can.kind)),
        }
    }
}

/// Our directories: they exist, belong to the user, and can't be written by others.
fn places(found: &mut Found, settings: &Settings, env: &Env, cwd: &Path) {
    let own = nix::unistd::geteuid().as_raw();
    let named = [("data", config::data_directory(env)), ("state", config::state_directory(env))];
    for (what, path) in named {
        let Some(path) = path else {
            found.fault(format!("{what}: no HOME is set, so it has no place"));
            continue;
        };
        let shown = config::display_path(&path, env);
        match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match unwritable_above(&path) {
                None => found.fact(format!("{what}: {shown}, made when it is needed")),
                Some(above) => {
                    let above = config::display_path(above, env);
                    found.fault(format!("{what}: {shown} can't be made, because you can't write in {above}"));
                }
            },
            Err(error) => found.fault(format!("{what}: {shown}: {error}")),
            Ok(data) if !data.is_dir() => found.fault(format!("{what}: {shown} is no directory")),
            Ok(data) if data.uid() != own => found.fault(format!("{what}: {shown} is another user's")),
            Ok(data) if data.permissions().mode() & 0o022 != 0 => {
                found.fault(format!("{what}: others may write in {shown}; chmod 700 {shown}"));
            }
            Ok(_) => found.fact(format!("{what}: {shown}")),
        }
    }
    let workspace = app::workspace_for(env, cwd, &app::workspace_dir(settings, env));
    let shown = config::display_path(&workspace, env);
    if workspace.is_dir() {
        found.fact(format!("workspace here: {shown}"));
    } else {
        found.fact(format!("workspace here: {shown}, made when a tool needs it"));
    }
}

/// The existing directory in which the first missing directory of a path would be made, if this user can't write there.
fn unwritable_above(path: &Path) -> Option<&Path> {
    let above = path.ancestors().skip(1).find(|above| above.exists())?;
    nix::unistd::access(above, AccessFlags::W_OK | AccessFlags::X_OK).is_err().then_some(above)
}

/// Checks the servers of tools for programs that are missing or change by themselves, and tools that the person has to
/// look at. Nothing is started.
fn servers(found: &mut Found, settings: &Settings, env: &Env, cwd: &Path) {
    let workspace = app::workspace_for(env, cwd, &app::workspace_dir(settings, env));
    let Some(servers) = app::servers(settings, env, &workspace, false) else { return };
    for name in servers.names() {
        let Some(row) = servers.configured(&name) else { continue };
        if let Some(argv) = row.program() {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            if (row.identity)().is_none() {
                found.fault(format!("server: {name}: there is no program {program}"));
                continue;
            }
            if let Some(package) = unpinned(argv) {
                let how = format!("name one, as in {package}@1.2.3");
                found.fact(format!("server: {name} runs whatever version of {package} is the newest; {how}"));
            }
        }
        let listed = servers.list(&name);
        let of = |standing| listed.iter().filter(|row| row.standing == standing && !row.is_left_out).count();
        let how = format!("reedclaw mcp allow {name}");
        match (of(PinStanding::Changed), of(PinStanding::New)) {
            _ if listed.is_empty() => found.fact(format!("server: {name}, never started")),
            (0, 0) => found.fact(format!("server: {name}, {}", counted(listed.len(), "tool"))),
            (0, new) => {
                found.fact(format!(
                    "server: {name}, {} not allowed; {how} shows what you can allow",
                    counted(new, "tool")
                ));
            }
            (changed, _) => {
                let tools = counted(changed, "tool");
                found.fault(format!("server: {name}: not as you allowed it: {tools}; {how} shows the difference"));
            }
        }
    }
}

/// The package that a launcher starts without a pinned version.
fn unpinned(argv: &[String]) -> Option<&str> {
    let (program, rest) = argv.split_first()?;
    LAUNCHERS.contains(&program.rsplit('/').next()?).then_some(())?;
    let package = rest.iter().find(|word| !word.starts_with('-') && !LAUNCHER_WORDS.contains(&word.as_str()))?;
    let has_version = package.get(1..).is_some_and(|rest| rest.contains('@')) || package.contains("==");
    (!has_version).then_some(package)
}

fn plugins(found: &mut Found, env: &Env) {
    let Ok(plugins) = app::plugins(env) else { return };
    for plugin in plugins.all() {
        match plugin.standing {
            Standing::Allowed(_) => found.fact(format!("plugin: {}", plugin.name)),
            Standing::Unknown(_) => {
                let how = "install it with reedclaw plugin install";
                found.fault(format!("plugin: {} isn't allowed; {how}", plugin.name));
            }
            Standing::Changed(_) => {
                let how = "look at it and install it again";
                found.fault(format!("plugin: {} has changed since it was allowed; {how}", plugin.name));
            }
            Standing::Broken(why) => found.fault(format!("plugin: {} can't be used: {why}", plugin.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_a_version_is_named() {
        for (line, package) in [
            ("npx -y @scope/files .", Some("@scope/files")),
            ("npx -y @scope/files@1.2.3 .", None),
            ("/usr/bin/uvx mcp-server-git", Some("mcp-server-git")),
            ("uvx mcp-server-git==1.0", None),
            ("uv tool run mcp-server-git@1.0", None),
            ("pipx run thing", Some("thing")),
            ("npx", None),
            ("python3 server.py", None),
        ] {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(unpinned(&argv), package, "{line}");
        }
    }
}
