//! Runners that have agents do tasks: real processes, a scripted agent that succeeds, fails, hangs,
//! forks, floods and meets limits.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::agent_project::{AgentProject, attempts, is_there};
use crate::stage::{Watch, said, until};

#[test]
fn a_runner_has_agents_do_the_tasks_of_a_project_with_review() {
    let shop = AgentProject::new();
    let first = shop.add(
        "succeed at once",
        &["--source", "docs/SPEC.md#login", "--review", "agent"],
    );
    let second = shop.add(
        "reject this first",
        &["--needs", &first, "--review", "agent"],
    );
    let third = shop.add("cost something", &[]);
    let told = shop.work();
    assert!(
        told.err.contains("attempt 1 (work) by agent 'default'"),
        "{told:?}"
    );
    for id in [&first, &second, &third] {
        assert_eq!(shop.task(id)["status"], "completed", "{}", shop.task(id));
    }
    let prompt = shop.file(&format!("prompt.{first}"));
    assert!(prompt.contains("docs/SPEC.md#login"), "{prompt}");
    let again = shop.file(&format!("prompt.{second}"));
    assert!(
        again.contains("a reviewer said: the tests are missing"),
        "{again}"
    );
    let second = shop.task(&second);
    assert_eq!(
        (&second["rejections"], &second["attempts"]),
        (&1.into(), &4.into())
    );
    let third = shop.task(&third);
    let attempt = &third["attemptList"][0];
    assert_eq!(
        (
            &attempt["cost"],
            &attempt["tokens"],
            &attempt["session"],
            &attempt["stopReason"]
        ),
        (
            &0.25.into(),
            &1_200.into(),
            &"s-1".into(),
            &"success".into()
        )
    );
    assert_eq!(third["result"], "did cost");
    let log = shop
        .lope(&["tasks", "logs", third["id"].as_str().unwrap()])
        .done();
    assert!(
        log.out.lines().any(|line| line.ends_with(" out did cost")),
        "{log:?}"
    );
    assert_eq!(shop.json(&["runners", "list"]), serde_json::json!([]));
    let all = shop.json(&["runners", "list", "--all"]);
    assert_eq!(
        (&all[0]["status"], &all[0]["projectPath"]),
        (&"completed".into(), &shop.project.to_str().unwrap().into())
    );
    assert_eq!(shop.json(&["locks", "list"]), serde_json::json!([]));
}

/// The table of stops in `docs/agents.md`, row by row: what a stop means for its task, and whether
/// the attempt counts.
#[test]
fn each_stop_means_what_the_table_says() {
    let shop = AgentProject::with("  stopGrace: 1s\n", "");
    let rows: [(&str, &[&str], &str, &str, bool); 8] = [
        ("succeed", &[], "completed", "success", true),
        ("linger", &[], "completed", "success", true),
        ("tell", &[], "completed", "success", true),
        ("fail", &[], "failed", "exit", true),
        ("refuse", &[], "failed", "exit", true),
        ("limit", &[], "pending", "usage_limit", false),
        (
            "dear",
            &["--max-cost", "1"],
            "blocked",
            "budget_exhausted",
            false,
        ),
        ("hang", &[], "pending", "hang", true),
    ];
    let (hang, others) = rows.split_last().unwrap();
    let mut ids: Vec<String> = others.iter().map(|row| shop.add(row.0, row.1)).collect();
    shop.work();
    // Only the one that hangs is asked to be quick.
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}  subprocessHangTimeout: 2s\n")).unwrap();
    ids.push(shop.add(hang.0, hang.1));
    shop.work();
    for ((deed, _, status, reason, counted), id) in rows.iter().zip(&ids) {
        let task = shop.task(id);
        let attempt = &task["attemptList"][0];
        assert_eq!(
            (&task["status"], &attempt["stopReason"], &attempt["counted"]),
            (&(*status).into(), &(*reason).into(), &(*counted).into()),
            "{deed}: {task}"
        );
        assert_eq!(task["attempts"], u64::from(*counted), "{deed}");
        assert_eq!(task["attemptList"].as_array().unwrap().len(), 1, "{deed}");
    }
    let of = |deed: &str| {
        let place = rows.iter().position(|row| row.0 == deed).unwrap();
        shop.task(&ids[place])
    };
    assert_eq!(of("limit")["notBefore"], "2099-01-02T03:04:05.000Z");
    assert!(of("hang")["notBefore"].is_string());
    assert_eq!(of("linger")["result"], "told before the end");
    assert_eq!(of("tell")["result"], "told by itself");
    let reason = of("fail")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("cannot do it"), "{reason}");
    assert!(
        of("refuse")["reason"]
            .as_str()
            .unwrap()
            .contains("it is impossible")
    );
    assert_eq!(of("fail")["attemptList"][0]["exitCode"], 7);
}

