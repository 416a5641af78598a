//! How each tool is called.

use lope_agent_runner::invocation::{CallFacts, argv};
use lope_agents::settings::{AgentSettings, PromptBy};

fn called(command: &[&str], facts: &CallFacts<'_>) -> String {
    let agent = AgentSettings {
        command: command.iter().map(ToString::to_string).collect(),
        ..AgentSettings::usual()
    };
    assert_eq!(agent.prompt, PromptBy::Stdin);
    argv(&agent, facts).join(" ")
}

#[test]
fn an_adapter_adds_what_the_command_does_not_say() {
    let fresh = CallFacts {
        folder: "/shop",
        session: None,
        cost_left: None,
    };
    let again = CallFacts {
        session: Some("s1"),
        cost_left: Some(1.5),
        ..fresh.clone()
    };
    let rows = [
        (
            &["claude", "-p"][..],
            "claude -p --output-format stream-json --verbose",
        ),
        (&["codex"], "codex exec --json -C /shop -"),
        (
            &["gemini", "--approval-mode", "yolo"],
            "gemini --approval-mode yolo --output-format stream-json",
        ),
        (&["opencode"], "opencode run --format json --dir /shop"),
        (&["./mine", "x"], "./mine x"),
    ];
    for (command, expected) in rows {
        assert_eq!(called(command, &fresh), expected);
    }
    let rows = [
        (
            &[
                "/opt/claude",
                "--print",
                "--verbose",
                "--output-format=stream-json",
            ][..],
            "/opt/claude --print --verbose --output-format=stream-json --max-budget-usd 1.5000 --resume=s1",
        ),
        (
            &["codex", "exec", "-s", "workspace-write"],
            "codex exec -s workspace-write --json -C /shop resume s1 -",
        ),
        (
            &["gemini"],
            "gemini --output-format stream-json --resume s1",
        ),
        (
            &["opencode", "run"],
            "opencode run --format json --dir /shop -s s1",
        ),
        (
            &["claude", "-p", "--continue"],
            "claude -p --continue --output-format stream-json --verbose --max-budget-usd 1.5000",
        ),
    ];
    for (command, expected) in rows {
        assert_eq!(called(command, &again), expected);
    }
}
