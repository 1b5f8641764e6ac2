//! `tool_search`: finds tools of servers whose schemas aren't sent with each request, because there are too many.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Listed, Servers};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::render::strip_controls;
use crate::tools::catalog::stranger::DESCRIPTION_BYTES_MAX;
use crate::tools::{Offer, Place, Plan, Spec, Tool, Work};

/// Tools that are sent at once. Providers take 128, the built-in ones among them.
pub(super) const AT_ONCE_MAX: usize = 100;
/// Approximate number of bytes of a schema for each token.
const BYTES_PER_TOKEN: usize = 4;
/// Bytes of a tool in a request beside its name, its description and its schema: the words in front of the description, and the
/// names of these parts.
const FRAME_BYTES: usize = 120;

/// Tools that one search makes callable.
const FOUND_MAX: usize = 8;
/// Servers that the description names.
const SERVERS_NAMED_MAX: usize = 32;
/// Characters of a description in a list of what was found.
const LINE_CHARS_MAX: usize = 160;
/// The constants of Okapi BM25: how soon a repeated word counts no more, and how much a long text loses.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// The number of tools, from the newest back, that fit into the room: tokens, and a number of tools. The newest one is always
/// sent: a tool that can never be called is of no use.
pub(super) fn fitting(costs: &[usize], (tokens, count): (usize, usize)) -> usize {
    let mut left = tokens;
    let newest = costs.iter().rev().take(count.max(1)).enumerate();
    let fits = |(at, cost): &(usize, &usize)| {
        let is_in = *at == 0 || **cost <= left;
        left = left.saturating_sub(**cost);
        is_in
    };
    newest.take_while(fits).count()
}

/// About how many tokens a tool costs in each request.
pub(super) fn tokens(row: &Listed) -> usize {
    let Listed { server, tool, name, .. } = row;
    let description = tool.description.len().min(DESCRIPTION_BYTES_MAX);
    (FRAME_BYTES + server.len() + name.len() + description + tool.input.text().len()) / BYTES_PER_TOKEN
}

/// Finds tools.
pub struct ToolSearch {
    servers: Arc<Servers>,
    counts: BTreeMap<String, usize>,
}

impl ToolSearch {
    pub(super) fn new(servers: Arc<Servers>, counts: BTreeMap<String, usize>) -> Self {
        Self { servers, counts }
    }
}

impl Tool for ToolSearch {
    fn spec(&self) -> Spec {
        spec(&self.counts)
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "tool_search".into() }))
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        let query = permit.arguments().get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = permit.arguments().get("limit").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
        let offered = self.servers.offered();
        let found = offered.search(query, limit.unwrap_or(FOUND_MAX / 2).min(FOUND_MAX));
        if found.is_empty() {
            let servers: Vec<&str> = self.counts.keys().map(String::as_str).collect();
            return Outcome::of(format!("No tool fits. The servers are {}.", servers.join(", ")));
        }
        // The best one is the last to be removed if there is no room for all.
        self.servers.load(found.iter().rev().map(|row| row.name.clone()));
        let line = |row: &&Listed| {
            let text: String =
                row.tool.description.lines().next().unwrap_or_default().chars().take(LINE_CHARS_MAX).collect();
            format!("{}: {}", row.name, strip_controls(text.as_bytes()))
        };
        Outcome::of(found.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

/// The search as a model sees it.
fn spec(counts: &BTreeMap<String, usize>) -> Spec {
    let named = counts.iter().take(SERVERS_NAMED_MAX).map(|(server, count)| format!("{server} ({count} tools)"));
    let named: Vec<String> = named.collect();
    Spec {
        name: "tool_search".into(),
        aliases: &[],
        description: format!(
            "Finds tools of servers that you can't see yet: {}. Say in a few words what you want to do. The tools that it \
             finds can be called from your next step on.",
            named.join(", ")
        ),
        schema: json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what the tool should do, or its name"},
                "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX},
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
    }
}

/// The words of tools: for each word the tools that have it, by their places, and how often.
pub(super) struct Index {
    places: HashMap<String, Vec<(usize, usize)>>,
    /// The number of words of each tool.
    lengths: Vec<usize>,
}

impl Index {
    pub(super) fn of(all: &[Listed]) -> Self {
        let mut index = Self { places: HashMap::new(), lengths: Vec::new() };
        for (at, row) in all.iter().enumerate() {
            let words = text(row);
            index.lengths.push(words.len());
            for word in words {
                let places = index.places.entry(word).or_default();
                match places.last_mut() {
                    Some((last, count)) if *last == at => *count += 1,
                    _ => places.push((at, 1)),
                }
            }
        }
        index
    }
}

/// The tools that fit a query best, the best first. A tool whose name is the query comes first.
pub(super) fn search<'l>(all: &'l [Listed], index: &Index, query: &str, limit: usize) -> Vec<&'l Listed> {
    let average = index.lengths.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
    let mut scores = vec![0.0; all.len()];
    for places in words(query).iter().filter_map(|word| index.places.get(word)) {
        let holding = places.len() as f64;
        let weight = ((all.len() as f64 - holding + 0.5) / (holding + 0.5) + 1.0).ln();
        for (at, count) in places {
            let share = 1.0 - LENGTH + LENGTH * index.lengths[*at] as f64 / average.max(1.0);
            let count = *count as f64;
            scores[*at] += weight * count * (SATURATION + 1.0) / (count + SATURATION * share);
        }
    }
    let is_name = |row: &Listed| row.tool.name == query || row.name == query;
    let scored = all.iter().zip(scores).map(|(row, score)| (if is_name(row) { f64::MAX } else { score }, row));
    let mut scored: Vec<(f64, &Listed)> = scored.filter(|(score, _)| *score > 0.0).collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.name.cmp(&right.1.name)));
    scored.into_iter().take(limit).map(|(_, row)| row).collect()
}

