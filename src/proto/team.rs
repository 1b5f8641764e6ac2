//! The nouns of the team gateway: the caller, the event, the gate's decision. Plain data.

use serde_json::Value;

/// The mode in which a tenant is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Many customers on one installation.
    Saas,
    /// One company's installation.
    Enterprise,
    /// One machine, for experiments: identity has defaults.
    Lab,
}

impl Mode {
    /// The words for them, as headers and settings spell them.
    pub const WORDS: &'static [&'static str] = &["saas", "enterprise", "lab"];

    /// The mode of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "saas" => Self::Saas,
            "enterprise" => Self::Enterprise,
            "lab" => Self::Lab,
            _ => return None,
        })
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// The role of a member in a tenant. In order: a later role includes the rights of the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TeamRole {
    /// Reads.
    Viewer,
    /// Works: appends, executes, edits.
    Member,
    /// Answers questions and approves locks.
    Approver,
    /// Issues and revokes licences.
    Operator,
    /// Manages members and routes.
    Admin,
}

impl TeamRole {
    /// The words for them, from the least.
    pub const WORDS: &'static [&'static str] = &["viewer", "member", "approver", "operator", "admin"];

    /// The role of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "viewer" => Self::Viewer,
            "member" => Self::Member,
            "approver" => Self::Approver,
            "operator" => Self::Operator,
            "admin" => Self::Admin,
            _ => return None,
        })
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// The holder of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A person.
    Person,
    /// An agent, which acts for a person.
    Agent,
    /// A program, such as a collector of metrics.
    Service,
}

impl TokenKind {
    /// The words for them.
    pub const WORDS: &'static [&'static str] = &["person", "agent", "service"];

    /// The kind of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "person" => Self::Person,
            "agent" => Self::Agent,
            "service" => Self::Service,
            _ => return None,
        })
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// The caller, their tenant and project, and the ids that everything caused by the request carries. It is made once per
/// request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The tenant's mode.
    pub mode: Mode,
    /// The tenant.
    pub tenant: String,
    /// The project within it.
    pub project: String,
    /// The user that the token is bound to.
    pub user: String,
    /// The user's role here.
    pub role: TeamRole,
    /// The token's kind.
    pub kind: TokenKind,
    /// The request's id.
    pub request_id: String,
    /// The trace that it belongs to.
    pub trace_id: String,
    /// The run that it belongs to.
    pub run_id: Option<String>,
    /// The step of the run.
    pub step_id: Option<String>,
    /// The surface (a screen, a canvas) that it comes from.
    pub surface_id: Option<String>,
    /// The application that it comes from.
    pub app_id: Option<String>,
    /// W3C's header `traceparent` for what it causes: its trace, and its own span there.
    pub span: Option<String>,
    /// The lease of the workspace that it works in, if several gateways could work there.
    pub lease: Option<Lease>,
}

/// The right of one gateway to work in a project's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The machine that has the workspace, or the number that means all machines.
    pub machine: i64,
    /// The lease's number: the next gateway that gets the lease has a higher one.
    pub fence: i64,
}

/// An event that a client asks to store in the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventDraft {
    /// Its id; one is made if there is none.
    pub event_id: Option<String>,
    /// Its type.
    pub event_type: String,
    /// Its source: `agent`, `tool`, `ui`, or `engine` for the gateway itself.
    pub source: String,
    /// The stream; if absent, that of the run.
    pub stream: Option<String>,
    /// The run.
    pub run_id: Option<String>,
    /// The step.
    pub step_id: Option<String>,
    /// The trace.
    pub trace_id: Option<String>,
    /// The event that caused it.
    pub causation_id: Option<String>,
    /// The sender's own key for it.
    pub correlation_id: Option<String>,
    /// Time of the event, as its sender reports it.
    pub occurred_at: Option<String>,
    /// Its content.
    pub body: Value,
}

/// A gate of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateName {
    /// Everything is stopped.
    KillSwitch,
    /// A dangerous action needs a licence.
    Firearms,
    /// A surface needs an approved strategy.
    StrategyLock,
    /// Money and calls have limits.
    Budget,
    /// Measured figures have thresholds.
    Kpi,
    /// Activity heats up and cools down.
    Temperature,
}

impl GateName {
    /// Every gate, in the order in which they decide.
    pub const ALL: [Self; 6] =
        [Self::KillSwitch, Self::Firearms, Self::StrategyLock, Self::Budget, Self::Kpi, Self::Temperature];

    /// The word for it, which is also the error's code.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Firearms => "firearms",
            Self::StrategyLock => "strategy_lock",
            Self::Budget => "budget",
            Self::Kpi => "kpi",
            Self::Temperature => "temperature",
        }
    }
}

/// The decision of a gate.
#[derive(Clone, Debug, PartialEq)]
pub enum GateOutcome {
    /// Lets the call through.
    Pass,
    /// Finds no facts to decide on, or isn't required.
    NotApplicable,
    /// Holds the call back.
    Block {
        /// The reason, one line.
        reason: String,
        /// The facts, for a program.
        context: Value,
    },
    /// An earlier gate has blocked.
    Skipped,
}

impl GateOutcome {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::NotApplicable => "not_applicable",
            Self::Block { .. } => "block",
            Self::Skipped => "skipped",
        }
    }
}

/// The decision of one gate about one call.
#[derive(Clone, Debug, PartialEq)]
pub struct GateDecision {
    /// The gate.
    pub gate: GateName,
    /// The decision.
    pub outcome: GateOutcome,
}
