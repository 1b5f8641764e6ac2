//! The recipes: tasks and the line for each, for the most common commands. They are a part of the executable and are
//! split into words with the first question.

/// `# COMMAND: words`, then lines of a task, a tab and the command line.
const RECIPES: &str = include_str!("../../config/manual/recipes.txt");

/// A task and the line that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// The command that it is about.
    pub command: &'static str,
    /// Words by which the command is found.
    pub words: &'static str,
    /// The task.
    pub task: &'static str,
    /// The line, with names in capitals for the person to replace.
    pub line: &'static str,
}

/// Reads the built-in recipes.
pub(super) fn all() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    let (mut command, mut words) = ("", "");
    for line in RECIPES.lines() {
        if let Some(head) = line.strip_prefix("# ") {
            (command, words) = head.split_once(": ").unwrap_or((head, ""));
        } else if let Some((task, line)) = line.split_once('\t') {
            recipes.push(Recipe { command, words, task, line });
        }
    }
    recipes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_hundred_commands_have_recipes_of_their_own() {
        let recipes = all();
        let commands: BTreeSet<&str> = recipes.iter().map(|recipe| recipe.command).collect();
        assert!(commands.len() >= 200, "{}", commands.len());
        for recipe in &recipes {
            assert!(!recipe.words.is_empty() && !recipe.task.is_empty(), "{recipe:?}");
        }
        let lines: BTreeSet<&str> = recipes.iter().map(|recipe| recipe.line).collect();
        assert!(lines.len() * 100 >= recipes.len() * 97, "{} of {}", lines.len(), recipes.len());
    }
}
