//! What a step starts is gone when the step is; what it inherits is what was named; a stopped
//! command leaves nothing behind.

use crate::stage;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use stage::{Home, until};

/// Seconds to sleep that no other process on the machine sleeps.
fn long() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "{}.{:06}",
        90_000 + NEXT.fetch_add(1, Ordering::Relaxed),
        std::process::id()
    )
}

/// Processes that sleep for so long.
fn sleepers(seconds: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    lines.filter(|line| line.ends_with(&wanted)).count()
}

fn workflow(home: &Home, step: &serde_json::Value) -> String {
    let text = json!({ "name": "w", "steps": { "a": step } });
    home.file("w.yaml", &text.to_string())
}

fn begin(home: &Home, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The id of the only run.
fn only_run(home: &Home) -> String {
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
    assert_eq!(runs.len(), 1, "{listed}");
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

fn lines(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("seen")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_child_in_the_background_does_not_hold_its_step() {
    let (home, long, started) = (Home::new(), long(), Instant::now());
    let file = workflow(&home, &json!({ "run": format!("sleep {long} & echo ok") }));
    let said = home.lope(&["run", &file, "--json"]).done();
    assert!(said.out.contains("completed"), "{said:?}");
    assert!(started.elapsed() < Duration::from_secs(120));
    assert_eq!(sleepers(&long), 0);
}

#[test]
fn a_daemon_that_left_its_group_session_and_environment_goes_with_its_step() {
    let (home, long) = (Home::new(), long());
    let line = format!(
        "setsid -f sleep {long} >/dev/null 2>&1; env -i setsid -f sh -c 'sleep {long} & wait' >/dev/null 2>&1; \
         env -i sh -c \"trap '' TERM; sleep {long}\" >/dev/null 2>&1 & \
         until [ $(pgrep -cxf 'sleep {long}') = 3 ]; do :; done; echo ok"
    );
    let file = workflow(&home, &json!({ "run": line }));
    home.lope(&["run", &file]).done();
    assert_eq!(sleepers(&long), 0);
}

#[test]
fn a_timeout_ends_what_ignores_being_told_and_what_was_forked_twice() {
    let (home, long) = (Home::new(), long());
    let line = format!("trap '' TERM; setsid -f sleep {long}; (sleep {long} &); sleep {long}");
    let file = workflow(&home, &json!({ "run": line, "timeout": "500ms" }));
    let said = home.lope(&["run", &file, "--json"]);
    assert!(said.out.contains("Timeout"), "{said:?}");
    assert_eq!(sleepers(&long), 0);
}

/// "told to end (TERM) and, 2 s later, killed": what is said meanwhile is heard, so that whoever says
/// something while it cleans up gets to the end of it, and an unfinished line is not lost.
#[test]
fn what_is_told_to_end_may_say_so_and_clean_up() {
    let home = Home::new();
    let line = "trap 'echo told; echo aloud >&2; touch cleaned; exit 0' TERM; printf partial; touch begun; \
                while :; do sleep 0.05; done";
    let file = workflow(&home, &json!({ "run": line, "timeout": "1s" }));
    let said = home.lope(&["run", &file, "--json"]);
    assert!(said.out.contains("Timeout"), "{said:?}");
    let is_there = |name: &str| home.path().join(name).exists();
    assert!(is_there("begun") && is_there("cleaned"), "{said:?}");
    let logs = home.lope(&["runs", "logs", &only_run(&home)]).done();
    assert!(logs.out.contains("partialtold"), "{logs:?}");
    assert!(logs.out.contains("aloud"), "{logs:?}");
}

/// What follows a step begins when what the step had started is gone: here a handler and a
/// `finally`, each of which counts what is left of a step that ignores being told.
#[test]
fn catch_and_finally_begin_when_what_the_step_had_started_is_gone() {
    let (home, long) = (Home::new(), long());
    let slow = format!("trap '' TERM; setsid -f sleep {long}; echo x >> seen; sleep {long}");
    let left = format!("pgrep -cxf 'sleep {long}' >> left || true");
    let file = workflow(
        &home,
        &json!({
            "try": {
                "timed": {
                    "try": { "slow": { "run": slow, "timeout": "500ms" } },
                    "catch": [{ "steps": { "caught": { "run": left } } }],
                },
                "again": { "run": slow, "needs": ["timed"] },
            },
            "finally": { "last": { "run": left } },
        }),
    );
    let mut lope = begin(&home, &["run", &file]);
    until("it is at work again", || {
        lines(&home).len() == 2 && sleepers(&long) == 2
    });
    home.lope(&["runs", "cancel", &only_run(&home)]).done();
    lope.wait().unwrap();
    let left = std::fs::read_to_string(home.path().join("left")).unwrap();
    assert_eq!(left, "0\n0\n");
    assert_eq!(sleepers(&long), 0);
}

#[test]
fn a_runner_that_is_killed_leaves_no_process_behind() {
    let (home, long) = (Home::new(), long());
    let line =
        format!("sleep {long} & (setsid -f sleep {long}); env -i setsid -f sleep {long}; wait");
    let file = workflow(&home, &json!({ "run": line }));
    let mut lope = begin(&home, &["run", &file]);
    until("all sleep", || sleepers(&long) == 3);
    send(&lope, Signal::KILL);
    lope.wait().unwrap();
    until("none is left", || sleepers(&long) == 0);
}

/// The process that supervises the tree of a runner's only step.
fn supervisor(runner: &Child) -> Pid {
    let is_supervisor = |pid: &&str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"lope-process-tree\0")
    };
    // Each thread has the children that it has started.
    let threads = std::fs::read_dir(format!("/proc/{}/task", runner.id())).unwrap();
    let children: Vec<String> = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .collect();
    let children = children.join(" ");
    let found: Vec<&str> = children.split_whitespace().filter(is_supervisor).collect();
    assert_eq!(found.len(), 1, "{children}");
    Pid::from_raw(found[0].parse().unwrap()).unwrap()
}

#[test]
fn what_a_killed_supervisor_had_in_its_sight_is_gone_before_the_next_attempt() {
    let (home, long) = (Home::new(), long());
    let line = format!(
        "test -e killed || {{ touch killed; {} kill -9 $PPID; wait; }}; \
         pgrep -cxf 'sleep {long}' >> left || true",
        three_sleepers(&long)
    );
    let file = workflow(&home, &json!({ "run": line }));
    home.lope(&["run", &file]).done();
    let left = std::fs::read_to_string(home.path().join("left")).unwrap();
    assert_eq!(left, "0\n");
    assert_eq!(sleepers(&long), 0);
}

/// Who could end it is gone: the next runner on the machine does.
#[test]
fn what_a_runner_left_that_was_killed_with_its_supervisor_goes_with_the_next() {
    let (home, long) = (Home::new(), long());
    let line = format!("{} wait", three_sleepers(&long));
    let file = workflow(&home, &json!({ "run": line }));
    let mut lope = begin(&home, &["run", &file]);
    until("all sleep", || sleepers(&long) == 3);
    let supervisor = supervisor(&lope);
    send(&lope, Signal::STOP);
    kill_process(supervisor, Signal::KILL).unwrap();
    send(&lope, Signal::KILL);
    lope.wait().unwrap();
    assert_ne!(sleepers(&long), 0, "nobody is there who would end them");
    let next = home.file(
        "next.yaml",
        r#"{ "name": "n", "steps": { "a": { "run": "echo ok" } } }"#,
    );
    home.lope(&["run", &next]).done();
    until("none is left", || sleepers(&long) == 0);
}

/// Not `1 begin, 2 begin, 1 end, 2 end`.
#[test]
fn the_second_attempt_begins_when_what_the_first_had_started_is_gone() {
    let home = Home::new();
    let line = "(trap '' TERM; sleep 3; echo \"$LOPE_ATTEMPT end\" >> seen) & \
                echo \"$LOPE_ATTEMPT begin\" >> seen; wait";
    let file = workflow(&home, &json!({ "run": line }));
    let mut lope = begin(&home, &["run", &file]);
    until("it has begun", || lines(&home).len() == 1);
    send(&lope, Signal::KILL);
    lope.wait().unwrap();
    let run = only_run(&home);
    home.lope(&["run", "--resume", &run]).done();
    assert_eq!(lines(&home), ["1 begin", "2 begin", "2 end"]);
}

#[test]
fn one_term_stops_a_run_and_it_can_be_resumed() {
    let (home, long) = (Home::new(), long());
    let line = format!("echo x >> seen; test -e go || sleep {long}");
    let file = workflow(&home, &json!({ "run": line }));
    let mut lope = begin(&home, &["run", &file]);
    until("it sleeps", || sleepers(&long) == 1);
    let asked = Instant::now();
    send(&lope, Signal::TERM);
    let status = lope.wait().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(120), "{status}");
    assert_eq!(status.code(), Some(1));
    until("none is left", || sleepers(&long) == 0);
    home.file("go", "");
    let run = only_run(&home);
    home.lope(&["run", "--resume", &run]).done();
    assert_eq!(lines(&home).len(), 2);
}

