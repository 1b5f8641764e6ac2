//! The size of the instructions and tools that go with a trivial question, counted with a real vocabulary.

use reedclaw::app;
use reedclaw::config::{self, Env, LoadRequest};
use reedclaw::tokens::Encoding;
use reedclaw::tools::ToolSet;
use serde_json::{Value, json};

use crate::home::{TestHome, run};
use crate::server::{Server, answer, tool_call};

/// Tokens of instructions and tools in the form of a chat template: each message, and each tool as JSON.
fn tokens(texts: &[&str], tools: &[Value]) -> u64 {
    let count = |text: &str| Encoding::O200k.count(text);
    texts.iter().map(|text| count(text) + 4).sum::<u64>()
        + tools.iter().map(|tool| count(&tool.to_string())).sum::<u64>()
}

#[test]
fn a_trivial_question_of_a_small_model_takes_at_most_550_tokens() {
    let server = Server::start();
    let home = TestHome::for_commands().asks(&server, "m", "", "memory = {auto = false}");
    let home = home.directory("work/.git").file("work/Makefile", "all:\n").done();
    server.reply(answer("4"));
    assert_eq!(run(home.path(), &["agent", "--path", "work", "-m", "What is 2+2?"]).0, Some(0));
    let request = server.request(1);
    let tools = request.body["tools"].as_array().expect("tools").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert_eq!(
        names,
        ["edit_replace_exact", "file_read", "file_write", "search_text", "shell"],
        "and no one can be asked"
    );
    let (system, question) = (request.content(0), request.whole_content(-1));
    assert!(question.starts_with("[session] 20") && question.contains("; directory "), "{question}");
    assert!(!system.contains("REMEMBER"));
    // The card of a project isn't an instruction, and has its own limit.
    let session = question.lines().next().unwrap_or_default();
    let tokens = tokens(&[&system, session, "What is 2+2?"], &tools);
    assert!(tokens <= 550, "{tokens} tokens: {system}\n{question}");
    println!("{tokens} tokens for a small model");
}

#[test]
fn a_trivial_question_of_any_model_takes_at_most_2200_tokens() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let env: Env = [("HOME".into(), home.path().as_os_str().to_owned())].into();
    let request = LoadRequest { explicit: None, env: env.clone(), cwd: home.path().to_owned() };
    let settings = config::load(&request).expect("the defaults").settings;
    let (mut registry, problems) = app::tools_alone(&settings, &env);
    assert_eq!(problems, []);
    registry.add(Box::new(reedclaw::tools::Remember)).expect("a new name");
    let of = |(spec, brief): (&reedclaw::tools::Spec, _)| {
        let (description, schema) = spec.words(brief);
        let parameters: Value = serde_json::from_str(&schema).expect("JSON");
        json!({"type": "function", "function": {"name": spec.name, "description": description, "parameters": parameters}})
    };
    let tools: Vec<Value> = registry.offered(ToolSet::Auto, false, true).map(of).collect();
    let prompts = app::agent_options(&settings, &env, app::ChannelKind::Shell);
    let tokens = tokens(&[&prompts.conversation.system_prompt, &prompts.prompts.tools], &tools);
    assert!(tokens <= 2_200, "{tokens} tokens for {} tools", tools.len());
    println!("{tokens} tokens for {} tools", tools.len());
}

#[test]
fn a_small_model_is_offered_few_arguments_and_may_give_the_others() {
    let server = Server::start();
    let home = TestHome::for_commands().asks(&server, "m", "", "memory = {auto = false}");
    let home = home.directory("work/.git").file("work/lines", "one\ntwo\nthree\n").done();
    server.reply(tool_call("file_read", r#"{"path": "lines", "start_line": 2, "end_line": 2}"#));
    server.reply(answer("two"));
    let (status, output, errors) = run(home.path(), &["agent", "--path", "work", "-m", "The second line?"]);
    assert_eq!((status, output.trim()), (Some(0), "two"), "{errors}");
    let request = server.request(1);
    let tools = request.body["tools"].as_array().expect("tools").clone();
    for tool in &tools {
        let parameters = &tool["function"]["parameters"];
        let names: Vec<&String> = parameters["properties"].as_object().expect("arguments").keys().collect();
        let optional: Vec<_> = names
            .iter()
            .filter(|name| !parameters["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name.as_str())))
            .collect();
        assert!(optional.is_empty() || optional == [&"path"], "{tool}");
    }
    let result = server.request(2).whole_content(-1);
    assert!(result.contains("two") && !result.contains("three"), "{result}");
}
