//! One step of putting code's strings together: joining, decoding, turning round, filling in, and the ways to say the home.

use super::code;
use super::code::Piece::{self, Name, Number, Sign, Text};
use super::text;

/// Calls that decode base64.
const BASE64: &str = " b64decode urlsafe_b64decode standard_b64decode decodebytes atob base64_decode decode_base64 decode64 urlsafe_decode64 ";
/// Calls that decode hexadecimal digits.
const HEX: &str = " fromhex unhexlify hex2bin a2b_hex ";
/// Calls that join parts of a path.
const PATHS: &str = " join resolve Path PosixPath PurePath ";
/// Calls behind a string that leave it as it is.
const SAME: &str =
    " decode encode toString to_s strip trim chomp str String toLowerCase lower expanduser resolve absolute as_posix ";

/// Puts the first pieces together, where that can be done: how many they were, and what comes of them. `before` is the piece
/// in front.
pub(super) fn step(pieces: &[Piece], before: Option<&Piece>, home: &str) -> Option<(usize, Vec<Piece>)> {
    joined(pieces, before)
        .or_else(|| changed(pieces))
        .or_else(|| named(pieces))
        .or_else(|| called(pieces, home))
        .or_else(|| home_of(pieces, home))
}

fn one(length: usize, text: String) -> Option<(usize, Vec<Piece>)> {
    (text.len() <= text::TEXT_BYTES_MAX).then(|| (length, vec![Text(text)]))
}

/// `"a" + "b"`, `"a" . "b"`, `"a".."b"`, `"a" "b"`, `("a")`, `"a" * 3`.
fn joined(pieces: &[Piece], before: Option<&Piece>) -> Option<(usize, Vec<Piece>)> {
    match pieces {
        [Text(a), Sign('+' | '.' | '~'), Text(b), ..] => one(3, format!("{a}{b}")),
        [Text(a), Sign('.'), Sign('.'), Text(b), ..] | [Text(a), Sign('+'), Sign('+'), Text(b), ..] => {
            one(4, format!("{a}{b}"))
        }
        [Text(a), Sign('<'), Sign('>'), Text(b), ..] => one(4, format!("{a}{b}")),
        [Text(a), Text(b), ..] => one(2, format!("{a}{b}")),
        [Text(a), Sign('/'), Text(b), ..] => {
            one(3, format!("{}/{}", a.trim_end_matches('/'), b.trim_start_matches('/')))
        }
        [Text(a), Sign('*'), Number(times), ..] => {
            let times = usize::try_from(*times).ok()?;
            (a.len() * times.min(text::TEXT_BYTES_MAX) <= text::TEXT_BYTES_MAX).then(|| one(3, a.repeat(times)))?
        }
        [Sign('('), Text(_), Sign(')'), ..] if matches!(before, Some(Text(called)) if code::is_runner(called)) => None,
        [Sign('('), Text(a), Sign(')'), ..] if !matches!(before, Some(Name(_) | Sign(']' | ')'))) => one(3, a.clone()),
        _ => None,
    }
}

/// The strings of a list that begins here, in brackets or up to a closing bracket, and the length with that bracket.
fn list(pieces: &[Piece], close: char) -> Option<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        match pieces.get(at..)? {
            [Text(text), ..] => found.push(text.clone()),
            [Sign(sign), ..] if *sign == close && (at == 0 || !found.is_empty()) => return Some((at + 1, found)),
            _ => return None,
        }
        at += 1;
        match pieces.get(at)? {
            Sign(',') => at += 1,
            Sign(sign) if *sign == close => return Some((at + 1, found)),
            _ => return None,
        }
        if found.len() > 64 {
            return None;
        }
    }
}