/// What was at work when a TERM came may have been the last of the run: it has ended then, and is
/// not said to be left.
#[test]
fn a_run_that_ends_while_it_is_told_to_stop_has_ended() {
    let home = Home::new();
    let file = workflow(
        &home,
        &json!({ "run": "echo x >> seen; until test -e go; do sleep 0.05; done" }),
    );
    let lope = begin(&home, &["run", &file, "--json"]);
    until("it has begun", || home.path().join("seen").exists());
    send(&lope, Signal::TERM);
    home.file("go", "");
    let ended = lope.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(told["status"], "completed", "{told}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!said.contains("--resume"), "{said}");
}

/// What would end by itself in the time that one TERM leaves it is not waited for after a second.
#[test]
fn a_second_term_does_not_wait_for_what_is_at_work() {
    let home = Home::new();
    let file = workflow(&home, &json!({ "run": "echo x >> seen; sleep 4" }));
    let mut lope = begin(&home, &["run", &file]);
    let mut lines = BufReader::new(lope.stderr.take().unwrap()).lines();
    until("it has begun", || home.path().join("seen").exists());
    send(&lope, Signal::TERM);
    let heard = lines.any(|line| line.unwrap().contains("finishing what is in flight"));
    assert!(heard, "the first TERM was not answered");
    send(&lope, Signal::TERM);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(lope.wait().unwrap().code(), Some(1), "{said:?}");
    let left = said.iter().any(|line| line.contains("was left as it is"));
    assert!(left, "{said:?}");
}

#[test]
fn a_process_inherits_what_was_named_and_nothing_else() {
    let home = Home::new();
    let folder = home.path().join(".lope");
    std::fs::create_dir_all(&folder).unwrap();
    let config = "secrets: { token: { env: API_TOKEN } }\nenv: [REGION]\n";
    std::fs::write(folder.join("config.yaml"), config).unwrap();
    let file = workflow(&home, &json!({ "run": "env", "env": { "OWN": "mine" } }));
    let store = format!("sqlite:{}", home.path().join("other.db").display());
    let mut command = home.command(&["run", &file, "--json"]);
    command
        .env("LOPE_STORE", &store)
        .env("LOPE_WORKER_TOKEN", "a-worker-token-that-nobody-sees")
        .env("API_TOKEN", "an-api-token-that-nobody-sees")
        .env("OTHER", "other-that-nobody-named")
        .env("LC_ALL", "C")
        .env("REGION", "north");
    let said = stage::said(&mut command).done();
    let result = said.json()["result"].as_str().unwrap().to_owned();
    let has = |line: &str| result.lines().any(|other| other == line);
    assert!(
        has("OWN=mine") && has("REGION=north") && has("LC_ALL=C"),
        "{result}"
    );
    assert!(
        result.contains("\nPATH=") || result.starts_with("PATH="),
        "{result}"
    );
    for absent in ["that-nobody", "other.db", "LOPE_STORE", "API_TOKEN"] {
        assert!(!result.contains(absent), "{absent}: {result}");
    }
}

/// Three processes that sleep so long: in the background, forked twice, and with another
/// environment.
fn three_sleepers(long: &str) -> String {
    format!(
        "sleep {long} & (setsid -f sleep {long} >/dev/null 2>&1); env -i setsid -f sleep {long} >/dev/null 2>&1; \
         until [ $(pgrep -cxf 'sleep {long}') = 3 ]; do :; done;"
    )
}

#[test]
fn what_the_program_of_a_message_started_is_gone_when_the_message_is_handled() {
    let (home, long) = (Home::new(), long());
    home.lope(&["mailbox", "send", "7", "--payload", "one"])
        .done();
    let script = format!("{} cat >> seen; echo said", three_sleepers(&long));
    let program = ["--until-idle", "--", "sh", "-c", &script];
    let said = home
        .lope(&[&["mailbox", "work", "7"], &program[..]].concat())
        .done();
    assert_eq!(sleepers(&long), 0);
    assert_eq!(
        (lines(&home), said.out.as_str()),
        (vec!["one".into()], "said\n")
    );
}

#[test]
fn a_program_that_takes_too_long_for_its_message_goes_with_all_that_it_started() {
    let (home, long) = (Home::new(), long());
    home.lope(&["mailbox", "send", "7", "--payload", "x"])
        .done();
    let script = format!("trap '' TERM; {} wait", three_sleepers(&long));
    let program = ["--until-idle", "--attempts", "1", "--timeout", "2s"];
    let program = [&program[..], &["--", "sh", "-c", &script]].concat();
    home.lope(&[&["mailbox", "work", "7"], &program[..]].concat())
        .done();
    assert_eq!(sleepers(&long), 0);
    let dead = home.lope(&["mailbox", "dead", "7", "--json"]).done();
    assert!(dead.out.contains("took longer than 2s"), "{dead:?}");
}

#[test]
fn a_mailbox_worker_that_is_killed_leaves_no_process_behind() {
    let (home, long) = (Home::new(), long());
    home.lope(&["mailbox", "send", "7", "--payload", "x"])
        .done();
    let script = format!("trap '' TERM; {} wait", three_sleepers(&long));
    let mut worker = begin(&home, &["mailbox", "work", "7", "--", "sh", "-c", &script]);
    until("all sleep", || sleepers(&long) == 3);
    send(&worker, Signal::KILL);
    worker.wait().unwrap();
    until("none is left", || sleepers(&long) == 0);
    home.lope(&[
        "mailbox",
        "work",
        "7",
        "--until-idle",
        "--",
        "sh",
        "-c",
        "echo $LOPE_ATTEMPT > seen",
    ])
    .done();
    assert_eq!(lines(&home), ["2"]);
}

#[test]
fn the_program_of_a_message_inherits_what_was_named_and_nothing_else() {
    let home = Home::new();
    let folder = home.path().join(".lope");
    std::fs::create_dir_all(&folder).unwrap();
    let config = "secrets: { token: { env: API_TOKEN } }\nenv: [REGION]\n";
    std::fs::write(folder.join("config.yaml"), config).unwrap();
    let store = format!("sqlite:{}", home.path().join("other.db").display());
    let named = |args: &[&str]| {
        let mut command = home.command(args);
        command
            .env("LOPE_STORE", &store)
            .env("LOPE_WORKER_TOKEN", "a-worker-token-that-nobody-sees")
            .env("API_TOKEN", "an-api-token-that-nobody-sees")
            .env("OTHER", "other-that-nobody-named")
            .env("REGION", "north");
        stage::said(&mut command).done()
    };
    named(&["mailbox", "send", "7", "--id", "m", "--payload", "x"]);
    let said = named(&["mailbox", "work", "7", "--until-idle", "--", "env"]);
    let has = |line: &str| said.out.lines().any(|other| other == line);
    assert!(
        has("REGION=north") && has("LOPE_MESSAGE_ID=m") && has("LOPE_ATTEMPT=1"),
        "{said:?}"
    );
    assert!(
        said.out.lines().any(|line| line.starts_with("PATH=")),
        "{said:?}"
    );
    for absent in ["that-nobody", "other.db", "LOPE_STORE", "API_TOKEN"] {
        assert!(!said.out.contains(absent), "{absent}: {said:?}");
    }
}

#[test]
fn the_error_of_a_process_shows_its_last_lines() {
    let home = Home::new();
    let line = "echo first >&2; echo 'cannot open the file' >&2; echo 'gave up' >&2; exit 3";
    let file = workflow(&home, &json!({ "run": line }));
    let said = home.lope(&["run", &file]);
    assert!(
        said.err.contains("cannot open the file") || said.out.contains("cannot open the file"),
        "{said:?}"
    );
    let json = home.lope(&["run", &file, "--json"]).json();
    let message = json["error"]["message"].as_str().unwrap();
    assert!(message.contains("exit status: 3"), "{message}");
    assert!(
        message.contains("cannot open the file") && message.contains("gave up"),
        "{message}"
    );
}

/// The store's files and the logs hold none of these.
fn nowhere(home: &Home, secrets: &[&str]) {
    for path in home.contents() {
        if path.ends_with(".yaml") || path.ends_with("/secret") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{path} holds {secret}");
        }
    }
}

