//! What is a secret by its shape: each rule begins at one of its anchors, and reads on from there. Pure; a rule must give
//! the same verdict wherever a text is cut, so one that runs into an end that isn't the text's asks for more.

use std::ops::Range;

/// A text that is looked at, perhaps the beginning of a longer one.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub bytes: &'a [u8],
    /// The byte in front of it.
    pub before: Option<u8>,
    /// Nothing comes behind it.
    pub is_whole: bool,
}

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is no secret.
    No,
    /// What follows decides.
    More,
    /// This part is one.
    Hide(Range<usize>),
}

/// One kind of secret.
pub(super) struct Rule {
    /// What stands for it.
    pub kind: &'static str,
    /// What it begins with; at least three characters each, in small letters where `is_folded`.
    pub anchors: &'static [&'static str],
    /// Capital letters count as small ones.
    pub is_folded: bool,
    /// No word may go on in front of it.
    pub at_edge: bool,
    /// Reads on behind the anchor.
    pub look: fn(&Text<'_>, usize) -> Seen,
}

/// A private key's block, and an authority of an address, are at most so long.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
const AUTHORITY_BYTES_MAX: usize = 1024;
/// A header that ends a block, or begins one.
const HEADER_BYTES_MAX: usize = 64;

/// All rules.
pub(super) static RULES: &[Rule] = &[
    token("GitHub token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], |text, at| run(text, at, 4, alnum, 30)),
    token("GitHub token", &["github_pat_"], |text, at| run(text, at, 11, word, 22)),
    token("GitLab token", &["glpat-", "glptt-", "gldt-", "glrt-"], |text, at| {
        run(text, at, dash_back(text, at), dashed, 16)
    }),
    token("API key", &["sk-"], api_key),
    token("Google key", &["aiza"], |text, at| cased(text, at, b"AIza", dashed, 35)),
    token("Google token", &["ya29."], |text, at| run(text, at, 5, dotted, 20)),
    token("Google secret", &["gocspx-"], |text, at| cased(text, at, b"GOCSPX-", dashed, 20)),
    token("Slack token", &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xapp-"], |text, at| {
        run(text, at, 5, dashed, 10)
    }),
    token("Slack address", &["hooks.slack.com/services/"], |text, at| run(text, at, 0, path, 20)),
    token("Discord address", &["discord.com/api/webhooks/"], |text, at| run(text, at, 0, path, 40)),
    token("AWS key id", &["akia", "asia"], aws_id),
    token("Stripe key", &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], |text, at| run(text, at, 8, alnum, 16)),
    token("Stripe secret", &["whsec_"], |text, at| run(text, at, 6, base64, 24)),
    token("npm token", &["npm_"], |text, at| run(text, at, 4, alnum, 36)),
    token("PyPI token", &["pypi-"], |text, at| run(text, at, 5, dashed, 50)),
    token("Hugging Face token", &["hf_"], |text, at| run(text, at, 3, alnum, 30)),
    token("Groq key", &["gsk_"], |text, at| run(text, at, 4, alnum, 40)),
    token("xAI key", &["xai-"], |text, at| run(text, at, 4, alnum, 40)),
    token("Perplexity key", &["pplx-"], |text, at| run(text, at, 5, alnum, 32)),
    token("Replicate token", &["r8_"], |text, at| run(text, at, 3, alnum, 30)),
    token("Docker token", &["dckr_pat_"], |text, at| run(text, at, 9, dashed, 20)),
    token("DigitalOcean token", &["dop_v1_", "doo_v1_", "dor_v1_"], |text, at| run(text, at, 7, alnum, 60)),
    token("Databricks token", &["dapi"], |text, at| run(text, at, 4, hexadecimal, 32)),
    token("SendGrid key", &["sg."], |text, at| cased(text, at, b"SG.", dotted, 60)),
    token("Linear key", &["lin_api_"], |text, at| run(text, at, 8, alnum, 30)),
    token("Tailscale key", &["tskey-"], |text, at| run(text, at, 6, dashed, 20)),
    token("Vault token", &["hvs.", "hvb."], |text, at| run(text, at, 4, dashed, 24)),
    token("Shopify token", &["shpat_", "shpss_", "shpca_"], |text, at| run(text, at, 6, hexadecimal, 32)),
    token("age key", &["age-secret-key-1"], |text, at| run(text, at, 16, alnum, 50)),
    token("JWT", &["eyj"], jwt),
    Rule {
        kind: "password hash",
        anchors: &["$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2y$", "$argon2", "$gy$"],
        is_folded: false,
        at_edge: false,
        look: hash,
    },
    Rule { kind: "private key", anchors: &["-----begin "], is_folded: true, at_edge: false, look: block },
    Rule { kind: "password in an address", anchors: &["://"], is_folded: false, at_edge: false, look: address },
    Rule { kind: "authorization", anchors: &["authorization"], is_folded: true, at_edge: false, look: authorization },
    Rule { kind: "authorization", anchors: &["bearer "], is_folded: true, at_edge: true, look: bearer },
    Rule { kind: "cookie", anchors: &["cookie:"], is_folded: true, at_edge: true, look: cookie },
    Rule {
        kind: "signature",
        anchors: &["&sig=", "?sig=", "x-amz-signature=", "x-goog-signature="],
        is_folded: true,
        at_edge: false,
        look: |text, at| run(text, at, 0, in_query, 20),
    },
    Rule {
        kind: "password",
        anchors: &["password", "passwd", "passphrase", "_pass", "client_secret", "client-secret", "clientsecret"],
        is_folded: true,
        at_edge: false,
        look: |text, at| assigned(text, at, true),
    },
    Rule { kind: "password", anchors: &["pwd"], is_folded: true, at_edge: true, look: pwd },
    Rule {
        kind: "secret",
        anchors: &[
            "token",
            "secret",
            "credential",
            "credentials",
            "api_key",
            "api-key",
            "apikey",
            "access_key",
            "access-key",
            "accesskey",
            "secret_key",
            "secret-key",
            "secretkey",
            "private_key",
            "privatekey",
            "account_key",
            "accountkey",
            "auth_key",
            "authkey",
        ],
        is_folded: true,
        at_edge: false,
        look: |text, at| assigned(text, at, false),
    },
    Rule {
        kind: "password",
        anchors: &["--password ", "--passwd ", "--passphrase ", "sshpass -p"],
        is_folded: false,
        at_edge: false,
        look: |text, at| option(text, at, true),
    },
    Rule {
        kind: "secret",
        anchors: &["--token ", "--api-key ", "--secret ", "--secret-key ", "--access-token "],
        is_folded: false,
        at_edge: false,
        look: |text, at| option(text, at, false),
    },
    Rule { kind: "password", anchors: &["curl "], is_folded: false, at_edge: true, look: curl },
    Rule { kind: "password", anchors: &["login "], is_folded: false, at_edge: true, look: netrc },
];

