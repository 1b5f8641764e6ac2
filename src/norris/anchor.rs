//! The texts with which a run asks its models: each question is new and carries the known facts, so that no task inherits a long
//! conversation.

use super::{CheckResult, Run, TaskState};

/// Limit on the characters of an executor's last words that later tasks see; some 400 tokens.
const SAID_CHARS_MAX: usize = 1_600;
/// Limit on the characters of all last words in a question, of which the newest are used. A small model's window must hold the
/// task's work, too.
const ALL_SAID_CHARS_MAX: usize = 4 * SAID_CHARS_MAX;
/// Limit on the characters of the outputs of failing checks in a question.
const TAIL_CHARS_MAX: usize = 3_000;
/// Limit on the characters of a task in the list of tasks; the current task is shown in full.
const LISTED_CHARS_MAX: usize = 120;
/// Limit on the listed calls of an interrupted attempt.
const CALLS_SHOWN_MAX: usize = 20;

/// Returns the question to the planner; without outputs of commands if the planner is more remote than the executor.
#[must_use]
pub fn plan_question(run: &Run, shows_outputs: bool) -> String {
    let Some(goal) = &run.goal else { return String::new() };
    let mut text = format!(
        "Plan the work for this goal. Don't do it: another model works through the plan, task by task, and each task \
         begins with an empty conversation.\n\nGOAL: {}\n",
        goal.text
    );
    checks(&mut text, run, shows_outputs);
    if run.needs_plan {
        text.push_str("\nAn earlier plan didn't reach the goal. Its tasks:\n");
        tasks(&mut text, run, None);
    }
    notes(&mut text, run);
    if goal.checks.is_empty() && goal.asks_go {
        text.push_str(
            "\nNo command decides yet whether the goal is reached. Propose one or two as lines `CHECK: command`: such a command \
             ends with status 0 only when the goal is reached, and it fails now.\n",
        );
    }
    if run.lacks_tasks() {
        text.push_str("\nYour last plan had no line that begins with `TASK: `, so it can't be read.\n");
    }
    text.push_str(
        "\nWrite the tasks as lines `TASK: what is to be done`, in order, as few as possible. Each must be clear without \
         the others.",
    );
    text
}

/// Returns the question for a task: goal, checks, tasks, failures, notes of the person, rules.
#[must_use]
pub fn anchor(run: &Run, task: usize) -> String {
    let Some(goal) = &run.goal else { return String::new() };
    let mut text = format!("You work on this goal, without anybody watching.\n\nGOAL: {}\n", goal.text);
    checks(&mut text, run, true);
    text.push_str("\nTasks:\n");
    tasks(&mut text, run, Some(task));
    last_words(&mut text, run, task);
    if run.was_cut_off {
        text.push_str("\nYour last attempt at this task was cut off. It made these calls:\n");
        for call in run.attempt.iter().take(CALLS_SHOWN_MAX) {
            let end = match call.success {
                Some(true) => "done",
                Some(false) => "failed",
                None => "unknown: it may have happened or not; look before you repeat it",
            };
            text.push_str(&format!("- {} ({end})\n", call.intent));
        }
    }
    for result in &run.decided {
        text.push_str(&format!("\n{result}\n"));
    }
    notes(&mut text, run);
    let Some(now) = run.tasks.get(task) else { return text };
    text.push_str(&format!(
        "\nRules: do only this task. Don't change the checks or what they read. No one can answer questions. When the \
         task is done, say in a few words what you did.\n\nTASK {}: {}",
        task + 1,
        now.text
    ));
    text
}

fn checks(text: &mut String, run: &Run, shows_outputs: bool) {
    let Some(goal) = &run.goal else { return };
    if goal.checks.is_empty() {
        return;
    }
    let results = if run.last_results.is_empty() { &run.baseline } else { &run.last_results };
    text.push_str("\nThe goal is reached when these commands end with status 0:\n");
    for (number, command) in goal.checks.iter().enumerate() {
        let now = results.get(number).map_or_else(String::new, |result| format!(" (now: {})", words_of(result)));
        text.push_str(&format!("- `{command}`{now}\n"));
    }
    let failing = results.iter().filter(|result| shows_outputs && !result.has_passed() && !result.tail.is_empty());
    let most = TAIL_CHARS_MAX / failing.clone().count().max(1);
    for result in failing {
        text.push_str(&format!("The end of the output of a failing one:\n{}\n", last_chars(&result.tail, most)));
    }
}

fn words_of(result: &CheckResult) -> String {
    match result.status {
        Some(0) => "passes".to_owned(),
        Some(status) => format!("fails with status {status}"),
        None => "didn't end".to_owned(),
    }
}

fn last_chars(text: &str, most: usize) -> &str {
    let skip = text.chars().count().saturating_sub(most);
    text.char_indices().nth(skip).map_or("", |(at, _)| &text[at..])
}

fn tasks(text: &mut String, run: &Run, now: Option<usize>) {
    for (number, task) in run.tasks.iter().enumerate() {
        let mark = match task.state {
            _ if now == Some(number) => "now",
            TaskState::Checked | TaskState::Claimed => "done",
            TaskState::Dropped => continue,
            TaskState::Open if task.attempts > 0 => "failed",
            TaskState::Open => "later",
        };
        let (shown, dots) = match task.text.char_indices().nth(LISTED_CHARS_MAX) {
            Some((at, _)) => (&task.text[..at], "…"),
            None => (task.text.as_str(), ""),
        };
        text.push_str(&format!("{}. [{mark}] {shown}{dots}\n", number + 1));
    }
}

/// Adds the last words about this task, if it is tried again, and about earlier ones: the newest of these that fit, in order.
fn last_words(text: &mut String, run: &Run, now: usize) {
    let shown = |number: usize| {
        let words: String = run.tasks.get(number)?.last_words.chars().take(SAID_CHARS_MAX).collect();
        (!words.is_empty()).then_some((number, words))
    };
    let mut left = ALL_SAID_CHARS_MAX;
    let newest = (0..run.tasks.len()).rev().filter(|number| *number != now);
    let mut fitting: Vec<(usize, String)> = std::iter::once(now)
        .chain(newest)
        .filter_map(shown)
        .take_while(|(_, words)| {
            let fits = words.chars().count() <= left;
            left = left.saturating_sub(words.chars().count());
            fits
        })
        .collect();
    fitting.sort_by_key(|(number, _)| *number);
    for (number, words) in fitting {
        let what = if number == now { "The last attempt at this task, after which a check failed" } else { "Task" };
        text.push_str(&format!("\n{what} {}: {words}\n", number + 1));
    }
}

fn notes(text: &mut String, run: &Run) {
    for note in &run.notes {
        text.push_str(&format!("\nThe person says: {note}\n"));
    }
}
