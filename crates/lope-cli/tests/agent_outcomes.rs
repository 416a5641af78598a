//! What becomes of tasks whose agents end in odd ways: odd bytes, limits, secrets, splits, runners
//! that die between.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, attempts};
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::until;

/// Zero bytes in what an agent prints are shown as what they are not, and stop nobody.
#[test]
fn zero_bytes_in_what_an_agent_says_stop_no_runner() {
    let shop = AgentProject::new();
    let well = shop.add("zero bytes", &[]);
    let badly = shop.add("zero-fail", &[]);
    let after = shop.add("succeed", &[]);
    let told = shop.work();
    let task = shop.task(&well);
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("completed"), &json!("one\u{fffd}two"))
    );
    assert_eq!(attempts(&task, "session"), [&json!("s\u{fffd}x")]);
    let task = shop.task(&badly);
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&json!("failed"), &json!("exit: bad\u{fffd}words"))
    );
    assert_eq!(attempts(&task, "exitCode"), [&json!(3)]);
    assert_eq!(shop.task(&after)["status"], "completed");
    assert!(!told.err.contains("lease lost"), "{told:?}");
}

/// Why a task failed is told with what the agent said of it: of one that was stopped, first that it was;
/// of one whose exit code tells the cause, what to do about it.
#[test]
fn a_reason_has_the_cause_and_what_the_agent_said_of_it() {
    let shop = AgentProject::new();
    let config = shop.home.path().join(".lope/config.yaml");
    let gemini = shop.home.path().join("gemini");
    crate::stage::program(
        &gemini,
        "#!/bin/sh\necho 'Set GEMINI_API_KEY before running' >&2\nexit 41\n",
    );
    let ends = |command: Value| {
        let agent = json!({ "command": command, "timeout": "1s" });
        let settings = json!({ "agents": { "default": agent }, "runners": { "review": "none" } });
        std::fs::write(&config, settings.to_string()).unwrap();
        let id = shop.add(&command.to_string(), &[]);
        shop.work();
        let task = shop.task(&id);
        assert_eq!(task["status"], "failed", "{task}");
        task["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        ends(json!([gemini])),
        "exit: authentication failed; it said: Set GEMINI_API_KEY before running"
    );
    assert_eq!(
        ends(json!([
            "sh",
            "-c",
            "echo one >&2; echo no network >&2; sleep 60"
        ])),
        "timeout: it ran too long; it said: no network"
    );
    assert_eq!(
        ends(json!(["sh", "-c", "exec sleep 60"])),
        "timeout: it ran too long"
    );
}

/// "a task waits for a person by signal": what an agent asked before it failed can be answered, and is
/// worked on again with the answer.
#[test]
fn what_an_agent_asked_before_it_failed_is_answered() {
    let shop = AgentProject::new();
    let id = shop.add("ask-fail", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], &task["question"]),
        (&json!("failed"), &json!("Which colour?")),
        "{task}"
    );
    let answer = |words: &str| shop.lope(&["tasks", "answer", &id, words]);
    let said = answer("it is blue").done();
    assert_eq!(said.out, format!("task {id} is pending\n"));
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
    let late = answer("no, red");
    let told = format!("error: task {id}: it is completed\n");
    assert_eq!((late.code, late.err), (3, told));
}

/// What an agent says about itself is added up, however much it is: no sum of it stops a runner or a page.
#[test]
fn more_tokens_and_dollars_than_there_are_stop_nobody() {
    let shop = AgentProject::new();
    let id = shop.add("boast", &[]);
    for _ in 0..3 {
        shop.work();
        shop.lope(&["tasks", "reset", &id]).done();
    }
    let task = shop.task(&id);
    assert_eq!(attempts(&task, "stopReason"), [&json!("exit"); 3], "{task}");
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    for page in ["/agents".to_owned(), format!("/agents/tasks/{id}")] {
        let shown = up.send(Request::get(&page));
        assert_eq!(shown.status, 200, "{page}");
        assert!(shown.text().contains("$9223372036854.78"), "{page}");
    }
    // What its runner worked with is none of those that work on runs.
    let runners = up.send(Request::get("/runners")).text();
    assert!(!runners.contains("lope.tasks"), "{runners}");
    assert!(runners.contains("Those of agents are at"), "{runners}");
    assert!(runners.contains("1 runner is up."), "{runners}");
}

/// What the store refuses it will refuse again: the attempt has failed, counted and told once, and
/// the runner goes on.
#[test]
fn an_end_that_the_store_refuses_is_a_failed_attempt() {
    let shop = AgentProject::new();
    let odd = shop.add("odd words", &[]);
    let after = shop.add("succeed", &[]);
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER odd BEFORE UPDATE ON task_attempts WHEN NEW.summary = 'did odd' \
         BEGIN SELECT zeroblob(2000000000); END",
    )
    .unwrap();
    drop(db);
    let told = shop.work();
    let task = shop.task(&odd);
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("failed"), &json!(1)),
        "{task}"
    );
    let reason = task["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("exit: the store refused what it came to"),
        "{reason}"
    );
    assert_eq!(
        told.err.matches("its end is refused").count(),
        1,
        "{told:?}"
    );
    assert_eq!(
        shop.file("begun.log").lines().count(),
        2,
        "each was started once"
    );
    assert_eq!(shop.task(&after)["status"], "completed");
}

