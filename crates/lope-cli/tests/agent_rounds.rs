//! Rounds: what a runner does with a task is a run of a workflow, the one that is built in or the
//! project's own.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::yard::Yard;
use crate::stage::until;

fn steps(run: &Value) -> Vec<(&str, &str, i64)> {
    let executions = run["executions"].as_array().unwrap();
    let agents = executions
        .iter()
        .filter(|it| it["step"].as_str().unwrap().ends_with("attempt"));
    agents
        .map(|it| {
            let step = it["step"].as_str().unwrap();
            let status = it["status"].as_str().unwrap();
            (step, status, it["attempt"].as_i64().unwrap())
        })
        .collect()
}

#[test]
fn a_round_of_a_task_is_a_run_of_the_built_in_workflow() {
    let yard = Yard::new();
    let id = yard.add("reject this first", &["--review", "agent"]);
    yard.work();
    let task = yard.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let attempts = task["attemptList"].as_array().unwrap();
    let runs: Vec<&str> = attempts
        .iter()
        .map(|it| it["run"].as_str().unwrap())
        .collect();
    assert_eq!(runs.len(), 4);
    assert_eq!((runs[0], runs[2]), (runs[1], runs[3]), "work and review");
    assert_ne!(runs[0], runs[2], "a rejected round is followed by another");
    let first = yard.json(&["runs", "show", runs[0]]);
    assert_eq!(
        (&first["workflow"], &first["status"]),
        (&json!("lope.task"), &json!("completed"))
    );
    assert_eq!(first["result"]["verdict"], "rejected", "{first}");
    let wanted = [("work/attempt", "done", 1), ("review/attempt", "done", 1)];
    assert_eq!(steps(&first), wanted, "{first}");
    let tagged = yard.json(&["runs", "list", "--tag", &format!("task={id}")]);
    assert_eq!(tagged.as_array().unwrap().len(), 2);
    assert_eq!(yard.json(&["runners", "list"]), json!([]));
    yard.lope(&["store", "check"]).done();
}

