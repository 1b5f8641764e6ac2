//! The forms of secrets after their anchors. `start` is the beginning of the anchor, `at` its end. Pure.

use super::read::{
    Seen, Text, alnum, base64, blank, dashed, dotted, encoded, is_drawn, is_mixed, is_placeholder, is_random,
    is_sample, quote, value_start, word,
};

/// Longest private key's block, and longest authority of an address.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
const AUTHORITY_BYTES_MAX: usize = 1024;
/// A header that ends a block, or begins one.
const HEADER_BYTES_MAX: usize = 64;

/// A run after the anchor of at least this length; the anchor belongs to it. A run without any digit is words.
pub(super) fn run(text: &Text<'_>, start: usize, at: usize, fits: fn(u8) -> bool, least: usize) -> Seen {
    let Some(end) = text.end(at, fits) else { return Seen::More };
    let body = &text.bytes[at..end];
    let is_token = body.len() >= least && is_drawn(body) && !is_sample(body);
    if is_token { Seen::Hide(start..end) } else { Seen::No }
}

/// A run of exactly this length. A match after a base64 character is part of something else.
pub(super) fn exact(text: &Text<'_>, start: usize, at: usize, fits: fn(u8) -> bool, length: usize) -> Seen {
    let Some(end) = text.end(at, fits) else { return Seen::More };
    let inside = text.byte_before(start).is_some_and(|byte| matches!(byte, b'+' | b'/'));
    if end - at == length && !inside { run(text, start, at, fits, length) } else { Seen::No }
}

/// `sk-…`, of OpenAI, Anthropic and many others: one part of it is long and has a digit, unlike words with dashes.
pub(super) fn api_key(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, dashed) else { return Seen::More };
    let body = &text.bytes[at..end];
    let is_random = |part: &[u8]| part.len() >= 12 && part.iter().any(u8::is_ascii_digit);
    let is_key = body.len() >= 20 && body.split(|byte| matches!(byte, b'-' | b'_')).any(is_random);
    if is_key && !is_sample(body) { Seen::Hide(start..end) } else { Seen::No }
}

pub(super) fn aws_id(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, word) else { return Seen::More };
    let body = &text.bytes[at..end];
    let fits = body.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if body.len() == 16 && fits && !is_sample(body) { Seen::Hide(start..end) } else { Seen::No }
}

/// Two JSON objects and a signature, each in base64, with dots between.
pub(super) fn jwt(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(mut end) = text.end(at, |byte| dotted(byte) || byte == b'=') else { return Seen::More };
    end -= text.bytes[at..end].iter().rev().take_while(|byte| **byte == b'.').count();
    let mut parts = text.bytes[at..end].split(|byte| *byte == b'.');
    let head = parts.next().is_some_and(|part| part.len() >= 10);
    let claims = parts.next().is_some_and(|part| part.starts_with(b"eyJ") && part.len() >= 10);
    if head && claims && parts.next().is_some() { Seen::Hide(start..end) } else { Seen::No }
}

/// `1234567890:AA…`: the anchor is `:AA`, and only the secret part is hidden.
pub(super) fn telegram(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, dashed) else { return Seen::More };
    let is_bot = text.byte_before(start).is_some_and(|byte| byte.is_ascii_digit());
    if is_bot && (31..=35).contains(&(end - at)) { Seen::Hide(start + 1..end) } else { Seen::No }
}

/// A bot's number in base64, a time and a signature, with dots between.
pub(super) fn discord(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, dotted) else { return Seen::More };
    let lengths: Vec<usize> = text.bytes[start..end].split(|byte| *byte == b'.').map(<[u8]>::len).collect();
    match lengths[..] {
        [23..=30, 6, 25..=45] => Seen::Hide(start..end),
        _ => Seen::No,
    }
}

