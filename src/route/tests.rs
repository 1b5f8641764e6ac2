//! The table of lines and where they go, and what holds for every line.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const PROGRAMS: &str = "ls cat grep git rm mv cp make find kill who test sort split watch open look head tail less more last \
    top install file write at cut join install man sudo ssh cargo npm docker python python3 vim sed awk tar curl date time \
    sleep chmod mkdir touch ps diff wc xargs reboot shutdown mount nice which env zip jq tee node go rsync bash nohup yes";
const BUILTINS: &str = "cd echo printf export read set type help wait alias kill test [ eval exec source . : true false exit \
    local let return history jobs fg bg unset command pwd trap hash";
const KEYWORDS: &str =
    "if then else elif fi for while until do done case esac select function time { } [[ ]] ! in coproc";

/// Lines for the shell, one a row.
const SHELL: &str = r#"
ls
ls -la
ls -la | wc -l
ll
deploy staging
cd
cd ..
cd src
cd my project
~
..
./run.sh
./run.sh please
./what is this
/usr/bin/env python3
~/bin/tool --help
scripts/test.sh all
src/
X=1
X=1 make
PATH+=:/opt/bin
arr=(a b c)
arr[2]=x
CC=clang CXX=clang++ make all
msg="what is this"
(cd src && make)
((i++))
{ ls; pwd; }
[[ -n $x ]] && echo yes
[ -f x ] && rm x
$(which python) -V
"$EDITOR" notes.txt
$HOME/bin/x
`which ls`
>file
2>/dev/null ls
< in.txt sort
# a comment
echo how are you
echo what is this?
echo "it's fine"
printf '%s\n' a b
cat todo | head
cat what
cat this
cp this that
cp a b
touch a b c
rm that
rm -rf build
rm -- *
mv a b
git status
git log --oneline -5
git commit -m "fix the parser, please"
git commit -m 'what is this?'
git branch what-if
git stash pop
git push origin HEAD:main
make
make test
make all
make love
make -j8 check
make 2>&1 | tee build.log
make || echo failed
find .
find . -name core
find src -type f
find / -newer stamp
kill 123
kill -9 123
kill %1
kill $(pgrep node)
who
who am i
who -b
who | wc -l
time ls
time make test
test -f x
test 1 -eq 2
sort these.txt those.txt
split big.log part
watch -n1 date
open .
open README.md
open https://example.com/
head README.md
tail -f log
last
less notes.txt
file a.out
type cd
type -a test
help read
help test
write bob
at 5pm tomorrow
at now + 5 minutes
cut -d: -f1 /etc/passwd
join a.txt b.txt
set -euo pipefail
set -o vi
read name
read -r line
wait 1234
wait
sleep 5
which python
export PATH=$PATH:/opt/bin
export EDITOR
let i++
let x=3
eval "$(ssh-agent)"
trap 'echo bye' EXIT
sudo make install
sudo reboot
nohup ./server &
nice make
bash -c 'echo hello there, how are you'
ssh host uptime
ssh host "uptime && who"
grep "what is" notes.txt
grep -rn 'how do I' docs
grep the file
man find
curl https://example.com/search?q=hello
curl 'https://example.com/?q=what+is+this'
jq '.items[] | select(.name == "the one")' x.json
sed -i 's/this is old/this is new/' f.txt
python3 -c "print('hello world, how are you')"
for f in *.txt; do echo "$f"; done
for ((i=0;i<10;i++)); do echo $i; done
for i in 1 2 3
while true; do date; sleep 1; done
while read line
until test -f x; do sleep 1; done
if [ -f x ]; then echo yes; fi
if make; then ./a.out; fi
case $x in
case $x in a) ls;; esac
select x in a b c; do echo $x; done
greet() { echo "hi $1"; }
function greet { echo hi; }
time (for i in 1 2; do ls; done)
! grep -q foo file
!!
!$
!-2
!42
^foo^bar
\ls
'git' status
"ls"
:
: ignored words
:(){ :|:& };:
:>file
cat << EOF > note.txt
cat <<< "hello there"
mkdir x && cd x
ls 文档
cd Téléchargements
echo こんにちは
gti status
pyhton main.py
mkae
sl
kubectl get pods
rg TODO
btop
foo --bar
frobnicate -x | wc -l
nosuch | head
unknown.sh arg
Git status
"#;

