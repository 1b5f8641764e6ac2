//! Candidates at the cursor, by tables, in a directory of the test.

use parking_lot::RwLock;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::proto::Names;

struct Scripted(Vec<Candidate>);

impl LiveCompletion for Scripted {
    fn complete(&mut self, line: &str, position_bytes: usize) -> Vec<Candidate> {
        assert!(line.is_char_boundary(position_bytes));
        self.0.clone()
    }

    fn value(&mut self, text: &str) -> Option<String> {
        self.0.iter().find_map(|one| one.value.strip_prefix(&format!("{text}=")).map(str::to_owned))
    }

    fn hand_over(&mut self) {}

    fn users(&mut self, typed: &str) -> Vec<String> {
        ["root", "rose"].map(str::to_owned).into_iter().filter(|name| name.starts_with(typed)).collect()
    }
}

/// A shell that answers with the line that it was asked about.
struct Echo;

impl LiveCompletion for Echo {
    fn complete(&mut self, line: &str, _: usize) -> Vec<Candidate> {
        vec![plain(line, None)]
    }

    fn value(&mut self, _: &str) -> Option<String> {
        None
    }

    fn hand_over(&mut self) {}

    fn users(&mut self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// bash's completions were asked about the whole line, and knew nothing of what follows `;`, a keyword or an assignment.
#[test]
fn the_live_shell_is_asked_about_the_simple_command_alone() {
    for (line, asked) in [
        ("gzip --fa", "gzip --fa"),
        ("echo && gzip --fa", "gzip --fa"),
        ("if true; then gzip --fa", "gzip --fa"),
        ("A=1 B='2 3' gzip --fa", "gzip --fa"),
        ("(cd x || gzip -", "gzip -"),
        ("echo $(gzip -", "gzip -"),
        ("echo \"$(cd x; gzip -", "gzip -"),
        ("while ! gzip -", "gzip -"),
        ("echo $((1 + $(gzip -", "gzip -"),
    ] {
        let place = place();
        let mut completer = completer(place.path(), None);
        completer.live = Some(Box::new(Echo));
        let (_, found) = completer.candidates(line, line.len());
        assert_eq!(found.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), [asked], "{line:?}");
    }
}

/// `echo $((HO` offered `host`, the command.
#[test]
fn arithmetic_and_the_first_word_of_a_row_become_no_other_word() {
    let place = place();
    for line in ["echo $((gz", "echo $((1 + GR", "x=\"$((gz", "cat <<E\nzip", "cat <<E\n\tGR"] {
        let (_, found) = completer(place.path(), None).candidates(line, line.len());
        assert!(found.is_empty(), "{line:?} {found:?}");
    }
    assert_eq!(completed("echo $(($HOS", place.path()), ["echo $(($HOST"]);
    assert_eq!(completed("ls |\ngz", place.path()), ["ls |\ngzip "]);
}

/// bash completes the part after the last `=` or `:`, and the answer replaced the whole word: `dd if=b` lost its `if=`.
#[test]
fn the_part_of_a_word_before_its_value_stays() {
    let place = place();
    for (line, answer, expected) in [
        ("dd if=b", "big.tar.gz", "if=big.tar.gz"),
        ("dd if=b", "if=big.tar.gz", "if=big.tar.gz"),
        ("chown root:ro", "root", "root:root"),
        ("git log --pretty=on", "oneline", "--pretty=oneline"),
        ("git log --pretty=", "oneline", "--pretty=oneline"),
        ("git log --pre", "--pretty=", "--pretty="),
        ("export A=b", "big.tar.gz", "A=big.tar.gz"),
        ("export PATH=/bin:/usr/b", "/usr/bin/", "PATH=/bin:/usr/bin/"),
        ("greet 'a=b'x", "big.tar.gz", "big.tar.gz"),
        ("greet a\\:b=c", "cc", "a\\:b=cc"),
    ] {
        let (span, found) = completer(place.path(), Some(vec![plain(answer, None)])).candidates(line, line.len());
        let word = line.rfind(' ').map_or(0, |at| at + 1);
        assert_eq!((span.start, found[0].value.as_str(), found.len()), (word, expected, 1), "{line:?}");
    }
}

#[test]
fn a_name_stays_before_the_value_that_another_shell_completes() {
    for (line, answer, expected) in [
        ("X=b", "big.tar.gz", "X=big.tar.gz"),
        ("X=b", "X=big.tar.gz", "X=big.tar.gz"),
        ("PATH=/bin:/u/b", "/bin:/usr/bin/", "PATH=/bin:/usr/bin/"),
        ("typeset A=b", "big.tar.gz", "A=big.tar.gz"),
        ("grep --col", "--color=", "--color="),
        ("dd if=b", "if=big.tar.gz", "if=big.tar.gz"),
        ("grep x a:b", "a:big", "a:big"),
        ("grep x /u/b", "/usr/bin/", "/usr/bin/"),
    ] {
        let mut completer = completer(Path::new("/nowhere"), Some(vec![plain(answer, None)]));
        completer.state.write().other_grammar = true;
        let (_, found) = completer.candidates(line, line.len());
        assert_eq!(found.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), [expected], "{line:?}");
    }
}

