//! How runners and agents are started: what the flags of a runner mean, what an agent's program gets,
//! and in which order logs go that are too many. Real processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lope_model::Timestamp;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, attempts};
use crate::stage::{Said, said, until};

/// Write the whole configuration.
fn configure(shop: &AgentProject, config: &str) {
    std::fs::write(shop.home.path().join(".lope/config.yaml"), config).unwrap();
}

/// A program of the test.
fn program(shop: &AgentProject, name: &str, script: &str) -> PathBuf {
    let path = shop.home.path().join(name);
    crate::stage::program(&path, &format!("#!/bin/sh\n{script}"));
    path
}

/// Start a runner that goes on when the command has ended.
fn begin(shop: &AgentProject, more: &[&str]) -> Said {
    let words = ["runners", "start", "--project", "shop", "--json"];
    shop.lope(&[&words[..], more].concat())
}

/// Runners do not outlive the test.
struct Ended<'a>(&'a AgentProject);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lope(&["runners", "stop", "--all", "--force"]);
    }
}

fn time(value: &Value) -> i64 {
    let text = value.as_str().unwrap();
    text.parse::<Timestamp>().unwrap().millis()
}

/// "A lock is renewed while its holder works (default expiry 60 m, `lockExpiry` per runner, renewed
/// every heartbeat)"
#[test]
fn a_runners_locks_last_as_long_as_it_was_told() {
    let shop = AgentProject::new();
    let _ended = Ended(&shop);
    let config = std::fs::read_to_string(shop.home.path().join(".lope/config.yaml")).unwrap();
    let rows: [(&str, &[&str], i64); 3] = [
        ("", &[], 60 * 60),
        ("  lockExpiry: 10m\n", &[], 10 * 60),
        ("  lockExpiry: 10m\n", &["--lock-expiry", "2m"], 2 * 60),
    ];
    for (more, flags, seconds) in rows {
        configure(&shop, &format!("{config}{more}"));
        let id = shop.add("wait for it", &[]);
        begin(&shop, flags).done();
        until("its beginning", || shop.begun(&id));
        let lock = shop.task(&id)["lock"].clone();
        let length = time(&lock["expiresAt"]) - time(&lock["acquiredAt"]);
        // It may have been renewed already, in a slow moment.
        let expected = seconds * 1_000..seconds * 1_000 + 60_000;
        assert!(expected.contains(&length), "{lock}");
        until("it is renewed", || {
            let renewed = shop.task(&id)["lock"].clone();
            assert_eq!(
                (&renewed["acquiredAt"], &renewed["epoch"]),
                (&lock["acquiredAt"], &lock["epoch"])
            );
            time(&renewed["expiresAt"]) > time(&lock["expiresAt"])
        });
        shop.lope(&["runners", "stop", "--all", "--force"]).done();
        shop.lope(&["tasks", "skip", &id]).done();
    }
    for bad in ["300ms", "0s", "soon", "-1m"] {
        let refused = begin(&shop, &[&format!("--lock-expiry={bad}")]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("--lock-expiry"), "{refused:?}");
    }
    assert_eq!(shop.json(&["runners", "list"]), json!([]));
}