const fn token(kind: &'static str, anchors: &'static [&'static str], look: fn(&Text<'_>, usize) -> Seen) -> Rule {
    Rule { kind, anchors, is_folded: true, at_edge: true, look }
}

/// Every anchor with its rule.
pub(super) fn anchors() -> impl Iterator<Item = (&'static Rule, &'static str)> {
    RULES.iter().flat_map(|rule| rule.anchors.iter().map(move |anchor| (rule, *anchor)))
}

impl Text<'_> {
    /// Whether a word goes on in front of `at`.
    pub fn is_word_before(&self, at: usize) -> bool {
        let before = if at == 0 { self.before } else { Some(self.bytes[at - 1]) };
        before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    /// Where a run of such bytes from `at` ends; none where it may go on.
    fn end(&self, at: usize, fits: impl Fn(u8) -> bool) -> Option<usize> {
        let end = self.bytes[at..].iter().position(|byte| !fits(*byte)).map(|length| at + length);
        end.or(self.is_whole.then_some(self.bytes.len()))
    }

    /// The byte at `at`: none within at the end, none without where it isn't known yet.
    fn byte(&self, at: usize) -> Option<Option<u8>> {
        match self.bytes.get(at) {
            Some(byte) => Some(Some(*byte)),
            None => self.is_whole.then_some(None),
        }
    }
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn word(byte: u8) -> bool {
    alnum(byte) || byte == b'_'
}

fn dashed(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

fn base64(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'+' | b'/' | b'=')
}

fn path(byte: u8) -> bool {
    dotted(byte) || byte == b'/'
}

fn in_query(byte: u8) -> bool {
    dotted(byte) || byte == b'%' || base64(byte)
}

fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// A run behind an anchor that is so long; the anchor goes with it, and a run without any digit is words.
fn run(text: &Text<'_>, at: usize, anchor_bytes: usize, fits: fn(u8) -> bool, least: usize) -> Seen {
    let Some(end) = text.end(at, fits) else { return Seen::More };
    let body = &text.bytes[at..end];
    if body.len() < least || !body.iter().any(u8::is_ascii_digit) {
        return Seen::No;
    }
    Seen::Hide(at - anchor_bytes..end)
}

/// As [`run`], behind an anchor that is written in just these letters.
fn cased(text: &Text<'_>, at: usize, anchor: &[u8], fits: fn(u8) -> bool, least: usize) -> Seen {
    if text.bytes[..at].ends_with(anchor) { run(text, at, anchor.len(), fits, least) } else { Seen::No }
}

/// The length of an anchor that ends at `at` with a dash.
fn dash_back(text: &Text<'_>, at: usize) -> usize {
    text.bytes[..at - 1].iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count().min(5) + 1
}

/// `sk-…`, of OpenAI, Anthropic and many others: one part of it is long and has a digit, which words with dashes have not.
fn api_key(text: &Text<'_>, at: usize) -> Seen {
    let Some(end) = text.end(at, dashed) else { return Seen::More };
    let body = &text.bytes[at..end];
    let is_random = |part: &[u8]| part.len() >= 12 && part.iter().any(u8::is_ascii_digit);
    let is_key = body.len() >= 20 && body.split(|byte| matches!(byte, b'-' | b'_')).any(is_random);
    if is_key { Seen::Hide(at - 3..end) } else { Seen::No }
}

fn aws_id(text: &Text<'_>, at: usize) -> Seen {
    let Some(end) = text.end(at, word) else { return Seen::More };
    let whole = &text.bytes[at - 4..end];
    let fits = whole.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if end - at == 16 && fits { Seen::Hide(at - 4..end) } else { Seen::No }
}

/// Two JSON objects and a signature, each in base64, with dots between.
fn jwt(text: &Text<'_>, at: usize) -> Seen {
    if &text.bytes[at - 3..at] != b"eyJ" {
        return Seen::No;
    }
    let Some(mut end) = text.end(at, |byte| dotted(byte) || byte == b'=') else { return Seen::More };
    end -= text.bytes[at..end].iter().rev().take_while(|byte| **byte == b'.').count();
    let mut parts = text.bytes[at..end].split(|byte| *byte == b'.');
    let head = parts.next().is_some_and(|part| part.len() >= 10);
    let claims = parts.next().is_some_and(|part| part.starts_with(b"eyJ") && part.len() >= 10);
    if head && claims && parts.next().is_some() { Seen::Hide(at - 3..end) } else { Seen::No }
}

/// `$6$salt$hash` and its like, as in /etc/shadow.
fn hash(text: &Text<'_>, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| dotted(byte) || matches!(byte, b'$' | b'/' | b',' | b'=' | b'+')) else {
        return Seen::More;
    };
    let body = &text.bytes[at..end];
    let start = text.bytes[..at - 1].iter().rposition(|byte| *byte == b'$').unwrap_or(at);
    if body.len() >= 22 && body.contains(&b'$') || body.len() >= 50 { Seen::Hide(start..end) } else { Seen::No }
}

