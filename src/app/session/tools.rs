//! Tools in the repository of a session: which of them its person has allowed, and the questions about them. The
//! permissions are stored in the state directory, for each repository; the file in the tree only records the decisions.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{OnGit, no_session, session_failure};
use crate::app::tooling::scripts::{grants_of, loaded};
use crate::config::{Env, Settings};
use crate::files::Tree;
use crate::git::empty_tree;
use crate::host::now_unix_ms;
use crate::proto::Failure;
use crate::tools::Script;
use crate::tools::script::{FOLDER, Source, Standing, Tested, names, tests_of};
use crate::tree::{DECISIONS, Draft, Memory};

/// Entries of that log.
const LOG_MAX: usize = 1_000;

/// A tool of the session's repository.
pub struct RepositoryTool {
    /// Its name.
    pub name: String,
    /// `allowed`, `unknown`, `changed`, `refused` or `broken`.
    pub state: &'static str,
    /// Reason why it is broken.
    pub why: Option<String>,
}

/// A tool as it is shown before it is allowed.
pub struct ToolAsked {
    /// The difference from the text that was allowed last, or the whole text.
    pub text: String,
    /// The patterns of the paths that it may write.
    pub writes: Vec<String>,
    /// Its description for the model.
    pub description: String,
}

/// The decision about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// May run from the next turn, unasked.
    Approve,
    /// Not wanted in this form.
    Reject,
    /// Nothing of it is allowed any more.
    Revoke,
}

impl OnGit {
    fn source(&self, name: &str) -> Result<Source, Failure> {
        let source = Source::read(&**self.session.draft(), name);
        source.map_err(|message| Failure::user(message).hint(":session tools lists them"))
    }

    /// The tools of the repository as the newest turn has it.
    #[must_use]
    pub fn repository_tools(&self) -> Vec<RepositoryTool> {
        let (grants, draft) = (grants_of(&self.bench), self.session.draft());
        let one = |name: String| match Source::read(&**draft, &name) {
            Ok(source) => RepositoryTool { name, state: grants.standing(&source).word(), why: None },
            Err(why) => RepositoryTool { name, state: "broken", why: Some(why) },
        };
        names(&**draft).into_iter().map(one).collect()
    }

    /// Returns the facts that a person has to see before they allow a tool. The tool is loaded within its bounds, and not run.
    ///
    /// # Errors
    /// There is no such tool, or it can't be used.
    pub fn tool_asked(&self, name: &str, settings: &Settings, env: &Env) -> Result<ToolAsked, Failure> {
        let text = self.source(name)?.difference(&grants_of(&self.bench).allowed_text(name));
        let tool = self.script(name, settings, env)?;
        let description = crate::tools::Tool::spec(&tool).description;
        Ok(ToolAsked { text, writes: tool.writes().to_vec(), description })
    }

    /// Runs the tests of a tool on files in memory. The tool needn't be allowed, since it can't reach the session's files.
    ///
    /// # Errors
    /// There is no such tool or no file of tests, or one of both can't be used.
    pub fn test_tool(&self, name: &str, settings: &Settings, env: &Env) -> Result<Vec<Tested>, Failure> {
        let tool = self.script(name, settings, env)?;
        let failed = |message: String| {
            Failure::user(message)
                .hint("the file returns a table of functions, each a test; see the documentation's page on sessions")
        };
        let text = tests_of(&**self.session.draft(), name).map_err(failed)?;
        let start = Draft::on(Arc::new(Memory::default()), empty_tree(), Path::new("/tests"), None);
        tool.test(&text, &start).map_err(|why| failed(format!("{FOLDER}/{name}.test.luau can't be used: {why}")))
    }

    fn script(&self, name: &str, settings: &Settings, env: &Env) -> Result<Script, Failure> {
        let broken = |why: String| {
            Failure::user(format!("{FOLDER}/{name}.luau can't be used: {why}")).hint("ask the model to mend it")
        };
        loaded(self.source(name)?, settings, env, None, self.workspace().to_owned()).map_err(broken)
    }

    /// Carries out a person's decision about a tool, and commits that it was made. Returns a line about it.
    ///
    /// # Errors
    /// There is no such tool, or the state directory or the branch can't be written.
    pub fn rule_tool(&mut self, name: &str, ruling: Ruling) -> Result<String, Failure> {
        let grants = grants_of(&self.bench);
        // A decision that changes nothing makes no commit.
        let is_known = match ruling {
            Ruling::Revoke if !grants.knows(name) => Some("nothing of it was allowed or refused"),
            Ruling::Approve if grants.standing(&self.source(name)?) == Standing::Allowed => {
                Some("it is allowed as it is, already")
            }
            Ruling::Reject if grants.standing(&self.source(name)?) == Standing::Refused => {
                Some("it is refused as it is, already")
            }
            _ => None,
        };
        if let Some(words) = is_known {
            return Ok(format!("tool {name}: {words}"));
        }
        let failed = |error: std::io::Error| Failure::unavailable(format!("the decision can't be written: {error}"));
        self.session.begin_own().map_err(session_failure)?;
        let (word, done, hash) = match ruling {
            Ruling::Revoke => {
                grants.revoke(name).map_err(failed)?;
                ("revoke", "nothing of it is allowed any more", None)
            }
            Ruling::Approve => {
                let source = self.source(name)?;
                grants.allow(&source).map_err(failed)?;
                ("approve", "the model has it from the next turn on, unasked", Some(source.sha256()))
            }
            Ruling::Reject => {
                let source = self.source(name)?;
                grants.refuse(&source).map_err(failed)?;
                ("reject", "it isn't asked about again", Some(source.sha256()))
            }
        };
        let draft = self.session.draft();
        let old = draft.read(DECISIONS, 1024 * 1024).ok().map(|it| it.bytes);
        let parsed = old.as_deref().and_then(|it| serde_json::from_slice::<Value>(it).ok());
        let mut log = parsed.and_then(|it| it.as_array().cloned()).unwrap_or_default();
        let turn = self.session.meta().turns;
        log.push(json!({"name": name, "ruling": word, "sha256": hash, "time_ms": now_unix_ms(), "turn": turn}));
        let most = log.len().saturating_sub(LOG_MAX);
        log.drain(..most);
        let new = serde_json::to_vec_pretty(&log).unwrap_or_default();
        draft
            .put(Path::new(DECISIONS), Some((crate::git::Mode::File, &new)))
            .map_err(|error| Failure::unavailable(format!("{DECISIONS}: {error}")))?;
        self.session.commit_own(&format!("{word} tool {name}")).map_err(session_failure)?;
        Ok(format!("tool {name}: {done}"))
    }

    /// Lists the tools that wait for a decision: each with its name, and whether another text of it was allowed.
    #[must_use]
    pub fn undecided_tools(&self) -> Vec<String> {
        let waits = |it: &RepositoryTool| matches!(it.state, "unknown" | "changed");
        self.repository_tools().into_iter().filter(waits).map(|it| it.name).collect()
    }
}

/// The session that is on, for what is decided about tools.
///
/// # Errors
/// No session is on.
pub fn session_on(on_git: Option<&mut OnGit>) -> Result<&mut OnGit, Failure> {
    on_git.ok_or_else(no_session)
}
