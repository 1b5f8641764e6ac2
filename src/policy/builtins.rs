//! Builtins of the shell: how they change its state, and how a variable's value affects other programs.

use std::rc::Rc;

use super::exec::nothing;
use super::piece::{Source, Text};
use super::programs::{self, listed};
use super::shell::Var;
use super::walk::Walk;
use crate::proto::action::Effect;

/// The words without this one at their beginning.
fn without<'w>(words: &'w [Text], first: &str) -> &'w [Text] {
    words.split_first().filter(|(word, _)| word.as_str() == Some(first)).map_or(words, |(_, rest)| rest)
}

/// Runs a builtin; `None` if it isn't one that needs the shell's state.
pub(super) fn builtin(walk: &mut Walk<'_, '_>, name: &str, words: &[Text]) -> Option<Text> {
    match name {
        "cd" | "pushd" | "chdir" => change_directory(walk, words),
        "exit" => walk.shell.is_over = true,
        "export" | "declare" | "typeset" | "local" | "readonly" => declare(walk, name, words),
        "unset" => {
            words.iter().for_each(|word| walk.subscripts(word));
            for word in words.iter().filter_map(Text::as_str) {
                walk.shell.put(word, None);
                Rc::make_mut(&mut walk.shell.functions).remove(word);
            }
        }
        "alias" => {
            for (name, text) in words.iter().filter_map(|word| word.split_once('=')) {
                define_alias(walk, name.lossy(), &text);
            }
        }
        "source" | "." => return source(walk, words),
        "trap" => trap(walk, words),
        "read" => read(walk, words),
        "mapfile" | "readarray" => read_array(walk, words),
        "command" if words.first().is_some_and(|word| matches!(word.lossy(), "-v" | "-V")) => {
            return Some(which(&words[1..]));
        }
        "command" | "builtin" => {
            let words = without(words, "-p");
            return Some(if words.is_empty() { nothing() } else { walk.exec_program(words.to_vec()) });
        }
        "which" => return Some(which(words)),
        "pwd" => return Some(walk.shell.cwd().then(&"\n".into())),
        "printenv" | "env" | "set" if words.is_empty() => return Some(Source::Program.into()),
        "set" => set(walk, words),
        "shift" => {
            let count = words.first().map_or(Some(1), |word| word.lossy().parse().ok()).unwrap_or(usize::MAX);
            if let Some(values) = &mut walk.shell.positional {
                values.drain(..count.min(values.len()));
            }
        }
        "printf" if words.first().is_some_and(|word| word.as_str() == Some("-v")) => {
            let words_after = words.get(2..).unwrap_or_default().to_vec();
            let printed = walk.named("printf", &[vec!["printf".into()], words_after].concat());
            let name = words.get(1)?;
            walk.subscripts(name);
            gives(walk, name.lossy(), printed, false);
        }
        "test" | "[" => {
            words.iter().for_each(|word| walk.subscripts(word));
            return None;
        }
        _ if listed("quiet").contains(&name) => minor(walk, name, words),
        _ => return None,
    }
    Some(nothing())
}

fn source(walk: &mut Walk<'_, '_>, words: &[Text]) -> Option<Text> {
    let words = without(words, "--");
    let Some(file) = words.first().cloned() else { return Some(nothing()) };
    walk.found.high("script", format!("runs the script {}", file.shown()));
    walk.absolute(&file).iter().for_each(|path| walk.found.reads(path));
    let text = walk.content(&file);
    let outer = walk.shell.positional.clone();
    if words.len() > 1 {
        walk.shell.positional = Some(words[1..].to_vec());
    }
    let printed = walk.code(&text);
    walk.shell.positional = outer;
    Some(printed)
}

fn trap(walk: &mut Walk<'_, '_>, words: &[Text]) {
    let words = without(words, "--");
    if let [code, _, ..] = words
        && !matches!(code.as_str(), Some("-" | "-p" | "-l" | ""))
    {
        walk.subshell(|walk| walk.code(code));
        walk.shell.traps.push(code.clone());
    }
}