/// From `-----BEGIN … PRIVATE KEY…-----` to its end; where that is missing, as far as it looks like a key.
fn block(text: &Text<'_>, at: usize) -> Seen {
    let start = at - "-----begin ".len();
    let rest = &text.bytes[at..];
    let header = &rest[..rest.len().min(HEADER_BYTES_MAX)];
    let Some(name_end) = memchr::memmem::find(header, b"-----") else {
        let may_go_on = rest.len() < HEADER_BYTES_MAX && !text.is_whole && !header.contains(&b'\n');
        return if may_go_on { Seen::More } else { Seen::No };
    };
    let name = &header[..name_end];
    if name.contains(&b'\n') || memchr::memmem::find(name, b"PRIVATE KEY").is_none() {
        return Seen::No;
    }
    let window = &rest[..rest.len().min(BLOCK_BYTES_MAX)];
    let body = name_end + 5;
    let mut from = body;
    while let Some(found) = memchr::memmem::find(&window[from..], b"-----END ") {
        let end = from + found + "-----END ".len();
        let tail = &window[end..window.len().min(end + HEADER_BYTES_MAX)];
        match memchr::memmem::find(tail, b"-----") {
            Some(length) => return Seen::Hide(start..at + end + length + 5),
            None => from = end,
        }
    }
    if window.len() < BLOCK_BYTES_MAX && !text.is_whole {
        return Seen::More;
    }
    let mut end = body;
    for line in window[body..].split_inclusive(|byte| *byte == b'\n') {
        let line_body = line.trim_ascii_end();
        let is_key =
            line_body.is_empty() || line_body.iter().all(|byte| base64(*byte) || *byte == b'-' || *byte == b'\\');
        let is_header = line_body
            .iter()
            .position(|byte| *byte == b':')
            .is_some_and(|at| line_body[..at].iter().all(|byte| dashed(*byte)));
        if !is_key && !is_header {
            break;
        }
        end += line.len();
    }
    end -= window[body..end].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    Seen::Hide(start..at + end)
}