/// A runner that dies in the review leaves a run whose work is done: the next one goes on there.
#[test]
fn the_round_of_a_killed_runner_is_taken_up_where_it_was() {
    let yard = Yard::new();
    let flow = "name: shop\nsteps:\n  \
        work: { agent: { role: work, prompt: 'Do it our way.' } }\n  \
        check: { needs: [work], run: [sh, -c, 'echo checked >>\"$1/checks.log\"; while [ ! -e \"$1/go\" ]; do sleep 0.05; done', \
        sh, '${{ input.project }}'] }\n  \
        review: { needs: [check], agent: { role: review } }\n  \
        end: { return: '${{ review }}' }\n";
    std::fs::create_dir(yard.project.join(".lope")).unwrap();
    std::fs::write(yard.project.join(".lope/task.yaml"), flow).unwrap();
    let id = yard.add("succeed", &[]);
    let runner = yard.start();
    until("the check's beginning", || {
        !yard.file("checks.log").is_empty()
    });
    let prompt = yard.file(&format!("prompt.{id}"));
    assert!(prompt.starts_with("Do it our way.\n"), "{prompt}");
    assert!(prompt.contains("Task: succeed\n"), "{prompt}");
    assert_eq!(yard.task(&id)["status"], "in_progress");
    runner.signal(Signal::KILL);
    drop(runner);
    std::fs::write(yard.project.join("go"), "").unwrap();
    yard.work();
    let task = yard.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let attempts = task["attemptList"].as_array().unwrap();
    let roles: Vec<(&str, &str)> = attempts
        .iter()
        .map(|it| {
            (
                it["role"].as_str().unwrap(),
                it["stopReason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(roles, [("work", "success"), ("review", "success")]);
    assert_eq!(yard.file("begun.log").lines().count(), 1, "worked on once");
    assert_eq!(yard.file("checks.log").lines().count(), 2, "checked again");
    let run = yard.json(&["runs", "show", attempts[0]["run"].as_str().unwrap()]);
    assert_eq!(
        (&run["workflow"], &run["status"], &run["result"]["verdict"]),
        (&json!("shop"), &json!("completed"), &json!("approved"))
    );
}

/// A round that failed goes on in the same run where it stopped; one that was reset begins anew.
#[test]
fn a_round_that_failed_is_tried_again_where_it_stopped() {
    let yard = Yard::with(
        "  wakeup: { checkInterval: 1s }\n  subprocessHangTimeout: 1s\n",
        "",
    );
    let id = yard.add("once-hang", &[]);
    yard.work();
    let hung = yard.task(&id);
    assert_eq!(
        (&hung["status"], &hung["attemptList"][0]["stopReason"]),
        (&json!("pending"), &json!("hang")),
        "{hung}"
    );
    let run = hung["attemptList"][0]["run"].as_str().unwrap();
    let failed = yard.json(&["runs", "show", run]);
    assert_eq!(
        (&failed["status"], &failed["error"]["type"]),
        (&json!("failed"), &json!("AgentHang")),
        "{failed}"
    );
    until("its second attempt", || {
        yard.work();
        yard.task(&id)["status"] == "completed"
    });
    let task = yard.task(&id);
    assert_eq!(task["attemptList"][1]["run"], run, "{task}");
    assert_eq!(yard.json(&["runs", "show", run])["status"], "completed");
    yard.lope(&["tasks", "reset", &id]).done();
    yard.work();
    let task = yard.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_ne!(task["attemptList"][2]["run"], run, "{task}");
}

#[test]
fn the_failure_of_any_step_fails_the_task_and_a_bad_file_starts_nothing() {
    let yard = Yard::new();
    let flow = "name: shop\nsteps:\n  check: { run: [sh, -c, 'echo it is broken >&2; exit 3'] }\n  \
                work: { needs: [check], agent: { role: work } }\n";
    let file = yard.project.join(".lope/task.yaml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, flow).unwrap();
    let id = yard.add("succeed", &[]);
    yard.work();
    let task = yard.task(&id);
    assert_eq!(task["status"], "failed", "{task}");
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("step 'check': ExitStatus"), "{reason}");
    assert_eq!(yard.file("begun.log"), "");
    std::fs::write(&file, "name: shop\nsteps:\n  work: { agnet: {} }\n").unwrap();
    let other = yard.add("succeed too", &[]);
    yard.work();
    let task = yard.task(&other);
    let reason = task["reason"].as_str().unwrap();
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert!(reason.contains("task.yaml:3:"), "{reason}");
    assert!(task["notBefore"].is_string(), "{task}");
}

/// A run that was left and whose task was sent back has a new one in its place, and ends.
#[test]
fn a_task_that_was_reset_while_its_run_was_left_begins_anew() {
    let yard = Yard::new();
    let id = yard.add("wait for it", &[]);
    let runner = yard.start();
    until("its beginning", || yard.begun(&id));
    let run = yard.task(&id)["attemptList"][0]["run"].clone();
    runner.signal(Signal::KILL);
    drop(runner);
    yard.lope(&["tasks", "reset", &id]).done();
    std::fs::write(yard.project.join("go"), "").unwrap();
    yard.work();
    let task = yard.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let attempts = task["attemptList"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{task}");
    assert_ne!(attempts[1]["run"], run, "{task}");
    let runs = yard.json(&["runs", "list", "--tag", &format!("task={id}")]);
    let mut statuses: Vec<&str> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["cancelled", "completed"], "{runs}");
}

/// Whoever cancels a task's run stops its agent; the task is not counted and waits.
#[test]
fn a_round_is_steered_like_any_run() {
    let yard = Yard::with("  stopGrace: 1s\n", "");
    let id = yard.add("wait for it", &[]);
    let runner = yard.start();
    until("its beginning", || yard.begun(&id));
    let task = yard.task(&id);
    let run = task["attemptList"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!(task["reason"], format!("run {run}"), "{task}");
    std::fs::write(yard.project.join("go"), "").unwrap();
    until("its end", || yard.task(&id)["status"] == "completed");
    std::fs::remove_file(yard.project.join("go")).unwrap();
    let other = yard.add("wait for another", &[]);
    until("its beginning", || yard.begun(&other));
    let task = yard.task(&other);
    let run = task["attemptList"][0]["run"].as_str().unwrap().to_owned();
    yard.lope(&["runs", "cancel", &run]).done();
    until("its second attempt", || {
        let lines = yard.file("begun.log");
        lines.lines().filter(|line| line.contains(&other)).count() == 2
    });
    std::fs::write(yard.project.join("go"), "").unwrap();
    until("its end", || yard.task(&other)["status"] == "completed");
    let task = yard.task(&other);
    let attempts = task["attemptList"].as_array().unwrap();
    assert_eq!(
        (&attempts[0]["stopReason"], &attempts[0]["counted"]),
        (&json!("cancel"), &json!(false)),
        "{task}"
    );
    assert_eq!(yard.json(&["runs", "show", &run])["status"], "cancelled");
    drop(runner);
}
