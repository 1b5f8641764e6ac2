//! The checker of histories compares what clients saw during failures with the final log. It knows no gateway; tests plant faults
//! in histories and check that each is found.

use std::collections::{BTreeMap, BTreeSet};

/// The time from a kill switch until all gateways refuse calls.
pub const KILL_REACH_NS: u64 = 1_200_000_000;

/// The rules that a history must follow, in the order of the gateway's design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Positions are 1, 2, 3, … for each tenant.
    Gapless,
    /// An acknowledged append is in the log once, a refused one isn't, and one with an unknown outcome is at most once.
    Acknowledged,
    /// An append that was acknowledged before another one began has a lower position.
    RealTime,
    /// Each append with an expected version saw exactly that version.
    Versions,
    /// A reader has seen a growing sequence without gaps, across connections and gateways.
    Readers,
    /// A cause comes before its effect.
    Causes,
    /// The chain of hashes is intact.
    Hashes,
    /// A canvas equals the result of its operations.
    Folds,
    /// No answer contains anything of another tenant.
    Tenants,
    /// No action has run twice.
    Once,
    /// No call was let through after a kill switch had reached all gateways.
    Killed,
}

/// The outcome of a request as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Done.
    Done,
    /// Refused: nothing has changed.
    Refused,
    /// No answer came.
    Unknown,
}

/// An append.
#[derive(Clone, Debug)]
pub struct Append {
    pub tenant: String,
    /// The ids of its events, in order.
    pub ids: Vec<String>,
    /// A stream and the version that it was expected to have.
    pub expected: Option<(String, i64)>,
    pub invoked: u64,
    pub ended: u64,
    pub end: End,
    /// The positions that the answer named.
    pub positions: Vec<i64>,
}

/// A reader's sequence over all of its connections.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    pub tenant: String,
    pub seen: Vec<(i64, String)>,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    pub tenant: String,
    /// The idempotency key of all its tries.
    pub key: String,
    pub invoked: u64,
    pub was_admitted: bool,
}

/// An event of the final log.
#[derive(Clone, Debug)]
pub struct Row {
    pub position: i64,
    pub event_id: String,
    pub stream: String,
    pub stream_version: i64,
    pub event_type: String,
    pub causation_id: Option<String>,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub appends: Vec<Append>,
    pub readers: Vec<Reader>,
    pub calls: Vec<Call>,
    /// When a kill switch of a tenant was acknowledged.
    pub kills: Vec<(String, u64)>,
    /// Tenants that appeared in an answer to a member of the first tenant.
    pub shown: Vec<(String, String)>,
    /// The final log of each tenant.
    pub logs: BTreeMap<String, Vec<Row>>,
    /// Problems that `verify` found, by tenant.
    pub broken: Vec<(String, String)>,
    /// Commands on canvases that were acknowledged: the tenant, the key, and the revision that the answer named.
    pub drawn: Vec<(String, String, i64)>,
    /// The hash in a canvas's snapshot, and the hash of the result of all its operations.
    pub folds: Vec<(String, String)>,
}

/// Returns all breaches of the rules.
pub fn check(history: &History) -> Vec<(Rule, String)> {
    let mut found = Vec::new();
    for (tenant, log) in &history.logs {
        gapless(tenant, log, &mut found);
        causes(tenant, log, &mut found);
    }
    appends(history, &mut found);
    real_time(history, &mut found);
    for reader in &history.readers {
        read(reader, history.logs.get(&reader.tenant).map_or(&[][..], Vec::as_slice), &mut found);
    }
    found.extend(history.broken.iter().map(|(tenant, why)| (Rule::Hashes, format!("{tenant}: {why}"))));
    let unequal = history.folds.iter().filter(|(one, other)| one != other);
    found.extend(unequal.map(|(one, other)| (Rule::Folds, format!("{one} is not {other}"))));
    let foreign = history.shown.iter().filter(|(own, shown)| own != shown);
    found.extend(foreign.map(|(own, shown)| (Rule::Tenants, format!("{own} was shown something of {shown}"))));
    calls(history, &mut found);
    found
}

fn gapless(tenant: &str, log: &[Row], found: &mut Vec<(Rule, String)>) {
    let wrong = (1..).zip(log).find(|(expected, row)| *expected != row.position);
    found.extend(wrong.map(|(at, row)| (Rule::Gapless, format!("{tenant}: {} stands at {at}", row.position))));
    let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
    for row in log {
        let version = versions.entry(&row.stream).or_default();
        *version += 1;
        if *version != row.stream_version {
            found.push((
                Rule::Versions,
                format!("{tenant}: {} has version {} in {}", row.event_id, row.stream_version, row.stream),
            ));
        }
    }
}

fn causes(tenant: &str, log: &[Row], found: &mut Vec<(Rule, String)>) {
    let mut before = BTreeSet::new();
    for row in log {
        if let Some(cause) = row.causation_id.as_ref().filter(|cause| !before.contains(cause.as_str())) {
            found.push((Rule::Causes, format!("{tenant}: {} comes before its cause {cause}", row.event_id)));
        }
        before.insert(row.event_id.as_str());
    }
}

