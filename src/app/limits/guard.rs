//! The rules of the policy, from the settings and the environment.

use std::path::Path;

use crate::base::directories::{self, Kind};
use crate::config::{Env, Settings};
use crate::policy::{High, Rules};

/// Makes the rules for a model's actions. `config` is the file that was read, if there was one.
#[must_use]
pub fn policy_rules(settings: &Settings, env: &Env, config: Option<&Path>) -> Rules {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    // Without `HOME`, a directory that can't exist serves as the home, so that no path is below it.
    let home = directories::absolute(env, "HOME").unwrap_or_else(|| "/nonexistent".into());
    let own = |kind: Kind| directories::of(env, kind).unwrap_or_else(|| home.join(kind.names().1)).join("reedclaw");
    let mut own_paths = [Kind::Config, Kind::Data, Kind::State].map(own).to_vec();
    let named = [config.map(Path::to_owned), settings.history.dir.clone(), settings.security.audit_log.clone()];
    for path in named.into_iter().flatten() {
        // A path below another one is listed as well: it may be a link, and its target is ours, too.
        if !own_paths.contains(&path) {
            own_paths.push(path);
        }
    }
    let workspace = settings.workspace_dir.clone().unwrap_or_else(|| home.join("reedclaw-workspace"));
    let security = &settings.security;
    Rules {
        autonomy: security.autonomy,
        workspace_only: security.workspace_only,
        forbidden_paths: security.forbidden_paths.clone(),
        forbidden_commands: security.forbidden_commands.clone(),
        programs: security.programs.clone(),
        high: if security.denies_high { High::Deny } else { High::Ask },
        allow_domains: security.allow_domains.clone(),
        own_paths: own_paths.iter().map(|path| text(path)).collect(),
        ..Rules::new(&text(&workspace), &text(&home))
    }
}