#[test]
fn variables_and_users_stay_as_they_were_typed() {
    let place = place();
    let value = |name: &str| plain(&format!("{name}={}", place.path().display()), None);
    let live = vec![value("$DIR"), value("${DIR}"), value("~rose")];
    for (line, expected) in [
        ("echo $DIR/a", "$DIR/a\\ b.txt"),
        ("cd $DIR/my", "$DIR/my\\ docs/"),
        ("echo \"${DIR}/a", "\"${DIR}/a b.txt\""),
        ("echo ~rose/my\\ docs/o", "~rose/my\\ docs/one"),
        ("echo ~ros", "~rose/"),
        ("cd ~roo", "~root/"),
        ("X=~roo", "X=~root/"),
        ("X=$DIR/a", "X=$DIR/a\\ b.txt"),
        ("echo of=$DIR/a", "of=$DIR/a\\ b.txt"),
    ] {
        let (_, found) = completer(place.path(), Some(live.clone())).candidates(line, line.len());
        assert_eq!(found.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), [expected], "{line:?}");
    }
}

#[test]
fn other_case_and_the_middle_of_a_name_count_where_nothing_begins_so() {
    let place = place();
    assert_eq!(completed("echo PLA", place.path()), ["echo plain.txt "]);
    assert_eq!(completed("echo lain", place.path()), ["echo plain.txt "]);
    assert_eq!(completed("cd DOCS", place.path()), ["cd my\\ docs/"]);
    assert_eq!(completed("zip", place.path()), ["gzip "]);
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a directory");
    for name in ["a b.txt", "été.md", "it's", "$cash", "wow!", "new\nline", ".hidden", "plain.txt"] {
        fs::write(place.path().join(name), "").expect("a file");
    }
    fs::create_dir_all(place.path().join("my docs/deep")).expect("directories");
    fs::write(place.path().join("my docs/one"), "").expect("a file");
    place
}

fn completer(cwd: &Path, live: Option<Vec<Candidate>>) -> ShellCompleter {
    let mut names = Names { programs: Arc::new(["grep", "git", "gzip"].into()), ..Names::default() };
    names.aliases.insert("gs".into(), "git status".into());
    names.functions.insert("greet".into());
    names.builtins.extend(["echo".to_owned(), "export".to_owned(), "cd".to_owned()]);
    names.variables = ["HOME", "HOST", "PATH"].map(str::to_owned).into();
    let state = EditorState {
        names: Arc::new(names),
        cwd: cwd.to_owned(),
        home: Some(cwd.join("my docs")),
        ..EditorState::default()
    };
    let metas = vec![
        MetaEntry { name: "model".into(), help: "switches".into(), values: vec!["qwen".into(), "llama".into()] },
        MetaEntry { name: "models".into(), help: "lists".into(), values: vec![] },
    ];
    let live = live.map(|found| Box::new(Scripted(found)) as Box<dyn LiveCompletion>);
    ShellCompleter::new(Arc::new(RwLock::new(state)), metas, live)
}

/// The line after each candidate was accepted.
fn completed(line: &str, cwd: &Path) -> Vec<String> {
    let (span, found) = completer(cwd, None).candidates(line, line.len());
    found
        .into_iter()
        .map(|candidate| {
            let space = if candidate.append_space { " " } else { "" };
            format!("{}{}{space}{}", &line[..span.start], candidate.value, &line[span.end..])
        })
        .collect()
}

#[test]
fn the_name_of_a_template_is_completed() {
    let place = place();
    let list = |_: &Path| vec![("review".to_owned(), "reviews it".to_owned()), ("fix".to_owned(), String::new())];
    let mut completer = completer(place.path(), None).with_templates(list);
    for (line, names) in [(":p ", &["review", "fix"][..]), (":p re", &["review"]), (":p review x", &[])] {
        let found = completer.candidates(line, line.len()).1;
        assert_eq!(found.iter().map(|it| it.value.as_str()).collect::<Vec<_>>(), names, "{line}");
    }
}