#[test]
fn secrets_are_masked_in_every_form_in_which_they_come_out() {
    let home = Home::new();
    let folder = home.path().join(".lope");
    std::fs::create_dir_all(&folder).unwrap();
    home.file("secret", "-----first line\nsecond \"line\" of it\n");
    let config = json!({ "secrets": {
        "pin": { "env": "PIN" }, "key": { "file": home.path().join("secret") }, "pass": { "env": "PASS" }
    } });
    std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
    // A number alone; several lines as they are and as JSON; a long line whose pieces end within.
    let filled = "head -c 65530 /dev/zero | tr '\\0' x";
    let line = format!(
        "printf '%s\\n' \"$KEY\"; printf '%s' \"$KEY\" | python3 -c 'import json,sys; print(json.dumps(sys.stdin.read()))'; \
         {filled}; printf '%s\\n' \"$PASS\"; {filled} >&2; printf '%s\\n' \"$PASS\" >&2; echo \"$PIN\""
    );
    let env = json!({ "KEY": "${{ secrets.key }}", "PASS": "${{ secrets.pass }}", "PIN": "${{ secrets.pin }}" });
    let steps = json!({ "name": "w", "steps": {
        "a": { "run": line, "env": env },
        "n": { "run": "echo $PIN", "env": env },
        "h": { "try": { "ask": { "http": { "url": "http://127.0.0.1:9/x?p=${{ secrets.pass }}" } } },
               "catch": [{ "as": "e", "steps": { "r": { "let": "${{ e }}" } } }] },
        "j": { "try": { "throw": { "js": "({p}) => { throw new Error('with ' + p) }", "with": { "p": "${{ secrets.pass }}" } } },
               "catch": [{ "as": "e", "steps": { "r": { "let": "${{ e }}" } } }] },
        "r": { "return": ["${{ a }}", "${{ n }}", "${{ h }}", "${{ j }}"] }
    } });
    let file = home.file("w.yaml", &steps.to_string());
    let mut command = home.command(&["run", &file, "--json"]);
    command
        .env("PIN", "4711081512")
        .env("PASS", "pass word/with&signs");
    let said = stage::said(&mut command).done();
    let result = &said.json()["result"];
    assert_eq!(result[1], "***", "{result}");
    assert!(result[2].to_string().contains("HttpError"), "{result}");
    assert!(result[3].to_string().contains("with ***"), "{result}");
    let secrets = [
        "4711081512",
        "pass word/with&signs",
        "word/with&signs",
        "pass%20word",
        "pass+word",
        "pass word",
        "-----first line",
        "second \"line\" of it",
        "second \\\"line\\\" of it",
    ];
    for secret in secrets {
        assert!(
            !said.out.contains(secret) && !said.err.contains(secret),
            "{secret}: {said:?}"
        );
    }
    nowhere(&home, &secrets);
}

