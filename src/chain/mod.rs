//! The six gates before an action, as one pure function over facts: kill switch, licence for dangerous actions, strategy lock,
//! budget, measured figures, heat. The sources of the facts are another room's concern.

mod budget;

use serde_json::{Value, json};

use crate::proto::action::{Effect, Risk, WriteKind};
use crate::proto::team::{GateDecision, GateName, GateOutcome};

pub use budget::{Limit, Span};

/// Actions that are dangerous whatever the policy finds in them, each with its class.
pub const DANGEROUS_ACTIONS: &[(&str, &str)] = &[("canvas_purge", "canvas_purge"), ("payment", "money")];
/// The classes of dangerous actions.
pub const CLASSES: &[&str] = &["exec", "delete", "network", "money", "canvas_purge"];
/// Maximum heat of a surface, in thousandths.
pub const HEAT_MAX: i64 = 50_000;
/// Heat halves in this time.
const HALF_LIFE_MS: i64 = 10 * 60 * 1_000;

/// A call that wants through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The action's name: that of the tool.
    pub action: String,
    /// The surface that it comes from.
    pub surface_id: Option<String>,
    /// The project.
    pub project: String,
    /// The actor.
    pub user: String,
    /// The actor's role.
    pub role: String,
    /// The actor's kind of token.
    pub kind: String,
    /// The policy's grade.
    pub risk: Risk,
    /// The class, if it is dangerous.
    pub class: Option<&'static str>,
}

/// The class of a dangerous call: by its name, or by its effects if the policy grades it high.
#[must_use]
pub fn class(action: &str, risk: Risk, effects: &[Effect]) -> Option<&'static str> {
    if let Some((_, class)) = DANGEROUS_ACTIONS.iter().find(|(name, _)| *name == action) {
        return Some(class);
    }
    if risk < Risk::High {
        return None;
    }
    let deletes =
        |effect: &Effect| matches!(effect, Effect::Write { how: WriteKind::Delete | WriteKind::DeleteTree, .. });
    let is_net = |effect: &Effect| matches!(effect, Effect::Net { .. });
    if effects.iter().any(deletes) {
        Some("delete")
    } else if effects.iter().any(is_net) {
        Some("network")
    } else {
        Some("exec")
    }
}

/// A switch that stops everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// `node`, `tenant`, `project` or `action`.
    pub scope: String,
    /// Since when, if it is known.
    pub since: Option<String>,
    /// Its author.
    pub by: String,
    /// The reason in words, if the rest doesn't explain it.
    pub why: Option<String>,
}

/// A licence that is neither revoked, ended nor used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Licence {
    /// Its id.
    pub id: String,
    /// `user:NAME`, `role:NAME` or `agent:NAME`.
    pub subject: String,
    /// The actions that it names.
    pub actions: Vec<String>,
    /// The class that it names.
    pub class: Option<String>,
    /// Its project, if it has one.
    pub project: Option<String>,
    /// Its surface, if it has one.
    pub surface_id: Option<String>,
}

/// A strategy lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its id.
    pub id: String,
    /// Its scope: `*` or a project.
    pub scope: String,
    /// Its surface, if it has one.
    pub surface_id: Option<String>,
    /// Patterns of actions: `*`, a name, or `prefix.*`.
    pub actions: Vec<String>,
    /// Its state.
    pub state: String,
    /// Three persons must approve it, and not all have.
    pub is_three_wise_pending: bool,
    /// Now lies within its dates, by the database's clock.
    pub is_in_time: bool,
}

/// A rule about a measured figure, and its present value. Values are whole thousandths, so that every machine computes the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The figure's name.
    pub kpi: String,
    /// The action that it is about; empty if it is about all.
    pub action: String,
    /// `<=` or `>=`; empty if there is no rule.
    pub op: String,
    /// The threshold, in thousandths.
    pub threshold: i64,
    /// The window, in seconds.
    pub window_s: i64,
    /// With fewer measured values the rule says nothing.
    pub samples_min: i64,
    /// The measured values in the window.
    pub samples: i64,
    /// The figure, in thousandths, if there are enough values.
    pub value: Option<i64>,
}