/// The password of `scheme://user:password@host`.
fn address(text: &Text<'_>, at: usize) -> Seen {
    let ends = |byte: u8| {
        byte.is_ascii_whitespace() || quote(byte) || matches!(byte, b'/' | b'?' | b'#' | b'<' | b'>' | b'\\')
    };
    let rest = &text.bytes[at..];
    let window = &rest[..rest.len().min(AUTHORITY_BYTES_MAX)];
    let authority = match window.iter().position(|byte| ends(*byte)) {
        Some(end) => &window[..end],
        None if window.len() == AUTHORITY_BYTES_MAX => return Seen::No,
        None if text.is_whole => window,
        None => return Seen::More,
    };
    let Some(user_end) = memchr::memrchr(b'@', authority) else { return Seen::No };
    let Some(colon) = memchr::memchr(b':', &authority[..user_end]) else { return Seen::No };
    let password = &authority[colon + 1..user_end];
    if password.is_empty() || is_placeholder(password) { Seen::No } else { Seen::Hide(at + colon + 1..at + user_end) }
}

/// What stands behind `Authorization:`, but for the scheme's word.
fn authorization(text: &Text<'_>, at: usize) -> Seen {
    const SCHEMES: [&[u8]; 12] = [
        b"bearer",
        b"basic",
        b"token",
        b"digest",
        b"negotiate",
        b"ntlm",
        b"apikey",
        b"key",
        b"bot",
        b"oauth",
        b"hmac",
        b"aws4-hmac-sha256",
    ];
    let Some(value) = value_start(text, at, b":=") else { return Seen::More };
    let Some(start) = value else { return Seen::No };
    let Some(end) = text.end(start, |byte| byte != b'\n' && byte != b'\r' && !quote(byte)) else { return Seen::More };
    let value = &text.bytes[start..end];
    let first = value.iter().position(|byte| blank(*byte)).unwrap_or(value.len());
    let has_scheme = SCHEMES.iter().any(|scheme| value[..first].eq_ignore_ascii_case(scheme));
    let skip = if has_scheme { first + value[first..].iter().take_while(|byte| blank(**byte)).count() } else { 0 };
    let secret = value[skip..].trim_ascii_end();
    let head = secret.split(|byte| blank(*byte)).next().unwrap_or_default();
    let is_one = head.len() == secret.len();
    let is_secret =
        head.len() >= 6 && !is_placeholder(head) && (is_mixed(head) || head.contains(&b'=') || head.len() >= 20);
    if is_secret && (has_scheme || is_one) { Seen::Hide(start + skip..start + skip + secret.len()) } else { Seen::No }
}

fn bearer(text: &Text<'_>, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| dotted(byte) || base64(byte) || byte == b'~') else { return Seen::More };
    let secret = &text.bytes[at..end];
    if secret.len() >= 16 && is_mixed(secret) { Seen::Hide(at..end) } else { Seen::No }
}

