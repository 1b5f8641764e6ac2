//! The texts that a run asks with: each question is new and carries what is known, so that no task inherits a long talk.

use super::{CheckResult, Run, TaskState};

/// Characters of an executor's last words that later tasks see; some 400 tokens.
const SAID_CHARS_MAX: usize = 1_600;
/// Characters of a check's output in a question.
const TAIL_CHARS_MAX: usize = 3_000;
/// Calls of a cut off attempt that are listed.
const CALLS_SHOWN_MAX: usize = 20;

/// Returns the question to the planner; without outputs of commands for a planner that is farther away than the executor.
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
        "\nRules: do only this task. Don't change the checks or what they read. Nobody can answer questions. When the task is \
         done, say in a few words what you did.\n\nTASK {}: {}",
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
    for result in results.iter().filter(|result| shows_outputs && !result.has_passed() && !result.tail.is_empty()) {
        text.push_str(&format!("The end of the output of a failing one:\n{}\n", last_chars(&result.tail)));
    }
}

fn words_of(result: &CheckResult) -> String {
    match result.status {
        Some(0) => "passes".to_owned(),
        Some(status) => format!("fails with status {status}"),
        None => "didn't end".to_owned(),
    }
}

fn last_chars(text: &str) -> &str {
    let skip = text.chars().count().saturating_sub(TAIL_CHARS_MAX);
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
        text.push_str(&format!("{}. [{mark}] {}\n", number + 1, task.text));
    }
}

/// The last words about earlier tasks, and about this one if it is tried again.
fn last_words(text: &mut String, run: &Run, now: usize) {
    for (number, task) in run.tasks.iter().enumerate().filter(|(_, task)| !task.last_words.is_empty()) {
        let words: String = task.last_words.chars().take(SAID_CHARS_MAX).collect();
        let what = if number == now { "The last attempt at this task, after which a check failed" } else { "Task" };
        text.push_str(&format!("\n{what} {}: {words}\n", number + 1));
    }
}

fn notes(text: &mut String, run: &Run) {
    for note in &run.notes {
        text.push_str(&format!("\nThe person says: {note}\n"));
    }
}
