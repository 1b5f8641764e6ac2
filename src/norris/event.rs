//! The events of a run as they are stored: plain data, read again by every later version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A goal and the bounds of the work for it: frozen with the first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goal {
    /// The person's words.
    pub text: String,
    /// The person's commands that decide whether the goal is reached.
    pub checks: Vec<String>,
    /// Its limits.
    pub limits: Limits,
    /// The calls that run without a question.
    pub grant: Grant,
    /// Files that are never changed without a question, as patterns.
    pub protect: Vec<String>,
    /// `true` if a changed input of a check doesn't count as tampering.
    pub allow_check_edits: bool,
    /// The directory that it works in.
    pub workspace: String,
    /// The model that plans; if empty, the executor.
    pub planner: String,
    /// The model that works; if empty, the model that answers.
    pub executor: String,
    /// The model that gives a second opinion on risky calls; if empty, none.
    pub reviewer: String,
    /// `true` if the executor may delegate side work to helpers.
    pub delegates: bool,
    /// The id of the git session that it works on; if empty, it works on the workspace itself.
    pub session: String,
    /// `true` if a person sees the first plan before anything is done.
    pub asks_go: bool,
}

/// The maximum dollars and minutes of a limit.
const AMOUNTS_MAX: (f64, f64) = (1_000_000.0, 100_000.0);

impl Goal {
    /// The reason why the goal can't be worked on, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.checks.len() > super::CHECKS_MAX {
            return Some(format!("a goal has at most {} checks", super::CHECKS_MAX));
        }
        let runs_nothing =
            |check: &String| check.lines().all(|line| matches!(line.trim().chars().next(), None | Some('#')));
        // Such a check would always end with status 0.
        if self.checks.iter().any(runs_nothing) {
            return Some("a check is empty: it must be a command".to_owned());
        }
        for pattern in self.grant.writes.iter().chain(&self.protect) {
            if let Err(error) = globset::Glob::new(pattern) {
                return Some(format!("{pattern:?} is no pattern of paths: {}", error.kind()));
            }
        }
        self.limits.problem()
    }
}

impl Limits {
    /// The reason why the limits are invalid, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let amounts = [("dollars", self.usd, AMOUNTS_MAX.0), ("minutes", self.minutes, AMOUNTS_MAX.1)];
        let wrong = |(_, amount, most): &(_, Option<f64>, f64)| amount.is_some_and(|it| !(0.0..=*most).contains(&it));
        let (name, _, most) = amounts.into_iter().find(wrong)?;
        Some(format!("a limit in {name} is a number between 0 and {most}"))
    }
}

/// The limits of a run. An absent limit doesn't apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Dollars.
    pub usd: Option<f64>,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Minutes of work.
    pub minutes: Option<f64>,
    /// Limit on questions to models.
    pub steps: Option<u64>,
    /// Limit on tool calls.
    pub calls: Option<u64>,
    /// Limit on the attempts of a task before a new plan.
    pub attempts: u32,
    /// Limit on new plans.
    pub replans: u32,
    /// Limit on attempts without progress before a new plan.
    pub stall: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            usd: Some(1.0),
            tokens: Some(1_000_000),
            minutes: Some(60.0),
            steps: Some(20),
            calls: Some(200),
            attempts: 3,
            replans: 2,
            stall: 3,
        }
    }
}

/// The calls that a person allowed for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grant {
    /// Paths below the workspace that may be changed, as patterns.
    pub writes: Vec<String>,
    /// Command lines that may run, each exactly.
    pub commands: Vec<String>,
}

/// A call that exceeded the grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Halt {
    /// The fingerprint of exactly this call.
    pub digest: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, JSON.
    pub arguments: String,
    /// The call in one line.
    pub intent: String,
    /// Its risk.
    pub risk: String,
    /// The reasons why a person is asked.
    pub reasons: Vec<String>,
    /// The proposed change.
    pub preview: String,
    /// The conversation in which it was made.
    pub conversation: Option<i64>,
}

