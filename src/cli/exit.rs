//! Exit statuses. From 6 on a status has a meaning for runs and another one for sessions or receipts. The table is the documentation,
//! too.

use std::process::ExitCode;

use super::out::{outln, report, shown_json};
use crate::proto::{Failure, FailureKind};

/// Done.
pub(super) const DONE: u8 = 0;
/// Failed, or the answer is no.
pub(super) const FAILED: u8 = 1;
/// Called wrongly.
pub(super) const USAGE: u8 = 2;
/// Refused.
pub(super) const REFUSED: u8 = 3;
/// No model can answer.
pub(super) const NO_MODEL: u8 = 4;
/// A budget forbids it.
pub(super) const BUDGET: u8 = 5;
/// Both sides changed the same; nothing has moved.
pub(super) const CONFLICTS: u8 = 6;
/// A run ended, and no check shows that its goal is reached.
pub(super) const NOT_VERIFIED: u8 = 6;
/// A run waits for a person.
pub(super) const HALTED: u8 = 7;
/// A run made no progress.
pub(super) const STUCK: u8 = 8;
/// There is no git repository that sessions can use.
pub(super) const NO_REPOSITORY: u8 = 7;
/// The emergency stop paused a run.
pub(super) const ESTOP: u8 = 9;
/// The receipts hold, but the last line is torn.
pub(super) const TORN: u8 = 8;
/// The receipts hold, but their end is missing or can't be confirmed.
pub(super) const UNCONFIRMED: u8 = 9;
/// The steps of a procedure are done, and some failed that were allowed to.
pub(super) const PARTLY: u8 = 10;
/// Interrupted: 128 and the number of the signal.
pub(super) const INTERRUPTED: u8 = 130;

/// Every status with its meaning.
pub const TABLE: [(u8, &str); 12] = [
    (DONE, "done"),
    (
        FAILED,
        "failed, or the answer is no: no answer came or none fits the schema, a tool failed or isn't known, nothing was found, a check \
         found something wrong, tools are stopped, a receipt is broken, standard output can't be written",
    ),
    (
        USAGE,
        "called wrongly: an option, name, number or file that doesn't exist, a config that can't be read, or nothing to undo, redo or show",
    ),
    (REFUSED, "refused: a rule, a person, the emergency stop, or no one could be asked"),
    (NO_MODEL, "no model is set up, or none is chosen"),
    (BUDGET, "the request could exceed a budget, or a run has used one up"),
    (
        NOT_VERIFIED,
        "a run ended, and no check shows that its goal is reached; of session merge: both sides changed the same lines, and nothing was changed",
    ),
    (HALTED, "a run waits for a person's yes; of session: there is no git repository that can be used"),
    (TORN, "a run made no progress; of receipt verify: every receipt holds, but the last line is torn"),
    (
        UNCONFIRMED,
        "the emergency stop paused a run; of receipt verify: every receipt holds, but the end of the log is missing or can't be confirmed",
    ),
    (PARTLY, "a procedure is done, but steps failed that were allowed to"),
    (INTERRUPTED, "interrupted"),
];

/// The statuses of a run towards a goal, or of a procedure, in one paragraph, for `--help`.
pub(super) fn run_statuses(of_procedures: bool) -> String {
    let all = [DONE, FAILED, USAGE, REFUSED, NO_MODEL, BUDGET, NOT_VERIFIED, HALTED, STUCK, ESTOP, PARTLY, INTERRUPTED];
    let of_runs: Vec<u8> = all.into_iter().filter(|status| of_procedures || *status != PARTLY).collect();
    let words = |status: u8| {
        let meaning = TABLE.iter().find(|(known, _)| *known == status).map_or("", |(_, meaning)| meaning);
        format!("{status} {}", meaning.split([';', ':']).next().unwrap_or(meaning))
    };
    format!("Exit status: {}.", of_runs.into_iter().map(words).collect::<Vec<_>>().join(", "))
}

/// The status of a command that could not be carried out.
pub(super) fn of(failure: &Failure) -> u8 {
    match failure.kind {
        FailureKind::User | FailureKind::Config => USAGE,
        kind => of_answer(kind),
    }
}

/// The status of a question that was not answered: a key that a server refuses, say, isn't a mistake in the call.
pub(super) fn of_answer(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::NoModel => NO_MODEL,
        FailureKind::Refused => REFUSED,
        FailureKind::Budget => BUDGET,
        FailureKind::User
        | FailureKind::Config
        | FailureKind::Unreachable
        | FailureKind::Unavailable
        | FailureKind::Internal => FAILED,
    }
}

/// Reports a failure and returns its status.
pub(super) fn failed(failure: &Failure) -> ExitCode {
    report(failure);
    ExitCode::from(of(failure))
}

/// Prints the last line of a run as JSON, for programs.
pub(super) fn run_line(run: Option<i64>, end: &str, exit: u8, why: &str) {
    let line = serde_json::json!({"event": "run", "run": run, "end": end, "exit": exit, "why": why});
    outln!("{}", shown_json(line.to_string()));
}

/// Reports why a run couldn't begin or go on, and returns its status.
pub(super) fn run_failed(failure: &Failure, run: Option<i64>, is_json: bool) -> u8 {
    report(failure);
    let status = of(failure);
    if is_json {
        run_line(run, "failed", status, &failure.message);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipts::Verdict;

    #[test]
    fn receipts_end_with_statuses_of_the_table() {
        let verdicts = [
            (Verdict::Whole, DONE),
            (Verdict::Broken { receipt: 1, why: String::new() }, FAILED),
            (Verdict::Torn { bytes: 1 }, TORN),
            (Verdict::Cut { why: String::new(), is_other_log: false }, UNCONFIRMED),
            (Verdict::Unconfirmed { why: String::new() }, UNCONFIRMED),
        ];
        for (verdict, status) in verdicts {
            assert_eq!(verdict.exit_code(), status, "{verdict:?}");
        }
    }

    #[test]
    fn each_status_has_one_meaning() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
