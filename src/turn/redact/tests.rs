//! Tables and properties. The secrets are put together here, so that no scanner of repositories takes them for real ones.

use proptest::prelude::*;

use super::*;

/// Letters and digits that look random.
fn noise(length: usize) -> String {
    "aB3dE5gH7jK9mN1pQ4sT6vW8xY0zC2".chars().cycle().take(length).collect()
}

fn redact(text: &str) -> String {
    Redactor::default().redact(text).text.into_owned()
}

fn in_pieces(redactor: &Redactor, text: &str, cuts: &[usize]) -> (String, Vec<Hidden>) {
    let mut settling = Settling::default();
    let (mut out, mut hidden, mut at) = (String::new(), Vec::new(), 0);
    let mut take = |(text, more): (String, Vec<Hidden>)| {
        out.push_str(&text);
        hidden.extend(more);
    };
    for cut in cuts {
        if *cut > at && text.is_char_boundary(*cut) {
            take(settling.push(redactor, &text[at..*cut]));
            at = *cut;
        }
    }
    take(settling.push(redactor, &text[at..]));
    take(settling.finish(redactor));
    (out, hidden)
}

/// Texts in which `§` stands for the secret that has to go, and what is told of it.
fn secrets() -> Vec<(String, String, &'static str)> {
    let key = noise(40);
    let block = |name: &str| format!("-----BEGIN {name}-----\nMIIE{}\n{}\n-----END {name}-----", noise(60), noise(64));
    let jwt = format!("eyJ{}.eyJ{}.{}", noise(20), noise(30), noise(43));
    let hex: String = "0f1e2d3c4b5a69788796a5b4c3d2e1f0".into();
    let row = |text: &str, secret: &str, kind| (text.to_owned(), secret.to_owned(), kind);
    vec![
        row("token §!", &format!("ghp_{}", noise(36)), "GitHub token"),
        row("(§)", &format!("github_pat_{}_{}", noise(22), noise(59)), "GitHub token"),
        row("export A=§", &format!("glpat-{}", noise(20)), "GitLab token"),
        row("§", &format!("sk-{}", noise(48)), "API key"),
        row("\"§\"", &format!("sk-ant-api03-{}-{}AA", noise(40), noise(30)), "API key"),
        row("§.", &format!("sk-proj-{}_{}", noise(30), noise(30)), "API key"),
        row("§", &format!("sk-{hex}"), "API key"),
        row("x § y", &format!("AIza{}", noise(35)), "Google key"),
        row("x § y", &format!("xoxb-123456789012-{}", noise(24)), "Slack token"),
        row("https://§", &format!("hooks.slack.com/services/T0{}/B0{}/{}", "ABC", "DEF", noise(24)), "Slack address"),
        row("aws_access_key_id = §", &format!("AKIA{}", "Q2W3E4R5T6Y7U8I9"), "AWS key id"),
        row("aws_secret_access_key = §\n", &key, "secret"),
        row("§", &format!("sk_live_{}", noise(24)), "Stripe key"),
        row("//r/:_authToken=§", &format!("npm_{}", noise(36)), "npm token"),
        row("§", &format!("hf_{}", noise(34)), "Hugging Face token"),
        row("§", &format!("SG.{}.{}", noise(22), noise(43)), "SendGrid key"),
        row("§, and so on", &jwt, "JWT"),
        row("root:§:19000:0", &format!("$6$salt.salt${}", noise(86)), "password hash"),
        row("root:§:", &format!("$y$j9T${}${}", noise(22), noise(43)), "password hash"),
        row("§", &format!("$2b$12${}", noise(53)), "password hash"),
        row("x\n§\ny", &block("RSA PRIVATE KEY"), "private key"),
        row("§", &block("OPENSSH PRIVATE KEY"), "private key"),
        row("§", &block("PGP PRIVATE KEY BLOCK").replace("MIIE", "Comment: x\n\n"), "private key"),
        row(
            "§\nand prose follows.",
            &format!("-----BEGIN PRIVATE KEY-----\nMIIE{}\n{}", noise(60), noise(12)),
            "private key",
        ),
        row("{\"key\":\"§\"}", &block("PRIVATE KEY").replace('\n', "\\n"), "private key"),
        row("postgres://app:§@db.example:5432/x", "pa:ss@wörd", "password in an address"),
        row("https://x", "", ""),
        row("Authorization: Bearer §\r\nx", &noise(20), "authorization"),
        row("authorization: Basic §", "dXNlcjpwYXNzd29yZA==", "authorization"),
        row("-H 'Authorization: §'", &noise(12), "authorization"),
        row("\"Authorization\": \"Bearer §\",", &noise(20), "authorization"),
        row("Authorization: AWS4-HMAC-SHA256 §", "Credential=AB/2/us/s3, Signature=00ff", "authorization"),
        row("use bearer § please", &noise(20), "authorization"),
        row("Cookie: §\nx", "session=abcdef; id=2", "cookie"),
        row("x?sv=1&sig=§&x", &noise(30), "signature"),
        row("PASSWORD=§", "hunter", "password"),
        row("export DB_PASSWORD='§'", "correct horse 9", "password"),
        row("{\"password\": \"§\"}", "hunter", "password"),
        row("{\\\"password\\\": \\\"§\\\"}", "hunter", "password"),
        row("  password: §\n", "hunter2", "password"),
        row("password = §", "Hunter2", "password"),
        row("DB_PASS=§;x", "hunter", "password"),
        row("Server=x;Uid=sa;Pwd=§;", "hunter", "password"),
        row("mysql --password=§ -u root", "hunter", "password"),
        row("mysql --password § -u root", "hunter", "password"),
        row("sshpass -p § ssh x", "hunter", "password"),
        row("curl -sS -u me:§ https://x", "hunter", "password"),
        row("curl -u 'me:§' https://x", "hunter", "password"),
        row("machine x login me password §\n", "hunter", "password"),
        row("API_KEY=§", &noise(16), "secret"),
        row("x-api-key: §", &noise(16), "secret"),
        row("https://x/?api_key=§&y=1", &noise(16), "secret"),
        row("client_secret => '§'", &noise(16), "password"),
        row("refresh_token: \"§\"", &noise(16), "secret"),
        row("--token §", &noise(16), "secret"),
    ]
}