fn minor(walk: &mut Walk<'_, '_>, name: &str, words: &[Text]) {
    words.iter().for_each(|word| walk.subscripts(word));
    match name {
        "let" | "getopts" => {
            for word in words {
                let target = word.split_once('=').map_or_else(|| word.shown(), |(name, _)| name.shown());
                walk.shell.set(target.trim_end_matches(['+', '-', '*', '/', '%']), vec![Source::Name.into()]);
            }
        }
        "enable" if words.iter().any(|word| word.head().starts_with("-f")) => walk.doubt("loads code into the shell"),
        "bind" | "complete" | "compgen" if !words.is_empty() => {
            walk.doubt("ties a command to a key or a completion");
        }
        _ => {}
    }
}

fn change_directory(walk: &mut Walk<'_, '_>, words: &[Text]) {
    let operand = words.iter().find(|word| !word.head().starts_with('-') || word.as_str() == Some("-"));
    let before = walk.shell.cwd();
    let targets = match operand {
        None if walk.shell.vars.contains_key("HOME") => walk.shell.vars["HOME"].ways(),
        None => vec![walk.context.rules.home.as_str().into()],
        Some(path) if path.as_str() == Some("-") => {
            walk.shell.vars.get("OLDPWD").map_or_else(|| vec![Source::Any.into()], Var::ways)
        }
        Some(path) if path.head().starts_with('+') => vec![Source::Any.into()],
        // With a variable that is never set, the directory is the home.
        Some(path) if path.has_unset() && path.without_unset().is_empty() => vec![Source::Any.into()],
        Some(path) => walk.absolute(path),
    };
    walk.shell.set("OLDPWD", vec![before]);
    walk.shell.cwd = targets;
}

fn set(walk: &mut Walk<'_, '_>, words: &[Text]) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.lossy() {
            "--" | "-" => return walk.shell.positional = Some(words.cloned().collect()),
            "-o" | "+o" => _ = words.next(),
            option if option.starts_with(['-', '+']) && option.len() > 1 => {}
            _ => return walk.shell.positional = Some([vec![word.clone()], words.cloned().collect()].concat()),
        }
    }
}

fn declare(walk: &mut Walk<'_, '_>, builtin: &str, words: &[Text]) {
    let flags: String = words.iter().filter_map(|word| word.as_str()?.strip_prefix('-')).collect();
    let is_export = builtin == "export" || flags.contains('x');
    for word in words.iter().filter(|word| !word.head().starts_with('-')) {
        walk.subscripts(word);
        match word.split_once('=') {
            // `declare -a x='(a b)'` is read once more, as an array.
            Some((_, value)) if flags.contains(['a', 'A']) && value.head().starts_with('(') => _ = walk.code(word),
            Some((name, value)) if name.as_str().is_some() => {
                gives(walk, name.lossy(), value, is_export);
            }
            Some(_) => walk.doubt("sets a variable whose name isn't known"),
            None if word.as_str().is_none() => walk.doubt("declares what isn't known"),
            None if is_export => {
                let value = walk.shell.vars.get(word.lossy()).map(Var::ways).unwrap_or_default();
                sets(walk, word.lossy(), &value, true);
            }
            None => {}
        }
    }
    if flags.contains(['n', 'u', 'l', 'c']) && builtin != "export" {
        walk.doubt("gives a variable another name or other letters");
    }
}

fn gives(walk: &mut Walk<'_, '_>, name: &str, value: Text, is_environment: bool) {
    sets(walk, name, std::slice::from_ref(&value), is_environment);
    walk.shell.set(name, vec![value]);
}