#[test]
fn each_place_offers_what_fits_there() {
    let place = place();
    for (line, expected) in [
        ("gr", vec!["greet ", "grep "]),
        ("sudo gre", vec!["sudo greet ", "sudo grep "]),
        ("X=1 gz", vec!["X=1 gzip "]),
        ("echo | gz", vec!["echo | gzip "]),
        ("echo $(gz", vec!["echo $(gzip "]),
        ("echo \"$(gz", vec!["echo \"$(gzip "]),
        ("echo `gz", vec!["echo `gzip "]),
        ("!gz", vec!["!gzip "]),
        ("echo $HO", vec!["echo $HOME", "echo $HOST"]),
        ("echo ${PA", vec!["echo ${PATH}"]),
        ("echo \"x$PA", vec!["echo \"x$PATH"]),
        ("echo '$PA", vec![]),
        ("export PA", vec!["export PATH"]),
        ("echo a", vec!["echo a\\ b.txt "]),
        ("echo 'a", vec!["echo 'a b.txt' "]),
        ("echo \"a", vec!["echo \"a b.txt\" "]),
        ("echo a\\ b", vec!["echo a\\ b.txt "]),
        ("echo é", vec!["echo été.md "]),
        ("echo it", vec!["echo it\\'s "]),
        ("echo 'it", vec!["echo 'it'\\''s' "]),
        ("echo \\$", vec!["echo \\$cash "]),
        ("echo $ca", vec!["echo \\$cash "]),
        ("echo \"$ca", vec!["echo \"\\$cash\" "]),
        ("echo \"wow", vec!["echo 'wow!' "]),
        ("echo wow", vec!["echo wow\\! "]),
        ("echo new", vec!["echo $'new\\nline' "]),
        ("echo .h", vec!["echo .hidden "]),
        ("echo my", vec!["echo my\\ docs/"]),
        ("echo \"my", vec!["echo \"my docs/"]),
        ("echo \"my docs/o", vec!["echo \"my docs/one\" "]),
        ("echo my\\ docs/", vec!["echo my\\ docs/deep/", "echo my\\ docs/one "]),
        ("echo ~/o", vec!["echo ~/one "]),
        ("echo ~", vec!["echo ~/"]),
        ("echo \\~", vec![]),
        ("X=pl", vec!["X=plain.txt "]),
        ("PATH=/nowhere:my", vec!["PATH=/nowhere:my\\ docs/"]),
        ("PATH=$PATH:~/o", vec!["PATH=$PATH:~/one "]),
        ("X=1 Y='a", vec!["X=1 Y='a b.txt' "]),
        ("echo if=pl", vec!["echo if=plain.txt "]),
        ("echo a\\=pl", vec![]),
        ("echo 'a=pl", vec![]),
        ("echo x >p", vec!["echo x >plain.txt "]),
        ("cd p", vec![]),
        ("cd m", vec!["cd my\\ docs/"]),
        ("my\\ docs/", vec!["my\\ docs/deep/"]),
        ("echo # p", vec![]),
        (":mod", vec![":model ", ":models"]),
        (":model q", vec![":model qwen "]),
        (":models x", vec![]),
        ("echo nothing-such", vec![]),
    ] {
        assert_eq!(completed(line, place.path()), expected, "{line:?}");
    }
}

#[test]
fn hidden_files_are_shown_only_when_asked_for() {
    let place = place();
    assert!(completed("echo ", place.path()).iter().all(|line| !line.contains(".hidden")));
    assert!(!completed("echo ", place.path()).is_empty());
}

#[test]
fn descriptions_are_shown_where_they_exist() {
    let place = place();
    let (_, found) = completer(place.path(), None).candidates("g", 1);
    let of =
        |value: &str| found.iter().find(|candidate| candidate.value == value).and_then(|one| one.description.clone());
    assert_eq!(of("gs").as_deref(), Some("alias: git status"));
    assert_eq!(of("greet").as_deref(), Some("function"));
    assert_eq!(of("grep"), None);
}

#[test]
fn the_live_shell_is_asked_for_arguments_and_paths_follow_where_it_has_none() {
    let place = place();
    let answer = vec![
        Candidate { value: "--pretty".into(), description: Some("draws\u{1b}[2J".into()), append_space: true },
        Candidate { value: "bad\u{1b}[2J".into(), description: None, append_space: true },
    ];
    let (span, found) = completer(place.path(), Some(answer.clone())).candidates("grep --pr", 9);
    assert_eq!((span.start, span.end), (5, 9));
    assert_eq!(found, [Candidate { description: Some("draws[2J".into()), ..answer[0].clone() }]);
    let (_, found) = completer(place.path(), Some(vec![])).candidates("grep pl", 7);
    assert_eq!(found[0].value, "plain.txt");
    // The live shell isn't asked about a command's name or a question.
    for line in ["gr", "what is in pl"] {
        let (_, found) = completer(place.path(), Some(answer.clone())).candidates(line, line.len());
        assert!(found.iter().all(|one| one.value != "--pretty"), "{line:?}");
    }
}