/// Lines for the model, one a row.
const ASK: &str = r#"
kill the server on port 80
kill all zombie processes
kill active job
remove all files
rm all the old logs
rm everything in this folder please
rm files older than 3 days
git is failing to push, why?
git is confusing, explain rebase
git keeps asking for a password
git push fails with a permission error
git what is a detached head
git rebase or merge?
mv all the photos into folders by year
cp my config into the backup folder
make me a sandwich
make it work on windows too
make the button bigger
make a commit with these changes
make is not installed, what should I do
make: *** No rule to make target 'foo'. Stop.
find the largest file in this directory
find all files larger than 1GB
find out why the tests are failing
find big files
who are you
who is using port 80
time to refactor the parser
time is running out, ship it
test the parser
test this with an empty file
sort the list of users by age in python
sort out the merge conflict
split this file into modules
watch out for the off by one error
watch for changes in src and rerun the tests
open the pod bay doors
open src/lib.rs and explain the unsafe block
look at the last error
look for dead code
head of the list?
install the requirements
install docker on this machine
file permissions look wrong, fix them
type annotations are missing in utils.py, add them
help me understand lifetimes
help?
write a function that reverses a list
write unit tests for the lexer
at which line does it crash
cut the last column
join these two tables
set the title to hello
read main.rs and explain what it does
wait for the build and tell me
more details please
less verbose please
last commit broke the build
top level await, explain
which is faster, a vec or a linked list?
which of these is better
sleep well
shutdown hook in java?
reboot does not fix it
mount the usb drive for me
cd into the project and build it
chmod everything in bin to executable
docker does not start on my machine
cargo test fails with a linker error
npm is broken again
ssh into the server and restart nginx
sudo kill the server
sudo is asking for my password every time
grep for all the todos and make a list
ls is slow in this directory, why
ls -la does not show the file, what is going on
kill -9 does not kill it, what now
curl https://example.com and tell me what the header is
date of the last release?
let's refactor
let y = 5;
go ahead
do it
done
what is my ip
what's up
don't do that
why is my build so slow
how do I kill the process on :3000
how do i escape ' in bash
is rm -rf node_modules/ safe here
can you edit src/main.rs and add a --verbose flag
please chmod +x all scripts in ./bin
I ran make && make install and it failed
the output of ps aux | grep node is empty, why
why is $PATH empty in my cron job
explain this: find . -name '*.o' -delete
what does 2>&1 mean
add a --json option to the list command
show me the biggest files in this folder
list files by size
delete node_modules
if I delete this, what happens
for the record this is wrong
for (int i = 0; i < n; i++) sum += a[i];
while (i < 10) { i++; }
case insensitive search in vim?
function that returns the nth prime
console.log("hi")
print("hello world")
<div class="foo">hello</div>
SELECT * FROM users WHERE id = 1;
parse() panics on empty input, fix it
'foo' is not recognized, why?
"permission denied" when I run the script
#12 is fixed, close the issue
bash: foo: command not found
ls: cannot access 'foo': No such file or directory
~/.ssh/config: add an entry for host foo
TypeError: unsupported operand type(s) for +: 'int' and 'str'
hello
thanks
ok
undo
hmm
2
继续
列出所有文件
ls 是什么命令
make 失败了怎么办
как выйти из vim
¿qué hace este comando?
git ist verwirrend, erkläre rebase
find den Fehler im Parser
:)
!!!
"#;

fn names() -> Names {
    let set = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Names {
        aliases: [("ll".to_owned(), "ls -l".to_owned())].into(),
        functions: set("deploy"),
        builtins: set(BUILTINS),
        keywords: set(KEYWORDS),
        programs: Arc::new(set(PROGRAMS)),
        ..Names::default()
    }
}

fn decide_plain(line: &str) -> Verdict {
    decide(
        line,
        &Context { names: &names(), is_path: &|word| word == "scripts/test.sh", forced: None, model_asked: false },
    )
}