#[test]
fn an_agent_that_cannot_be_started_is_seen_and_not_counted() {
    let shop = AgentProject::new();
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("command: [sh,", "command: [no-such-program-anywhere,");
    std::fs::write(&config, text).unwrap();
    let id = shop.add("succeed", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&"pending".into(), &0.into())
    );
    let reason = task["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("startup: 'no-such-program-anywhere' cannot be started"),
        "{reason}"
    );
    assert!(task["notBefore"].is_string());
}

#[test]
fn silence_with_use_of_a_processor_is_no_hang_and_time_is_bounded() {
    let shop = AgentProject::with("  subprocessHangTimeout: 2s\n  stopGrace: 1s\n", "");
    let busy = shop.add("busy for six seconds", &[]);
    shop.work();
    assert_eq!(
        shop.task(&busy)["status"],
        "completed",
        "{}",
        shop.task(&busy)
    );
    let shop = AgentProject::with("  stopGrace: 1s\n", ", timeout: 1s");
    let stubborn = shop.add("stubborn", &[]);
    shop.work();
    let task = shop.task(&stubborn);
    assert_eq!(
        (&task["status"], &task["attemptList"][0]["stopReason"]),
        (&"failed".into(), &"timeout".into())
    );
}

#[test]
fn what_an_agent_leaves_behind_ends_with_it() {
    let shop = AgentProject::new();
    let id = shop.add("fork twice", &[]);
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
    let child = shop.file("child.pid");
    assert!(!child.is_empty() && !is_there(&child), "{child}");
}

/// A runner is killed while its agent has a grandchild: a project with its task, if that was gone soon.
fn killed_within_five_seconds() -> Option<(AgentProject, String)> {
    let shop = AgentProject::new();
    let id = shop.add("double-fork", &[]);
    let runner = shop.start();
    until("the grandchild", || !shop.file("grandchild.pid").is_empty());
    let grandchild = shop.file("grandchild.pid");
    assert!(is_there(&grandchild));
    runner.signal(Signal::KILL);
    let killed = std::time::Instant::now();
    until("the grandchild's end", || !is_there(&grandchild));
    (killed.elapsed().as_secs() < 5).then_some((shop, id))
}

/// "kill −9 of the runner: its agents are gone within 5 s, the task is re-queued once, the late
/// result refused"
#[test]
fn the_agents_of_a_killed_runner_are_gone_and_its_task_is_done_by_the_next() {
    // A machine that stands still for seconds may do so again, but not each time.
    let (shop, id) = (0..5)
        .find_map(|_| killed_within_five_seconds())
        .expect("its agents are gone within 5 s");
    let task = shop.task(&id);
    assert_eq!(task["status"], "in_progress");
    assert_eq!(task["lock"]["state"], "dead", "proven by its process");
    let skipped = shop.lope(&["tasks", "skip", &id]).done();
    drop(skipped);
    let other = shop.add("once", &[]);
    shop.work();
    assert_eq!(shop.task(&other)["status"], "completed");
    assert_eq!(
        shop.task(&id)["status"],
        "skipped",
        "a person's decision stays"
    );
    let runs = shop.json(&["runs", "list", "--tag", &format!("task={id}")]);
    assert_eq!(runs[0]["status"], "cancelled", "what was left ends: {runs}");
}

