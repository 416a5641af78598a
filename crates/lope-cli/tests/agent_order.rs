//! In which order a runner takes the tasks of its project.

use serde_json::Value;

use crate::fixture::agent_project::AgentProject;

/// "order: review first, then interrupted, then pending by priority and age; one query for all callers": what
/// `tasks next` says is what the runner does, from the first task to the last.
#[test]
fn tasks_are_taken_by_priority_and_place() {
    let shop = AgentProject::new();
    let list: String = ["one", "two", "three", "four", "five", "six"]
        .map(|title| format!("- [ ] succeed {title}\n"))
        .concat();
    let file = shop.home.file("tasks.md", &list);
    shop.lope(&["tasks", "import", &file, "--project", "shop"])
        .done();
    let late = shop.add("succeed late", &[]);
    let urgent = shop.add("succeed at once", &["--priority", "9"]);
    let last = shop.add("succeed some day", &["--priority", "0"]);
    let before = shop.add("succeed before", &["--priority", "8"]);
    let first = shop.add("succeed first", &["--priority", "1"]);
    let needs = ["--priority", "9", "--needs", &first];
    let behind = shop.add("succeed behind it", &needs);
    let all = shop.json(&["tasks", "list"]);
    let id = |title: &str| {
        let mut tasks = all.as_array().unwrap().iter();
        let task = tasks.find(|task| task["title"] == format!("succeed {title}"));
        task.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let listed = ["one", "two", "three", "four", "five", "six"].map(id);
    let ends = [late, first, behind, last];
    let expected: Vec<String> = [urgent, before]
        .into_iter()
        .chain(listed)
        .chain(ends)
        .collect();
    assert_eq!(
        shop.json(&["tasks", "next", "--project", "shop"])["id"],
        Value::from(expected[0].clone())
    );
    shop.work();
    let done = done_in_order(&shop);
    assert_eq!(done, expected);
}

/// "review first, then interrupted": before what has the highest priority.
#[test]
fn reviews_and_what_was_interrupted_come_before_any_priority() {
    let shop = AgentProject::new();
    let interrupted = shop.add("once-stay", &["--priority", "0"]);
    shop.killed_at_work(&interrupted);
    let urgent = shop.add("succeed", &["--priority", "9"]);
    let reviewed = shop.add(
        "reject this first",
        &["--priority", "0", "--review", "agent"],
    );
    let claimed = shop.json(&["tasks", "claim", &reviewed]);
    let token = claimed["token"].as_str().unwrap();
    let mut done = shop.command(&["tasks", "done", "by hand"]);
    crate::stage::said(done.env("LOPE_TASK_TOKEN", token)).done();
    assert_eq!(shop.task(&reviewed)["status"], "review");
    let next = shop.json(&["tasks", "next", "--project", "shop"]);
    assert_eq!(
        (&next["id"], &next["role"]),
        (&reviewed.as_str().into(), &"review".into())
    );
    shop.work();
    let done = done_in_order(&shop);
    // What the review sent back was begun before, too.
    assert_eq!(done[2], urgent, "{done:?}");
    assert!(done[..2].contains(&interrupted), "{done:?}");
    assert!(done[..2].contains(&reviewed), "{done:?}");
}

/// The tasks that agents did, as they did them.
fn done_in_order(shop: &AgentProject) -> Vec<String> {
    let done = shop.file("done.log");
    let tasks = done.lines().filter_map(|line| line.split(' ').nth(1));
    tasks.map(str::to_owned).collect()
}