/// A runner that can write nothing of its task takes it again after pauses that grow, each time
/// counted, and goes on with the next when it is given up.
#[test]
fn a_runner_that_cannot_write_does_not_spin() {
    let shop = AgentProject::new();
    let odd = shop.add("odd words", &[]);
    let after = shop.add("succeed", &[]);
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER odd BEFORE UPDATE ON task_attempts \
         WHEN NEW.summary = 'did odd' OR NEW.summary LIKE 'the store refused%' \
         BEGIN SELECT zeroblob(2000000000); END",
    )
    .unwrap();
    drop(db);
    let begun = std::time::Instant::now();
    shop.work();
    assert!(
        begun.elapsed().as_millis() >= 1_750,
        "{:?}",
        begun.elapsed()
    );
    let task = shop.task(&odd);
    assert_eq!(task["status"], "failed", "{task}");
    let death = json!("runner_death");
    assert_eq!(attempts(&task, "stopReason"), [&death, &death, &death]);
    assert_eq!(shop.task(&after)["status"], "completed");
}

/// "usage limit → re-queued at its reset (not counted)", however the agent ended; a result after it
/// is a result, and a failure that only speaks of limits is a failure.
#[test]
fn a_usage_limit_counts_however_its_agent_ended() {
    let shop = AgentProject::with("  subprocessHangTimeout: 5s\n  stopGrace: 1s\n", "");
    let rows = [
        ("limit-quiet", "pending", "usage_limit", false),
        ("limit-hang", "pending", "usage_limit", false),
        ("limit-result", "completed", "success", true),
        ("limit-over", "completed", "success", true),
        ("mention", "failed", "exit", true),
    ];
    let ids: Vec<String> = rows.iter().map(|row| shop.add(row.0, &[])).collect();
    shop.work();
    for ((deed, status, reason, counted), id) in rows.iter().zip(&ids) {
        let task = shop.task(id);
        assert_eq!(task["status"], *status, "{deed}: {task}");
        assert_eq!(attempts(&task, "stopReason"), [&json!(reason)], "{deed}");
        assert_eq!(task["attempts"], u64::from(*counted), "{deed}");
        if *reason == "usage_limit" {
            assert_eq!(task["notBefore"], "2099-01-02T03:04:05.000Z", "{deed}");
        }
    }
    assert_eq!(shop.task(&ids[2])["result"], "done all the same");
}

/// "A task that hangs, or whose runner dies, `maxAttempts` times is `failed`": by default three times,
/// so that a rejection and a dead runner are survived.
#[test]
fn a_task_survives_a_rejection_and_the_death_of_its_runner() {
    let shop = AgentProject::new();
    let id = shop.add("reject-wait", &["--review", "agent"]);
    let runner = shop.start();
    until("its third attempt", || {
        shop.file("begun.log").lines().count() == 2
    });
    runner.signal(Signal::KILL);
    drop(runner);
    shop.go();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(
        attempts(&task, "stopReason"),
        ["success", "success", "runner_death", "success", "success"]
    );
    assert_eq!(task["rejections"], 1);
}

/// What is seen of something within one day by UTC: if a night came between, it is done again.
pub(crate) fn within_a_day<T>(seen: impl Fn() -> T) -> T {
    let today = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        since.as_secs() / (24 * 60 * 60)
    };
    loop {
        let (day, result) = (today(), seen());
        if day == today() {
            return result;
        }
    }
}

/// A day whose budget is used up blocks nothing, and one that is raised is seen at the next look.
#[test]
fn a_day_that_is_used_up_blocks_no_task() {
    let (told, first, waiting, planned, shop) = within_a_day(|| {
        let shop = AgentProject::with("  budget: { day: { cost: 0.2 } }\n", "");
        let first = shop.add("cost something", &[]);
        let second = shop.add("cost more", &[]);
        let told = shop.work();
        let planned = shop.lope(&["runners", "wakeup", "--dry-run"]).done().out;
        (told, shop.task(&first), shop.task(&second), planned, shop)
    });
    assert!(
        told.err.contains("the budget of the day is used up until"),
        "{told:?}"
    );
    assert_eq!(first["status"], "completed");
    assert_eq!(
        (&waiting["status"], &waiting["attempts"]),
        (&json!("pending"), &json!(0)),
        "{waiting}"
    );
    assert!(planned.contains("nothing to do"), "{planned}");
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("cost: 0.2", "cost: 2")).unwrap();
    let planned = shop.lope(&["runners", "wakeup", "--dry-run"]).done().out;
    assert!(planned.contains("start a runner"), "{planned}");
    shop.work();
    let second = shop.task(waiting["id"].as_str().unwrap());
    assert_eq!(second["status"], "completed");
}