/// A private key that is one line of base64, as in a kubeconfig: the anchor is `-----BEGIN` in base64.
pub(super) fn encoded_block(text: &Text<'_>, start: usize, at: usize) -> Seen {
    // `PRIVATE` in base64, at each of the three places of a group.
    const PRIVATE: [&[u8]; 3] = [b"UFJJVkFUR", b"BSSVZBVE", b"QUklWQVRF"];
    let Some(end) = text.end(at, base64) else { return Seen::More };
    let head = &text.bytes[at..end.min(at + HEADER_BYTES_MAX)];
    let is_private = PRIVATE.iter().any(|part| memchr::memmem::find(head, part).is_some());
    if is_private { Seen::Hide(start..end) } else { Seen::No }
}

/// `$6$salt$hash` and its like, as in /etc/shadow and .htpasswd.
pub(super) fn hash(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| dotted(byte) || matches!(byte, b'$' | b'/' | b',' | b'=' | b'+')) else {
        return Seen::More;
    };
    let body = &text.bytes[at..end];
    if body.len() >= 22 && body.contains(&b'$') || body.len() >= 50 { Seen::Hide(start..end) } else { Seen::No }
}

/// From `-----BEGIN … PRIVATE KEY…-----` to its end; if that is missing, as far as it looks like a key.
pub(super) fn block(text: &Text<'_>, start: usize, at: usize) -> Seen {
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
    Seen::Hide(start..at + key_lines(window, body))
}

/// The end of the lines that look like a key's, from `from` on.
fn key_lines(window: &[u8], from: usize) -> usize {
    let mut end = from;
    for line in window[from..].split_inclusive(|byte| *byte == b'\n') {
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
    end - window[from..end].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The lines of base64 after `Private-Lines: N` of a PuTTY key.
pub(super) fn putty(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let Some(count) = text.end(at, |byte| blank(byte) || byte.is_ascii_digit()) else { return Seen::More };
    let Some(start) = text.end(count, |byte| byte.is_ascii_whitespace()) else { return Seen::More };
    let Some(end) = text.end(start, |byte| base64(byte) || byte == b'\n' || byte == b'\r') else { return Seen::More };
    // The next header begins as base64 does, up to its dash.
    let key = &text.bytes[start..end];
    let length = key.iter().rposition(|byte| *byte == b'\n').unwrap_or(key.len());
    if count > at && length >= 20 { Seen::Hide(start..start + key[..length].trim_ascii_end().len()) } else { Seen::No }
}

/// The password of `scheme://user:password@host`.
pub(super) fn address(text: &Text<'_>, _: usize, at: usize) -> Seen {
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
    if is_placeholder(password) { Seen::No } else { Seen::Hide(at + colon + 1..at + user_end) }
}

/// The text after `Authorization:`, without the scheme's word.
pub(super) fn authorization(text: &Text<'_>, _: usize, at: usize) -> Seen {
    const SCHEMES: [&[u8]; 13] = [
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
        b"ssws",
        b"aws4-hmac-sha256",
    ];
    let Some(value) = value_start(text, at) else { return Seen::More };
    let Some(start) = value else { return Seen::No };
    let Some(end) = text.end(start, |byte| byte != b'\n' && byte != b'\r' && !quote(byte)) else { return Seen::More };
    let value = &text.bytes[start..end];
    let first = value.iter().position(|byte| blank(*byte)).unwrap_or(value.len());
    let has_scheme = SCHEMES.iter().any(|scheme| value[..first].eq_ignore_ascii_case(scheme));
    let skip = if has_scheme { first + value[first..].iter().take_while(|byte| blank(**byte)).count() } else { 0 };
    let secret = value[skip..].trim_ascii_end();
    let head = secret.split(|byte| blank(*byte)).next().unwrap_or_default();
    let is_one = head.len() == secret.len();
    let is_secret = head.len() >= 6 && !is_placeholder(head) && is_mixed(head);
    if is_secret && (has_scheme || is_one) { Seen::Hide(start + skip..start + skip + secret.len()) } else { Seen::No }
}

pub(super) fn bearer(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| encoded(byte) || byte == b'~') else { return Seen::More };
    let secret = &text.bytes[at..end];
    if secret.len() >= 16 && is_mixed(secret) { Seen::Hide(at..end) } else { Seen::No }
}

/// `Cookie: name=value; …` to the end of the line, if one of the pairs is more than a preference.
pub(super) fn cookie(text: &Text<'_>, _: usize, at: usize) -> Seen {
    const NAMES: [&[u8]; 9] = [b"sess", b"token", b"auth", b"csrf", b"xsrf", b"jwt", b"login", b"remember", b"secret"];
    let Some(start) = text.end(at, blank) else { return Seen::More };
    let Some(end) = text.end(start, |byte| byte != b'\n' && byte != b'\r' && !quote(byte)) else { return Seen::More };
    let value = text.bytes[start..end].trim_ascii_end();
    let is_secret = |pair: &[u8]| {
        let pair = pair.trim_ascii();
        let Some(sign) = memchr::memchr(b'=', pair) else { return false };
        let (name, value) = (pair[..sign].to_ascii_lowercase(), &pair[sign + 1..]);
        let is_named = name.ends_with(b"sid") || NAMES.iter().any(|part| memchr::memmem::find(&name, part).is_some());
        let is_kept = value.len() >= 5 && is_named || value.len() >= 16 && is_random(value) && name != b"expires";
        !name.is_empty() && name.iter().all(|byte| dotted(*byte)) && is_kept && !is_placeholder(value)
    };
    if value.split(|byte| *byte == b';').any(is_secret) { Seen::Hide(start..start + value.len()) } else { Seen::No }
}

/// The value of a name like `password`: `NAME=value`, `name: value`, `"name": "value"`. The name is enough.
pub(super) fn strong(text: &Text<'_>, _: usize, at: usize) -> Seen {
    assigned(text, at, |value, is_plain| {
        if value.contains(&b' ') { is_mixed(value) } else { value.len() >= 3 && (is_plain || is_long_mixed(value)) }
    })
}

fn is_long_mixed(value: &[u8]) -> bool {
    value.len() >= 6 && is_mixed(value)
}

/// The value of a name like `token`: it must look like a secret itself.
pub(super) fn weak(text: &Text<'_>, _: usize, at: usize) -> Seen {
    assigned(text, at, |value, _| value.len() >= 8 && !value.contains(&b' ') && is_random(value))
}

/// A value in base64 of a name like `auth`.
pub(super) fn encoded_value(text: &Text<'_>, _: usize, at: usize) -> Seen {
    assigned(text, at, |value, _| {
        let has = |fits: fn(&u8) -> bool| value.iter().any(fits);
        value.len() >= 12
            && value.iter().all(|byte| base64(*byte))
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase)
            && (has(u8::is_ascii_digit) || value.ends_with(b"="))
    })
}

