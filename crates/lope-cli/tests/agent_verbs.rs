//! The verbs that an agent has for its task and its project, in its shell and over MCP.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::agent_project::AgentProject;
use crate::stage::{Said, Watch, said};

/// A task that is held, and the token of its agent.
fn held(shop: &AgentProject) -> (String, String) {
    let id = shop.add("succeed", &[]);
    let claimed = shop.json(&["tasks", "claim", &id]);
    (id, claimed["token"].as_str().unwrap().to_owned())
}

/// A command as the agent of a token, in a folder that is none of a project: a worktree is elsewhere.
fn as_agent(shop: &AgentProject, token: &str, args: &[&str]) -> Command {
    let mut command = shop.command(args);
    command.env("LOPE_TASK_TOKEN", token);
    command.current_dir(shop.home.path());
    command
}

fn spoken(shop: &AgentProject, token: &str, args: &[&str]) -> Said {
    said(&mut as_agent(shop, token, args))
}

/// What an MCP server answers to calls of tools.
fn called(shop: &AgentProject, token: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    use std::io::Write;
    let mut child = as_agent(shop, token, &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watch = Watch::over(&child);
    let mut input = child.stdin.take().unwrap();
    for (id, (tool, arguments)) in calls.iter().enumerate() {
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        writeln!(input, "{call}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), calls.len(), "{answers:?}");
    answers
}

/// What a tool said.
fn told(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// "an MCP server on stdio (`lope mcp`) offers the same verbs, so that an agent can read its task, add follow-up
/// tasks, report progress and ask a person": `next`, `claim` and `add`, too, in the agent's own project.
#[test]
fn an_agent_adds_tasks_and_looks_at_what_comes_next_over_mcp() {
    let shop = AgentProject::new();
    let (id, token) = held(&shop);
    let other = shop.add("succeed later", &[]);
    let follow_up = json!({
        "title": "Follow up", "description": "all of it", "section": "Two", "priority": 7,
        "source": "SPEC.md#two", "needs": [id],
    });
    let answers = called(
        &shop,
        &token,
        &[
            ("task_add", follow_up),
            ("task_next", json!({})),
            ("task_claim", json!({})),
            ("task_claim", json!({ "task": id })),
            ("task_claim", json!({ "task": other })),
            ("task_add", json!({ "description": "no title" })),
            ("task_add", json!({ "title": "x", "priority": "high" })),
            ("task_add", json!({ "title": "x", "needs": "all" })),
            ("task_add", json!({ "title": "x", "priority": 99 })),
        ],
    );
    let added = told(&answers[0]);
    let task = shop.task(added["id"].as_str().unwrap());
    for (key, value) in [
        ("title", json!("Follow up")),
        ("description", json!("all of it")),
        ("section", json!("Two")),
        ("priority", json!(7)),
        ("sourceFile", json!("SPEC.md#two")),
        ("dependencies", json!([id])),
        ("project", json!(shop.project.to_str().unwrap())),
        ("status", json!("pending")),
    ] {
        assert_eq!(task[key], value, "{key}: {task}");
    }
    assert_eq!(told(&answers[1])["id"], other.as_str());
    for own in &answers[2..4] {
        assert_eq!(told(own)["id"], id.as_str());
    }
    let refused = &answers[4]["result"];
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("takes no other"), "{refused}");
    for bad in &answers[5..8] {
        assert_eq!(bad["error"]["code"], -32602, "{bad}");
    }
    assert_eq!(answers[8]["result"]["isError"], true, "{}", answers[8]);
    assert_eq!(shop.json(&["tasks", "list"]).as_array().unwrap().len(), 3);
    assert_eq!(shop.task(&other)["status"], "pending", "nobody took it");
}

/// "`lope tasks next|claim|note|done|fail|split` are made for a program inside the agent's shell (scoped by an
/// environment token to its own task)".
#[test]
fn an_agent_claims_its_own_task_and_no_other() {
    let shop = AgentProject::new();
    let (id, token) = held(&shop);
    let other = shop.add("succeed later", &[]);
    for args in [&["tasks", "claim"][..], &["tasks", "claim", &id[..8]]] {
        let claimed = spoken(&shop, &token, &[args, &["--json"]].concat())
            .done()
            .json();
        assert_eq!(
            (&claimed["id"], &claimed["token"], &claimed["role"]),
            (&json!(id), &json!(token), &json!("work")),
            "{claimed}"
        );
    }
    let words = spoken(&shop, &token, &["tasks", "claim"]).done().out;
    assert!(words.contains("is yours already"), "{words}");
    let refused = spoken(&shop, &token, &["tasks", "claim", &other]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("takes no other"), "{refused:?}");
    let next = spoken(&shop, &token, &["tasks", "next", "--json"])
        .done()
        .json();
    assert_eq!(next["id"], other.as_str(), "of its own project");
    let added = spoken(&shop, &token, &["tasks", "add", "More", "--json"])
        .done()
        .json();
    assert_eq!(added["project"], shop.project.to_str().unwrap());
    // Whoever does not hold it any more has nothing to claim.
    shop.lope(&["locks", "release", &id, "--force"]).done();
    let late = spoken(&shop, &token, &["tasks", "claim"]);
    assert_eq!(late.code, 3, "{late:?}");
    assert!(late.err.contains("lease lost"), "{late:?}");
}

/// "with the token `lope tasks show|note|done|fail|split|ask` speak for its own task and no other … `lope mcp` offers the
/// same verbs": an agent that names another task does not end its own instead, and what a tool knows nothing of is refused.
#[test]
fn an_agent_that_names_another_task_over_mcp_is_refused() {
    let shop = AgentProject::new();
    let (id, token) = held(&shop);
    let other = shop.add("succeed later", &[]);
    let answers = called(
        &shop,
        &token,
        &[
            ("task_done", json!({ "task": other, "result": "done" })),
            ("task_fail", json!({ "task": other, "reason": "why" })),
            ("task_note", json!({ "task": other, "text": "noted" })),
            ("task_ask", json!({ "task": other, "question": "which?" })),
            ("task_split", json!({ "task": other, "titles": ["a part"] })),
            ("task_done", json!({ "result": "done", "tsk": other })),
            ("task_add", json!({ "title": "x", "project": "q" })),
            ("task_next", json!({ "project": "q" })),
            ("task_show", json!([other])),
            ("task_show", json!({ "task": other })),
            ("task_note", json!({ "task": id[..8], "text": "my own" })),
        ],
    );
    for refused in &answers[..5] {
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        let words = refused.to_string();
        assert!(words.contains("speaks of no other"), "{words}");
    }
    for unknown in &answers[5..9] {
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
    assert_eq!(told(&answers[9])["id"], other.as_str(), "looked at");
    assert_eq!(told(&answers[10])["id"], id.as_str());
    let (own, before) = (shop.task(&id), shop.task(&other));
    assert_eq!(own["status"], "in_progress", "{own}");
    assert_eq!(before["status"], "pending", "{before}");
    assert!(own.to_string().contains("my own"), "{own}");
    for task in [&own, &before] {
        assert!(!task.to_string().contains("noted"), "{task}");
    }
    assert_eq!(shop.json(&["tasks", "list"]).as_array().unwrap().len(), 2);
}
