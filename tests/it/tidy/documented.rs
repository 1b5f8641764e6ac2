//! The hand-written documents agree with the program: the README has the two commands for a fresh machine, ARCHITECTURE.md has
//! the table of rooms, docs/decisions has every dependency, links lead to existing files, and tables are complete. Everything
//! that a user can set, type or pass is generated (see `generated`).

use std::fs;

use super::{ROOMS, hold, root};

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// The text of a section, without its heading.
fn section<'a>(readme: &'a str, heading: &str) -> &'a str {
    let (_, rest) = readme.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split_once("\n## ").map_or(rest, |(body, _)| body)
}

/// The rows of a section's first table, below its head, cell by cell.
fn table(section: &str) -> Vec<Vec<String>> {
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|line| {
            line.trim_start_matches('|')
                .trim_end()
                .trim_end_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// The lines of a section's first block of code.
fn code_block(section: &str) -> Vec<&str> {
    section.lines().skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| *line != "```").collect()
}

#[test]
fn a_fresh_machine_needs_two_commands() {
    assert_eq!(code_block(section(&readme(), "Run it")), ["cargo run --release", "cargo test"]);
    // The picture must exist, too.
    let readme = readme();
    let picture = readme.split_once("](").and_then(|(_, rest)| rest.split_once(')')).expect("a picture").0;
    assert!(root().join(picture).is_file(), "{picture}");
}

/// The documents that a newcomer reads first, each with its maximum number of lines.
const SHORT: &[(&str, usize)] = &[("README.md", 240), ("ARCHITECTURE.md", 200)];

#[test]
fn first_documents_are_short() {
    let long = SHORT.iter().filter_map(|(name, lines_max)| {
        let lines = fs::read_to_string(root().join(name)).expect("a document").lines().count();
        (lines > *lines_max).then(|| format!("{name} has {lines} lines, {lines_max} at most; docs/ has room"))
    });
    hold("documents that are too long", &long.collect::<Vec<_>>());
}

#[test]
fn files_of_the_debian_package_are_there() {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = text.parse().expect("a manifest");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets");
    let sources = assets.iter().filter_map(|asset| asset[0].as_str()).filter(|source| !source.starts_with("target/"));
    let is_there = |source: &str| match source.rsplit_once('/').filter(|(_, name)| name.contains('*')) {
        Some((folder, _)) => root().join(folder).is_dir(),
        None => root().join(source).is_file(),
    };
    let all: Vec<String> = sources.map(str::to_owned).collect();
    assert!(all.len() >= 8, "{all:?}");
    hold(
        "assets of the package that aren't there",
        &all.into_iter().filter(|source| !is_there(source)).collect::<Vec<_>>(),
    );
}

#[test]
fn the_minimum_rust_is_the_manifests() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a rust-version");
    let told = section(&readme(), "Run it").contains(&format!("({} or newer)", version.trim_matches('"')));
    assert!(told, "the README names another Rust than {version}");
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md")
}

/// The words between backticks.
fn code_words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect()
}

#[test]
fn the_architecture_has_the_table_of_rooms() {
    let text = architecture();
    let rows = table(section(&text, "Rooms, by floor"));
    let told: Vec<(String, Vec<&str>)> = rows.iter().map(|row| (row[0].clone(), code_words(&row[1]))).collect();
    let rooms: Vec<(String, Vec<&str>)> = ROOMS.iter().map(|room| (room.floor.to_string(), vec![room.name])).collect();
    assert_eq!(told, rooms);
    for (row, room) in rows.iter().zip(ROOMS) {
        let mut allowed: Vec<&str> =
            room.may_import.iter().copied().filter(|name| !matches!(*name, "base" | "proto")).collect();
        let mut told = code_words(&row[4]);
        if row[4] == "everything below" {
            let below = ROOMS.iter().filter(|other| other.floor < room.floor).map(|other| other.name);
            told = below.filter(|name| !matches!(*name, "base" | "proto")).collect();
        }
        allowed.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, allowed, "{}", room.name);
    }
}