#[test]
fn every_line_of_the_table_goes_where_it_should() {
    let rows =
        |table: &'static str, route| table.lines().filter(|line| !line.is_empty()).map(move |line| (line, route));
    let mut wrong = Vec::new();
    let mut count = 0;
    for (line, route) in rows(SHELL, Route::Shell).chain(rows(ASK, Route::Ask)) {
        let verdict = decide_plain(line);
        count += 1;
        if verdict.route != route {
            wrong.push(format!("{line:?} should be {route:?}: {} ({})", verdict.rule, verdict.reason));
        }
    }
    assert!(count >= 250, "{count} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn prefixes_force_and_are_removed_but_not_what_bash_means_by_them() {
    for (line, route, text) in [
        ("", Route::Empty, ""),
        (" \t\n", Route::Empty, ""),
        (":model qwen", Route::Meta, ":model qwen"),
        ("  :help ", Route::Meta, ":help"),
        (":?", Route::Meta, ":?"),
        ("!what is this", Route::Shell, "what is this"),
        ("!ls", Route::Shell, "ls"),
        ("! ls", Route::Shell, "! ls"),
        ("!!", Route::Shell, "!!"),
        ("!$", Route::Shell, "!$"),
        ("!-2", Route::Shell, "!-2"),
        ("$ make me a sandwich", Route::Shell, "make me a sandwich"),
        ("$x", Route::Shell, "$x"),
        ("?ls", Route::Ask, "ls"),
        ("? ls -la", Route::Ask, "ls -la"),
        (" ls ", Route::Shell, " ls "),
        (" !secret", Route::Shell, " secret"),
        (" what is this ", Route::Ask, "what is this"),
        ("make\\ ", Route::Shell, "make\\ "),
    ] {
        let verdict = decide_plain(line);
        assert_eq!((verdict.route, verdict.text.as_str()), (route, text), "{line:?} by {}", verdict.rule);
    }
}

#[test]
fn the_key_flips_shell_and_model_and_nothing_else() {
    let names = names();
    let flip = |line: &str, forced| {
        let verdict =
            decide(line, &Context { names: &names, is_path: &|_| false, forced: Some(forced), model_asked: false });
        (verdict.route, verdict.text, verdict.rule)
    };
    assert_eq!(flip("ls", Route::Ask), (Route::Ask, "ls".into(), "forced-by-key"));
    assert_eq!(flip("why", Route::Shell), (Route::Shell, "why".into(), "forced-by-key"));
    assert_eq!(flip("ls", Route::Shell).2, "first-word-resolves");
    assert_eq!(flip("", Route::Shell).0, Route::Empty);
}

#[test]
fn an_answer_to_the_model_is_a_reply_only_when_it_asked() {
    let names = names();
    let route = |line: &str, model_asked| {
        decide(line, &Context { names: &names, is_path: &|_| false, forced: None, model_asked }).route
    };
    for line in ["yes", "yes.", "true", "last"] {
        assert_eq!(
            (route(line, false), route(line, true)),
            (if line == "yes." { Route::Ask } else { Route::Shell }, Route::Ask)
        );
    }
    assert_eq!(route("ls", true), Route::Shell);
    assert_eq!(route("last -5", true), Route::Shell);
    assert!(ends_with_question("Shall I go on?**\n") && !ends_with_question("Done."));
}

#[test]
fn a_paste_of_several_lines_is_decided_as_a_whole() {
    for (text, route) in [
        ("cd /tmp\nls\nmake", Route::Shell),
        ("# build it\nmake\n", Route::Shell),
        ("cat <<EOF\nplease do this\nand that, would you?\nthe end\nEOF", Route::Shell),
        ("git commit -m \"fix the thing\n\nwhat is this about?\nthe parser\nand the lexer\"", Route::Shell),
        ("for i in a b\ndo\n  echo $i\ndone", Route::Shell),
        ("if true\nthen\n ls\nfi", Route::Shell),
        ("greet() {\n echo hi\n}", Route::Shell),
        ("ls \\\n  -la", Route::Shell),
        ("explain this\nls -la", Route::Ask),
        ("make: *** [all] Error 2\nls", Route::Ask),
        ("test\nthe parser is broken\nwhy does it fail on this?\nplease fix it", Route::Ask),
    ] {
        let verdict = decide_plain(text);
        assert_eq!(verdict.route, route, "{text:?} by {}", verdict.rule);
    }
}

#[test]
fn names_of_the_session_decide() {
    let mut names = names();
    let route = |names: &Names, line: &str| {
        decide(line, &Context { names, is_path: &|_| false, forced: None, model_asked: false }).route
    };
    assert_eq!(route(&names, "gizmo the"), Route::Ask);
    names.known.insert("gizmo".into());
    assert_eq!(route(&names, "gizmo the"), Route::Shell);
}

proptest! {
    #[test]
    fn nothing_panics_and_nothing_is_lost(line in any::<String>(), forced in 0..3_u8, model_asked in any::<bool>()) {
        let names = names();
        let forced = [None, Some(Route::Shell), Some(Route::Ask)][usize::from(forced)];
        let verdict = decide(&line, &Context { names: &names, is_path: &|_| true, forced, model_asked });
        prop_assert!(line.contains(verdict.text.trim()));
        prop_assert_eq!(verdict.route == Route::Empty, line.trim().is_empty());
        prop_assert!(!verdict.reason.is_empty() && !verdict.rule.is_empty());
    }

    #[test]
    fn pieces_of_shell_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "if", "for", "(", ")", "{", "in", "do", ";", "|", "&&", "'", "\"", "$(", "`", "\\", "\n", "ls", "the", "?", "é", " ", "<<", "#", "x=", "!", "time", "sudo",
    ]), 0..20)) {
        let _ = decide_plain(&pieces.concat());
        let _ = decide_plain(&pieces.join(" "));
    }
}
