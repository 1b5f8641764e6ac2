//! The process table, read from `/proc`. Must not know terminals or tests.

use std::fs;

/// One process, as `/proc/PID/stat` describes it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The name of its executable, cut at 15 bytes by the kernel.
    pub name: String,
    /// `R`, `S`, `T` (stopped), `Z` and so on.
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in ticks since boot: with the pid, the identity of a process.
    pub started_ticks: u64,
}

/// Reads one process, or `None` once it has gone.
pub fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses and blanks.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_string();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        pid,
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Reads the whole table.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Everything below `root`, parents before children, `root` not included.
pub fn descendants(root: i32) -> Vec<Process> {
    let table = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in table.iter().filter(|process| process.parent == parent) {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// Draws the tree below `root`, for a failure's report.
pub fn picture(root: i32) -> String {
    fn draw(table: &[Process], process: &Process, depth: usize, text: &mut String) {
        let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let Process { pid, name, state, group, session, .. } = process;
        text.push_str(&format!(
            "{:indent$}{pid} {name} {state} group {group} session {session}: {command}\n",
            "",
            indent = depth * 2
        ));
        for child in table.iter().filter(|child| child.parent == *pid) {
            draw(table, child, depth + 1, text);
        }
    }
    let table = all();
    let mut text = String::new();
    match table.iter().find(|process| process.pid == root) {
        Some(process) => draw(&table, process, 0, &mut text),
        None => text.push_str(&format!("{root} has gone\n")),
    }
    text
}