/// Reads an assigned value; `is_secret` gets it, and whether it is in quotes or directly after `=`, as in shells and
/// files: people also write `: ` and ` = ` in sentences.
fn assigned(text: &Text<'_>, at: usize, is_secret: impl Fn(&[u8], bool) -> bool) -> Seen {
    let Some(value) = value_start(text, at) else { return Seen::More };
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
    let is_plain = is_quoted || text.bytes[start - 1] == b'=';
    if !is_placeholder(value) && is_secret(value, is_plain) { Seen::Hide(start..end) } else { Seen::No }
}

/// `Pwd=` of a connection, but not a shell's `PWD=/path`.
pub(super) fn pwd(text: &Text<'_>, start: usize, at: usize) -> Seen {
    match text.byte(at) {
        None => Seen::More,
        Some(Some(b'=')) => match text.byte(at + 1) {
            None => Seen::More,
            Some(Some(byte)) if !matches!(byte, b'/' | b'~' | b'.') => strong(text, start, at),
            _ => Seen::No,
        },
        _ => Seen::No,
    }
}

/// The JSON Web Key's private part: `"d": "…"`.
pub(super) fn web_key(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(value) = value_start(text, at - 1) else { return Seen::More };
    let Some(value) = value else { return Seen::No };
    match run(text, start, value, dashed, 40) {
        Seen::Hide(range) => Seen::Hide(value..range.end),
        seen => seen,
    }
}

