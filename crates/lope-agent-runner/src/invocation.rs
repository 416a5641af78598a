//! How an agent's tool is called: the configured command, with what its adapter needs added where
//! the command does not say it itself.

use lope_agents::settings::{AdapterKind, AgentSettings, PromptBy};

/// What a call is about.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CallFacts<'a> {
    /// The folder in which the agent works.
    pub folder: &'a str,
    /// The tool's session that it goes on with.
    pub session: Option<&'a str>,
    /// What it may cost, in dollars.
    pub cost_left: Option<f64>,
}

/// The program and its arguments, without the prompt.
pub fn argv(agent: &AgentSettings, facts: &CallFacts<'_>) -> Vec<String> {
    let mut argv = agent.command.clone();
    match agent.adapter() {
        AdapterKind::Claude => claude(&mut argv, facts),
        AdapterKind::Codex => codex(&mut argv, agent.prompt, facts),
        AdapterKind::Gemini => gemini(&mut argv, facts),
        AdapterKind::Opencode => opencode(&mut argv, facts),
        AdapterKind::Command => {}
    }
    argv
}

fn claude(argv: &mut Vec<String>, facts: &CallFacts<'_>) {
    if !has(argv, &["-p", "--print"]) {
        argv.push("-p".to_owned());
    }
    with(argv, &["--output-format"], "stream-json");
    if !has(argv, &["--verbose"]) {
        argv.push("--verbose".to_owned());
    }
    if let Some(dollars) = facts.cost_left {
        with(argv, &["--max-budget-usd"], &format!("{dollars:.4}"));
    }
    if let Some(session) = facts.session
        && !has(
            argv,
            &["--resume", "-r", "--session-id", "--continue", "-c"],
        )
    {
        argv.push(format!("--resume={session}"));
    }
}

/// What the whole call needs stands before `resume`.
fn codex(argv: &mut Vec<String>, prompt: PromptBy, facts: &CallFacts<'_>) {
    if !has(argv, &["exec", "e"]) {
        argv.insert(1, "exec".to_owned());
    }
    if !has(argv, &["--json"]) {
        argv.push("--json".to_owned());
    }
    with(argv, &["-C", "--cd"], facts.folder);
    if let Some(session) = facts.session {
        argv.extend(["resume".to_owned(), session.to_owned()]);
    }
    if prompt == PromptBy::Stdin {
        argv.push("-".to_owned());
    }
}

fn gemini(argv: &mut Vec<String>, facts: &CallFacts<'_>) {
    with(argv, &["--output-format", "-o"], "stream-json");
    if let Some(session) = facts.session
        && !has(argv, &["--resume", "-r", "--session-id"])
    {
        argv.extend(["--resume".to_owned(), session.to_owned()]);
    }
}

fn opencode(argv: &mut Vec<String>, facts: &CallFacts<'_>) {
    if !has(argv, &["run"]) {
        argv.insert(1, "run".to_owned());
    }
    with(argv, &["--format"], "json");
    with(argv, &["--dir"], facts.folder);
    if let Some(session) = facts.session {
        with(argv, &["-s", "--session"], session);
    }
}

/// Is one of these flags there?
fn has(argv: &[String], flags: &[&str]) -> bool {
    argv.iter().skip(1).any(|word| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        flags.contains(&name)
    })
}

/// A flag with its value, unless the command has one of its own.
fn with(argv: &mut Vec<String>, flags: &[&str], value: &str) {
    if !has(argv, flags) {
        argv.extend([flags[0].to_owned(), value.to_owned()]);
    }
}