#[test]
fn each_shape_is_hidden_and_told_by_kind_line_and_length() {
    for (text, secret, kind) in secrets().into_iter().filter(|(_, secret, _)| !secret.is_empty()) {
        let whole = format!("first line\n{}", text.replace('§', &secret));
        let redactor = Redactor::default();
        let Redacted { text: out, hidden } = redactor.redact(&whole);
        assert!(!out.contains(&secret), "{text}: {out}");
        assert_eq!(hidden.len(), 1, "{text}: {out} {hidden:?}");
        assert!(hidden[0].kind == kind, "{text}: {out}");
        assert!(hidden[0].line >= 2 && hidden[0].length_chars >= secret.chars().count().min(4), "{text}: {hidden:?}");
        assert!(out.starts_with("first line\n"), "{out}");
        assert_eq!(redactor.redact(&out).text, out, "what is hidden stays as it is");
    }
}

#[test]
fn several_in_one_line_are_all_hidden() {
    let line =
        format!("curl -H 'Authorization: Bearer {}' -u me:hunter -d token={} http://a:b@c/", noise(20), noise(9));
    let out = redact(&line);
    let marks =
        ["authorization", "password", "secret", "password in an address"].map(|kind| format!("[redacted: {kind}]"));
    let [header, user, token, url] = &marks;
    assert_eq!(
        out,
        format!("curl -H 'Authorization: Bearer {header}' -u me:{user} -d token={token} http://a:{url}@c/")
    );
}