/// An address is not the same text once it is parsed: scheme and host are in lower case, dot segments
/// are gone, signs are escaped. An error shows what the workflow wrote, and the mask in it.
#[test]
fn a_secret_in_an_address_is_masked_in_the_error_of_the_request() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join(".lope")).unwrap();
    let rows = [
        (
            "HOST",
            "SeCrEtToken",
            "http://${{ secrets.HOST }}.invalid/x",
        ),
        (
            "SCHEME",
            "SeCrEtScheme",
            "${{ secrets.SCHEME }}://127.0.0.1:9/x",
        ),
        (
            "DOTS",
            "a/../topsecret",
            "http://127.0.0.1:9/${{ secrets.DOTS }}",
        ),
        (
            "SIGNS",
            "s3cr3t\"qu\\ote/xyz",
            "http://127.0.0.1:9/${{ secrets.SIGNS }}",
        ),
    ];
    let secrets: serde_json::Map<_, _> = rows
        .iter()
        .map(|(name, _, _)| ((*name).to_owned(), json!({ "env": name })))
        .collect();
    home.file(
        ".lope/config.yaml",
        &json!({ "secrets": secrets }).to_string(),
    );
    let mut steps = serde_json::Map::new();
    for (name, _, url) in &rows {
        let step = json!({ "try": { "ask": { "http": { "url": url } } },
            "catch": [{ "as": "e", "steps": { "r": { "let": "${{ e }}" } } }] });
        steps.insert(name.to_lowercase(), step);
    }
    let all = rows.map(|(name, _, _)| format!("${{{{ {} }}}}", name.to_lowercase()));
    steps.insert("r".to_owned(), json!({ "return": all }));
    let file = home.file(
        "w.yaml",
        &json!({ "name": "w", "steps": steps }).to_string(),
    );
    let mut command = home.command(&["run", &file, "--json"]);
    command.envs(rows.map(|(name, value, _)| (name, value)));
    let said = stage::said(&mut command).done();
    let result = &said.json()["result"];
    for (index, shown) in [
        "(http://***.invalid/x)",
        "(***://127.0.0.1:9/x)",
        "(http://127.0.0.1:9/***)",
        "(http://127.0.0.1:9/***)",
    ]
    .iter()
    .enumerate()
    {
        let message = result[index].to_string();
        assert!(message.contains(shown), "{shown}: {message}");
    }
    let seen = format!("{}{}", said.out, said.err).to_lowercase();
    let parts = [
        "secrettoken",
        "secretscheme",
        "topsecret",
        "s3cr3t",
        "ote/xyz",
    ];
    for part in parts {
        assert!(!seen.contains(part), "{part}: {said:?}");
    }
    nowhere(&home, &parts);
    nowhere(&home, &["SeCrEtToken", "SeCrEtScheme"]);
}