/// The second run of a passed check, with the files that may be its tests restored to their state at the start of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// The restored files.
    pub files: Vec<String>,
    /// Its exit status; none if it couldn't run with them, or was ended from outside.
    pub status: Option<i32>,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A person began the run.
    Began {
        /// The goal.
        goal: Goal,
    },
    /// A process takes over the run.
    Entered {
        /// The process.
        pid: u32,
    },
    /// A plan is requested.
    Planning {
        /// The model.
        model: String,
        /// The conversation.
        conversation: Option<i64>,
    },
    /// The planner answered.
    Planned {
        /// Its words.
        text: String,
    },
    /// Work on a task is requested.
    Working {
        /// Its number, from 0.
        task: usize,
        /// The model.
        model: String,
        /// The conversation.
        conversation: Option<i64>,
    },
    /// A tool is called.
    Calling {
        /// The call in one line.
        intent: String,
    },
    /// The call is over.
    Called {
        /// `true` if it succeeded.
        success: bool,
    },
    /// A helper begins side work, which is a question of its own.
    Delegated,
    /// The executor reports that the task is done.
    Worked {
        /// Its words.
        text: String,
        /// The state of the files.
        tree: String,
    },
    /// A question ended without an answer.
    Broke {
        /// The reason.
        why: String,
        /// The limit that was reached, if one was.
        limit: Option<String>,
        /// The model repeated itself.
        #[serde(default)]
        is_loop: bool,
    },
    /// A check has ended.
    Checked {
        /// Its number, from 0.
        check: usize,
        /// Its exit status.
        status: Option<i32>,
        /// The end of its output.
        tail: String,
        /// Milliseconds.
        took_ms: u64,
        /// The second run, if it passed and files that may be its tests have changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<Again>,
    },
    /// The digests of the files that the checks depend on; later digests are compared with the first ones.
    Inputs {
        /// By path.
        digests: BTreeMap<String, String>,
        /// The tree of the git session at that time; empty without one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        base: String,
    },
    /// The digests of files that the checks only reach, through their scripts or because the files may contain tests: these files
    /// aren't protected. Later digests are compared with the first ones.
    Reached {
        /// By path.
        digests: BTreeMap<String, String>,
        /// The reasons why even this list is incomplete.
        unseen: Vec<String>,
    },
    /// A person has seen the plan and starts the work.
    Go {
        /// Checks that the plan proposed and the person accepted.
        checks: Vec<String>,
    },
    /// A call needs a person.
    Halted {
        /// The call.
        halt: Halt,
    },
    /// A person approved exactly this call.
    Approved {
        /// Its fingerprint.
        digest: String,
    },
    /// A person refused the call.
    Denied {
        /// The call's fingerprint.
        digest: String,
        /// Their words.
        why: String,
    },
    /// The approved call is about to run.
    RunsHalted {
        /// Its fingerprint.
        digest: String,
    },
    /// The approved call is over.
    RanHalted {
        /// Its result in words.
        result: String,
        /// The undo steps that it recorded.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<u64>,
    },
    /// A note of the person for the next question.
    Said {
        /// The note.
        text: String,
    },
    /// The run waits until it is resumed.
    Paused {
        /// The reason.
        why: String,
    },
    /// The run continues.
    Resumed,
    /// A person asks the run to stop.
    StopAsked,
    /// The emergency stop is on.
    Estop,
    /// The times of the events don't show how long the run worked: the machine slept, or its clock was set.
    Clocked {
        /// Milliseconds of work so far.
        active_ms: u64,
    },
    /// A person changed the limits.
    Raised {
        /// The new ones.
        limits: Limits,
    },
    /// The run has ended.
    Ended {
        /// The word for the end.
        end: String,
        /// The reason.
        why: String,
    },
    /// The report has been sent to its session and to the person's program.
    Reported,
}

impl Event {
    /// Returns whether it applies to a run that has ended, too.
    pub(super) fn reopens(&self) -> bool {
        matches!(self, Self::Raised { .. } | Self::Reported)
    }
}