#[test]
fn what_is_no_secret_stays() {
    let image = format!("data:image/png;base64,iVBORw0KGgo{}==", noise(400));
    let table = [
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "8c5f2a31-0b7e-4c1d-9a52-6f0e9d4b7c11 is a UUID",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        &image,
        "index 83db48f..bf2a1c9 100644",
        "the password is kept by pass; set password_file=/run/x",
        "Password: enter your password",
        "A token: a piece of a word. token budget: 24000, max_tokens=4096 tokens=12345678",
        "PWD=/home/me/src OLDPWD=/home/me",
        "password=$PASSWORD token=\"$(cat token)\" api_key=${KEY} secret={{ secret }} password=<password>",
        "let token = next_token(input); let secret = read_secret(path);",
        "if password == other { return Password::new(x) }",
        "sk-learn-is-a-library-for-all-of-us and sk-estimators",
        "task-runner, disk-usage, npm_config_registry, hf_hub_download",
        "eyJhbGciOiJIUzI1NiJ9 alone is no JWT",
        "http://127.0.0.1:8080/v1/chat@home and ssh://git@host:22/x git@github.com:a/b.git",
        "docker run -u 1000:1000 x; rsync -u a:b c",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@host",
        "authorization of users is a bearer of news; Authorization: required",
        "Cookie: a small biscuit",
        "echo $1 $2 $6$x; awk '{print $5$6}'",
        "login as root password follows",
        "secret: the art of doing nothing",
        "AKIA is a prefix; ASIAN food",
        "",
    ];
    for text in table {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn known_values_are_hidden_in_each_form() {
    let value = "p/q+r s\"tü!";
    let redactor = Redactor::new([("key of m", value), ("short", "abc123"), ("none", "none"), ("tiny", "abc")]);
    let encoded = |text: &str| crate::base::base64::encode(text.as_bytes());
    let mark = "[redacted: key of m]";
    assert_eq!(redactor.redact(&format!("a{value}b")).text, format!("a{mark}b"));
    assert_eq!(redactor.redact("k=p%2Fq%2Br%20s%22t%C3%BC%21&").text, format!("k={mark}&"));
    assert_eq!(redactor.redact("k=p%2fq%2br%20s%22t%c3%bc%21&").text, format!("k={mark}&"));
    assert_eq!(redactor.redact("{\"k\":\"p/q+r s\\\"tü!\"}").text, format!("{{\"k\":\"{mark}\"}}"));
    for user in ["", "u", "us", "usr"] {
        for rest in ["", ":x", "yz"] {
            let text = encoded(&format!("{user}{value}{rest}"));
            let out = redactor.redact(&text).text.into_owned();
            assert!(out.contains(mark) && out.len() < text.len() + mark.len() - 10, "{user:?} {rest:?}: {text} {out}");
            let safe = text.replace('+', "-").replace('/', "_");
            assert!(redactor.redact(&safe).text.contains(mark), "{safe}");
        }
    }
    assert_eq!(redactor.redact("abc123 xabc123 abc1234 none abc").text, "[redacted: short] xabc123 abc1234 none abc");
    let hidden = redactor.redact(&format!("x\n{value}")).hidden;
    assert_eq!(hidden, [Hidden { kind: "key of m".into(), line: 2, length_chars: value.chars().count() }]);
}

#[test]
fn a_stream_is_hidden_wherever_it_is_cut() {
    let redactor = Redactor::new([("key of m", "topsecretvalue"), ("other", "topsecretvalue-longer")]);
    let mut texts: Vec<String> =
        secrets().into_iter().map(|(text, secret, _)| format!("one\n{} two\n", text.replace('§', &secret))).collect();
    texts.push("a topsecretvalue-longer topsecretvalue-lon topsecret".into());
    texts.push("a topsecretvalu".into());
    for text in texts {
        let whole = redactor.redact(&text);
        for cut in 1..text.len() {
            let (out, hidden) = in_pieces(&redactor, &text, &[cut]);
            assert_eq!((out.as_str(), &hidden), (&*whole.text, &whole.hidden), "{text:?} cut at {cut}");
        }
        let every: Vec<usize> = (1..text.len()).collect();
        assert_eq!(in_pieces(&redactor, &text, &every).0, whole.text);
    }
}

#[test]
fn little_is_held_back() {
    let redactor = Redactor::default();
    let mut settling = Settling::default();
    let mut out = String::new();
    let mut shortfall = 0;
    let prose =
        "The compiler says that the password hash is missing; see https://example.com/a and pass it on. ".repeat(20);
    for (at, character) in prose.char_indices() {
        out.push_str(&settling.push(&redactor, &character.to_string()).0);
        shortfall = shortfall.max(at + 1 - out.len());
    }
    assert!(shortfall <= 24, "{shortfall}");
}

proptest! {
    #[test]
    fn any_cuts_give_what_the_whole_gives(parts in prop::collection::vec(prop_oneof![
        prop::sample::select(vec!["password", "token", "=", ": ", "\"", " ", "\n", "://", "a:b@", "Authorization", "Bearer ",
            "ghp_", "sk-", "eyJ", ".", "-----BEGIN ", "PRIVATE KEY-----", "-----END ", "-----", "curl ", "-u ", "AKIA",
            "$6$", "known-value", "known", "[redacted: ", "]", "Cookie:", "login ", "--password ", "é", "\\"])
            .prop_map(str::to_owned),
        "[a-zA-Z0-9]{1,40}",
        "[ -~é]{0,6}",
    ], 0..24), cuts in prop::collection::vec(0usize..400, 0..12)) {
        let redactor = Redactor::new([("it", "known-value")]);
        let text = parts.concat();
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = redactor.redact(&text);
        let (out, hidden) = in_pieces(&redactor, &text, &cuts);
        prop_assert_eq!(&out, &whole.text);
        prop_assert_eq!(hidden, whole.hidden);
        prop_assert!(!out.contains("known-value"));
    }

    #[test]
    fn any_text_at_all_is_survived(text in any::<String>()) {
        let redactor = Redactor::new([("it", "ünknown-välue")]);
        let every: Vec<usize> = (0..text.len()).collect();
        prop_assert_eq!(in_pieces(&redactor, &text, &every).0, redactor.redact(&text).text);
    }
}