#[test]
fn each_page_of_decisions_belongs_to_a_room() {
    let pages = fs::read_dir(root().join("docs/decisions")).expect("the decisions");
    let names = pages.map(|entry| entry.expect("a page").file_name().to_string_lossy().into_owned());
    let is_known = |name: &str| {
        let page = name.strip_suffix(".md");
        page.is_some_and(|page| {
            matches!(
                page,
                "README"
                    | "dependencies"
                    | "house-review"
                    | "shell-review"
                    | "security-review"
                    | "wall-acceptance"
                    | "mcp-acceptance"
                    | "gateway-acceptance"
                    | "sessions-acceptance"
            ) || ROOMS.iter().any(|room| room.name == page)
        })
    };
    hold("pages of docs/decisions without a room", &names.filter(|name| !is_known(name)).collect::<Vec<_>>());
}

#[test]
fn each_dependency_has_its_purpose() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let text = fs::read_to_string(root().join("docs/decisions/dependencies.md")).expect("the dependencies");
    let rows = table(&text);
    let mut told: Vec<&str> = rows.iter().flat_map(|row| code_words(&row[0])).collect();
    let mut needed: Vec<&str> = Vec::new();
    for part in manifest.split("\n[").filter(|part| part.starts_with("dependencies]") || part.starts_with("dev-dep")) {
        needed.extend(part.lines().skip(1).filter_map(|line| line.split_once(" =")).map(|(name, _)| name));
    }
    told.sort_unstable();
    needed.sort_unstable();
    assert!(needed.len() > 10, "{needed:?}");
    assert_eq!(told, needed);
}

/// Every Markdown document of the project, with its path.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md"), root().join("ARCHITECTURE.md"), root().join("benches/README.md")];
    super::collect(&root().join("docs"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|end| end == "md"));
    let name = |path: &std::path::Path| path.strip_prefix(root()).expect("a file of the project").display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("a document"))).collect()
}