/// The same line: "re-queued once, the late result refused".
#[test]
fn a_task_whose_runner_died_is_done_once_by_the_next_one() {
    let shop = AgentProject::new();
    let id = shop.add("wait for it", &[]);
    shop.killed_at_work(&id);
    let examined = shop.lope(&["doctor"]).out;
    assert!(examined.contains("is gone and has 1 run"), "{examined}");
    assert!(
        examined.contains("lope runners wakeup: the next runner of its project goes on"),
        "{examined}"
    );
    shop.go();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed");
    let reasons = attempts(&task, "stopReason");
    assert_eq!(reasons, ["runner_death", "success"], "re-queued once");
    assert_eq!(shop.file("done.log").lines().count(), 1);
    let first = &task["attemptList"][0];
    let token = format!(
        "{id}:{}:{}",
        first["epoch"],
        first["runner"].as_str().unwrap()
    );
    let mut late = shop.command(&["tasks", "done", "late result", "--json"]);
    let late = said(late.env("LOPE_TASK_TOKEN", token));
    assert_eq!(
        (late.code, late.err.contains("lease lost")),
        (3, true),
        "{late:?}"
    );
    let after = shop.task(&id);
    assert_eq!(
        after["result"], task["result"],
        "the late result is refused"
    );
    let events = after["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["kind"], "refused");
}

/// "SIGSTOP a holder past its lease, let another work, SIGCONT: the first writes nothing and exits
/// with 'lease lost'."
#[test]
fn a_runner_that_stood_still_past_its_lease_writes_nothing() {
    let shop = AgentProject::with("  staleTimeout: 1s\n  lockExpiry: 1s\n", "");
    let id = shop.add("wait for it", &[]);
    let first = shop.start();
    until("its beginning", || shop.begun(&id));
    first.signal(Signal::STOP);
    let (mut second, mut stopped) = (None, std::time::Instant::now());
    until("the second runner's claim", || {
        // One that was stopped while it wrote holds the file: it is let go on, and stopped again.
        if stopped.elapsed() > std::time::Duration::from_secs(20) {
            first.signal(Signal::CONT);
            std::thread::sleep(std::time::Duration::from_millis(20));
            first.signal(Signal::STOP);
            stopped = std::time::Instant::now();
        }
        let runner = second.get_or_insert_with(|| shop.start());
        if runner.child.try_wait().unwrap().is_some() {
            // The first one's place is not free yet.
            second = None;
        }
        shop.file("begun.log").lines().count() == 2
    });
    shop.go();
    until("the task's end", || shop.task(&id)["status"] == "completed");
    let before = shop.task(&id);
    first.signal(Signal::CONT);
    let told = first.said();
    assert_eq!(
        (told.code, told.err.contains("lease lost")),
        (3, true),
        "{told:?}"
    );
    let mut after = shop.task(&id);
    let mut before = before;
    let said_after = after["events"].take();
    let said_before = before["events"].take();
    assert_eq!(after, before, "the first writes nothing");
    let said_before = said_before.as_array().unwrap().len();
    let more = said_after.as_array().unwrap()[said_before..].iter();
    let more: Vec<&Value> = more.map(|event| &event["kind"]).collect();
    assert!(
        more.iter().all(|kind| *kind == "refused"),
        "but as evidence: {said_after}"
    );
    assert_eq!(
        shop.file("done.log").lines().count(),
        1,
        "one agent finished"
    );
}

#[test]
fn a_task_that_a_person_decides_about_or_whose_lock_is_taken_away_ends_its_agent() {
    let shop = AgentProject::new();
    let skipped = shop.add("hang until it is skipped", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&skipped));
    shop.lope(&["tasks", "skip", &skipped]).done();
    until("its end", || {
        shop.task(&skipped)["attemptList"][0]["stopReason"] == "cancel"
    });
    let task = shop.task(&skipped);
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&"skipped".into(), &0.into())
    );
    let released = shop.add("once-hang", &[]);
    until("its beginning", || shop.begun(&released));
    shop.lope(&["locks", "release", &released, "--force"])
        .done();
    until("its second attempt", || {
        shop.task(&released)["status"] == "completed"
    });
    drop(runner);
}