/// "Two runners never work in the same section of a project at the same time", "`runners start
/// --section S` focuses one".
#[test]
fn two_sections_of_a_project_are_worked_in_at_once_and_each_by_one_runner() {
    let shop = AgentProject::with("  maxConcurrent: 3\n", "");
    let _ended = Ended(&shop);
    let add = |section: &str| shop.add("wait for it", &["--section", section]);
    let [first, next, other] = [add("front"), add("front"), add("back")];
    let outside = shop.add("succeed without a section", &[]);
    let front = begin(&shop, &["--section", "front"]).done().json();
    let back = begin(&shop, &["--section", "back"]).done().json();
    until("both begin", || shop.begun(&first) && shop.begun(&other));
    for section in ["front", "back"] {
        let refused = begin(&shop, &["--section", section]);
        let runner = if section == "front" { &front } else { &back };
        let id = runner["id"].as_str().unwrap();
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(
            refused
                .err
                .contains(&format!("runner {id} works on this project")),
            "{refused:?}"
        );
    }
    let listed = shop.json(&["runners", "list"]);
    let seen = |runner: &Value| {
        let mut all = listed.as_array().unwrap().iter();
        let found = all.find(|it| it["id"] == runner["id"]).unwrap();
        (found["section"].clone(), found["currentTask"].clone())
    };
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(seen(&front), (json!("front"), json!(first)));
    assert_eq!(seen(&back), (json!("back"), json!(other)));
    // One for the whole project passes over what is in a section that is worked in.
    shop.work();
    assert_eq!(
        (
            &shop.task(&outside)["status"],
            attempts(&shop.task(&next), "number").len()
        ),
        (&json!("completed"), 0)
    );
    shop.go();
    until("their ends", || {
        [&first, &next, &other]
            .iter()
            .all(|id| shop.task(id)["status"] == "completed")
    });
    for (id, runner) in [(&first, &front), (&next, &front), (&other, &back)] {
        assert_eq!(attempts(&shop.task(id), "runner"), [&runner["id"]]);
    }
}

/// A task and a section that do not go together would be waited for without end.
#[test]
fn a_task_of_another_section_is_refused() {
    let shop = AgentProject::new();
    let id = shop.add("succeed", &["--section", "front"]);
    let outside = shop.add("succeed", &[]);
    for (task, section) in [(&id, "back"), (&outside, "front")] {
        let refused = begin(&shop, &["--task", task, "--section", section]);
        let words = format!("task {task} is not in section '{section}'");
        assert_eq!(
            (refused.code, refused.err.contains(&words)),
            (2, true),
            "{refused:?}"
        );
    }
    let words = ["--task", &id, "--section", "front", "--foreground"];
    begin(&shop, &words).done();
    assert_eq!(shop.task(&id)["status"], "completed");
}

/// "resume of the tool's own session on the next attempt", for each tool, with the words it is called
/// with; a review begins anew.
#[test]
fn each_tool_goes_on_in_its_session_when_its_work_was_rejected() {
    let transcripts =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../lope-agent-runner/tests/transcripts");
    let transcripts = transcripts.canonicalize().unwrap();
    for (tool, first, again) in [
        (
            "claude",
            "-p --output-format stream-json --verbose",
            "-p --output-format stream-json --verbose --resume=0d1c2b3a-0000-4000-8000-000000000001",
        ),
        (
            "codex",
            "exec --json -C SHOP -",
            "exec --json -C SHOP resume 0199-thread -",
        ),
        (
            "gemini",
            "--output-format stream-json",
            "--output-format stream-json --resume g-1",
        ),
        (
            "opencode",
            "run --format json --dir SHOP",
            "run --format json --dir SHOP -s ses_1",
        ),
    ] {
        let shop = AgentProject::new();
        let transcript = transcripts.join(format!("{tool}-success.jsonl"));
        let script = format!(
            "echo \"$@\" >>args.log\ncat >/dev/null\ncat '{}'\n",
            transcript.display()
        );
        let program = program(&shop, tool, &script);
        configure(
            &shop,
            &format!(
                "agents: {{ default: {{ command: [{:?}] }} }}\nrunners: {{ review: person, heartbeatInterval: 200ms }}\n",
                program.display().to_string()
            ),
        );
        let id = shop.add("do it", &[]);
        shop.work();
        assert_eq!(shop.task(&id)["status"], "review", "{}", shop.task(&id));
        shop.lope(&["tasks", "reject", &id, "--notes", "not yet"])
            .done();
        shop.work();
        let project = shop.project.display().to_string();
        let calls = shop.file("args.log").replace(&project, "SHOP");
        assert_eq!(calls, format!("{first}\n{again}\n"), "{tool}");
        // What is begun anew has no session.
        shop.lope(&["tasks", "reset", &id]).done();
        shop.work();
        let calls = shop.file("args.log").replace(&project, "SHOP");
        assert_eq!(calls.lines().nth(2), Some(first), "{tool}");
    }
}