/// What is done to a string by what stands behind it: `[::-1]`, `.replace(…)`, `.join([…])`, `% …`.
fn changed(pieces: &[Piece]) -> Option<(usize, Vec<Piece>)> {
    let reversed = |text: &String| text.chars().rev().collect::<String>();
    match pieces {
        [Text(a), Sign('['), Sign(':'), Sign(':'), Sign('-'), Number(1), Sign(']'), ..] => one(7, reversed(a)),
        [Text(a), Sign('.' | ':'), Name(name), Sign('('), Sign(')'), ..] if text::listed("reverse reversed", name) => {
            one(5, reversed(a))
        }
        [Text(a), Sign('.'), Name(name), rest @ ..] if name == "reverse" && rest.first() != Some(&Sign('(')) => {
            one(3, reversed(a))
        }
        [Text(a), Sign('.'), Name(name), Sign('('), Text(what), Sign(','), Text(with), Sign(')'), ..]
            if text::listed("replace gsub sub replaceAll tr", name) && !what.is_empty() =>
        {
            one(8, a.replace(what.as_str(), with))
        }
        [Text(a), Sign('.'), Name(name), Sign('('), Sign('['), rest @ ..] if name == "join" => {
            let (length, parts) = list(rest, ']')?;
            (rest.get(length) == Some(&Sign(')'))).then(|| one(length + 6, parts.join(a)))?
        }
        [Sign('['), rest @ ..] => {
            let (length, parts) = list(rest, ']')?;
            match rest.get(length..)? {
                [Sign('.'), Name(name), Sign('('), Text(between), Sign(')'), ..] if name == "join" => {
                    one(length + 6, parts.join(between))
                }
                [Sign('.'), Name(name), Sign('('), Sign(')'), ..] if name == "join" => one(length + 5, parts.join(",")),
                [Sign('.'), Name(name), Sign('('), Text(form), Sign(')'), ..] if name == "pack" => {
                    one(length + 6, packed(form, &parts.concat())?)
                }
                _ => None,
            }
        }
        [Text(a), Sign('%'), Text(b), ..] => one(3, filled_in(a, std::slice::from_ref(b))),
        [Text(a), Sign('%'), Sign('('), rest @ ..] => {
            let (length, parts) = list(rest, ')')?;
            one(length + 3, filled_in(a, &parts))
        }
        [Text(a), Sign('.'), Name(name), Sign('('), rest @ ..] if name == "format" => {
            let (length, parts) = list(rest, ')')?;
            one(length + 4, filled_in(a, &parts))
        }
        [Text(a), Sign('.'), Name(name), Sign('('), Sign(')'), ..] if text::listed(SAME, name) => one(5, a.clone()),
        [Text(a), Sign('.'), Name(name), Sign('('), Text(_), Sign(')'), ..]
            if text::listed("decode encode toString", name) =>
        {
            one(6, a.clone())
        }
        [Text(a), Sign('.'), Name(name), Sign('('), Text(form), Sign(')'), ..]
            if text::listed("unpack1 unpack", name) =>
        {
            one(6, packed(if form.starts_with('m') { "m" } else { "" }, a)?)
        }
        _ => None,
    }
}

/// A call of a pure function.
fn called(pieces: &[Piece], home: &str) -> Option<(usize, Vec<Piece>)> {
    // What it is a member of goes with it.
    if let [Name(object), Sign('.' | ':'), rest @ ..] = pieces
        && text::listed(
            "os path base64 bytes binascii String string codecs File Path pathlib posixpath Base64 filepath builtins bytearray shlex",
            object,
        )
        && matches!(rest, [Name(_), ..])
    {
        let (length, made) = called(rest, home).or_else(|| match rest {
            [Name(path), Sign('.'), inner @ ..] if path == "path" => {
                called(inner, home).map(|(length, made)| (length + 2, made))
            }
            _ => None,
        })?;
        return Some((length + 2, made));
    }
    match pieces {
        [Name(name), Sign('('), rest @ ..] if text::listed("chr fromCharCode char", name) => {
            let mut made = String::new();
            let mut at = 0;
            loop {
                let [Number(code), end, ..] = rest.get(at..)? else { return None };
                made.push(char::from_u32(u32::try_from(*code).ok()?)?);
                at += 2;
                match end {
                    Sign(',') => {}
                    Sign(')') => return one(at + 2, made),
                    _ => return None,
                }
            }
        }
        [Name(name), Number(code), ..] if name == "chr" => {
            one(2, char::from_u32(u32::try_from(*code).ok()?)?.to_string())
        }
        [Number(code), Sign('.'), Name(name), ..] if name == "chr" => {
            one(3, char::from_u32(u32::try_from(*code).ok()?)?.to_string())
        }
        [Name(name), Text(a), ..] if name == "reverse" => one(2, a.chars().rev().collect()),
        [Name(name), Name(inner), Text(a), ..] if name == "scalar" && inner == "reverse" => {
            one(3, a.chars().rev().collect())
        }
        [Name(name), Sign('('), Text(what), Sign(','), Text(with), Sign(','), Text(of), Sign(')'), ..]
            if name == "str_replace" =>
        {
            one(8, of.replace(what.as_str(), with))
        }
        [Name(name), Sign('('), rest @ ..] => {
            let (length, parts) = list(rest, ')')?;
            with_strings(name, &parts, home).and_then(|text| one(length + 2, text))
        }
        _ => None,
    }
}