/// What `env` names is not shown: neither in the log nor in what is written of the task.
#[test]
fn secrets_are_hidden_in_results_and_reasons() {
    let shop = AgentProject::new();
    let well = shop.add("secret", &[]);
    let badly = shop.add("secret-fail", &[]);
    shop.work_with_secret("hunter2hunter2");
    for (id, key, expected) in [
        (&well, "result", "key ***"),
        (&badly, "reason", "exit: no key ***"),
    ] {
        let task = shop.task(id);
        assert_eq!(task[key], expected, "{task}");
        let shown = shop.lope(&["tasks", "show", id]).done().out;
        let logged = shop.lope(&["tasks", "logs", id]).done().out;
        for text in [task.to_string(), shown, logged] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

/// Nor in what an agent says about its task, by whatever way.
#[test]
fn secrets_are_hidden_in_what_an_agent_says_of_its_task() {
    let shop = AgentProject::new();
    let said = shop.add("secret-say", &[]);
    let failed = shop.add("secret-refuse", &[]);
    let asked = shop.add("secret-ask", &[]);
    shop.work_with_secret("hunter2hunter2");
    let task = shop.task(&said);
    let events = task["events"].as_array().unwrap();
    let words: Vec<&str> = events
        .iter()
        .map(|it| it["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        words,
        [
            "noted ***",
            "by MCP ***",
            "without it ***",
            "did it with ***"
        ]
    );
    assert_eq!(task["result"], "did it with ***", "{task}");
    assert_eq!(shop.task(&failed)["reason"], "exit: no key ***");
    assert_eq!(shop.task(&asked)["question"], "is it ***?");
    let tasks = shop.json(&["tasks", "list"]);
    let added = tasks.as_array().unwrap().iter();
    let added: Vec<&Value> = added.filter(|it| it["parent"] == said.as_str()).collect();
    assert_eq!(
        (added.len(), &added[0]["title"], &added[0]["description"]),
        (1, &json!("succeed with ***"), &json!("all of ***")),
        "{tasks}"
    );
    assert!(!tasks.to_string().contains("hunter2"), "{tasks}");
}

/// "it waits for them": an agent that splits its task and calls it done has it wait all the same.
#[test]
fn a_task_that_was_split_waits_for_its_parts() {
    let shop = AgentProject::new();
    let id = shop.add("split-done", &[]);
    shop.work();
    let refused = shop.file("refused.log");
    assert!(refused.contains("it waits for its parts"), "{refused}");
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let done = shop.file("done.log");
    let deeds: Vec<&str> = done
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(deeds, ["succeed", "split-done"], "the part came first");
}

/// An agent that splits at every start comes to an end.
#[test]
fn an_agent_that_splits_for_ever_comes_to_an_end() {
    let shop = AgentProject::with("  maxAttempts: 1\n", "");
    shop.add("split-always", &[]);
    shop.work();
    let tasks = shop.json(&["tasks", "list"]);
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 4, "the task, and parts three deep: {tasks:?}");
    assert!(
        tasks.iter().all(|task| task["status"] == "completed"),
        "{tasks:?}"
    );
}

/// "SIGSTOP a holder past its lease, let another work, SIGCONT: the first writes nothing and exits
/// with 'lease lost'." Also if the other is a person, who takes no place of a runner.
#[test]
fn a_runner_whose_task_was_taken_ends_though_its_place_is_free() {
    let shop = AgentProject::with("  staleTimeout: 1s\n  lockExpiry: 1s\n", "");
    let id = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    runner.signal(Signal::STOP);
    let mut stopped = std::time::Instant::now();
    until("the claim by hand", || {
        // One that was stopped while it wrote holds the file: it is let go on, and stopped again.
        if stopped.elapsed() > std::time::Duration::from_secs(20) {
            runner.signal(Signal::CONT);
            std::thread::sleep(std::time::Duration::from_millis(20));
            runner.signal(Signal::STOP);
            stopped = std::time::Instant::now();
        }
        shop.lope(&["tasks", "claim", &id, "--expiry", "1h"]).code == 0
    });
    let before = shop.task(&id);
    runner.signal(Signal::CONT);
    let told = runner.said();
    assert_eq!(
        (told.code, told.err.contains("lease lost")),
        (3, true),
        "{told:?}"
    );
    let after = shop.task(&id);
    for key in ["status", "epoch", "attemptList", "lock"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(after["lock"]["state"], "held");
    assert_eq!(shop.file("done.log"), "", "its agent was stopped");
}