/// Numbers in another writing, the escapes of several programs, and lines too short to be looked
/// for one by one, in results, logs and the store.
#[test]
fn secrets_are_masked_as_numbers_escaped_and_over_short_lines() {
    let home = Home::new();
    let folder = home.path().join(".lope");
    std::fs::create_dir_all(&folder).unwrap();
    let config = "secrets: { pin: { env: PIN }, long: { env: LONG }, odd: { env: ODD }, short: { env: SHORT } }\n";
    std::fs::write(folder.join("config.yaml"), config).unwrap();
    let escaped = r"printf '%s\n' 'a <p\/q\u003Cr\u003e\u00E4> b' 'a <p/q\u003cr\u003E\u00e4> b'";
    let steps = json!({ "name": "w", "steps": {
        "a": { "run": ["echo", "${{ secrets.pin }}"] },
        "b": { "run": ["echo", "${{ secrets.long }}"] },
        "c": { "js": "({p}) => [Number(p), -Number(p), 12345.5]", "with": { "p": "${{ secrets.pin }}" } },
        "d": { "run": escaped, "env": { "ODD": "${{ secrets.odd }}" } },
        "e": { "run": "echo begin; printf '%s\\n' \"$SHORT\"; echo end", "env": { "SHORT": "${{ secrets.short }}" } },
        "r": { "return": ["${{ a }}", "${{ b }}", "${{ c }}", "${{ d }}", "${{ e }}"] }
    } });
    let file = home.file("w.yaml", &steps.to_string());
    let mut command = home.command(&["run", &file, "--json"]);
    command
        .env("PIN", "12345.60")
        .env("LONG", "1234567890123456789012")
        .env("ODD", "p/q<r>ä")
        .env("SHORT", "zq1\nzq2\nzq3");
    let said = stage::said(&mut command).done();
    let shown = said.json();
    let expected = json!([
        "***",
        "***",
        ["***", "***", 12345.5],
        "a <***> b\na <***> b",
        "begin\n***\nend"
    ]);
    assert_eq!(shown["result"], expected);
    let logs = home
        .lope(&["runs", "logs", shown["run_id"].as_str().unwrap()])
        .done();
    assert!(
        logs.out.contains("begin") && logs.out.contains("end"),
        "{logs:?}"
    );
    let secrets = [
        "12345.6",
        "1.23456e",
        "1.2345678901",
        "u003",
        "p\\/q",
        "zq1",
        "zq2",
        "zq3",
    ];
    for secret in secrets {
        assert!(!logs.out.contains(secret), "{secret}: {logs:?}");
    }
    nowhere(&home, &["12345.60", "1.2345678901", "zq1\n", "zq2", "zq3"]);
}

