//! Rounds: what a runner does with a task is a run of a workflow, the one that is built in or the
//! project's own.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, attempts};
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

/// What a reviewer asks is waited for as what a worker asks is; with the answer the review goes on, and
/// nothing is worked on again.
#[test]
fn what_a_reviewer_asks_is_answered_for_the_review() {
    let shop = AgentProject::new();
    let id = shop.add("wonder about it", &["--review", "agent"]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "blocked", "{task}");
    assert_eq!(task["question"], "Which colour?", "{task}");
    let answered = shop.json(&["tasks", "answer", &id, "it is blue"]);
    assert_eq!(answered["status"], "review", "{answered}");
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(attempts(&task, "role"), ["work", "review", "review"]);
    assert_eq!(attempts(&task, "stopReason"), ["success"; 3], "{task}");
    assert_eq!(shop.file("begun.log").lines().count(), 1);
}

#[test]
fn a_round_of_a_task_is_a_run_of_the_built_in_workflow() {
    let shop = AgentProject::new();
    let id = shop.add("reject this first", &["--review", "agent"]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let runs = attempts(&task, "run");
    let runs: Vec<&str> = runs.iter().map(|run| run.as_str().unwrap()).collect();
    assert_eq!(runs.len(), 4);
    assert_eq!((runs[0], runs[2]), (runs[1], runs[3]), "work and review");
    assert_ne!(runs[0], runs[2], "a rejected round is followed by another");
    let first = shop.json(&["runs", "show", runs[0]]);
    assert_eq!(
        (&first["workflow"], &first["status"]),
        (&json!("lope.task"), &json!("completed"))
    );
    assert_eq!(first["result"]["verdict"], "rejected", "{first}");
    let wanted = [("work/attempt", "done", 1), ("review/attempt", "done", 1)];
    assert_eq!(steps(&first), wanted, "{first}");
    let tagged = shop.json(&["runs", "list", "--tag", &format!("task={id}")]);
    assert_eq!(tagged.as_array().unwrap().len(), 2);
    assert_eq!(shop.json(&["runners", "list"]), json!([]));
    shop.lope(&["store", "check"]).done();
}

/// A runner that dies in the review leaves a run whose work is done: the next one goes on there.
#[test]
fn the_round_of_a_killed_runner_is_taken_up_where_it_was() {
    let shop = AgentProject::new();
    let flow = "name: shop\nsteps:\n  \
        work: { agent: { role: work, prompt: 'Do it our way.' } }\n  \
        check: { needs: [work], run: [sh, -c, 'echo checked >>\"$1/checks.log\"; while [ ! -e \"$1/go\" ]; do sleep 0.05; done', \
        sh, '${{ input.project }}'] }\n  \
        review: { needs: [check], agent: { role: review } }\n  \
        end: { return: '${{ review }}' }\n";
    std::fs::create_dir(shop.project.join(".lope")).unwrap();
    std::fs::write(shop.project.join(".lope/task.yaml"), flow).unwrap();
    let id = shop.add("succeed", &[]);
    let runner = shop.start();
    until("the check's beginning", || {
        !shop.file("checks.log").is_empty()
    });
    let prompt = shop.file(&format!("prompt.{id}"));
    assert!(prompt.starts_with("Do it our way.\n"), "{prompt}");
    assert!(prompt.contains("Task: succeed\n"), "{prompt}");
    assert_eq!(shop.task(&id)["status"], "in_progress");
    runner.signal(Signal::KILL);
    drop(runner);
    shop.go();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(attempts(&task, "role"), ["work", "review"]);
    assert_eq!(attempts(&task, "stopReason"), ["success", "success"]);
    assert_eq!(shop.file("begun.log").lines().count(), 1, "worked on once");
    assert_eq!(shop.file("checks.log").lines().count(), 2, "checked again");
    let run = shop.json(&["runs", "show", attempts(&task, "run")[0].as_str().unwrap()]);
    assert_eq!(
        (&run["workflow"], &run["status"], &run["result"]["verdict"]),
        (&json!("shop"), &json!("completed"), &json!("approved"))
    );
}

/// A round that failed goes on in the same run where it stopped; one that was reset begins anew.
#[test]
fn a_round_that_failed_is_tried_again_where_it_stopped() {
    let shop = AgentProject::with(
        "  wakeup: { checkInterval: 1s }\n  subprocessHangTimeout: 1s\n",
        "",
    );
    let id = shop.add("once-hang", &[]);
    shop.work();
    let hung = shop.task(&id);
    assert_eq!(
        (&hung["status"], &hung["attemptList"][0]["stopReason"]),
        (&json!("pending"), &json!("hang")),
        "{hung}"
    );
    let run = hung["attemptList"][0]["run"].as_str().unwrap();
    let failed = shop.json(&["runs", "show", run]);
    assert_eq!(
        (&failed["status"], &failed["error"]["type"]),
        (&json!("failed"), &json!("AgentHang")),
        "{failed}"
    );
    // What is slow from here on is no hang.
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let patient = text.replace("subprocessHangTimeout: 1s", "subprocessHangTimeout: 1h");
    std::fs::write(&config, patient).unwrap();
    until("its second attempt", || {
        shop.work();
        shop.task(&id)["status"] == "completed"
    });
    let task = shop.task(&id);
    assert_eq!(task["attemptList"][1]["run"], run, "{task}");
    assert_eq!(shop.json(&["runs", "show", run])["status"], "completed");
    shop.lope(&["tasks", "reset", &id]).done();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_ne!(task["attemptList"][2]["run"], run, "{task}");
}

#[test]
fn the_failure_of_any_step_fails_the_task_and_a_bad_file_starts_nothing() {
    let shop = AgentProject::new();
    let flow = "name: shop\nsteps:\n  check: { run: [sh, -c, 'echo it is broken >&2; exit 3'] }\n  \
                work: { needs: [check], agent: { role: work } }\n";
    let file = shop.project.join(".lope/task.yaml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, flow).unwrap();
    let id = shop.add("succeed", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "failed", "{task}");
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("step 'check': ExitStatus"), "{reason}");
    assert_eq!(shop.file("begun.log"), "");
    std::fs::write(&file, "name: shop\nsteps:\n  work: { agnet: {} }\n").unwrap();
    let other = shop.add("succeed too", &[]);
    shop.work();
    let task = shop.task(&other);
    let reason = task["reason"].as_str().unwrap();
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert!(reason.contains("task.yaml:3:"), "{reason}");
    assert!(task["notBefore"].is_string(), "{task}");
}

/// A round's engine has what every engine has: it sends messages, its run has the priority of its
/// queue, and a workflow that does not take what a task is starts nothing.
#[test]
fn a_round_sends_messages_and_starts_like_any_run() {
    let shop = AgentProject::with("queues: { lope.tasks: { priority: 6 } }\n", "");
    let steps = "steps:\n  work: { agent: { role: work } }\n  \
        tell: { needs: [work], send: { mailbox: '7', id: told, payload: '${{ input.title }}' } }\n  \
        end: { needs: [tell], return: '${{ work }}' }\n";
    let file = shop.project.join(".lope/task.yaml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("name: shop\n{steps}")).unwrap();
    let id = shop.add("succeed", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let run = task["attemptList"][0]["run"].as_str().unwrap();
    assert_eq!(shop.json(&["runs", "show", run])["priority"], 6);
    let messages = shop.json(&["mailbox", "list", "7"]);
    assert_eq!(messages.as_array().unwrap().len(), 1, "{messages}");
    assert_eq!(messages[0]["message_id"], "told", "{messages}");
    let begun = shop.file("begun.log");
    let schema = "input: { type: object, required: [colour] }\n";
    std::fs::write(&file, format!("name: shop\n{schema}{steps}")).unwrap();
    let other = shop.add("succeed too", &[]);
    shop.work();
    let task = shop.task(&other);
    let reason = task["reason"].as_str().unwrap();
    assert!(
        reason.contains("the input does not fit workflow 'shop': ") && reason.contains("colour"),
        "{reason}"
    );
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("pending"), &json!(0)),
        "{task}"
    );
    assert_eq!(shop.file("begun.log"), begun, "no agent was started");
}

/// A run that was left and whose task was sent back has a new one in its place, and ends.
#[test]
fn a_task_that_was_reset_while_its_run_was_left_begins_anew() {
    let shop = AgentProject::new();
    let id = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    let run = shop.task(&id)["attemptList"][0]["run"].clone();
    runner.signal(Signal::KILL);
    drop(runner);
    shop.lope(&["tasks", "reset", &id]).done();
    shop.go();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let runs = attempts(&task, "run");
    assert_eq!(runs.len(), 2, "{task}");
    assert_ne!(*runs[1], run, "{task}");
    let runs = shop.json(&["runs", "list", "--tag", &format!("task={id}")]);
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
    let shop = AgentProject::with("  stopGrace: 1s\n", "");
    let id = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    let task = shop.task(&id);
    let run = task["attemptList"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!(task["reason"], format!("run {run}"), "{task}");
    shop.go();
    until("its end", || shop.task(&id)["status"] == "completed");
    std::fs::remove_file(shop.project.join("go")).unwrap();
    let other = shop.add("wait for another", &[]);
    until("its beginning", || shop.begun(&other));
    let task = shop.task(&other);
    let run = task["attemptList"][0]["run"].as_str().unwrap().to_owned();
    shop.lope(&["runs", "cancel", &run]).done();
    until("its second attempt", || {
        let lines = shop.file("begun.log");
        lines.lines().filter(|line| line.contains(&other)).count() == 2
    });
    shop.go();
    until("its end", || shop.task(&other)["status"] == "completed");
    let task = shop.task(&other);
    let ended = (
        attempts(&task, "stopReason")[0],
        attempts(&task, "counted")[0],
    );
    assert_eq!(ended, (&json!("cancel"), &json!(false)), "{task}");
    assert_eq!(shop.json(&["runs", "show", &run])["status"], "cancelled");
    drop(runner);
}
