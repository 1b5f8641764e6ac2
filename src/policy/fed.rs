//! Code of other languages that runs what comes from elsewhere: from its input, over the network, from a program that
//! fetches.

use super::code::{Piece, RUN, folded, pieces, says_what_it_runs};
use super::text;

/// Ways to a connection as such, which a program can be tied to.
const CONNECTS: &[&str] = &["socket", "TCPSocket", "fsockopen", "net.connect", "Socket", "createConnection", "/inet/"];
/// Further ways, which programs also take that start others for their own ends.
const LISTENS: &[&str] = &[
    "require(\"net\")",
    "require('net')",
    "node:net",
    "from 'net'",
    "from \"net\"",
    "Deno.connect",
    "Deno.listen",
    "Bun.connect",
];
/// Marks of a shell that is started, or of a line that is run as it comes.
const TIED_SHELLS: &[&str] = &[
    "dup2",
    "`#{",
    "`$",
    "`sh ",
    "/bin/sh",
    "/bin/bash",
    "pty.spawn",
    "sh -i",
    "cmd.exe",
    "getline",
    "\"sh\"",
    "'sh'",
    "\"bash\"",
    "'bash'",
];
/// Names of what fetches over the network.
const NET: &str =
    " urlopen urlretrieve requests urllib httpx recv fetch URI curl_exec file_get_contents LWP http https get_url ";
/// Calls that hand a shell a line.
const SHELLS: &str = " system popen execSync shell_exec passthru getoutput getstatusoutput execute os.execute qx ";

/// Whether code runs what it reads from its input.
pub(super) fn runs_its_input(code: &str, language: &str) -> bool {
    let pieces = pieces(code, language);
    let has = |list: &str| pieces.iter().any(|piece| matches!(piece, Piece::Name(name) if text::listed(list, name)));
    has(RUN)
        && has(" stdin STDIN $_ gets ARGF readline readlines input fileinput ")
        && !says_what_it_runs(code, language)
}

/// Whether a call that runs something is handed what comes over the network.
pub(super) fn runs_what_comes(code: &str, language: &str) -> bool {
    let pieces = pieces(code, language);
    let comes = |piece: &Piece| matches!(piece, Piece::Name(name) if text::listed(NET, name));
    pieces.windows(2).enumerate().any(|(at, pair)| {
        let [Piece::Name(name), Piece::Sign('(')] = pair else { return false };
        if !text::listed(RUN, name) {
            return false;
        }
        let mut depth = 0_usize;
        let inside = pieces[at + 1..].iter().take_while(|piece| {
            match piece {
                Piece::Sign('(') => depth += 1,
                Piece::Sign(')') => depth -= 1,
                _ => {}
            }
            depth > 0
        });
        inside.into_iter().any(comes)
    })
}

/// Whether code ties a shell to the network; `runs` where it starts programs at all.
pub(super) fn ties_a_shell(code: &str, runs: bool) -> bool {
    let has_any = |words: &[&str]| words.iter().any(|word| code.contains(word));
    let starts = runs && has_any(&["subprocess", "child_process", "exec", "popen"]);
    has_any(TIED_SHELLS) && (has_any(CONNECTS) || has_any(LISTENS)) || starts && has_any(CONNECTS)
}

/// Whether code hands a shell something that isn't a string as it stands: what it read, or what another program printed.
pub(super) fn runs_what_it_gets(code: &str, language: &str, home: &str) -> bool {
    let pieces = folded(pieces(code, language), home);
    pieces.iter().enumerate().any(|(at, piece)| {
        let Piece::Name(name) = piece else { return false };
        let handed = match &pieces[at + 1..] {
            [Piece::Sign('('), rest @ ..] => rest,
            rest => rest,
        };
        text::listed(SHELLS, name) && matches!(handed.first(), Some(Piece::Name(_) | Piece::Sign('$' | '@' | '<')))
    })
}