/// Returns the words of a tool: its name counts twice, as it is the most telling.
fn text(row: &Listed) -> Vec<String> {
    let schema = row.tool.input.value();
    let parameters = schema.get("properties").and_then(Value::as_object);
    let parameters = parameters.into_iter().flat_map(|all| all.keys().map(String::as_str));
    let parts = [row.name.as_str(), row.name.as_str(), &row.tool.title, &row.tool.description];
    parts.into_iter().chain(parameters).flat_map(words).collect()
}

/// The words of a text in small letters, without a plural's ending; `readFile` and `read_file` are two words each.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_small = false;
    for c in text.chars().chain([' ']) {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_small) {
            if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
                word.pop();
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        }
        was_small = c.is_lowercase();
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::served::{Definition, Json, PinStanding};

    fn listed(server: &str, name: &str, description: &str, parameter: &str) -> Listed {
        Listed {
            server: server.into(),
            name: format!("{server}__{name}"),
            tool: Arc::new(Definition {
                name: name.into(),
                description: description.into(),
                input: Json::from(&json!({"type": "object", "properties": {parameter: {}}})),
                ..Definition::default()
            }),
            standing: PinStanding::Pinned,
            is_left_out: false,
        }
    }

    #[test]
    fn the_tool_that_is_meant_is_found() {
        let all = [
            listed("git", "git_log", "Shows the history of commits.", "repo_path"),
            listed("git", "git_diff", "Shows changes that aren't committed yet.", "target"),
            listed("git", "git_branch", "Lists the branches.", "kind"),
            listed("mail", "sendMessage", "Sends an electronic letter to a person.", "recipient"),
            listed("mail", "searchMessages", "Searches the mailbox.", "query"),
            listed("time", "convert_time", "Converts a time between time zones.", "timezone"),
            listed("db", "run_query", "Runs a statement of SQL and gives the rows.", "sql"),
        ];
        let index = Index::of(&all);
        for (query, wanted) in [
            ("list branches of the repository", "git__git_branch"),
            ("history of commits", "git__git_log"),
            ("send a message to Ada", "mail__sendMessage"),
            ("time zones", "time__convert_time"),
            ("sql", "db__run_query"),
            ("git_diff", "git__git_diff"),
            ("mail__searchMessages", "mail__searchMessages"),
        ] {
            let found: Vec<&str> = search(&all, &index, query, 3).into_iter().map(|row| row.name.as_str()).collect();
            assert_eq!(found.first(), Some(&wanted), "{query}: {found:?}");
        }
        assert!(search(&all, &index, "zebra", 3).is_empty() && search(&[], &Index::of(&[]), "git", 3).is_empty());
    }

    #[test]
    fn found_tools_fill_their_room_from_the_newest_back() {
        for (costs, room, expected) in [
            (&[][..], (100, 10), 0),
            (&[40, 40, 40], (100, 10), 2),
            (&[40, 40, 40], (120, 10), 3),
            (&[40, 40, 40], (120, 2), 2),
            (&[10, 200, 10], (100, 10), 1),
            // The newest one can always be called.
            (&[10, 200], (100, 10), 1),
            (&[10, 10], (0, 0), 1),
        ] {
            assert_eq!(fitting(costs, room), expected, "{costs:?} {room:?}");
        }
    }

    /// 150 tools as seven well-known kinds of servers describe them, and 60 wishes in other words: a tool's name and purpose are
    /// all that the search has to go by.
    #[test]
    fn of_150_tools_19_of_20_are_among_the_first_five_and_the_search_costs_little() {
        let data = |text: &'static str| text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let tools = data(include_str!("../../../tests/data/mcp/tools.tsv"));
        let all: Vec<Listed> = tools.map(|row| listed(row[0], row[1], row[2], "it")).collect();
        assert_eq!(all.len(), 150);
        let index = Index::of(&all);
        let mut missed = Vec::new();
        let mut count = 0;
        for row in data(include_str!("../../../tests/data/mcp/queries.tsv")) {
            assert!(all.iter().any(|listed| listed.name == row[1]), "{row:?}");
            count += 1;
            if !search(&all, &index, row[0], 5).iter().any(|found| found.name == row[1]) {
                missed.push(row[0]);
            }
        }
        assert!(missed.len() * 20 <= count, "{} of {count}: {missed:?}", missed.len());
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        all.iter().for_each(|row| *counts.entry(row.server.clone()).or_default() += 1);
        let spec = spec(&counts);
        let text = format!("{} {} {}", spec.name, spec.description, spec.schema);
        let tokens = bpe_openai::o200k_base().count(&text);
        assert!(tokens <= 1200, "{tokens} tokens");
        // The estimated cost of tools is close to the real one, as a model's own vocabulary counts it.
        let (estimated, counted) = all.iter().fold((0, 0), |(estimated, counted), row| {
            let description = format!("By the server {}, in its own words: {}", row.server, row.tool.description);
            let function = json!({"name": row.name, "description": description, "parameters": row.tool.input.value()});
            let sent = json!({"type": "function", "function": function}).to_string();
            (estimated + super::tokens(row), counted + bpe_openai::o200k_base().count(&sent))
        });
        assert!((counted * 9 / 10..=counted * 6 / 5).contains(&estimated), "{estimated} for {counted}");
    }
}
