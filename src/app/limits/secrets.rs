//! The secret values of the environment, recognised by the names of their variables. Opens nothing.

use crate::config::Env;

/// Ends of the names of variables that hold a secret.
const ENDINGS: [&str; 12] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "SECRET_KEY",
    "PRIVATE_KEY",
    "_PASS",
    "MYSQL_PWD",
];
/// Shorter values are switches and names more often than secrets.
const LEAST_CHARS: usize = 8;

/// Returns the secrets of an environment, each with the variable whose name replaces it. The value of the variable
/// `also` counts whatever its name is.
pub(in crate::app) fn of_environment(env: &Env, also: &str) -> Vec<(String, String)> {
    let secret = |(name, value): (&std::ffi::OsString, &std::ffi::OsString)| {
        let (name, value) = (name.to_str()?, value.to_str()?.trim());
        let is_named = name == also || ENDINGS.iter().any(|ending| name.to_ascii_uppercase().ends_with(ending));
        // A path of a file with the secret isn't secret, and may appear anywhere.
        let is_value = value.chars().count() >= LEAST_CHARS && !value.starts_with(['/', '~', '.']);
        (is_named && is_value).then(|| (format!("${name}"), value.to_owned()))
    };
    env.iter().filter_map(secret).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variables_name_marks_a_secret() {
        let env = [
            ("GITHUB_TOKEN", "0123456789"),
            ("db_password", "correct horse"),
            ("ASKPASS_TOKEN", "/usr/bin/ask"),
            ("TOKEN", "short"),
            ("TOKENIZERS_PARALLELISM", "falsefalse"),
            ("SSH_AUTH_SOCK", "/tmp/agent.sock"),
            ("TEAM", "rc_person_0123"),
            ("HOME", "/home/somebody"),
        ];
        let env: Env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let names: Vec<String> = of_environment(&env, "TEAM").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["$GITHUB_TOKEN", "$TEAM", "$db_password"]);
    }
}