fn appends(history: &History, found: &mut Vec<(Rule, String)>) {
    let mut places: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for (tenant, log) in &history.logs {
        for row in log {
            places.entry((tenant, &row.event_id)).or_default().push(row);
        }
    }
    for append in &history.appends {
        let rows: Vec<&[&Row]> = append
            .ids
            .iter()
            .map(|id| places.get(&(append.tenant.as_str(), id.as_str())).map_or(&[][..], Vec::as_slice))
            .collect();
        let wrong = |why: String| (Rule::Acknowledged, format!("{}: {:?} {why}", append.tenant, append.ids));
        let count = rows.iter().filter(|rows| !rows.is_empty()).count();
        if rows.iter().any(|rows| rows.len() > 1) {
            found.push(wrong("is there twice".into()));
        }
        match append.end {
            End::Done if count < append.ids.len() => found.push(wrong("was acknowledged and is missing".into())),
            End::Refused if count > 0 => found.push(wrong("was refused and is there".into())),
            End::Unknown if count > 0 && count < append.ids.len() => found.push(wrong("is there in part".into())),
            End::Done => {
                let places: Vec<i64> = rows.iter().filter_map(|rows| rows.first()).map(|row| row.position).collect();
                if places != append.positions {
                    found.push(wrong(format!("was said to be at {:?} and is at {places:?}", append.positions)));
                }
            }
            End::Refused | End::Unknown => {}
        }
        let first = rows.first().and_then(|rows| rows.first());
        if let (Some((stream, version)), Some(row)) = (&append.expected, first)
            && (row.stream != *stream || row.stream_version != version + 1)
        {
            let what =
                format!("expected version {version} of {stream} and is {} of {}", row.stream_version, row.stream);
            found.push((Rule::Versions, format!("{}: {} {what}", append.tenant, row.event_id)));
        }
    }
}

fn real_time(history: &History, found: &mut Vec<(Rule, String)>) {
    let mut tenants: BTreeMap<&str, Vec<&Append>> = BTreeMap::new();
    for append in history.appends.iter().filter(|append| append.end == End::Done && !append.positions.is_empty()) {
        tenants.entry(&append.tenant).or_default().push(append);
    }
    for (tenant, appends) in tenants {
        let (mut by_end, mut by_begin) = (appends.clone(), appends);
        by_end.sort_by_key(|append| append.ended);
        by_begin.sort_by_key(|append| append.invoked);
        // The largest position of all appends that had ended before.
        let (mut ended, mut largest) = (by_end.iter().peekable(), 0);
        for append in by_begin {
            while let Some(before) = ended.next_if(|before| before.ended < append.invoked) {
                largest = largest.max(before.positions.iter().copied().max().unwrap_or(0));
            }
            // A repeated append has the position of its first try, so only its largest position is checked.
            let own = append.positions.iter().copied().max().unwrap_or(i64::MAX);
            if own <= largest {
                let what = format!("{:?} at {own} began after something at {largest} had ended", append.ids);
                found.push((Rule::RealTime, format!("{tenant}: {what}")));
            }
        }
    }
}

fn read(reader: &Reader, log: &[Row], found: &mut Vec<(Rule, String)>) {
    let mut wrong = |why: String| found.push((Rule::Readers, format!("a reader of {}: {why}", reader.tenant)));
    if let Some(pair) = reader.seen.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        wrong(format!("{} came after {}", pair[1].0, pair[0].0));
    }
    let (Some((first, _)), Some((last, _))) = (reader.seen.first(), reader.seen.last()) else { return };
    let there: Vec<(i64, &str)> = log
        .iter()
        .filter(|row| (*first..=*last).contains(&row.position))
        .map(|row| (row.position, row.event_id.as_str()))
        .collect();
    let seen: Vec<(i64, &str)> = reader.seen.iter().map(|(position, id)| (*position, id.as_str())).collect();
    if let Some(missing) = there.iter().find(|it| !seen.contains(it)).filter(|_| there.len() != seen.len()) {
        wrong(format!("{missing:?} is missing"));
    } else if let Some((one, other)) = seen.iter().zip(&there).find(|(one, other)| one != other) {
        wrong(format!("{one:?} was shown, and the log has {other:?}"));
    }
}

