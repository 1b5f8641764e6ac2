//! Mistakes in settings that restrict something: the strictest meaning applies.

use super::*;

#[test]
fn mistakes_in_security_fail_closed() {
    use crate::proto::action::Autonomy::{Full, Readonly, Supervised};
    let sandbox = |settings: &Settings| settings.security.sandbox;
    for (config, autonomy, mode, shown) in [
        ("autonomy = 'full'", Full, SandboxChoice::Prefer, ""),
        ("autonomy = 'Readonly'", Readonly, SandboxChoice::Prefer, "using \"readonly\", the strictest"),
        ("autonomy = 7", Readonly, SandboxChoice::Prefer, "using \"readonly\", the strictest"),
        ("sandbox = 'requried'", Supervised, SandboxChoice::Require, "using \"require\", the strictest"),
        (
            "autonmy = 'readonly'",
            Readonly,
            SandboxChoice::Prefer,
            "using security.autonomy \"readonly\", the strictest, until it is mended",
        ),
        ("high = 'deyn'", Supervised, SandboxChoice::Prefer, "using \"deny\", the strictest"),
        (
            "autonomy = 'full', programs = 7",
            Readonly,
            SandboxChoice::Prefer,
            "security.autonomy \"readonly\", the strictest",
        ),
        ("forbidden_paths = 7", Readonly, SandboxChoice::Prefer, "security.autonomy \"readonly\", the strictest"),
        ("autonomy = 'full', programms = {}", Readonly, SandboxChoice::Prefer, "the strictest, until it is mended"),
        ("workspace_only = 0", Supervised, SandboxChoice::Prefer, "using true, the strictest"),
        // The mistake must not leave everything allowed.
        (
            "autonomy = 'full', programs = { deploy = 'deny' }",
            Readonly,
            SandboxChoice::Prefer,
            "using security.autonomy",
        ),
        ("autonomy = 'full', programs = { 'deploy*: deny' }", Readonly, SandboxChoice::Prefer, "until it is mended"),
        ("forbidden_paths = { ['/secret'] = true }", Readonly, SandboxChoice::Prefer, "using security.autonomy"),
        ("forbidden_paths = { 5 }", Readonly, SandboxChoice::Prefer, "a table is not a list of absolute paths"),
        ("forbidden_paths = { '/x', y = 1 }", Readonly, SandboxChoice::Prefer, "until it is mended"),
        ("autonomy = 'full', forbidden_paths = {}", Full, SandboxChoice::Prefer, ""),
    ] {
        let loaded = Home::with(format!("return {{ security = {{ {config} }} }}")).load();
        assert_eq!((loaded.settings.security.autonomy, sandbox(&loaded.settings)), (autonomy, mode), "{config}");
        assert!(lines(&loaded).iter().any(|line| line.contains(shown)) || shown.is_empty(), "{config}: {loaded:?}");
    }
    let usual = Home::with("return {}").load().settings.security;
    for (lost, left) in [("{ 5 }", &usual.forbidden_paths[..]), ("{ '/x', y = 1 }", &["/x".to_owned()])] {
        let loaded = Home::with(format!("return {{ security = {{ forbidden_paths = {lost} }} }}")).load();
        assert_eq!(loaded.settings.security.forbidden_paths, left, "{lost}");
    }
    let rules = Home::with("return { security = { programs = { 'a: deny', 'b*: deny' } } }").load();
    assert_eq!(rules.settings.security.programs.len(), 1, "the others hold");
    let loaded = Home::with("return { autonomy = 'readonly' }").load();
    assert_eq!(loaded.settings.security.autonomy, Readonly, "at the wrong place");
    let loaded = Home::with("return { security = true }").load();
    assert_eq!((loaded.settings.security.autonomy, sandbox(&loaded.settings)), (Readonly, SandboxChoice::Require));
    assert!(lines(&loaded)[0].ends_with("security: true is not a table; using the strictest of its settings"));

    let loaded = Home::with("return { security = { forbidden_paths = '~/secret' } }").load();
    assert_eq!(loaded.settings.security.forbidden_paths, ["~/secret"]);
    assert!(lines(&loaded)[0].contains("\"~/secret\" is not a list; used as its only entry"), "{loaded:?}");

    let list =
        "return { security = { forbidden_paths = { '~/secret', 'rel', 7, '/x' }, forbidden_commands = { 'dd', {} } } }";
    let loaded = Home::with(list).load();
    assert_eq!(loaded.settings.security.forbidden_paths, ["~/secret", "/x"]);
    assert_eq!(loaded.settings.security.forbidden_commands, ["dd"]);
    let shown = lines(&loaded).join("\n");
    for entry in [
        "forbidden_paths: \"rel\" is not an absolute path; ignored",
        "7 is not an absolute path",
        "a table is not a word",
    ] {
        assert!(shown.contains(entry), "{shown}");
    }
}