#[test]
fn runners_are_started_listed_followed_and_stopped() {
    let shop = AgentProject::with("  stopGrace: 1s\n", "");
    let id = shop.add("wait for it", &["--section", "Phase 2"]);
    let started = shop.json(&["runners", "start", "--project", "shop"]);
    let runner = started["id"].as_str().unwrap().to_owned();
    let second = shop.lope(&["runners", "start", "--project", "shop"]);
    assert_eq!(
        (second.code, second.err.contains(&runner)),
        (3, true),
        "{second:?}"
    );
    until("its beginning", || shop.begun(&id));
    until("it says what it works on", || {
        let shown = shop.json(&["runners", "show", &runner[..8]]);
        shown["status"] == "running" && shown["currentTask"] == id.as_str()
    });
    let table = shop.lope(&["runners", "list"]).done().out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "RUNNERS");
    let columns: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        columns,
        ["ID", "STATUS", "PID", "PROJECT", "SECTION", "HEARTBEAT"]
    );
    assert!(lines[4].starts_with(&runner[..8]), "{table}");
    let query = "SELECT id, status, project_path, current_task_id, datetime(heartbeat_at) as last_heartbeat \
                 FROM runners WHERE status = 'running'";
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let row: (String, String) = db
        .query_row(query, [], |row| Ok((row.get(0)?, row.get(4)?)))
        .unwrap();
    assert_eq!(
        (row.0, row.1.len()),
        (runner.clone(), "2026-01-01 00:00:00".len())
    );
    let pid = started["pid"].to_string();
    let stopped = shop.json(&["runners", "stop", &runner[..8], "--timeout", "100ms"]);
    assert_eq!(stopped[0]["stopped"], "was cancelled", "{stopped}");
    until("its process", || !is_there(&pid));
    let task = shop.task(&id);
    let attempt = &task["attemptList"][0];
    assert_eq!(
        (&task["status"], &task["attempts"], &attempt["stopReason"]),
        (&"pending".into(), &0.into(), &"drain".into())
    );
    let log = shop.lope(&["runners", "logs", &runner]).done().out;
    assert!(
        log.contains("wait for it") && log.contains("asked to stop"),
        "{log}"
    );
    let all = shop
        .lope(&["runners", "logs", "--all", "--limit", "2"])
        .done()
        .out;
    assert_eq!(all.lines().count(), 2, "{all}");
    let followed = shop
        .lope(&["runners", "logs", &runner, "--follow"])
        .done()
        .out;
    assert_eq!(followed.trim_end(), log.trim_end());
}

#[test]
fn a_forced_stop_kills_the_runner_and_its_agent() {
    let shop = AgentProject::new();
    let id = shop.add("stubborn", &[]);
    let started = shop.json(&["runners", "start", "--project", "shop"]);
    until("its beginning", || shop.begun(&id));
    let stopped = shop.json(&["runners", "stop", "--all", "--force"]);
    assert_eq!(stopped[0]["stopped"], "was killed", "{stopped}");
    let pid = started["pid"].to_string();
    until("its process", || !is_there(&pid));
    assert_eq!(shop.json(&["runners", "list"]), serde_json::json!([]));
    assert_eq!(
        shop.task(&id)["status"],
        "in_progress",
        "its open attempt is settled by the next"
    );
}

#[test]
fn a_question_waits_for_its_answer_and_the_answer_reaches_the_agent() {
    let shop = AgentProject::new();
    let id = shop.add("ask a person", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], &task["question"]),
        (&"blocked".into(), &"Which colour?".into()),
        "{task}"
    );
    shop.lope(&["tasks", "answer", &id, "green"]).done();
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
    let prompt = shop.file(&format!("prompt.{id}"));
    assert!(prompt.contains("answered: green"), "{prompt}");
}

#[test]
fn a_task_that_is_split_waits_for_its_parts() {
    let shop = AgentProject::new();
    let id = shop.add("split it up", &[]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (
            &task["status"],
            task["dependencies"].as_array().unwrap().len()
        ),
        (&"completed".into(), 2),
        "{task}"
    );
    let done: Vec<String> = shop.file("done.log").lines().map(str::to_owned).collect();
    assert_eq!(done.len(), 3);
    assert!(done[2].contains(&id), "its parts come first: {done:?}");
}