/// Much on one line: the error carries its end, the log all of it.
#[test]
fn the_error_of_a_process_is_bounded_however_much_it_complained() {
    let home = Home::new();
    let line = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end-of-it >&2; exit 3";
    let file = workflow(&home, &json!({ "run": line }));
    let said = home.lope(&["run", &file, "--json"]);
    assert!(said.out.len() < 40_000, "{} bytes", said.out.len());
    let error = &said.json()["error"];
    assert!(error["message"].as_str().unwrap().contains("end-of-it"));
}

/// What expressions see of the environment is stored with the run: no variable that a secret is
/// read from, and none of the runner's own, whoever names it.
#[test]
fn what_is_captured_for_expressions_has_no_secret() {
    let home = Home::new();
    let folder = home.path().join(".lope");
    std::fs::create_dir_all(&folder).unwrap();
    let config =
        "env: [REGION, VAULTED, LOPE_WORKER_TOKEN]\nsecrets: { vault: { env: VAULTED } }\n";
    std::fs::write(folder.join("config.yaml"), config).unwrap();
    let file = workflow(&home, &json!({ "let": "${{ env }}" }));
    let mut command = home.command(&["run", &file, "--json"]);
    command
        .env("REGION", "north")
        .env("VAULTED", "vaulted-that-nobody-sees")
        .env("LOPE_WORKER_TOKEN", "token-that-nobody-sees");
    let said = stage::said(&mut command).done();
    assert_eq!(said.json()["result"], json!({ "REGION": "north" }));
    nowhere(
        &home,
        &["vaulted-that-nobody-sees", "token-that-nobody-sees"],
    );
}

