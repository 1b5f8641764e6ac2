//! The place to which a session is published, from the settings. Opens nothing.

use crate::app::tooling::workspace::variable;
use crate::config::{Env, Settings, state_directory};
use crate::host::Authorities;
use crate::proto::{Failure, FailureKind};
use crate::share::{Place, SOCKET_NAME, Team};

/// Returns the gateway that shares the user's sessions: a team's if the settings name one, else the user's own.
///
/// # Errors
/// The settings about a team's gateway aren't whole, or no directory has the socket of the user's own.
pub fn share_place(settings: &Settings, env: &Env) -> Result<Place, Failure> {
    let failed = |kind, message: String, hint: &str| Failure::new(kind, message).hint(hint);
    let share = &settings.share;
    if share.gateway.is_empty() {
        let none = || failed(FailureKind::Unavailable, "no HOME says where the gateway's socket is".into(), "");
        return Ok(Place::Here(state_directory(env).ok_or_else(none)?.join(SOCKET_NAME)));
    }
    let Some(token) = variable(env, &share.token_env) else {
        let message = format!("{} is to share it, and the variable {} isn't set", share.gateway, share.token_env);
        let hint =
            "put your token for that gateway there (reedclaw gateway token create makes one), and start reedclaw again";
        return Err(failed(FailureKind::Config, message, hint));
    };
    let whose = (share.mode.as_str(), share.tenant.as_str(), share.project.as_str());
    let team = Team::new(&share.gateway, token.trim(), whose, Authorities::of(env));
    team.map(Place::There).map_err(|why| {
        let hint = "share.gateway in the config is such as https://team.example";
        failed(FailureKind::Config, format!("the session can't be shared: {why}"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LoadRequest, load};

    fn place_of(share: &str, variables: &[(&str, &str)]) -> Result<Place, Failure> {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("config.lua");
        std::fs::write(&file, format!("return {{ share = {{ {share} }} }}")).expect("a config");
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let env: Env = variables.chain([("HOME".into(), home.path().into())]).collect();
        let request = LoadRequest { explicit: Some(file), env: env.clone(), cwd: home.path().to_owned() };
        share_place(&load(&request).expect("settings").settings, &env)
    }

    #[test]
    fn a_session_is_published_to_the_gateway_that_the_settings_name() {
        assert!(matches!(place_of("", &[]), Ok(Place::Here(path)) if path.ends_with(SOCKET_NAME)));
        let team = "gateway = 'https://team.example', token_env = 'TEAM', tenant = 'acme'";
        let found = place_of(team, &[("TEAM", "rc_person_secret\n")]).expect("a place");
        assert_eq!(format!("{found:?}"), "There(team.example:443)");
        let missing = place_of(team, &[]).expect_err("no token");
        assert!(missing.message.contains("TEAM") && missing.hint.contains("token create"), "{missing:?}");
        let wrong = place_of("gateway = 'http://team.example', token_env = 'TEAM'", &[("TEAM", "word")]);
        assert!(wrong.expect_err("no encryption").message.contains("https://"));
    }
}
