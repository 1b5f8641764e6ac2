//! Skills and prompt templates: their list, and the question that a template makes.

use crate::app::Skills;
use crate::proto::Failure;
use crate::skills::{Found, Text, filled};

/// The skills and templates as the rows of a table: kind, name, owner, description. The cells are texts of others.
#[must_use]
pub fn rows(skills: &Skills) -> Vec<Vec<String>> {
    let row = |kind: &str, it: &Text, owner: &str| {
        vec![kind.to_owned(), it.name.clone(), owner.to_owned(), it.description.clone()]
    };
    let rows = |found: &Found, owner: &str| {
        let skills = found.skills.iter().map(|it| row("skill", it, owner));
        skills.chain(found.templates.iter().map(|it| row("prompt", it, owner))).collect::<Vec<_>>()
    };
    let owner = if skills.is_trusted { "project" } else { "not trusted" };
    [rows(&skills.own, "yours"), rows(&skills.project, owner)].concat()
}

/// Makes a question from a template and its arguments.
///
/// # Errors
/// There is no such template, or a project's that isn't trusted.
pub fn question(skills: &Skills, name: &str, arguments: &str) -> Result<String, Failure> {
    if let Some(template) = skills.template(name) {
        return Ok(filled(&template.body, arguments));
    }
    if skills.project.templates.iter().any(|it| it.name == name) {
        return Err(Failure::user(format!("{name} is the project's, and isn't trusted as it is now"))
            .hint(":skills trust shows it and asks"));
    }
    Err(Failure::user(format!("there is no prompt template {name}")).hint(":skills lists them"))
}