/// "The SQLite file removed or replaced under a runner: … notice within a heartbeat, stop, say so." Its
/// log and the index of its log are a part of it.
#[test]
fn a_runner_whose_store_is_removed_replaced_or_cut_short_ends_and_says_so() {
    let damage = |store: &Path, how: &str| match how {
        "cut short" => {
            let file = std::fs::File::options().write(true).open(store).unwrap();
            file.set_len(0).unwrap();
        }
        "replaced" => {
            let away = store.with_extension("away");
            std::fs::rename(store, &away).unwrap();
            std::fs::copy(&away, store).unwrap();
        }
        _ => std::fs::rename(store, store.with_extension("away")).unwrap(),
    };
    for (name, how, says) in [
        ("lope.db", "removed", "removed or replaced"),
        ("lope.db", "replaced", "removed or replaced"),
        ("lope.db", "cut short", "cut short"),
        ("lope.db-wal", "removed", "removed or replaced"),
        ("lope.db-wal", "replaced", "removed or replaced"),
        ("lope.db-shm", "removed", "removed or replaced"),
    ] {
        let home = Home::new();
        let file = workflow(&home, &json!({ "let": "${{ 1 }}" }));
        home.lope(&["run", &file]).done();
        let runner = begin(&home, &["up"]);
        until("the runner is registered", || {
            std::fs::read_dir(home.path().join(".lope/lope.db-runners"))
                .is_ok_and(|folder| folder.flatten().count() > 0)
        });
        damage(&home.path().join(".lope").join(name), how);
        let said = runner.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(4), "{name} {how}: {words}");
        assert!(words.contains(&format!("{name} was {says}")), "{words}");
        assert!(words.contains("put the store back"), "{words}");
    }
}

