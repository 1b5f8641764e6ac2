//! Tables and properties. The secrets are put together here, so that no scanner of repositories takes them for real ones.

use proptest::prelude::*;

use super::*;

/// Letters and digits that look random.
fn noise(length: usize) -> String {
    "aB3dE5gH7jK9mN1pQ4sT6vW8xY0zC2".chars().cycle().take(length).collect()
}

/// Writes out an example of the table: `{a36}` is a run of drawn characters, `{w12}` a run of words.
fn example(pattern: &str) -> String {
    let signs = |kind| match kind {
        'a' => "aB3dE5gH7jK9mN1pQ4sT6vW8xY0zC2",
        'b' => "aB3dE+5gH7jK9/mN1pQ4sT6vW8xY0",
        'c' => "aBdEgHjKmNpQsTvWxYzCfRuLiOkDnM",
        'd' => "1029384756",
        'h' => "0f1e2d3c4b5a6978",
        'l' => "a3d5g7j9m1p4s6v8x0z2",
        _ => "Q2W3E4R5T6Y7ABCDFG",
    };
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let inner = &rest[open + 1..];
        let run = inner.find('}').and_then(|close| {
            let kind = inner.chars().next().filter(|kind| "abcdhluw".contains(*kind))?;
            Some((kind, inner[1..close].parse::<usize>().ok()?, close))
        });
        match run {
            Some(('w', count, close)) => {
                let words = ["legal", "winner", "thank", "year", "wave", "sausage", "worth", "useful"];
                out.push_str(&words.iter().cycle().take(count).copied().collect::<Vec<_>>().join(" "));
                rest = &inner[close + 1..];
            }
            Some((kind, count, close)) => {
                out.extend(signs(kind).chars().cycle().take(count));
                rest = &inner[close + 1..];
            }
            None => {
                out.push('{');
                rest = inner;
            }
        }
    }
    out + rest
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

/// The examples of the table that hide something: the text, the secret in it, the kind.
fn secrets() -> Vec<(String, String, &'static str)> {
    let row = |pattern: &str, kind| {
        let text = example(pattern);
        let parts: Vec<&str> = text.split('§').collect();
        assert_eq!(parts.len(), 3, "{pattern}");
        (parts.concat(), parts[1].to_owned(), kind)
    };
    RULES.iter().flat_map(|rule| rule.hides.iter().map(move |pattern| row(pattern, rule.kind))).collect()
}

#[test]
fn each_example_is_hidden_and_reported_by_kind_line_and_length() {
    for (text, secret, kind) in secrets() {
        let whole = format!("first line\n{text}");
        let redactor = Redactor::default();
        let Redacted { text: out, hidden } = redactor.redact(&whole);
        assert_eq!(out, whole.replace(&secret, &format!("[redacted: {}]", hidden[0].kind)), "{kind}");
        assert_eq!(hidden.len(), 1, "{text}: {out} {hidden:?}");
        assert!(hidden[0].kind == kind, "{text}: {out}");
        assert!(hidden[0].line >= 2 && hidden[0].length_chars == secret.chars().count(), "{text}: {hidden:?}");
        assert_eq!(redactor.redact(&out).text, out, "what is hidden stays as it is");
    }
}

#[test]
fn each_look_alike_stays() {
    for rule in RULES {
        for pattern in rule.leaves {
            let text = example(pattern);
            assert_eq!(redact(&text), text, "{}", rule.kind);
        }
    }
}

#[test]
fn anchors_are_long_enough_and_lower_case_if_case_is_ignored() {
    for (rule, anchor) in rules::anchors() {
        assert!(anchor.len() >= 3, "{anchor}");
        assert!(!rule.place.is_folded() || anchor.to_ascii_lowercase() == *anchor, "{anchor}");
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
fn text_without_secrets_stays() {
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
    let mut texts: Vec<String> = secrets().into_iter().map(|(text, ..)| format!("one\n{text} two\n")).collect();
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
    fn any_division_into_pieces_gives_the_same_result(parts in prop::collection::vec(prop_oneof![
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