#[test]
fn a_misspelt_table_or_place_fails_closed() {
    use crate::proto::action::Autonomy::{Full, Readonly};
    for (config, shown) in [
        ("securty = { autonomy = 'full' }", "securty: unknown key; did you mean security?"),
        (
            "Security = { forbidden_commands = { 'curl' } }",
            "Security: using the strictest settings of security until it is mended",
        ),
        ("security = { 'readonly', autonomy = 'full' }", "security.autonomy: using security.autonomy \"readonly\""),
        ("autonmy = 'readonly'", "autonmy: unknown key; did you mean security.autonomy?"),
    ] {
        let loaded = Home::with(format!("return {{ {config} }}")).load();
        assert_eq!(loaded.settings.security.autonomy, Readonly, "{config}");
        assert!(lines(&loaded).iter().any(|line| line.contains(shown)), "{config}: {:?}", lines(&loaded));
    }
    let loaded = Home::with("return { security = { autonomy = 'full' }, contxt = {} }").load();
    assert_eq!(loaded.settings.security.autonomy, Full, "another table's name costs nothing");
    assert_eq!(loaded.settings.security.mistake, "");
    for broken in ["return { security = { autonomy = 'full', forbidden_paths = 7 } }", "return { security = "] {
        assert_ne!(Home::with(broken).load().settings.security.mistake, "", "{broken}");
    }
    // No run begins if the list of protected paths can't be read.
    for (config, has_mistake) in
        [("noris = { protect = { 'x' } }", true), ("writes = { 'x' }", true), ("contxt = {}", false)]
    {
        let home = Home::with(format!("return {{ {config} }}"));
        let mistake = home.load().settings.norris.mistake;
        assert_eq!(mistake.contains("unknown key; did you mean norris"), has_mistake, "{config}: {mistake}");
        let of_project = with_project(&Home::with(""), &format!("return {{ {config} }}")).settings.norris.mistake;
        assert_eq!(!of_project.is_empty(), has_mistake, "{config}: {of_project}");
    }
}

#[test]
fn a_wrong_rule_about_a_program_denies_it_and_the_others_hold() {
    let rules = |config: &str| {
        let loaded = Home::with(format!("return {{ security = {{ programs = {config} }} }}")).load();
        let rules = loaded.settings.security.programs.iter().map(ToString::to_string).collect::<Vec<_>>();
        (rules, lines(&loaded).join("\n"))
    };
    assert_eq!(rules("{ 'deploy: ask', 'terraform  apply : deny' }").0, ["deploy: ask", "terraform apply: deny"]);
    let (found, shown) = rules("{ 'deploy: ask', 'kubectl delete: maybe', 7, ': x', 'a b: network' }");
    assert_eq!(found, ["deploy: ask", "kubectl: deny", "x: deny", "a b: network"]);
    for part in ["\"kubectl delete: maybe\" is not a rule", "using \"kubectl: deny\"", "7 is not a rule"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (found, shown) = rules("'deploy: deny'");
    assert_eq!((found.as_slice(), shown.contains("used as its only entry")), (&["deploy: deny".to_owned()][..], true));
    let home = Home::with("return { security = { programs = { 'deploy: deny' } } }");
    let effective = with_project(&home, "return { security = { programs = {} } }");
    assert_eq!(effective.settings.security.programs.len(), 1, "a project can't touch them");
}

#[test]
fn a_list_that_restricts_tools_never_falls_open() {
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    for (config, tools, shown) in [
        ("agent = 'file_read'", words(&["file_read"]), "\"file_read\" is not a list; used as its only entry"),
        ("agent = 'file_read, time'", words(&[]), "using {}, the strictest"),
        ("agent = 5", words(&[]), "using {}, the strictest"),
        ("agent = { file_read = true }", words(&[]), "is not part of a list; ignored"),
        ("agent = { 'time', x = 1 }", words(&["time"]), "is not part of a list; ignored"),
        (
            "agnt = { 'time' }",
            words(&[]),
            "tools_allow.agnt: using tools_allow.agent {}, the strictest, until it is mended",
        ),
    ] {
        let loaded = Home::with(format!("return {{ tools_allow = {{ {config} }} }}")).load();
        assert_eq!(loaded.settings.tools.allow_agent, tools, "{config}");
        assert!(lines(&loaded).iter().any(|line| line.contains(shown)), "{config}: {:?}", lines(&loaded));
    }
    let loaded = Home::with("return { tool_allow = { agent = { 'time' } } }").load();
    assert_eq!(loaded.settings.tools.allow_agent, words(&[]), "a misspelt table");

    let server = |config: &str| {
        let text = format!("return {{ mcp = {{ servers = {{ srv = {{ command = {{ 'x' }}, {config} }} }} }} }}");
        let loaded = Home::with(text).load();
        let shown = lines(&loaded).join("\n");
        (loaded.settings.mcp.servers["srv"].clone(), shown)
    };
    let (found, shown) = server("only = 'echo', without = 'write'");
    assert_eq!((&found.only, &found.without[..]), (&words(&["echo"]), &["write".to_owned()][..]), "{shown}");
    for config in ["without = { write = true }", "without = 5", "only = 'echo', without = 5", "tools = 'deny'"] {
        let (found, shown) = server(config);
        assert_eq!(found.only, words(&[]), "{config}: {shown}");
        assert!(shown.contains("using mcp.servers.srv.only {}, the strictest"), "{config}: {shown}");
    }
    let (found, shown) = server("tools = { write = 'denny', act = 5, look = 'run', echo = 'deny' }");
    let rules: Vec<_> = found.tools.iter().map(|(tool, rule)| (tool.as_str(), rule.as_str())).collect();
    assert_eq!(rules, [("act", "deny"), ("echo", "deny"), ("look", "run"), ("write", "deny")]);
    let want = "mcp.servers.srv.tools.write: \"denny\" is not \"deny\", \"ask\" or \"run\"; using \"deny\"";
    assert!(shown.contains(want) && shown.contains("tools.act: 5 is not"), "{shown}");
}