/// "Started by argv, prompt on stdin or a private file, own session and group, environment cookie; no
/// shell unless configured."
#[test]
fn an_agent_gets_its_words_as_they_are_and_a_session_of_its_own() {
    const SCRIPT: &str = "for word; do echo \"$word\"; done >words.log
for last; do :; done
stat -c %a \"$last\" >mode.log
cat \"$last\" >prompt.log
cat >input.log
cut -d ' ' -f 5,6 /proc/$$/stat >group.log
echo $$ >pid.log
env >environment.log
";
    let shop = AgentProject::new();
    let program = program(&shop, "mine", SCRIPT);
    configure(
        &shop,
        &format!(
            "agents: {{ default: {{ command: [{:?}, 'two words', '$HOME', ';', '*', ''], prompt: file }} }}\n\
             runners: {{ heartbeatInterval: 200ms }}\n",
            program.display().to_string()
        ),
    );
    let id = shop.add("do it", &["--description", "with `care`"]);
    let words = ["runners", "start", "--project", "shop", "--foreground"];
    let mut runner = shop.command(&[&words[..], &["--until-idle"]].concat());
    said(runner.env("HIDDEN", "not for agents")).done();
    assert_eq!(shop.task(&id)["status"], "completed", "{}", shop.task(&id));
    let words = shop.file("words.log");
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[..5], ["two words", "$HOME", ";", "*", ""]);
    let file = words[5];
    assert_eq!(words.len(), 6);
    assert_eq!(shop.file("mode.log"), "600\n", "nobody else reads it");
    assert!(!Path::new(file).exists(), "{file} is gone with its agent");
    let prompt = shop.file("prompt.log");
    assert!(
        prompt.contains("Task: do it\n") && prompt.contains("with `care`"),
        "{prompt}"
    );
    assert_eq!(shop.file("input.log"), "");
    let own = shop.file("pid.log");
    let group = shop.file("group.log");
    let group: Vec<&str> = group.split_whitespace().collect();
    assert_eq!(group[0], own.trim(), "it leads a group of its own");
    // 0 if the session is that of a process outside of this container.
    let test = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, test) = test.rsplit_once(')').unwrap();
    let test = test.split_whitespace().nth(3).unwrap();
    assert_ne!(group[1], test, "and is in another session");
    let environment = shop.file("environment.log");
    let has = |name: &str| environment.lines().any(|line| line.starts_with(name));
    assert!(has("LOPE_PROCESS_TREE="), "{environment}");
    assert!(has(&format!("LOPE_TASK_ID={id}")), "{environment}");
    assert!(!has("HIDDEN="), "{environment}");
}