fn calls(history: &History, found: &mut Vec<(Rule, String)>) {
    for call in &history.calls {
        let stream = format!("run/{}", call.key);
        let log = history.logs.get(&call.tenant).map_or(&[][..], Vec::as_slice);
        let count = |kind: &str| log.iter().filter(|row| row.stream == stream && row.event_type == kind).count();
        if count("action.admitted").max(count("action.completed")) > 1 {
            found.push((Rule::Once, format!("{}: {} ran twice", call.tenant, call.key)));
        }
        let is_late = |(tenant, at): &&(String, u64)| *tenant == call.tenant && call.invoked > at + KILL_REACH_NS;
        if call.was_admitted && history.kills.iter().any(|kill| is_late(&kill)) {
            found.push((Rule::Killed, format!("{}: {} was let through after the kill switch", call.tenant, call.key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history that breaks no rule.
    fn whole() -> History {
        let row = |position: i64, id: &str, stream: &str, version: i64, kind: &str| Row {
            position,
            event_id: id.into(),
            stream: stream.into(),
            stream_version: version,
            event_type: kind.into(),
            causation_id: (id == "b").then(|| "a".to_owned()),
        };
        let log = vec![
            row(1, "a", "s", 1, "x.step"),
            row(2, "b", "s", 2, "x.step"),
            row(3, "c", "s", 3, "x.step"),
            row(4, "k1", "run/key", 1, "action.admitted"),
            row(5, "k2", "run/key", 2, "action.completed"),
        ];
        let append = |ids: &[&str], (invoked, ended): (u64, u64), end: End, positions: &[i64]| Append {
            tenant: "t".into(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            expected: None,
            invoked,
            ended,
            end,
            positions: positions.to_vec(),
        };
        let mut history = History {
            appends: vec![
                append(&["a"], (1, 2), End::Done, &[1]),
                append(&["b"], (3, 4), End::Done, &[2]),
                append(&["c"], (5, 6), End::Unknown, &[]),
                append(&["d"], (5, 6), End::Refused, &[]),
            ],
            calls: vec![
                Call { tenant: "t".into(), key: "key".into(), invoked: 7, was_admitted: true },
                Call { tenant: "t".into(), key: "late".into(), invoked: KILL_REACH_NS * 3, was_admitted: false },
            ],
            kills: vec![("t".into(), 8)],
            shown: vec![("t".into(), "t".into())],
            folds: vec![("x".into(), "x".into())],
            ..History::default()
        };
        history.appends[1].expected = Some(("s".into(), 1));
        let seen = log.iter().map(|row| (row.position, row.event_id.clone())).collect();
        history.readers = vec![Reader { tenant: "t".into(), seen }];
        history.logs.insert("t".into(), log);
        history
    }

    fn log(history: &mut History) -> &mut Vec<Row> {
        history.logs.get_mut("t").expect("a log")
    }

    /// A planted fault: its name, how it is planted, and the rule that it breaks.
    type Fault = (&'static str, fn(&mut History), Rule);

    const FAULTS: &[Fault] = &[
        ("a position is left out", |it| log(it).iter_mut().skip(2).for_each(|row| row.position += 1), Rule::Gapless),
        (
            "an acknowledged event is lost",
            |it| {
                it.appends[2] =
                    Append { end: End::Done, positions: vec![9], ids: vec!["lost".into()], ..it.appends[2].clone() }
            },
            Rule::Acknowledged,
        ),
        ("a refused event is there", |it| it.appends[2].end = End::Refused, Rule::Acknowledged),
        (
            "an event is there twice",
            |it| {
                let mut again = log(it)[2].clone();
                (again.position, again.stream_version) = (6, 4);
                log(it).push(again);
            },
            Rule::Acknowledged,
        ),
        ("half of an append is there", |it| it.appends[2].ids.push("other".into()), Rule::Acknowledged),
        ("an answer names another position", |it| it.appends[0].positions = vec![3], Rule::Acknowledged),
        (
            "the order is not that of time",
            |it| {
                it.appends[0].invoked = 10;
                it.appends[0].ended = 11;
            },
            Rule::RealTime,
        ),
        ("two saw the same version", |it| it.appends[1].expected = Some(("s".into(), 0)), Rule::Versions),
        ("a stream's versions repeat", |it| log(it)[2].stream_version = 2, Rule::Versions),
        ("a reader missed an event", |it| drop(it.readers[0].seen.remove(1)), Rule::Readers),
        (
            "a reader saw an event twice",
            |it| {
                let again = it.readers[0].seen[1].clone();
                it.readers[0].seen.insert(2, again);
            },
            Rule::Readers,
        ),
        ("a reader saw what was never there", |it| it.readers[0].seen[1].1 = "ghost".into(), Rule::Readers),
        ("an effect comes before its cause", |it| log(it)[1].causation_id = Some("c".into()), Rule::Causes),
        ("a hash is wrong", |it| it.broken.push(("t".into(), "position 2".into())), Rule::Hashes),
        ("a snapshot is not the fold", |it| it.folds[0].1 = "y".into(), Rule::Folds),
        ("a row of another tenant is shown", |it| it.shown.push(("t".into(), "u".into())), Rule::Tenants),
        ("an action ran twice", |it| log(it)[4].event_type = "action.admitted".into(), Rule::Once),
        ("a call passes a kill switch", |it| it.calls[1].was_admitted = true, Rule::Killed),
    ];

    #[test]
    fn scenario_59_the_checker_finds_each_planted_fault_and_nothing_else() {
        assert_eq!(check(&whole()), []);
        for (name, plant, rule) in FAULTS {
            let mut history = whole();
            plant(&mut history);
            let found = check(&history);
            assert!(found.iter().any(|(it, _)| it == rule), "{name}: {found:?}");
        }
        let rules: BTreeSet<Rule> = FAULTS.iter().map(|(.., rule)| *rule).collect();
        assert_eq!(rules.len(), 11, "each rule has a fault: {rules:?}");
    }
}