impl Rule {
    /// The bound in words, such as `at most 0.2`.
    #[must_use]
    pub fn bound(&self) -> String {
        let word = if self.op == "<=" { "at most" } else { "at least" };
        format!("{word} {}", of_thousandths(self.threshold))
    }

    /// Returns whether the figure breaks the rule.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.value.is_some_and(|value| match self.op.as_str() {
            "<=" => value > self.threshold,
            ">=" => value < self.threshold,
            _ => false,
        })
    }
}

/// A figure as people write it.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "figures are small, and this one is only shown")]
pub fn of_thousandths(thousandths: i64) -> f64 {
    thousandths as f64 / 1_000.0
}

/// The facts for deciding a call, read in one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The switch that counts, if one is set.
    pub stop: Option<Stop>,
    /// Licences.
    pub licences: Vec<Licence>,
    /// Strategy locks; `None` if none are required.
    pub locks: Option<Vec<Lock>>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// Rules over figures that are about this action.
    pub rules: Vec<Rule>,
    /// The heat of the surface now, in thousandths.
    pub heat: i64,
}

/// The heat that a call adds, in thousandths.
#[must_use]
pub fn heat_of(risk: Risk) -> i64 {
    match risk {
        Risk::Low => 0,
        Risk::Medium => 1_000,
        Risk::High | Risk::Blocked => 5_000,
    }
}

/// Heat after some time: it halves every ten minutes. Whole numbers, so that every machine gets the same.
#[must_use]
pub fn cooled(heat: i64, elapsed_ms: i64) -> i64 {
    let elapsed = elapsed_ms.max(0);
    let halvings = u32::try_from(elapsed / HALF_LIFE_MS).unwrap_or(u32::MAX);
    let halved = heat.checked_shr(halvings).unwrap_or(0);
    // Between two halvings it falls in a straight line.
    halved - halved * (elapsed % HALF_LIFE_MS) / (2 * HALF_LIFE_MS)
}

/// The licence that covers a call.
#[must_use]
pub fn licence<'f>(facts: &'f Facts, wish: &Wish) -> Option<&'f Licence> {
    let class = wish.class?;
    let subjects = [format!("user:{}", wish.user), format!("role:{}", wish.role)];
    let agent = (wish.kind == "agent").then(|| format!("agent:{}", wish.user));
    facts.licences.iter().find(|licence| {
        let is_theirs = subjects.contains(&licence.subject) || agent.as_ref() == Some(&licence.subject);
        let names = licence.class.as_deref() == Some(class) || licence.actions.contains(&wish.action);
        let is_here = licence.project.as_ref().is_none_or(|project| *project == wish.project)
            && licence.surface_id.as_ref().is_none_or(|surface| Some(surface) == wish.surface_id.as_ref());
        is_theirs && names && is_here
    })
}

/// Decides about a call: the first gate that blocks wins, and those after it are skipped.
#[must_use]
pub fn decide(facts: &Facts, wish: &Wish) -> Vec<GateDecision> {
    let mut is_blocked = false;
    let decision = |gate: GateName| {
        let outcome = match is_blocked {
            true => GateOutcome::Skipped,
            false => ask(gate, facts, wish),
        };
        is_blocked |= matches!(outcome, GateOutcome::Block { .. });
        GateDecision { gate, outcome }
    };
    GateName::ALL.into_iter().map(decision).collect()
}

fn block(reason: impl Into<String>, context: Value) -> GateOutcome {
    GateOutcome::Block { reason: reason.into(), context }
}