/// "`sourceFile` reaches the prompt of worker and reviewer."
#[test]
fn the_specification_of_a_task_reaches_its_worker_and_its_reviewer() {
    let shop = AgentProject::new();
    configure(
        &shop,
        "agents:\n  default: { command: [sh, -c, 'cat >work.log'] }\n  \
         reviewer: { command: [sh, -c, 'cat >review.log; echo \"VERDICT: APPROVED\"'] }\n\
         runners: { review: agent, heartbeatInterval: 200ms }\n",
    );
    let id = shop.add("do it", &["--source", "docs/SPEC.md#login"]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(
        attempts(&task, "agent"),
        [&json!("default"), &json!("reviewer")]
    );
    for name in ["work.log", "review.log"] {
        let prompt = shop.file(name);
        assert!(
            prompt.contains("Specification: docs/SPEC.md#login "),
            "{prompt}"
        );
    }
}

/// Seconds before now.
/// An agent whose program is not there is tried less and less often, until it is there: not each minute
/// of a night. Who starts a runner by hand need not wait.
#[test]
fn an_agent_that_cannot_be_started_is_tried_less_often_each_time() {
    let shop = AgentProject::new();
    let file = shop.home.path().join(".lope/config.yaml");
    let config = std::fs::read_to_string(&file).unwrap();
    let missing =
        "agents: { default: { command: [/nonexistent/agent] } }\nrunners: { review: none }\n";
    let id = shop.add("succeed", &[]);
    let pause = || {
        let task = shop.task(&id);
        assert_eq!(
            (&task["status"], &task["attempts"]),
            (&json!("pending"), &json!(0)),
            "{task}"
        );
        let reason = task["reason"].as_str().unwrap();
        let words = "startup: '/nonexistent/agent' cannot be started";
        assert!(reason.starts_with(words), "{reason}");
        time(&task["notBefore"]) - time(&task["updatedAt"])
    };
    configure(&shop, missing);
    for minutes in [1, 2, 4] {
        shop.work();
        assert_eq!(pause(), minutes * 60_000);
        let woken = shop.lope(&["runners", "wakeup"]).done().out;
        let words = format!("{}: nothing to do\n", shop.project.display());
        assert_eq!(woken, words, "it is too early");
    }
    shop.lope(&["tasks", "reset", &id]).done();
    shop.work();
    assert_eq!(pause(), 60_000, "a person has begun anew");
    configure(&shop, &config);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    shop.lope(&["tasks", "reset", &id]).done();
    configure(&shop, missing);
    shop.work();
    assert_eq!(pause(), 60_000, "it had begun to work");
}

/// The same for a workflow of tasks that is wrong: no agent is started, and none is named.
#[test]
fn a_task_whose_workflow_is_wrong_is_tried_less_often_each_time() {
    let shop = AgentProject::new();
    std::fs::create_dir(shop.project.join(".lope")).unwrap();
    let workflow = shop.project.join(".lope/task.yaml");
    std::fs::write(&workflow, "name: shop\nsteps:\n  work: { agnet: {} }\n").unwrap();
    let id = shop.add("succeed", &[]);
    for minutes in [1, 2] {
        shop.work();
        let task = shop.task(&id);
        let pause = time(&task["notBefore"]) - time(&task["updatedAt"]);
        assert_eq!(pause, minutes * 60_000, "{task}");
    }
    std::fs::remove_file(&workflow).unwrap();
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
}

fn ago(seconds: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(seconds)
}

/// "retention by age and size": logs that are too many bytes together go, the oldest first, those of
/// tasks and those of runs each for themselves.
#[test]
fn the_oldest_logs_of_tasks_go_first_when_all_are_too_many() {
    const MIB: u64 = 1024 * 1024;
    let shop = AgentProject::new();
    let tasks = shop.home.path().join(".lope/logs/tasks");
    // A file without blocks is as long as any other.
    let log = |name: &str, mebibytes: u64, seconds: u64| {
        let path = tasks.join(name).join("work.1.log");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(mebibytes * MIB).unwrap();
        file.set_modified(ago(seconds)).unwrap();
        path
    };
    let name = |number: u128| uuid::Uuid::from_u128(number).to_string();
    let oldest = log(&name(1), 700, 3_000);
    let older = log(&name(2), 700, 2_000);
    let newer = log(&name(3), 700, 1_000);
    let small = log(&name(4), 1, 4_000);
    let id = shop.add("cost something", &[]);
    shop.work();
    // They are looked at beside the work, which may have ended before.
    until("the oldest go", || {
        if oldest.exists() {
            shop.add("succeed", &[]);
            shop.work();
        }
        !oldest.exists()
    });
    assert!(!small.exists(), "it is older still");
    assert!(older.exists() && newer.exists(), "they have room");
    let said = shop.lope(&["tasks", "logs", &id]).done();
    assert!(said.out.contains("did cost"), "{said:?}");
}