/// What others were told is stored after the index of the log was removed is there when the runner
/// has ended, which does not write over it.
#[test]
fn a_runner_that_lost_its_log_leaves_what_others_wrote_meanwhile() {
    let home = Home::new();
    let file = workflow(&home, &json!({ "let": "${{ 1 }}" }));
    home.lope(&["run", &file, "--key", "before"]).done();
    let runner = begin(&home, &["up"]);
    until("the runner is registered", || {
        std::fs::read_dir(home.path().join(".lope/lope.db-runners"))
            .is_ok_and(|folder| folder.flatten().count() > 0)
    });
    std::fs::remove_file(home.path().join(".lope/lope.db-shm")).unwrap();
    home.lope(&["start", &file, "--key", "meanwhile"]).done();
    let said = runner.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    for key in ["before", "meanwhile"] {
        home.lope(&["runs", "show", key]).done();
    }
    home.lope(&["store", "check"]).done();
}

/// How the process would have ended is not known: another attempt follows, as after the death of a
/// worker.
#[test]
fn a_step_whose_supervisor_was_killed_is_tried_again() {
    let (home, long) = (Home::new(), long());
    let line = format!(
        "echo \"$LOPE_ATTEMPT\" >> seen; test -e killed || {{ touch killed; kill -9 $PPID; sleep {long}; }}"
    );
    let file = workflow(&home, &json!({ "run": line }));
    home.lope(&["run", &file]).done();
    assert_eq!(lines(&home), ["1", "2"]);
    assert_eq!(sleepers(&long), 0);
    let shown = home
        .lope(&["runs", "show", &only_run(&home), "--json"])
        .done();
    let attempts = shown.json()["executions"][0]["attempts"].clone();
    assert_eq!(attempts[0]["error"]["type"], "WorkerLost", "{attempts}");
}

/// What a step started is gone when the step is, also if it stops, again and again, the process
/// that stands above it; the runner lives on.
#[test]
fn a_step_that_stops_its_supervisor_is_ended_with_all_that_it_started() {
    let (home, long) = (Home::new(), long());
    let line = format!(
        "trap '' TERM; sleep {long} & env -i setsid -f sleep {long} >/dev/null 2>&1; \
         until [ $(pgrep -cxf 'sleep {long}') = 2 ]; do :; done; touch begun; \
         while :; do kill -STOP $PPID; done"
    );
    let file = workflow(&home, &json!({ "run": line, "timeout": "3s" }));
    let mut lope = begin(&home, &["up"]);
    home.lope(&["start", &file]).done();
    until("it has begun", || home.path().join("begun").exists());
    until("none is left", || sleepers(&long) == 0);
    assert!(lope.try_wait().unwrap().is_none(), "the runner lives");
    let run = only_run(&home);
    until("the run has failed", || {
        let shown = home.lope(&["runs", "show", &run, "--json"]).done().json();
        shown["error"]["type"] == "Timeout"
    });
    send(&lope, Signal::TERM);
    lope.wait().unwrap();
}

#[test]
fn a_step_that_has_ended_is_heard_of_although_its_supervisor_was_stopped() {
    let home = Home::new();
    let file = workflow(&home, &json!({ "run": "kill -STOP $PPID; echo ok" }));
    let said = home.lope(&["run", &file, "--json"]).done();
    assert_eq!(said.json()["result"], "ok", "{said:?}");
}
