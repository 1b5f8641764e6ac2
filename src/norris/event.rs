//! The events of a run as they are stored: plain data, read again by every later version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A goal, and what bounds the work for it: frozen with the first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goal {
    /// The person's words.
    pub text: String,
    /// Commands of the person that decide whether it is reached.
    pub checks: Vec<String>,
    /// Its limits.
    pub limits: Limits,
    /// The calls that run without a question.
    pub grant: Grant,
    /// Files that are never changed without a question, as patterns.
    pub protect: Vec<String>,
    /// A changed input of a check doesn't count as tampering.
    pub allow_check_edits: bool,
    /// The directory that it works in.
    pub workspace: String,
    /// The model that plans; the executor if empty.
    pub planner: String,
    /// The model that works; the one that answers if empty.
    pub executor: String,
    /// The model that gives a second opinion on risky calls; none if empty.
    pub reviewer: String,
    /// The executor may give side work to helpers.
    pub delegates: bool,
    /// The git session that it works on, by its id; the workspace itself if empty.
    pub session: String,
    /// A person sees the first plan before anything is done.
    pub asks_go: bool,
}

/// The most dollars and minutes that a limit can have.
const AMOUNTS_MAX: (f64, f64) = (1_000_000.0, 100_000.0);

impl Goal {
    /// Reason why nobody can work towards it, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.checks.len() > super::CHECKS_MAX {
            return Some(format!("a goal has at most {} checks", super::CHECKS_MAX));
        }
        let runs_nothing =
            |check: &String| check.lines().all(|line| matches!(line.trim().chars().next(), None | Some('#')));
        // It would always end with status 0.
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
    /// Reason why they can't hold, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let amounts = [("dollars", self.usd, AMOUNTS_MAX.0), ("minutes", self.minutes, AMOUNTS_MAX.1)];
        let wrong = |(_, amount, most): &(_, Option<f64>, f64)| amount.is_some_and(|it| !(0.0..=*most).contains(&it));
        let (name, _, most) = amounts.into_iter().find(wrong)?;
        Some(format!("a limit in {name} is a number between 0 and {most}"))
    }
}

/// The limits of a run. An absent one doesn't hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Dollars.
    pub usd: Option<f64>,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Minutes of work.
    pub minutes: Option<f64>,
    /// Questions to models.
    pub steps: Option<u64>,
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Attempts of a task before a new plan.
    pub attempts: u32,
    /// New plans.
    pub replans: u32,
    /// Attempts without progress before a new plan.
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

/// A call that went beyond the grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Halt {
    /// The fingerprint of exactly this call.
    pub digest: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, JSON.
    pub arguments: String,
    /// The call in a line.
    pub intent: String,
    /// Its risk.
    pub risk: String,
    /// Reason why it is asked about.
    pub reasons: Vec<String>,
    /// The proposed change.
    pub preview: String,
    /// The conversation that it was made in.
    pub conversation: Option<i64>,
}

/// The second run of a check that has passed, with files that may be its tests as they were when the work began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// These files.
    pub files: Vec<String>,
    /// Its exit status; none if it couldn't run with them, or didn't end by itself.
    pub status: Option<i32>,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A person began it.
    Began {
        /// The goal.
        goal: Goal,
    },
    /// A process takes it up.
    Entered {
        /// The process.
        pid: u32,
    },
    /// A plan is asked for.
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
    /// A task is asked for.
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
        /// The call in a line.
        intent: String,
    },
    /// The call is over.
    Called {
        /// True if it did what it should.
        success: bool,
    },
    /// A helper begins with side work: a question of its own.
    Delegated,
    /// The executor says that the task is done.
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
    /// A check ended.
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
    /// The digests of the files that the checks depend on; the first ones are what later ones are compared with.
    Inputs {
        /// By path.
        digests: BTreeMap<String, String>,
        /// The tree that a git session has then; empty without one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        base: String,
    },
    /// The digests of the files that the checks only reach, by scripts of theirs or since tests may be in them: nothing guards
    /// these; the first ones are what later ones are compared with.
    Reached {
        /// By path.
        digests: BTreeMap<String, String>,
        /// Reasons why not even these are all.
        unseen: Vec<String>,
    },
    /// A person has seen the plan and lets the work begin.
    Go {
        /// Checks that the plan proposed and the person accepted.
        checks: Vec<String>,
    },
    /// A call needs a person.
    Halted {
        /// The call.
        halt: Halt,
    },
    /// A person said yes to exactly this call.
    Approved {
        /// Its fingerprint.
        digest: String,
    },
    /// A person said no.
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
    /// Over.
    RanHalted {
        /// Its result in words.
        result: String,
        /// The steps of undo that it made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<u64>,
    },
    /// A note of the person for the next question.
    Said {
        /// The note.
        text: String,
    },
    /// Waits until somebody resumes it.
    Paused {
        /// The reason.
        why: String,
    },
    /// Goes on.
    Resumed,
    /// A person wants it to end.
    StopAsked,
    /// The emergency stop is on.
    Estop,
    /// The times of the events don't show how long the run worked: the machine slept, or its clock was set.
    Clocked {
        /// Milliseconds of work by now.
        active_ms: u64,
    },
    /// A person changed the limits.
    Raised {
        /// The new ones.
        limits: Limits,
    },
    /// Ended.
    Ended {
        /// The word for the end.
        end: String,
        /// The reason.
        why: String,
    },
    /// Its session and its person's program have the report.
    Reported,
}

impl Event {
    /// Returns whether it counts for a run that ended, too.
    pub(super) fn reopens(&self) -> bool {
        matches!(self, Self::Raised { .. } | Self::Reported)
    }
}
