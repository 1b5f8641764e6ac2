//! Tests of a tool of a repository (`tools/NAME.test.luau`): each runs on files of its own in memory, and nothing of it
//! reaches the disk.

use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSetBuilder};
use mlua::{Error, Function, Lua, Value as LuaValue};
use serde_json::Value;

use super::{Script, api, json, sandbox_of, table_of};
use crate::files::Tree;
use crate::schema::Schema;

/// Time after which no other test of a tool begins.
const TESTS_TIME: Duration = Duration::from_secs(10);

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// Reason why it failed, with its line.
    pub failure: Option<String>,
}

impl Script {
    /// Runs the tests in a text in the order of their names. Each begins with the files of `start`, which stays as it is, and
    /// has the limits of one call.
    ///
    /// # Errors
    /// The text isn't a table of functions, or has none.
    pub fn test(&self, text: &str, start: &dyn Tree) -> Result<Vec<Tested>, String> {
        let sandbox = sandbox_of(&self.source)?;
        let names = sandbox.within(self.time, || {
            let mut names = Vec::new();
            for member in table_of(&sandbox, text)?.pairs::<String, Function>() {
                names.push(member.map_err(|_| Error::runtime("its members have to be functions with names"))?.0);
            }
            Ok(names)
        });
        let mut names = names.map_err(super::with_line)?;
        names.sort();
        if names.is_empty() {
            return Err("it has no tests".to_owned());
        }
        let began = Instant::now();
        let one = |name: String| {
            let tested = if began.elapsed() > TESTS_TIME {
                Err(format!("not run: those before it took {} s", TESTS_TIME.as_secs()))
            } else {
                self.run_test(&name, text, start)
            };
            Tested { failure: tested.err(), name }
        };
        Ok(names.into_iter().map(one).collect())
    }

    fn run_test(&self, name: &str, text: &str, start: &dyn Tree) -> Result<(), String> {
        let everywhere = GlobBuilder::new("**").build().and_then(|glob| GlobSetBuilder::new().add(glob).build());
        let everywhere = everywhere.map_err(|error| error.to_string())?;
        let sandbox = sandbox_of(&self.source)?;
        let files = api::Files::new(start, &everywhere, &|_| true);
        let tested = sandbox.within(self.time, || {
            let test: Function = table_of(&sandbox, text)?.raw_get(name)?;
            sandbox.lua().scope(|scope| {
                let (table, _) = api::tables(sandbox.lua(), scope, &files)?;
                let run = scope.create_function(|lua: &Lua, arguments: LuaValue| {
                    let arguments = json::of_lua(&arguments).map_err(Error::runtime)?;
                    json::to_lua(lua, &self.call_on(&arguments, &files).map_err(Error::runtime)?)
                })?;
                test.call::<()>((table, run))
            })
        });
        tested.map_err(super::with_line)
    }

    /// Calls the tool on the files of a test, which then have its changes; none if it fails.
    fn call_on(&self, arguments: &Value, files: &api::Files<'_>) -> Result<Value, String> {
        let problems = Schema::new(self.spec.schema.clone())?.problems(arguments);
        if !problems.is_empty() {
            return Err(format!("the arguments don't fit the schema: {}", problems.join("; ")));
        }
        let own = files.copy_for(&self.writes);
        let result = self.execute(arguments, &own).map_err(|error| error.message)?;
        files.take_over(own);
        Ok(result)
    }
}