/// The text of an XML element, up to its end.
pub(super) fn element(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| byte != b'<' && byte != b'\n') else { return Seen::More };
    let Some(closes) = text.has(end, b"</") else { return Seen::More };
    let value = &text.bytes[at..end];
    if closes && value.len() >= 3 && !is_placeholder(value) { Seen::Hide(at..end) } else { Seen::No }
}

/// `define('DB_PASSWORD', 'value')` of PHP.
pub(super) fn define(text: &Text<'_>, _: usize, at: usize) -> Seen {
    const NAMES: [&[u8]; 5] = [b"password", b"secret", b"salt", b"_key", b"token"];
    let Some(line) = text.line(at) else { return Seen::More };
    let mut parts = line.splitn(5, |byte| matches!(byte, b'\'' | b'"'));
    let (Some(_), Some(name), Some(between), Some(value)) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Seen::No;
    };
    let name = name.to_ascii_lowercase();
    let is_named = NAMES.iter().any(|part| memchr::memmem::find(&name, part).is_some());
    if !is_named || between.trim_ascii() != b"," || value.len() < 3 || is_placeholder(value) {
        return Seen::No;
    }
    let start = at + (value.as_ptr() as usize - line.as_ptr() as usize);
    Seen::Hide(start..start + value.len())
}

/// The word after an option such as `--password `.
pub(super) fn strong_option(text: &Text<'_>, _: usize, at: usize) -> Seen {
    option(text, at, |value| value.len() >= 4)
}

/// The word after an option such as `--token `.
pub(super) fn weak_option(text: &Text<'_>, _: usize, at: usize) -> Seen {
    option(text, at, |value| value.len() >= 8 && is_random(value))
}

fn option(text: &Text<'_>, at: usize, is_secret: impl Fn(&[u8]) -> bool) -> Seen {
    let Some(start) = text.end(at, |byte| blank(byte) || quote(byte)) else { return Seen::More };
    let Some(end) = text.end(start, |byte| !byte.is_ascii_whitespace() && !quote(byte)) else { return Seen::More };
    let value = &text.bytes[start..end];
    let is_one = !is_placeholder(value) && value[0] != b'-' && is_secret(value);
    if is_one { Seen::Hide(start..end) } else { Seen::No }
}

/// A program's option whose password is on the rest of its line: `names` are the option with its surroundings, and only
/// the part of its value after `sign` is secret.
pub(super) fn command(text: &Text<'_>, at: usize, names: &[&[u8]], sign: Option<u8>) -> Seen {
    let Some(line) = text.line(at) else { return Seen::More };
    let line = &line[..line.iter().position(|byte| matches!(byte, b'|' | b';')).unwrap_or(line.len())];
    for name in names {
        // The option may come first: its blank in front is then the anchor's.
        let Some(found) = memchr::memmem::find(&text.bytes[at - 1..at + line.len()], name) else { continue };
        let found = found + name.len() - 1;
        // Without a blank of its own the option's value is glued to it.
        let is_apart = name.ends_with(b" ");
        let fits = |byte: &&u8| quote(**byte) || (is_apart && blank(**byte));
        let start = found + line[found..].iter().take_while(fits).count();
        let length = line[start..].iter().take_while(|byte| !byte.is_ascii_whitespace() && !quote(**byte)).count();
        let value = &line[start..start + length];
        let skip = match sign {
            None => 0,
            Some(sign) => match memchr::memchr(sign, value) {
                Some(at) => at + 1,
                None => continue,
            },
        };
        if !is_placeholder(&value[skip..]) && value[0] != b'-' {
            return Seen::Hide(at + start + skip..at + start + length);
        }
    }
    Seen::No
}

/// `echo password | sudo -S …`.
pub(super) fn sudo(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let Some(line) = text.line(at) else { return Seen::More };
    let Some(pipe) = memchr::memchr(b'|', line) else { return Seen::No };
    let is_sudo = line[pipe + 1..].trim_ascii_start().starts_with(b"sudo ")
        && memchr::memmem::find(&line[pipe..], b" -S").is_some();
    let word = line[..pipe].trim_ascii();
    let start = at + line.iter().take_while(|byte| blank(**byte)).count();
    let word = word.strip_suffix(b"'").or(word.strip_suffix(b"\"")).unwrap_or(word);
    let quoted = usize::from(word.first().is_some_and(|byte| quote(*byte)));
    let value = &word[quoted..];
    let is_secret = is_sudo && value.len() >= 3 && !value.contains(&b' ') && !is_placeholder(value);
    if is_secret { Seen::Hide(start + quoted..start + quoted + value.len()) } else { Seen::No }
}

