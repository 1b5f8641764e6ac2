//! Calls that a model repeats: the first result answers them, as long as nothing can have changed since. Must not run
//! anything.

use crate::model::ToolCall;
use crate::proto::tool::{Outcome, STILL_RUNNING};

/// Calls of one question, with their results.
#[derive(Default)]
pub(in crate::agent) struct Repeats {
    past: Vec<Past>,
}

struct Past {
    name: String,
    arguments: String,
    result: String,
    times: usize,
    /// True if the same call would have the same result now.
    holds: bool,
}

impl Past {
    fn is(&self, call: &ToolCall) -> bool {
        self.name == call.name && self.arguments == call.arguments
    }
}

impl Repeats {
    /// The earlier result of a call that would have the same effect, in words; counts it.
    pub(in crate::agent) fn known(&mut self, call: &ToolCall) -> Option<String> {
        let past = self.past.iter_mut().find(|past| past.holds && past.is(call))?;
        past.times += 1;
        Some(format!(
            "{}\n[You made this call before, and this is its earlier result: it wasn't run again. Answer the question now, or \
             make another call.]",
            past.result
        ))
    }

    /// Notes the result of a call. A call that may have changed something makes others worth repeating, and one that
    /// failed may succeed the next time.
    pub(in crate::agent) fn note(&mut self, call: &ToolCall, outcome: &Outcome, result: &str, has_only_looked: bool) {
        if !has_only_looked {
            self.past.iter_mut().for_each(|past| past.holds = false);
        }
        let is_running = outcome.metadata.contains_key("job")
            || outcome.error.as_ref().is_some_and(|error| error.code == STILL_RUNNING);
        // Waiting for a running job may be repeated any number of times.
        let is_wait = is_running || call.name.ends_with("job");
        let holds = outcome.success && !is_wait;
        match self.past.iter_mut().find(|past| past.is(call)) {
            Some(past) if past.result == result && !is_wait => (past.times, past.holds) = (past.times + 1, holds),
            Some(past) => (past.times, past.holds, past.result) = (1, holds, result.to_owned()),
            None => self.past.push(Past {
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                result: result.to_owned(),
                times: 1,
                holds,
            }),
        }
    }

    /// Returns how often the most repeated call was made.
    pub(in crate::agent) fn most(&self) -> usize {
        self.past.iter().map(|past| past.times).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::tool::ToolError;

    #[test]
    fn a_call_is_repeated_only_if_nothing_can_have_changed() {
        let call = |name: &str| ToolCall { id: String::new(), name: name.into(), arguments: "{}".into() };
        let mut repeats = Repeats::default();
        assert_eq!(repeats.known(&call("read")), None);
        repeats.note(&call("read"), &Outcome::of("one"), "one", true);
        assert!(repeats.known(&call("read")).is_some_and(|text| text.starts_with("one\n[You made this call before")));
        repeats.note(&call("shell"), &Outcome::of("done"), "done", false);
        assert_eq!((repeats.known(&call("read")), repeats.most()), (None, 2));
        assert!(repeats.known(&call("shell")).is_some(), "nothing was done since");
        let failed: Outcome = ToolError::new("exit", "it ended with status 1", "").into();
        (0..3).for_each(|_| repeats.note(&call("test"), &failed, "[exit 1]", false));
        assert_eq!((repeats.known(&call("test")), repeats.most()), (None, 3));
    }

    #[test]
    fn looking_at_a_job_ten_times_is_no_repetition() {
        let call = ToolCall { id: String::new(), name: "shell_job".into(), arguments: r#"{"job":1}"#.into() };
        let mut repeats = Repeats::default();
        for _ in 0..10 {
            assert_eq!(repeats.known(&call), None);
            repeats.note(&call, &Outcome::of("it still runs"), "it still runs", true);
        }
        assert_eq!(repeats.most(), 1);
    }
}