fn ask(gate: GateName, facts: &Facts, wish: &Wish) -> GateOutcome {
    match gate {
        GateName::KillSwitch => match &facts.stop {
            None => GateOutcome::Pass,
            Some(Stop { scope, since, by, why }) => {
                let context = json!({"scope": scope, "since": since, "by": by});
                let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
                let reason = || format!("everything is stopped ({scope}){since} by {by}");
                block(why.clone().unwrap_or_else(reason), context)
            }
        },
        GateName::Firearms => match (wish.class, licence(facts, wish)) {
            (None, _) | (_, Some(_)) => GateOutcome::Pass,
            (Some(class), None) => {
                let reason = format!("{} is dangerous ({class}), and no licence covers it", wish.action);
                block(reason, json!({"class": class, "needs": "licence"}))
            }
        },
        GateName::StrategyLock => facts.locks.as_ref().map_or(GateOutcome::NotApplicable, |locks| lock(locks, wish)),
        GateName::Budget => budget::decide(&facts.limits),
        GateName::Kpi => kpi(&facts.rules),
        GateName::Temperature => {
            let added = heat_of(wish.risk);
            if added == 0 || facts.heat + added <= HEAT_MAX {
                return GateOutcome::Pass;
            }
            let seconds = (1..=60 * 60).find(|s| cooled(facts.heat, s * 1_000) + added <= HEAT_MAX);
            let context = json!({"heat": facts.heat, "limit": HEAT_MAX, "cools_in_s": seconds});
            block("too much happens on this surface; it cools down on its own", context)
        }
    }
}

/// Says whether a lock may name actions in this form: `*`, a whole name, or `prefix.*`. Any other star would name nothing.
#[must_use]
pub fn is_pattern(pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        None => !pattern.contains('*'),
        Some("") => true,
        Some(prefix) => prefix.len() > 1 && prefix.ends_with('.') && !prefix.contains('*'),
    }
}

/// Returns whether a pattern of a lock names an action.
fn names(pattern: &str, action: &str) -> bool {
    pattern == "*"
        || pattern == action
        || pattern.strip_suffix('*').is_some_and(|prefix| prefix.ends_with('.') && action.starts_with(prefix))
}