/// A call or a module that is named by a string or a symbol: the name itself.
fn named(pieces: &[Piece]) -> Option<(usize, Vec<Piece>)> {
    match pieces {
        // `getattr(os, "system")(…)`, `__import__("os").system(…)`
        [Name(name), Sign('('), Name(_), Sign(','), Text(member), Sign(')'), ..] if name == "getattr" => {
            Some((6, vec![Name(member.clone())]))
        }
        // `os["execute"](…)`, `_G["os"].execute(…)`
        [Name(object), Sign('['), Text(member), Sign(']'), Sign('('), ..] => {
            Some((4, vec![Name(object.clone()), Sign('.'), Name(member.clone())]))
        }
        [Name(all), Sign('['), Text(member), Sign(']'), Sign('.' | '['), ..] if text::listed("_G globalThis", all) => {
            Some((4, vec![Name(member.clone())]))
        }
        // `send(:system, …)`, `call_user_func("system", …)`, `"system"(…)`
        [Name(name), Sign('('), Sign(':'), Name(called), Sign(','), ..] if code::is_sender(name) => {
            Some((5, vec![Name(called.clone()), Sign('(')]))
        }
        [Name(name), Sign(':'), Name(called), Sign(','), ..] if code::is_sender(name) => {
            Some((4, vec![Name(called.clone())]))
        }
        [Name(name), Sign('('), Text(called), Sign(','), ..] if code::is_sender(name) && code::is_runner(called) => {
            Some((4, vec![Name(called.clone()), Sign('(')]))
        }
        [Text(called), Sign('('), ..] if code::is_runner(called) => Some((1, vec![Name(called.clone())])),
        [Name(name), Sign('('), Text(module), Sign(')'), Sign('.' | ',' | '['), ..]
            if text::listed("__import__ import_module require", name) =>
        {
            Some((4, vec![Name(module.clone())]))
        }
        _ => None,
    }
}

/// What a pure function makes of strings.
fn with_strings(name: &str, parts: &[String], home: &str) -> Option<String> {
    match (name, parts) {
        (_, [a]) if text::listed(BASE64, name) => decoded("base64", a),
        (_, [a, ..]) if text::listed(HEX, name) => decoded("xxd", a),
        ("from", [a, form]) => match form.as_str() {
            "base64" => decoded("base64", a),
            "hex" => decoded("xxd", a),
            _ => Some(a.clone()),
        },
        ("decode", [a, form]) if text::listed("rot13 rot_13 hex base64", form) => match form.as_str() {
            "hex" => decoded("xxd", a),
            "base64" => decoded("base64", a),
            _ => Some(rot13(a)),
        },
        ("split", [a]) => Some(a.clone()),
        ("str_rot13", [a]) => Some(rot13(a)),
        ("pack", [form, a]) => packed(form, a),
        ("strrev" | "reverse", [a]) => Some(a.chars().rev().collect()),
        ("sprintf" | "format", [a, rest @ ..]) => Some(filled_in(a, rest)),
        ("join" | "implode", [between, _, ..]) if between.trim().is_empty() || between == "," => {
            Some(parts[1..].join(between))
        }
        ("expanduser" | "Path", [a]) if a == "~" || a.starts_with("~/") => Some(format!("{home}{}", &a[1..])),
        (_, [_, ..]) if text::listed(PATHS, name) => {
            let mut path = String::new();
            for part in parts {
                if part.starts_with('/') {
                    path.clear();
                } else if !path.is_empty() && !path.ends_with('/') {
                    path.push('/');
                }
                path.push_str(part);
            }
            Some(path)
        }
        _ => None,
    }
}

/// The ways to say the home.
fn home_of(pieces: &[Piece], home: &str) -> Option<(usize, Vec<Piece>)> {
    let is_home = |text: &String| text == "HOME";
    let length = match pieces {
        [Name(os), Sign('.'), Name(environ), Sign('['), Text(name), Sign(']'), ..]
            if os == "os" && environ == "environ" && is_home(name) =>
        {
            6
        }
        [Name(os), Sign('.'), Name(get), Sign('('), Text(name), Sign(')'), ..]
            if os == "os" && get.eq_ignore_ascii_case("getenv") && is_home(name) =>
        {
            6
        }
        [Name(os), Sign('.'), Name(environ), Sign('.'), Name(get), Sign('('), Text(name), Sign(')'), ..]
            if os == "os" && environ == "environ" && get == "get" && is_home(name) =>
        {
            8
        }
        [Name(process), Sign('.'), Name(env), Sign('.'), Name(name), ..]
            if process == "process" && env == "env" && is_home(name) =>
        {
            5
        }
        [Name(env), Sign('['), Text(name), Sign(']'), ..]
            if text::listed("ENV ENVIRON $_SERVER $_ENV", env) && is_home(name) =>
        {
            4
        }
        [Name(env), Sign('{'), Name(name), Sign('}'), ..] if env == "$ENV" && is_home(name) => 4,
        [Name(get), Sign('('), Text(name), Sign(')'), ..] if get == "getenv" && is_home(name) => 4,
        [Name(path), Sign('.'), Name(call), Sign('('), Sign(')'), ..]
            if path == "Path" && call == "home" || path == "os" && call == "homedir" =>
        {
            5
        }
        [Name(dir), Sign('.'), Name(call), ..] if dir == "Dir" && call == "home" => 3,
        _ => return None,
    };
    one(length, home.to_owned())
}