#[test]
fn git_references_follow_the_subcommands_that_take_them() {
    let place = place();
    let put = |path: &str, text: &str| {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    };
    put(".git/HEAD", "ref: refs/heads/main\n");
    put(".git/refs/heads/main", "");
    put(".git/refs/heads/feature/x", "");
    put(".git/refs/tags/v1", "");
    put(".git/config", "[remote \"origin\"]\n");
    for (line, expected) in [
        ("git checkout f", vec!["git checkout feature/x "]),
        ("git -c a=b switch f", vec![]),
        ("git diff main..v", vec!["git diff main..v1 "]),
        ("git push o", vec!["git push origin "]),
        ("git push origin m", vec!["git push origin main "]),
        ("git push -u ", vec!["git push -u origin "]),
        ("git diff pl", vec!["git diff plain.txt "]),
        ("git checkout -- m", vec!["git checkout -- my\\ docs/"]),
        ("git add pl", vec!["git add plain.txt "]),
    ] {
        assert_eq!(completed(line, place.path()), expected, "{line:?}");
    }
}

#[test]
fn the_cursor_in_the_middle_replaces_only_what_is_before_it() {
    let place = place();
    let line = "echo é and more";
    let (span, found) = completer(place.path(), None).candidates(line, "echo é".len());
    assert_eq!((span.start, span.end, found[0].value.as_str()), (5, 7, "été.md"));
    // A position inside a character moves back to its start.
    assert_eq!(completer(place.path(), None).candidates(line, 6).0, Span::new(5, 5));
}

#[test]
fn a_large_directory_is_shown_in_part() {
    let place = tempfile::tempdir().expect("a directory");
    for index in 0..ENTRIES_MAX + 50 {
        fs::write(place.path().join(format!("f{index}")), "").expect("a file");
    }
    assert_eq!(completed("echo f", place.path()).len(), ENTRIES_MAX);
}

proptest! {
    #[test]
    fn nothing_panics_and_spans_lie_in_the_line(line in any::<String>(), position in 0..200_usize) {
        let (span, _) = completer(Path::new("/nowhere"), Some(vec![])).candidates(&line, position);
        prop_assert!(span.start <= span.end && span.end <= line.len());
        prop_assert!(line.is_char_boundary(span.start) && line.is_char_boundary(span.end));
    }

    #[test]
    fn pieces_of_shell_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "git ", "checkout ", "$(", "${", "`", "'", "\"", "\\", "~", "/", "é", " ", ">", ":", "..", "$", "a", "=", "|", "#", "<(", "\n",
        "@", ":ask ", "\u{a0}", "\u{3000}",
    ]), 0..12)) {
        let line = pieces.concat();
        let (span, _) = completer(Path::new("/nowhere"), None)
            .with_mentions(|_, _| Vec::new())
            .candidates(&line, line.len());
        prop_assert!(line.is_char_boundary(span.start) && span.end == line.len());
    }

    #[test]
    fn escaped_names_unquote_to_the_original(name in "[^\\p{Cc}]{1,20}") {
        prop_assert_eq!(crate::route::lex::unquoted(&paths::escaped(&name)), name);
    }
}

#[test]
fn an_at_sign_in_a_question_names_files_and_in_a_command_nothing() {
    let place = place();
    let list = |_: &Path, typed: &str| vec![(format!("{typed}.rs"), String::new()), ("x".into(), "a.rs:3".into())];
    let mut completer = completer(place.path(), None).with_mentions(list);
    let mut values = |line: &str| -> Option<(usize, Vec<String>)> {
        let (span, found) = completer.candidates(line, line.len());
        let values: Vec<String> = found.into_iter().map(|it| it.value).collect();
        values.iter().any(|value| value == "@x").then_some((span.start, values))
    };
    let files = |typed: &str| vec![format!("@{typed}.rs"), "@x".to_owned()];
    assert_eq!(values("what does @src/a"), Some((10, files("src/a"))));
    assert_eq!(values("@sr"), Some((0, files("sr"))));
    assert_eq!(values("what is wrong (@a"), Some((15, files("a"))));
    assert_eq!(values("what is in @\"my"), Some((11, files("my"))));
    assert_eq!(values(":ask explain @a"), Some((13, files("a"))));
    assert_eq!(values("git log @a"), None);
    assert_eq!(values("write to me@a"), None);
}