#[test]
fn much_output_is_logged_whole_and_secrets_are_not_shown() {
    let shop = AgentProject::new();
    let id = shop.add("flood", &[]);
    shop.work_with_secret("a-secret-value");
    assert_eq!(shop.task(&id)["status"], "completed");
    let log = shop.task(&id)["attemptList"][0]["log"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = shop.home.path().join(".lope/logs/tasks").join(log);
    let text = std::fs::read_to_string(&path).unwrap();
    let outputs = text
        .lines()
        .filter_map(|line| line.split_once(" out ")?.1.into());
    let said: usize = outputs.map(|line: &str| line.matches('x').count()).sum();
    assert_eq!(said, 40 * 65_536);
    assert!(
        !text.contains("a-secret-value") && text.contains("***"),
        "the secret is hidden"
    );
}

#[test]
fn an_agent_does_a_step_of_any_workflow() {
    let shop = AgentProject::new();
    let step = "name: w\nsteps:\n  ask: { agent: { prompt: 'Task: succeed', cwd: PLACE } }\n  \
                bad: { try: { steps: { a: { agent: 'Task: fail', retries: 0 } } }, catch: [{ match: [AgentFailed], as: e, \
                steps: { said: { let: \"${{ e.message }}\" } } }] }\n";
    let file = shop.home.file(
        "w.yaml",
        &step.replace("PLACE", shop.project.to_str().unwrap()),
    );
    let run = shop.json(&["run", &file]);
    assert_eq!(run["result"]["ask"], "did succeed", "{run}");
    assert!(
        run["result"]["bad"].to_string().contains("cannot do it"),
        "{run}"
    );
    let checked = shop.lope(&["workflows", "check", &file]).done();
    assert_eq!(checked.err, "", "no warning: agent steps are served");
}

/// "an MCP server on stdio (`lope mcp`) offers the same verbs"
#[test]
fn an_agent_speaks_of_its_task_over_mcp() {
    use std::io::Write;
    let shop = AgentProject::new();
    let id = shop.add("succeed", &[]);
    let claimed = shop.json(&["tasks", "claim", &id]);
    let mut command = shop.command(&["mcp"]);
    command.env("LOPE_TASK_TOKEN", claimed["token"].as_str().unwrap());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watch = Watch::over(&child);
    let call = |id: u32, tool: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    };
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned(),
        call(3, "task_show", "{}"),
        call(4, "task_note", r#"{"text":"half way"}"#),
        call(5, "task_split", r#"{"titles":["one","two"]}"#),
        call(6, "task_note", "{}"),
        call(7, "task_fly", "{}"),
        "not json".to_owned(),
        r#"{"jsonrpc":"2.0","id":8,"method":"resources/list"}"#.to_owned(),
        "[]".to_owned(),
        "42".to_owned(),
        "null".to_owned(),
        "\"x\"".to_owned(),
        r#"{"jsonrpc":"1.0","id":11,"method":"ping"}"#.to_owned(),
        call(12, "task_note", r#"{"text":"a\u0000b"}"#),
        call(9, "task_done", r#"{"result":"all of it"}"#),
        call(13, "task_fail", r#"{"reason":"the parts are for others"}"#),
        call(10, "task_note", r#"{"text":"too late"}"#),
    ];
    let mut input = child.stdin.take().unwrap();
    input
        .write_all((lines.join("\n") + "\n").as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(1)["result"]["protocolVersion"], "2025-03-26");
    let tools = of(2)["result"]["tools"].as_array().unwrap().iter();
    let tools: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    let verbs = "show next claim note add split ask done fail";
    let verbs: Vec<String> = verbs
        .split(' ')
        .map(|verb| format!("task_{verb}"))
        .collect();
    assert_eq!(tools, verbs);
    let shown: Value =
        serde_json::from_str(of(3)["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(shown["id"], id.as_str());
    assert_eq!(of(4)["result"]["isError"], false);
    assert_eq!(
        (&of(6)["error"]["code"], &of(7)["error"]["code"]),
        (&(-32602).into(), &(-32602).into())
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer["error"]["code"] == -32700)
            .count(),
        1
    );
    assert_eq!(of(8)["error"]["code"], -32601);
    let odd = answers.iter().filter(|it| it["error"]["code"] == -32600);
    let odd: Vec<&Value> = odd.map(|it| &it["id"]).collect();
    let none = Value::Null;
    assert_eq!(odd, [&none, &none, &none, &none, &11.into()]);
    assert_eq!(of(12)["error"]["code"], -32602, "no text has a zero byte");
    let done = of(9)["result"].to_string();
    assert!(done.contains("it waits for its parts"), "{done}");
    assert_eq!(of(13)["result"]["isError"], false, "{}", of(13));
    assert_eq!(
        of(10)["result"]["isError"],
        true,
        "its claim was given back"
    );
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&"failed".into(), &"the parts are for others".into()),
        "{task}"
    );
    assert_eq!(answers.len(), 18, "a notification has no answer");
    assert_eq!(shop.json(&["tasks", "list"]).as_array().unwrap().len(), 3);
}
