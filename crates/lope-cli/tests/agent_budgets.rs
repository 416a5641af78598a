//! Budgets of `runners.budget` and of a task, as people see them: what is used up starts nothing, for a task and a
//! project until somebody raises it, for a day until it is over.

use serde_json::json;

use crate::agent_outcomes::within_a_day;
use crate::fixture::agent_project::{AgentProject, attempts};

impl AgentProject {
    /// Other words in the configuration.
    fn reword(&self, old: &str, new: &str) {
        let config = self.home.path().join(".lope/config.yaml");
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains(old), "{text}");
        std::fs::write(&config, text.replace(old, new)).unwrap();
    }
}

/// What stands in the way of a task that has no budget any more.
fn is_blocked(shop: &AgentProject, id: &str, words: &str) {
    let task = shop.task(id);
    let reason = task["reason"].as_str().unwrap_or_default();
    assert!(
        task["status"] == "blocked"
            && reason.starts_with("budget_exhausted")
            && reason.contains(words),
        "{words}: {task}"
    );
}

/// "Budgets per task": the cost and the time of each task stop its agent, and it stays blocked.
#[test]
fn the_budget_of_each_task_stops_its_agent() {
    let shop = AgentProject::with(
        "  stopGrace: 200ms\n  budget: { task: { cost: 1, wallTime: 3s } }\n",
        "",
    );
    let dear = shop.add("dear", &[]);
    let long = shop.add("stay", &[]);
    let cheap = shop.add("cost something", &[]);
    shop.work();
    for id in [&dear, &long] {
        is_blocked(&shop, id, "");
        let task = shop.task(id);
        assert_eq!(
            (attempts(&task, "stopReason"), &task["attempts"]),
            (vec![&json!("budget_exhausted")], &json!(0)),
            "{task}"
        );
    }
    assert_eq!(shop.task(&cheap)["status"], "completed");
    // "`budget_exhausted` survives restarts": also when somebody lets it be tried again.
    shop.work();
    is_blocked(&shop, &dear, "");
    shop.lope(&["tasks", "reset", &dear]).done();
    shop.work();
    is_blocked(&shop, &dear, "the budget of a task is $1.00");
    assert_eq!(shop.task(&dear)["attemptList"].as_array().unwrap().len(), 1);
}

/// "… project": its attempts, time and cost are those of all its tasks; "checked before each start".
#[test]
fn the_budget_of_a_project_is_that_of_all_its_tasks() {
    for (budget, words) in [
        ("{ cost: 0.4 }", "the budget of the project is $0.40"),
        ("{ attempts: 2 }", "the budget of the project is 2 attempts"),
    ] {
        let shop = AgentProject::with(&format!("  budget: {{ project: {budget} }}\n"), "");
        let tasks = [1, 2, 3].map(|number| shop.add(&format!("cost {number}"), &[]));
        shop.work();
        let [first, second, third] = &tasks;
        for id in [first, second] {
            assert_eq!(shop.task(id)["status"], "completed", "{budget}");
        }
        is_blocked(&shop, third, words);
        assert!(!shop.begun(third), "it is checked before the start");
        // Another project has its own.
        std::fs::create_dir(shop.home.path().join("other")).unwrap();
        shop.json(&["projects", "add", "other"]);
        let elsewhere = shop.json(&["tasks", "add", "cost 4", "--project", "other"]);
        let start = ["runners", "start", "--project", "other", "--foreground"];
        shop.lope(&[&start[..], &["--until-idle"]].concat()).done();
        let elsewhere = shop.task(elsewhere["id"].as_str().unwrap());
        assert_eq!(elsewhere["status"], "completed", "{elsewhere}");
        shop.reword(budget, "{ cost: 100, attempts: 100 }");
        shop.lope(&["tasks", "reset", third]).done();
        shop.work();
        assert_eq!(shop.task(third)["status"], "completed", "{budget}");
    }
}

/// "… and day: attempts, wall time": what is used up blocks nothing, and starts nothing.
#[test]
fn the_attempts_and_the_time_of_a_day_are_bounded() {
    for (budget, deed) in [
        ("{ attempts: 1 }", "succeed"),
        ("{ wall_time: 1s }", "stay"),
    ] {
        let (shop, told, first, second) = within_a_day(|| {
            let settings = format!("  stopGrace: 200ms\n  budget: {{ day: {budget} }}\n");
            let shop = AgentProject::with(&settings, "");
            let first = shop.add(deed, &["--priority", "9"]);
            let second = shop.add("succeed", &[]);
            let told = shop.work();
            (shop, told, first, second)
        });
        assert!(
            told.err.contains("the budget of the day is used up until"),
            "{budget}: {told:?}"
        );
        let count = |id: &str| shop.task(id)["attemptList"].as_array().unwrap().len();
        assert_eq!((count(&first), count(&second)), (1, 0), "{budget}");
        let waiting = shop.task(&second);
        assert_eq!(waiting["status"], "pending", "{budget}: {waiting}");
    }
}