/// `Cookie: name=value; …` to the end of the line.
fn cookie(text: &Text<'_>, at: usize) -> Seen {
    let Some(start) = text.end(at, blank) else { return Seen::More };
    let Some(end) = text.end(start, |byte| byte != b'\n' && byte != b'\r' && !quote(byte)) else { return Seen::More };
    let value = text.bytes[start..end].trim_ascii_end();
    let name = value.iter().take_while(|byte| dotted(**byte)).count();
    let is_pair = name > 0 && value.get(name) == Some(&b'=') && value.len() >= name + 5;
    if is_pair && !is_placeholder(&value[name + 1..]) { Seen::Hide(start..start + value.len()) } else { Seen::No }
}

/// A value that a name like `password` or `api_key` is given: `NAME=value`, `name: value`, `"name": "value"`. A strong name
/// is enough; behind a weak one the value must look like a secret itself.
fn assigned(text: &Text<'_>, at: usize, is_strong: bool) -> Seen {
    let Some(value) = value_start(text, at, b":=") else { return Seen::More };
    let Some(start) = value else { return Seen::No };
    let is_quoted = quote(text.bytes[start - 1]);
    let stops = |byte: u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'\\');
    let ends = |byte: u8| {
        stops(byte)
            || (!is_quoted
                && (byte.is_ascii_whitespace()
                    || matches!(byte, b',' | b';' | b'&' | b')' | b'<' | b'>' | b']' | b'}' | b'|')))
    };
    let Some(end) = text.end(start, |byte| !ends(byte)) else { return Seen::More };
    let value = &text.bytes[start..end];
    // Between the name and the value: `=` alone is a shell's or a file's, `: ` and ` = ` are also what people write.
    let is_tight = text.bytes[start - 1] == b'=';
    let is_secret = if value.is_empty() || is_placeholder(value) {
        false
    } else if value.contains(&b' ') {
        is_strong && is_mixed(value)
    } else if is_strong {
        value.len() >= 3 && (is_tight || is_quoted || (value.len() >= 6 && is_mixed(value)))
    } else {
        value.len() >= 8 && is_random(value)
    };
    if is_secret { Seen::Hide(start..end) } else { Seen::No }
}

/// `Pwd=` of a connection; a shell's `PWD=/path` is none.
fn pwd(text: &Text<'_>, at: usize) -> Seen {
    match text.byte(at) {
        None => Seen::More,
        Some(Some(b'=')) => match text.byte(at + 1) {
            None => Seen::More,
            Some(Some(byte)) if !matches!(byte, b'/' | b'~' | b'.') => assigned(text, at, true),
            _ => Seen::No,
        },
        _ => Seen::No,
    }
}

/// The word behind an option.
fn option(text: &Text<'_>, at: usize, is_strong: bool) -> Seen {
    let Some(start) = text.end(at, |byte| blank(byte) || quote(byte)) else { return Seen::More };
    let Some(end) = text.end(start, |byte| !byte.is_ascii_whitespace() && !quote(byte)) else { return Seen::More };
    let value = &text.bytes[start..end];
    let is_secret = if is_strong { value.len() >= 4 } else { value.len() >= 8 && is_random(value) };
    if is_secret && value[0] != b'-' && !is_placeholder(value) { Seen::Hide(start..end) } else { Seen::No }
}

/// The password of `curl … -u user:password`.
fn curl(text: &Text<'_>, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| byte != b'\n') else { return Seen::More };
    let line = &text.bytes[at..end];
    for name in [&b" -u "[..], b" --user ", b" --proxy-user "] {
        // The option may come first: its blank in front is then the anchor's.
        let found = memchr::memmem::find(&text.bytes[at - 1..end], name).map(|found| found + name.len() - 1);
        let Some(start) = found else { continue };
        let start = start + line[start..].iter().take_while(|byte| blank(**byte) || quote(**byte)).count();
        let length = line[start..].iter().take_while(|byte| !byte.is_ascii_whitespace() && !quote(**byte)).count();
        let value = &line[start..start + length];
        if let Some(colon) = memchr::memchr(b':', value)
            && !value[colon + 1..].is_empty()
            && !is_placeholder(&value[colon + 1..])
        {
            return Seen::Hide(at + start + colon + 1..at + start + length);
        }
    }
    Seen::No
}

