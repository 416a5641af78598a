//! Usage limits with real processes: what a tool refuses until a time is done then, in the round of a task and
//! in any workflow, and costs no attempt.

use lope_model::Timestamp;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, RunnerChild, attempts};
use crate::stage::until;

/// When agents were started, in milliseconds.
fn starts(shop: &AgentProject, log: &str) -> Vec<i64> {
    let log = shop.file(log);
    log.lines().map(|line| line.parse().unwrap()).collect()
}

fn reset(shop: &AgentProject) -> Timestamp {
    shop.file("reset.log").trim().parse().unwrap()
}

/// "A usage limit with a reset time waits until then and costs no attempt": also of a step of any workflow,
/// whatever its `retries` say; one that does not tell its reset is asked again after `limitPause`.
#[test]
fn a_step_whose_tool_met_its_limit_goes_on_when_that_ends() {
    let shop = AgentProject::with("  limitPause: 2s\n", "");
    let folder = shop.project.to_str().unwrap();
    let flow = format!(
        "name: w\nsteps:\n  \
         told: {{ agent: {{ prompt: 'Task: limit-soon', cwd: {folder:?} }}, retries: 0 }}\n  \
         untold: {{ needs: [told], agent: {{ prompt: 'Task: limit-pause', cwd: {folder:?} }} }}\n"
    );
    let file = shop.home.file("w.yaml", &flow);
    let run = RunnerChild::of(&mut shop.command(&["run", &file, "--json"]));
    until("the limit", || !shop.file("reset.log").is_empty());
    let until_then = reset(&shop);
    let mut told = String::new();
    until("it says what it waits for", || {
        let runs = shop.json(&["runs", "list"]);
        let id = runs[0]["run_id"].as_str().unwrap().to_owned();
        let why = shop.lope(&["runs", "why", &id]).done().out;
        let shown = shop.lope(&["runs", "show", &id]).done().out;
        told = format!("{why}\n{shown}");
        why.contains("UsageLimit") || shop.file("starts.log").lines().count() > 1
    });
    assert!(told.contains(&until_then.to_string()), "{told}");
    let run = run.said();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.json()["result"], "did limit-pause", "{run:?}");
    let soon = starts(&shop, "starts.log");
    assert_eq!(soon.len(), 2, "{soon:?}");
    assert!(soon[1] >= until_then.millis(), "{soon:?} {until_then}");
    let paused = starts(&shop, "pauses.log");
    assert_eq!(paused.len(), 2, "{paused:?}");
    assert!(paused[1] - paused[0] >= 2_000, "{paused:?}");
}

/// "usage limit → re-queued at its reset (not counted)": within its round no second agent is started, also
/// if the step may be tried again, and the task goes on then, however rarely its runner gives signs of life.
#[test]
fn a_task_whose_tool_met_its_limit_goes_on_when_that_ends() {
    let shop = AgentProject::with("  staleTimeout: 30m\n", "");
    let config = shop.home.path().join(".lope/config.yaml");
    let settings = std::fs::read_to_string(&config).unwrap();
    let rare = settings.replace("heartbeatInterval: 200ms", "heartbeatInterval: 15m");
    std::fs::write(&config, rare).unwrap();
    std::fs::create_dir(shop.project.join(".lope")).unwrap();
    let flow = "name: shop\nsteps:\n  \
                work: { agent: { role: work }, retries: 2, base_delay: 100ms }\n";
    std::fs::write(shop.project.join(".lope/task.yaml"), flow).unwrap();
    let id = shop.add("limit-soon", &[]);
    let runner = shop.start();
    until("the limit", || !shop.file("reset.log").is_empty());
    let until_then = reset(&shop);
    let mut seen: Option<Value> = None;
    until("its end", || {
        let task = shop.task(&id);
        if task["reason"] == "usage_limit" {
            seen.get_or_insert_with(|| task.clone());
        }
        task["status"] == "completed"
    });
    drop(runner);
    let task = shop.task(&id);
    assert_eq!(
        attempts(&task, "stopReason"),
        [&json!("usage_limit"), &json!("success")],
        "{task}"
    );
    assert_eq!(
        (attempts(&task, "counted"), &task["attempts"]),
        (vec![&json!(false), &json!(true)], &json!(1)),
        "{task}"
    );
    let starts = starts(&shop, "starts.log");
    assert!(starts[1] >= until_then.millis(), "{starts:?} {until_then}");
    // A machine that stands still for three seconds shows nothing of the time between.
    if let Some(waiting) = seen {
        assert_eq!(
            (
                &waiting["status"],
                &waiting["notBefore"],
                &waiting["attempts"]
            ),
            (&json!("pending"), &json!(until_then.to_string()), &json!(0)),
            "{waiting}"
        );
    }
}
