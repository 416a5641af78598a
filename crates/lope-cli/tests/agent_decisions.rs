//! What people decide at the command line while a runner works: it is heard at once, and never undone.

use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, attempts};
use crate::stage::until;

fn is(shop: &AgentProject, id: &str, status: &str) {
    until(status, || shop.task(id)["status"] == status);
}

/// "Review: … by a person (`lope tasks approve|reject`)": what is rejected goes back with the notes and is done
/// again by the runner that is there; what is approved is completed; what was asked is done with the answer.
#[test]
fn a_runner_goes_on_with_what_a_person_decides() {
    let shop = AgentProject::new();
    let runner = shop.start();
    let reviewed = shop.add("succeed with it", &["--review", "person"]);
    is(&shop, &reviewed, "review");
    shop.lope(&["tasks", "reject", &reviewed, "--notes", "it lacks a test"])
        .done();
    until("it is worked on again", || {
        shop.task(&reviewed)["attemptList"]
            .as_array()
            .unwrap()
            .len()
            == 2
    });
    is(&shop, &reviewed, "review");
    let prompt = shop.file(&format!("prompt.{reviewed}"));
    assert!(prompt.contains("it lacks a test"), "{prompt}");
    let approved = shop.json(&["tasks", "approve", &reviewed, "--notes", "now it is good"]);
    assert_eq!(approved["status"], "completed", "{approved}");

    let asked = shop.add("ask a person", &[]);
    is(&shop, &asked, "blocked");
    assert_eq!(shop.task(&asked)["question"], "Which colour?");
    shop.lope(&["tasks", "answer", &asked, "green"]).done();
    is(&shop, &asked, "completed");
    let prompt = shop.file(&format!("prompt.{asked}"));
    assert!(prompt.contains("answered: green"), "{prompt}");

    let waits = shop.add("succeed later", &["--needs", &reviewed, "--priority", "0"]);
    is(&shop, &waits, "completed");
    drop(runner);
    let task = shop.task(&reviewed);
    assert_eq!(
        (
            &task["status"],
            attempts(&task, "stopReason"),
            &task["rejections"]
        ),
        (&json!("completed"), vec![&json!("success"); 2], &json!(1)),
        "{task}"
    );
    let events = task["events"].as_array().unwrap().iter();
    let said: Vec<(&Value, &Value)> = events
        .map(|event| (&event["kind"], &event["message"]))
        .collect();
    assert_eq!(
        said,
        [
            (&json!("rejected"), &json!("it lacks a test")),
            (&json!("approved"), &json!("now it is good"))
        ]
    );
}

/// "A human's decision (skip, approve, reject) is never undone by automation": nor by an agent that was at work
/// on the task, or was reviewing it, when it was decided.
#[test]
fn what_a_person_decides_about_a_task_at_work_stays() {
    let shop = AgentProject::with("  stopGrace: 200ms\n", "");
    let runner = shop.start();
    let mut decided = Vec::new();
    for (deed, more, decision, status) in [
        ("stay", &[][..], "approve", "completed"),
        ("stay", &[], "skip", "skipped"),
        ("ponder", &["--review", "agent"], "approve", "completed"),
        ("ponder", &["--review", "agent"], "skip", "skipped"),
    ] {
        let id = shop.add(deed, more);
        until("its agent is at work", || {
            let places = [shop.file("begun.log"), shop.file("pondered.log")];
            places[usize::from(deed == "ponder")].contains(&id)
        });
        let task = shop.json(&["tasks", decision, &id]);
        assert_eq!(task["status"], status, "{task}");
        until("its agent was stopped", || {
            let task = shop.task(&id);
            let last = task["attemptList"].as_array().unwrap().last().cloned();
            last.is_some_and(|it| it["stopReason"] == "cancel")
        });
        decided.push((id, status));
    }
    // The runner had time to do what it may not.
    let last = shop.add("succeed", &[]);
    is(&shop, &last, "completed");
    drop(runner);
    shop.work();
    for (id, status) in decided {
        let task = shop.task(&id);
        assert_eq!(task["status"], status, "{task}");
    }
    assert_eq!(shop.json(&["locks", "list"]), json!([]));
}

/// A reviewer that does not say what it found has not reviewed: a person looks, and nothing is worked on again.
#[test]
fn a_reviewer_without_a_verdict_leaves_the_review_to_a_person() {
    let shop = AgentProject::new();
    let tasks = ["approve", "reject"].map(|decision| {
        let id = shop.add("undecided", &["--review", "agent"]);
        (id, decision)
    });
    shop.work();
    for (id, decision) in &tasks {
        let task = shop.task(id);
        assert_eq!(
            (&task["status"], &task["reason"]),
            (&json!("blocked"), &json!("the reviewer gave no verdict")),
            "{task}"
        );
        assert_eq!(attempts(&task, "role"), ["work", "review"], "{task}");
        shop.lope(&["tasks", decision, id]).done();
    }
    let [(approved, _), (rejected, _)] = &tasks;
    assert_eq!(shop.task(approved)["status"], "completed");
    assert_eq!(shop.task(rejected)["status"], "pending");
    shop.work();
    let roles = attempts(&shop.task(rejected), "role").len();
    assert_eq!(roles, 4, "worked on and reviewed again");
    assert_eq!(
        shop.task(approved)["attemptList"].as_array().unwrap().len(),
        2
    );
}