/// Fills in `%s`, `%d`, `{}`, `{0}`.
fn filled_in(form: &str, parts: &[String]) -> String {
    let mut made = form.to_owned();
    for (at, part) in parts.iter().enumerate() {
        let numbered = format!("{{{at}}}");
        made = if made.contains(&numbered) {
            made.replace(&numbered, part)
        } else if made.contains("{}") {
            made.replacen("{}", part, 1)
        } else {
            made.replacen("%s", part, 1)
        };
    }
    made
}

fn packed(form: &str, text: &str) -> Option<String> {
    match form.chars().next()? {
        'H' => decoded("xxd", text),
        'm' => decoded("base64", text),
        _ => None,
    }
}

fn decoded(name: &str, text: &str) -> Option<String> {
    super::strings::decoded(name, text).strip_suffix(text::DECODED_MARK).map(str::to_owned)
}

fn rot13(text: &str) -> String {
    let turned = |c: char| match c {
        'a'..='m' | 'A'..='M' => char::from_u32(u32::from(c) + 13).unwrap_or(c),
        'n'..='z' | 'N'..='Z' => char::from_u32(u32::from(c) - 13).unwrap_or(c),
        c => c,
    };
    text.chars().map(turned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::code::{Literal, Use, literals};

    #[test]
    fn strings_are_put_together_as_their_language_does() {
        for (language, code, text) in [
            ("python3", "os.system('r'+'m' + ' -rf /')", "rm -rf /"),
            ("python3", "a='rm -rf'; b=' /'; os.system(a+b)", "rm -rf /"),
            ("python3", "os.system(chr(114)+chr(109)+' -rf /')", "rm -rf /"),
            ("python3", "os.system('/ fr- mr'[::-1])", "rm -rf /"),
            ("python3", "os.system(' '.join(['rm','-rf','/']))", "rm -rf /"),
            ("python3", "os.system('rm -rf %s' % '/')", "rm -rf /"),
            ("python3", "d='/'; os.system(f'rm -rf {d}')", "rm -rf /"),
            ("python3", "os.system('{} -rf {}'.format('rm', '/'))", "rm -rf /"),
            ("python3", "os.system(base64.b64decode('cm0gLXJmIC8=').decode())", "rm -rf /"),
            ("python3", "getattr(os, 'sys'+'tem')(bytes.fromhex('726d202d7266202f').decode())", "rm -rf /"),
            ("python3", "os.system('rm -rf ' + os.environ['HOME'])", "rm -rf /home/u"),
            ("perl", "my $d = '/'; system(\"rm -rf $d\")", "rm -rf /"),
            ("perl", "system('rm -rf ' . $ENV{HOME})", "rm -rf /home/u"),
            ("perl", "system(pack('H*','726d202d7266202f'))", "rm -rf /"),
            ("ruby", "x = '/'; system(\"rm -rf #{x}\")", "rm -rf /"),
            ("ruby", "system(['726d202d7266202f'].pack('H*'))", "rm -rf /"),
            ("node", "const d='/'; require('child_process').execSync(`rm -rf ${d}`)", "rm -rf /"),
            ("node", "cp.execSync(['rm','-rf','/'].join(' '))", "rm -rf /"),
            ("php", "$c = 'rm'; system($c . ' -rf /');", "rm -rf /"),
            ("php", "system(strrev('/ fr- mr'));", "rm -rf /"),
            ("lua", "os.execute('rm' .. ' -rf /')", "rm -rf /"),
            ("lua", "local c = 'rm -rf '; os.execute(c .. '/')", "rm -rf /"),
        ] {
            let found = literals(code, language, "/home/u");
            let wanted = Literal { text: text.to_owned(), how: Use::Run };
            assert!(found.contains(&wanted), "{language}: {code}: {found:?}");
        }
    }

    #[test]
    fn what_is_only_printed_is_data() {
        for (language, code) in [
            ("python3", "import subprocess; print('rm -rf /'); subprocess.run(['ls'])"),
            ("python3", "re.findall('rm -rf /', open('x').read())"),
            ("python3", "# don't\nprint('rm -rf /')"),
            ("perl", "print \"rm -rf /\"; system('ls')"),
            ("ruby", "puts 'a', 'rm -rf /'; system('ls')"),
            ("node", "console.log('rm -rf /')"),
        ] {
            let found = literals(code, language, "/home/u");
            let uses: Vec<Use> = found.iter().filter(|it| it.text.contains("rm -rf /")).map(|it| it.how).collect();
            assert!(!uses.is_empty() && uses.iter().all(|how| *how == Use::Data), "{language}: {code}: {found:?}");
        }
    }
}