/// A document without its blocks of code and its spans of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The targets of the links of a document.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors that the headings of a document make.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let slug = |heading: &str| -> String {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// Rows of tables that have another number of cells than the table's head, or that occur twice.
fn torn_rows(text: &str) -> Vec<String> {
    let cells = |line: &str| line.replace("\\|", "").trim_end().trim_matches('|').split('|').count();
    let mut torn = Vec::new();
    let mut table: Vec<&str> = Vec::new();
    for line in text.lines() {
        if !line.starts_with('|') {
            table.clear();
        } else {
            let is_torn = table.first().is_some_and(|head| cells(head) != cells(line));
            if is_torn || table.iter().skip(2).any(|row| *row == line) {
                torn.push(line.to_owned());
            }
            table.push(line);
        }
    }
    torn
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut broken = Vec::new();
    for (name, text) in &documents {
        let folder = root().join(name).parent().expect("a folder").to_owned();
        for link in links(text).iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { root().join(name) } else { folder.join(file) };
            let Ok(target) = path.canonicalize() else {
                broken.push(format!("{name}: {link}"));
                continue;
            };
            let found = documents.iter().find(|(other, _)| root().join(other) == target);
            if !anchor.is_empty() && !found.is_some_and(|(_, text)| anchors(text).iter().any(|it| it == anchor)) {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    hold("links that lead nowhere", &broken);
}

/// The paths of a document's code that begin with a room, such as `room::file::Type`.
fn paths_of_rooms(text: &str) -> Vec<Vec<&str>> {
    let words = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let paths = words.map(|word| word.split("::").collect::<Vec<_>>());
    let is_path = |path: &Vec<&str>| path.len() > 1 && path.iter().all(|name| super::source::is_name(name));
    paths.filter(|path| is_path(path) && ROOMS.iter().any(|room| room.name == path[0])).collect()
}

/// Commands of ours that a text names although they don't exist: in a hint, or in a document's code.
fn wrong_commands(name: &str, text: &str) -> Vec<String> {
    let commands = reedclaw::cli::command::definition();
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_lowercase() || it == b'-');
    let mut wrong = Vec::new();
    for (_, rest) in text.match_indices("reedclaw ").map(|(at, it)| text[at..].split_at(it.len())) {
        let mut words = rest.split(|it: char| !(it.is_ascii_alphanumeric() || it == '-')).take(2).filter(is_word);
        // Prose continues with other words than a command does.
        let Some(first) = words.next().and_then(|word| commands.find_subcommand(word)) else { continue };
        let is_told = rest[first.get_name().len()..].starts_with(' ');
        let Some(second) = words.next().filter(|_| is_told && first.has_subcommands()) else { continue };
        if !second.starts_with('-')
            && first.find_subcommand(second).is_none()
            && first.get_positionals().next().is_none()
            && !JOINING.contains(&second)
        {
            wrong.push(format!("{name}: reedclaw {} {second}", first.get_name()));
        }
    }
    wrong
}

/// Words that follow the name of a command in a sentence.
const JOINING: [&str; 10] = ["makes", "and", "or", "in", "as", "is", "does", "lists", "shows", "has"];

#[test]
fn commands_that_texts_name_exist() {
    let mut wrong: Vec<String> = Vec::new();
    for (name, text) in documents() {
        wrong.extend(wrong_commands(&name, &text));
    }
    for file in super::files("src") {
        wrong.extend(wrong_commands(&file.path, &file.text));
    }
    hold("commands that texts name and that don't exist", &wrong);
    assert_eq!(wrong_commands("", "reedclaw config check shows it"), [": reedclaw config check"]);
    assert_eq!(
        wrong_commands("", "reedclaw config validate, reedclaw config lists, reedclaw is"),
        Vec::<String>::new()
    );
}

#[test]
fn names_in_the_documents_are_in_the_code() {
    let mut files = super::files("src");
    files.extend(super::files("tests"));
    let in_room = |room: &str, name: &str| {
        let is_of_room = |path: &str| path.split(['/', '.']).nth(1) == Some(room) || path.starts_with("tests/it/");
        let is_file = |path: &str| path.split(['/', '.']).any(|part| part == name);
        let has_name = |file: &super::SourceFile| file.tokens.iter().any(|token| token.text == name);
        files.iter().any(|file| is_of_room(&file.path) && (is_file(&file.path) || has_name(file)))
    };
    let mut missing = Vec::new();
    for (document, text) in documents() {
        for path in paths_of_rooms(&text) {
            if let Some(name) = path[1..].iter().find(|name| !in_room(path[0], name)) {
                missing.push(format!("{document}: {} has no {name}", path.join("::")));
            }
        }
    }
    hold("names of the code that the documents have and the code hasn't", &missing);
}

#[test]
fn tables_of_the_documents_are_whole() {
    let documents = documents();
    let torn =
        documents.iter().flat_map(|(name, text)| torn_rows(text).into_iter().map(move |row| format!("{name}: {row}")));
    hold("rows with too few or too many cells, or twice in one table", &torn.collect::<Vec<_>>());
}

#[test]
fn the_readers_of_documents_find_what_is_missing() {
    let text = "# T\n\n## One\n\nx\n\n```sh\nfirst\nsecond\n```\n\n| a | b |\n|---|---|\n| `k` | v, w |\n| `:q N` | |\n\n\
                | c |\n|---|\n| other |\n\n## Two\n| h |\n|---|\n| `z` |\n";
    assert_eq!(table(section(text, "One")), [["`k`", "v, w"], ["`:q N`", ""]]);
    assert_eq!(table(section(text, "Two")), [["`z`"]]);
    assert_eq!(code_block(section(text, "One")), ["first", "second"]);
    let broken = "[a](docs/none.md) [b](#two) [c](https://example.com) `[d](none.md)`\n\n| a | b |\n|---|---|\n| x |\n";
    assert_eq!(links(broken), ["docs/none.md", "#two", "https://example.com"]);
    assert_eq!(anchors("# One `two`, three\n## How to add\n"), ["one-two-three", "how-to-add"]);
    assert_eq!(torn_rows(broken), ["| x |"]);
    assert_eq!(paths_of_rooms("`repl::act` and `Repl::run`, `repl::{a}`, `cli`"), [["repl", "act"]]);
    assert_eq!(torn_rows("| a | b |\n|---|---|\n| `x \\| y` | z |\n| x | y |\n| x | y |\n"), ["| x | y |"]);
}