/// `login NAME password SECRET`, as in a `.netrc`.
fn netrc(text: &Text<'_>, at: usize) -> Seen {
    let Some(name_end) = text.end(at, |byte| !byte.is_ascii_whitespace()) else { return Seen::More };
    let Some(word) = text.end(name_end, blank) else { return Seen::More };
    let wanted = b"password ";
    let rest = &text.bytes[word..];
    if rest.len() < wanted.len() {
        return if !text.is_whole && wanted.starts_with(rest) { Seen::More } else { Seen::No };
    }
    if !rest.starts_with(wanted) {
        return Seen::No;
    }
    let Some(start) = text.end(word + wanted.len(), blank) else { return Seen::More };
    let Some(end) = text.end(start, |byte| !byte.is_ascii_whitespace()) else { return Seen::More };
    if end == start || is_placeholder(&text.bytes[start..end]) { Seen::No } else { Seen::Hide(start..end) }
}

/// Where the value begins that a name ending at `at` is given by one of `signs`: none without where that isn't known yet,
/// none within where no value follows.
fn value_start(text: &Text<'_>, at: usize, signs: &[u8]) -> Option<Option<usize>> {
    let mut at = at;
    // The name's own closing quote, escaped where a JSON text stands within another.
    while let Some(byte) = text.byte(at)? {
        if !quote(byte) && byte != b'\\' {
            break;
        }
        at += 1;
    }
    at = text.end(at, blank)?;
    match text.byte(at)? {
        Some(byte) if signs.contains(&byte) => at += 1,
        _ => return Some(None),
    }
    // `:=` and `=>` give a value, `==` and `::` don't.
    match text.byte(at)? {
        Some(b'=') if text.bytes[at - 1] == b':' => at += 1,
        Some(b'>') if text.bytes[at - 1] == b'=' => at += 1,
        Some(b'=' | b':') => return Some(None),
        _ => {}
    }
    at = text.end(at, blank)?;
    while let Some(byte) = text.byte(at)? {
        if !quote(byte) && byte != b'\\' {
            break;
        }
        at += 1;
    }
    Some(Some(at))
}

/// What stands for a value and is none: a variable, a gap in a manual, our own mark, code that reads it from elsewhere.
fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 14] = [
        b"none",
        b"null",
        b"nil",
        b"true",
        b"false",
        b"undefined",
        b"optional",
        b"required",
        b"string",
        b"str",
        b"password",
        b"passwd",
        b"secret",
        b"token",
    ];
    let first = value[0];
    let all_same = value.len() > 1 && value.iter().all(|byte| *byte == first);
    matches!(first, b'$' | b'<' | b'{' | b'*' | b'[' | b'(' | b'@')
        || (first == b'%' && value.len() <= 3)
        || value.starts_with("…".as_bytes())
        || value.starts_with(b"...")
        || value.contains(&b'(')
        || all_same
        || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
        || [&b"process.env"[..], b"os.environ", b"os.getenv", b"env."].iter().any(|word| value.starts_with(word))
}

/// Letters of both sizes, or a digit or a sign among them: more than a plain word.
fn is_mixed(value: &[u8]) -> bool {
    let has = |fits: fn(&u8) -> bool| value.iter().any(fits);
    has(u8::is_ascii_digit)
        || (has(u8::is_ascii_lowercase) && value[1..].iter().any(u8::is_ascii_uppercase))
        || has(|byte| matches!(byte, b'!' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'+' | b'='))
}

/// Letters and digits together, or a long word of both sizes; no path and no call.
fn is_random(value: &[u8]) -> bool {
    let has = |fits: fn(&u8) -> bool| value.iter().any(fits);
    let is_path = matches!(value[0], b'/' | b'~' | b'.') && value.len() != 40;
    !is_path
        && has(u8::is_ascii_alphabetic)
        && (has(u8::is_ascii_digit)
            || (value.len() >= 16
                && has(u8::is_ascii_lowercase)
                && has(u8::is_ascii_uppercase)
                && !value.contains(&b'.')))
}

/// The rule and the anchor with this number.
pub(super) fn anchor(index: u16) -> (&'static Rule, &'static str) {
    static ALL: std::sync::OnceLock<Vec<(&'static Rule, &'static str)>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| anchors().collect())[usize::from(index)]
}