fn lock(locks: &[Lock], wish: &Wish) -> GateOutcome {
    let matching = locks.iter().filter(|lock| {
        (lock.scope == "*" || lock.scope == wish.project)
            && lock.surface_id.as_ref().is_none_or(|surface| Some(surface) == wish.surface_id.as_ref())
            && lock.actions.iter().any(|pattern| names(pattern, &wish.action))
    });
    let mut nearest: Option<(&'static str, &Lock)> = None;
    for lock in matching {
        let state = match lock.state.as_str() {
            "approved" if lock.is_three_wise_pending => "three_wise_pending",
            "approved" if lock.is_in_time => return GateOutcome::Pass,
            "approved" | "expired" => "expired",
            "rejected" => "rejected",
            _ if lock.is_three_wise_pending => "three_wise_pending",
            _ => "none",
        };
        nearest = Some((state, lock));
    }
    let (state, id) = nearest.map_or(("none", None), |(state, lock)| (state, Some(lock.id.clone())));
    let nearest = match state {
        "three_wise_pending" => "; three persons must approve the nearest",
        "expired" => "; the nearest has ended",
        "rejected" => "; the nearest was rejected",
        _ if id.is_some() => "; the nearest waits for an approver",
        _ => "",
    };
    let reason = format!("no approved strategy covers {}{nearest}", wish.action);
    block(reason, json!({"state": state, "lock_id": id}))
}

fn kpi(rules: &[Rule]) -> GateOutcome {
    if rules.is_empty() {
        return GateOutcome::NotApplicable;
    }
    let Some(rule) = rules.iter().find(|rule| rule.is_broken()) else { return GateOutcome::Pass };
    let (value, threshold) = (of_thousandths(rule.value.unwrap_or_default()), of_thousandths(rule.threshold));
    let reason = format!("{} is {value} within {} s, and must be {}", rule.kpi, rule.window_s, rule.bound());
    let context = json!({"kpi": rule.kpi, "action": rule.action, "value": value, "op": rule.op,
        "threshold": threshold, "window_s": rule.window_s, "samples": rule.samples});
    block(reason, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(risk: Risk) -> Wish {
        Wish {
            action: "canvas.edit".into(),
            surface_id: Some("board".into()),
            project: "shop".into(),
            user: "anna".into(),
            role: "member".into(),
            kind: "person".into(),
            risk,
            class: class("canvas.edit", risk, &[]),
        }
    }

    fn blocked(facts: &Facts, wish: &Wish) -> Option<(&'static str, Value)> {
        let decisions = decide(facts, wish);
        assert_eq!(decisions.iter().map(|it| it.gate).collect::<Vec<_>>(), GateName::ALL);
        let at = decisions.iter().position(|it| matches!(it.outcome, GateOutcome::Block { .. }))?;
        assert!(decisions[at + 1..].iter().all(|it| it.outcome == GateOutcome::Skipped), "{decisions:?}");
        match &decisions[at].outcome {
            GateOutcome::Block { context, .. } => Some((decisions[at].gate.word(), context.clone())),
            _ => None,
        }
    }

    fn a_lock() -> Lock {
        Lock {
            id: "l".into(),
            scope: "*".into(),
            surface_id: None,
            actions: vec!["*".into()],
            state: "approved".into(),
            is_three_wise_pending: false,
            is_in_time: true,
        }
    }

    #[test]
    fn the_first_gate_that_blocks_wins() {
        let stop = Stop { scope: "tenant".into(), since: Some("now".into()), by: "ben".into(), why: None };
        let facts = Facts { stop: Some(stop), locks: Some(Vec::new()), ..Facts::default() };
        let context = json!({"scope": "tenant", "since": "now", "by": "ben"});
        assert_eq!(blocked(&facts, &wish(Risk::High)), Some(("kill_switch", context)));
        let facts = Facts { stop: None, ..facts };
        assert_eq!(blocked(&facts, &wish(Risk::High)).expect("a block").0, "firearms");
        assert_eq!(blocked(&facts, &wish(Risk::Low)).expect("a block").0, "strategy_lock");
        assert_eq!(blocked(&Facts::default(), &wish(Risk::Low)), None);
    }

    #[test]
    fn a_block_has_a_reason_in_words() {
        let pending = Lock { state: "pending".into(), ..a_lock() };
        for (locks, end) in [(vec![], "canvas.edit"), (vec![pending], "; the nearest waits for an approver")] {
            let facts = Facts { locks: Some(locks), ..Facts::default() };
            let reason = decide(&facts, &wish(Risk::Low)).into_iter().find_map(|it| match it.outcome {
                GateOutcome::Block { reason, .. } => Some(reason),
                _ => None,
            });
            assert!(reason.as_deref().is_some_and(|reason| reason.ends_with(end)), "{reason:?}");
        }
        let rule = Rule { op: "<=".into(), threshold: 200, ..Rule::default() };
        assert_eq!(rule.bound(), "at most 0.2");
    }

    #[test]
    fn scenario_7_a_licence_covers_its_holder_project_surface_and_class() {
        let licence = Licence {
            id: "1".into(),
            subject: "user:anna".into(),
            actions: Vec::new(),
            class: Some("exec".into()),
            project: Some("shop".into()),
            surface_id: None,
        };
        let with = |licence: Licence| Facts { licences: vec![licence], ..Facts::default() };
        let is_covered = |licence: Licence| blocked(&with(licence), &wish(Risk::High)).is_none();
        assert!(is_covered(licence.clone()));
        assert!(is_covered(Licence { subject: "role:member".into(), ..licence.clone() }));
        assert!(is_covered(Licence { class: None, actions: vec!["canvas.edit".into()], ..licence.clone() }));
        assert!(!is_covered(Licence { subject: "user:ben".into(), ..licence.clone() }));
        assert!(!is_covered(Licence { subject: "agent:anna".into(), ..licence.clone() }));
        assert!(!is_covered(Licence { project: Some("other".into()), ..licence.clone() }));
        assert!(!is_covered(Licence { surface_id: Some("other".into()), ..licence.clone() }));
        assert!(!is_covered(Licence { class: Some("delete".into()), ..licence }));
    }

    #[test]
    fn scenario_8_a_lock_must_match_and_be_in_force() {
        let with = |lock: Lock| Facts { locks: Some(vec![lock]), ..Facts::default() };
        let state = |lock: Lock| blocked(&with(lock), &wish(Risk::Low)).map(|(_, context)| context["state"].clone());
        assert_eq!(state(a_lock()), None);
        for pattern in ["canvas.edit", "canvas.*"] {
            assert_eq!(state(Lock { actions: vec![pattern.into()], ..a_lock() }), None, "{pattern}");
        }
        for (pattern, is_fine) in
            [("*", true), ("file_read", true), ("canvas.*", true), ("file_*", false), (".*", false), ("*.x", false)]
        {
            assert_eq!(is_pattern(pattern), is_fine, "{pattern}");
        }
        for pattern in ["canvas", "canvas*", "canvas.edit.more", "shell"] {
            assert_eq!(state(Lock { actions: vec![pattern.into()], ..a_lock() }), Some("none".into()), "{pattern}");
        }
        assert_eq!(state(Lock { surface_id: Some("other".into()), ..a_lock() }), Some("none".into()));
        assert_eq!(state(Lock { surface_id: Some("board".into()), ..a_lock() }), None);
        assert_eq!(state(Lock { is_in_time: false, ..a_lock() }), Some("expired".into()));
        assert_eq!(state(Lock { state: "rejected".into(), ..a_lock() }), Some("rejected".into()));
        assert_eq!(state(Lock { is_three_wise_pending: true, ..a_lock() }), Some("three_wise_pending".into()));
        assert_eq!(state(Lock { state: "pending".into(), ..a_lock() }), Some("none".into()));
    }

    #[test]
    fn scenario_11_a_broken_rule_blocks_and_too_few_values_say_nothing() {
        let rule = Rule {
            kpi: "error_rate".into(),
            op: "<=".into(),
            threshold: 200,
            window_s: 60,
            samples_min: 5,
            value: Some(250),
            ..Rule::default()
        };
        let state = |rule: Rule| blocked(&Facts { rules: vec![rule], ..Facts::default() }, &wish(Risk::Low));
        let (gate, context) = state(rule.clone()).expect("a block");
        assert_eq!((gate, &context["value"], &context["threshold"]), ("kpi", &json!(0.25), &json!(0.2)));
        assert_eq!(state(Rule { value: Some(200), ..rule.clone() }), None);
        assert_eq!(state(Rule { value: None, ..rule.clone() }), None, "nothing was measured");
        assert!(state(Rule { op: ">=".into(), value: Some(199), ..rule.clone() }).is_some());
        assert_eq!(state(Rule { op: ">=".into(), ..rule }), None);
    }

    #[test]
    fn scenario_12_fifty_medium_calls_pass_the_next_waits_and_heat_halves() {
        let mut heat = 0;
        for _ in 0..50 {
            assert_eq!(blocked(&Facts { heat, ..Facts::default() }, &wish(Risk::Medium)), None);
            heat += heat_of(Risk::Medium);
        }
        let (gate, context) = blocked(&Facts { heat, ..Facts::default() }, &wish(Risk::Medium)).expect("a block");
        assert_eq!((gate, &context["limit"]), ("temperature", &json!(HEAT_MAX)));
        let wait = context["cools_in_s"].as_i64().expect("a time");
        let cool = Facts { heat: cooled(heat, wait * 1_000), ..Facts::default() };
        assert_eq!(blocked(&cool, &wish(Risk::Medium)), None);
        assert_eq!((cooled(heat, 600_000), cooled(heat, 1_200_000)), (heat / 2, heat / 4));
        assert_eq!((cooled(heat, -5), cooled(heat, i64::MAX)), (heat, 0));
        assert_eq!(blocked(&Facts { heat: HEAT_MAX * 2, ..Facts::default() }, &wish(Risk::Low)), None);
    }

    #[test]
    fn scenario_10_a_limit_that_the_call_would_pass_blocks() {
        let limit = |spent| Limit {
            name: "calls".into(),
            project: None,
            actor: None,
            span: Span::Total,
            limit: 10,
            spent,
            asked: 1,
            resets_at: None,
        };
        assert_eq!(blocked(&Facts { limits: vec![limit(9)], ..Facts::default() }, &wish(Risk::Low)), None);
        let (gate, context) =
            blocked(&Facts { limits: vec![limit(10)], ..Facts::default() }, &wish(Risk::Low)).expect("a block");
        assert_eq!((gate, context["spent"].clone(), context["asked"].clone()), ("budget", json!(10), json!(1)));
    }
}