/// Records that a variable is set, with the consequences for other programs or the shell itself.
pub(super) fn sets(walk: &mut Walk<'_, '_>, name: &str, value: &[Text], is_environment: bool) {
    let of_shell = listed("of-the-shell").contains(&name)
        || ["LD_", "GIT_", "BASH_FUNC_", "DYLD_"].iter().any(|it| name.starts_with(it));
    let is_harmless = listed("harmless").contains(&name) || name.starts_with("LC_");
    if name == "IFS" || !(of_shell || is_environment && !is_harmless) {
        return;
    }
    walk.found.effect(Effect::Define { name: name.to_owned() });
    walk.found.high("environment", format!("sets {name}, which may change what other programs run"));
    for way in value {
        if name.starts_with("PS") || name == "PROMPT_COMMAND" {
            walk.prompt(way);
        }
        // Variables that name code for other programs.
        let is_code = !way.is_empty() && listed("run-by-others").iter().any(|part| name.contains(part));
        if let Some((_, body)) = way.lossy().split_once("() {") {
            walk.suspect(|walk| walk.code(&body.trim_end_matches('}').into()));
        } else if is_code {
            walk.suspect(|walk| walk.code(&way.strip_prefix("!").unwrap_or_else(|| way.clone())));
        }
    }
}

pub(super) fn define_alias(walk: &mut Walk<'_, '_>, name: &str, text: &Text) {
    walk.found.effect(Effect::Define { name: format!("alias {name}") });
    walk.found.high("environment", format!("gives {name} another meaning"));
    walk.aliased(name.to_owned(), |walk| {
        walk.suspect(|walk| walk.code(text));
        nothing()
    });
    Rc::make_mut(&mut walk.shell.aliases).insert(name.to_owned(), text.code());
}

/// Takes the first line of the input; the rest stays.
fn take_line(walk: &mut Walk<'_, '_>) -> Text {
    let Some(input) = walk.input.clone() else { return Source::Any.into() };
    match input.split_once('\n') {
        Some((line, rest)) => {
            walk.input = Some(rest);
            line
        }
        // Unknown input may have more lines.
        None if input.as_str().is_none() => input,
        None => {
            walk.input = Some(nothing());
            input
        }
    }
}

fn read(walk: &mut Walk<'_, '_>, words: &[Text]) {
    let Some(parsed) = programs::read("read", words) else { return };
    parsed.operands.iter().for_each(|name| walk.subscripts(name));
    let line = take_line(walk);
    let fields: Vec<Text> = line.split(char::is_whitespace).into_iter().filter(|field| !field.is_empty()).collect();
    if let Some(array) = parsed.values("array").next() {
        let items = fields.into_iter().enumerate().map(|(at, field)| (at.to_string(), field)).collect();
        return walk.shell.put(&array.shown(), Some(Var::Array(items)));
    }
    let names = if parsed.operands.is_empty() { vec!["REPLY".into()] } else { parsed.operands };
    for (at, name) in names.iter().enumerate() {
        let value = match at + 1 == names.len() {
            true => Text::join(fields.get(at..).unwrap_or_default(), " "),
            false => fields.get(at).cloned().unwrap_or_default(),
        };
        let value = if line.is_open() && value.is_empty() { line.clone() } else { value };
        gives(walk, name.lossy(), value, false);
    }
}

fn read_array(walk: &mut Walk<'_, '_>, words: &[Text]) {
    let name = words.last().filter(|word| !word.head().starts_with('-')).map_or("MAPFILE".to_owned(), Text::shown);
    if words.iter().any(|word| word.as_str() == Some("-C")) {
        walk.doubt("runs code at each line that is read");
    }
    let data = walk.input.take().unwrap_or_else(|| Source::Any.into());
    sets(walk, &name, std::slice::from_ref(&data), false);
    let items = data.split(|c| c == '\n' || c == '\0').into_iter().filter(|item| !item.is_empty()).take(64);
    let items = items.enumerate().map(|(at, item)| (at.to_string(), item)).collect();
    walk.shell.put(&name, Some(Var::Array(items)));
}

/// Returns the output of `which` and `command -v`: the name itself represents the path.
fn which(words: &[Text]) -> Text {
    match words {
        [one] if one.as_str().is_some() => one.clone().then(&"\n".into()),
        _ => Source::Program.into(),
    }
}