/// `login NAME password SECRET`, as in a `.netrc`.
pub(super) fn netrc(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let Some(name_end) = text.end(at, |byte| !byte.is_ascii_whitespace()) else { return Seen::More };
    let Some(word) = text.end(name_end, |byte| byte.is_ascii_whitespace()) else { return Seen::More };
    let wanted = b"password ";
    match text.has(word, wanted) {
        None => return Seen::More,
        Some(false) => return Seen::No,
        Some(true) => {}
    }
    let Some(start) = text.end(word + wanted.len(), blank) else { return Seen::More };
    let Some(end) = text.end(start, |byte| !byte.is_ascii_whitespace()) else { return Seen::More };
    if is_placeholder(&text.bytes[start..end]) { Seen::No } else { Seen::Hide(start..end) }
}

/// The last of the fields of a `.pgpass` line, `host:port:database:user:password`. The anchor is the port, or the `*`
/// of a port or database that may be any.
pub(super) fn pgpass(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| !byte.is_ascii_whitespace() && !quote(byte)) else { return Seen::More };
    let fields: Vec<&[u8]> = text.bytes[at..end].split(|byte| *byte == b':').collect();
    let is_any = text.bytes[start + 1] == b'*';
    let name = |field: &&[u8]| !field.is_empty() && field.iter().all(|byte| dotted(*byte) || *byte == b'*');
    let (names, password) = match &fields[..] {
        [names @ .., password] if names.len() == 2 || (is_any && names.len() == 1) => (names, *password),
        _ => return Seen::No,
    };
    let is_password = password.len() >= 4 && !is_placeholder(password) && (!is_any || is_mixed(password));
    if is_password && names.iter().all(name) { Seen::Hide(end - password.len()..end) } else { Seen::No }
}

/// The words of a wallet's seed after a name for it: 12, 15, 18, 21 or 24 of them, in small letters.
pub(super) fn mnemonic(text: &Text<'_>, _: usize, at: usize) -> Seen {
    let between = |byte: u8| blank(byte) || quote(byte) || matches!(byte, b':' | b'=' | b'\\' | b'>');
    let Some(mut start) = text.end(at, between) else { return Seen::More };
    match text.has(start, b"is ") {
        None => return Seen::More,
        Some(true) => match text.end(start + 3, between) {
            Some(behind) => start = behind,
            None => return Seen::More,
        },
        Some(false) => {}
    }
    let Some(end) = text.end(start, |byte| byte.is_ascii_lowercase() || byte == b' ') else { return Seen::More };
    let words = text.bytes[start..end].trim_ascii_end();
    let lengths: Vec<usize> = words.split(|byte| *byte == b' ').map(<[u8]>::len).collect();
    let fits = matches!(lengths.len(), 12 | 15 | 18 | 21 | 24) && lengths.iter().all(|length| (3..=8).contains(length));
    let is_named = text.bytes[at..start].iter().any(|byte| !blank(*byte));
    if fits && is_named { Seen::Hide(start..start + words.len()) } else { Seen::No }
}

/// A token in base64 after a user's name, as in HTTP's basic authorization. The anchor is the token's beginning.
pub(super) fn in_base64(text: &Text<'_>, start: usize, at: usize) -> Seen {
    run(text, start, at, base64, 30)
}

/// The letters and digits after a token's own prefix of one more sign.
pub(super) fn azure(text: &Text<'_>, start: usize, at: usize) -> Seen {
    let Some(end) = text.end(at, |byte| dotted(byte) || byte == b'~') else { return Seen::More };
    let is_token = (30..=36).contains(&(end - at)) && text.byte_before(start).is_some_and(alnum);
    if is_token { Seen::Hide(start..end) } else { Seen::No }
}
