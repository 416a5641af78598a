//! Worktrees of attempts, and tools whose sessions are gone on with: real git, real processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, attempts};
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::until;

fn git(folder: &Path, args: &[&str]) {
    let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    let status = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(who)
        .args(args)
        .status();
    assert!(status.unwrap().success(), "git {args:?}");
}

/// A shop whose project is a repository.
fn repository() -> AgentProject {
    let shop = AgentProject::with("  worktrees: true\n", "");
    git(&shop.project, &["init", "-q", "-b", "main"]);
    std::fs::write(shop.project.join("shop.txt"), "closed\n").unwrap();
    git(&shop.project, &["add", "-A"]);
    git(&shop.project, &["commit", "-q", "-m", "begin"]);
    shop
}

fn worktree(task: &Value, attempt: usize) -> PathBuf {
    let attempt = &task["attemptList"][attempt];
    PathBuf::from(attempt["worktree"].as_str().unwrap())
}

#[test]
fn an_attempt_works_in_a_worktree_whose_changes_are_shown_and_never_lost() {
    let shop = repository();
    let id = shop.add("reject this first", &["--review", "agent"]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let first = worktree(&task, 0);
    let home = shop.home.path().join(".lope/worktrees");
    assert!(first.starts_with(home.canonicalize().unwrap()), "{task}");
    for attempt in 1..4 {
        assert_eq!(worktree(&task, attempt), first, "it goes on where it was");
    }
    assert_eq!(shop.file("done.log"), "", "the project is as it was");
    let shown = shop.json(&["tasks", "diff", &id]);
    assert_eq!(shown["attempt"], 4);
    let diff = shown["diff"].as_str().unwrap();
    assert!(diff.contains(&format!("+reject {id}")), "{diff}");
    let text = shop.lope(&["tasks", "diff", &id, "--attempt", "1"]).done();
    assert!(text.out.contains("+++ b/done.log"), "{text:?}");
    let described = shop.lope(&["tasks", "show", &id]).done().out;
    assert!(described.contains(first.to_str().unwrap()), "{described}");
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    let served = up.send(Request::get(&format!("/api/tasks/{id}/diff")));
    assert_eq!(served.json()["diff"], shown["diff"]);
    let page = up.send(Request::get(&format!("/agents/tasks/{id}")));
    assert!(page.text().contains(&format!("+reject {id}")));
    drop(up);
    // Neither what is not committed nor what is on no other branch goes.
    shop.work();
    assert!(first.join("done.log").is_file());
    git(&first, &["add", "-A"]);
    git(&first, &["commit", "-q", "-m", "work"]);
    shop.work();
    assert!(first.join("done.log").is_file());
    git(&shop.project, &["merge", "-q", &format!("lope/{id}/1")]);
    shop.work();
    assert!(!first.exists(), "merged: nothing would be lost");
    assert!(shop.file("done.log").contains(&id));
    let gone = shop.lope(&["tasks", "diff", &id]);
    assert_eq!((gone.code, gone.err.contains("is gone")), (1, true));
}

#[test]
fn an_attempt_that_failed_is_followed_by_one_with_a_fresh_worktree() {
    let shop = repository();
    let id = shop.add("fail", &[]);
    shop.work();
    shop.lope(&["tasks", "reset", &id]).done();
    shop.work();
    let task = shop.task(&id);
    assert_ne!(worktree(&task, 0), worktree(&task, 1), "{task}");
    let shop = AgentProject::with("  worktrees: true\n", "");
    let id = shop.add("succeed", &[]);
    shop.work();
    let task = shop.task(&id);
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("not a git repository"), "{reason}");
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("pending"), &json!(0))
    );
    let none = shop.lope(&["tasks", "diff", &id]);
    assert_eq!((none.code, none.err.contains("worktree")), (1, true));
}

/// "work that was rejected, or that goes on in its tool's session, goes on where it was; any other attempt has a new
/// one": also that of a task which was completed and then reset, so that each attempt shows what it changed itself.
#[test]
fn a_task_that_is_reset_after_its_work_is_worked_on_in_a_fresh_worktree() {
    let shop = repository();
    let id = shop.add("succeed", &[]);
    shop.work();
    let first = worktree(&shop.task(&id), 0);
    assert!(first.join("done.log").is_file(), "dirty: it stays");
    let before = shop.json(&["tasks", "diff", &id, "--attempt", "1"]);
    shop.lope(&["tasks", "reset", &id]).done();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let second = worktree(&task, 1);
    assert_ne!(first, second, "{task}");
    let done = |folder: &Path| std::fs::read_to_string(folder.join("done.log")).unwrap();
    assert_eq!(done(&first), format!("succeed {id}\n"));
    assert_eq!(done(&second), done(&first), "begun from what is committed");
    let after = shop.json(&["tasks", "diff", &id, "--attempt", "1"]);
    assert_eq!(before["diff"], after["diff"], "attempt 1 stays as it was");
}

/// "never deleted while dirty or unpushed", and not kept without need: one whose maker died before its
/// attempt began is known to nobody, and goes when the next runner comes if nothing is in it.
#[test]
fn a_worktree_of_which_no_attempt_knows_goes_unless_it_holds_something() {
    let shop = repository();
    let id = shop.add("fail", &[]);
    let folder = shop.home.path().canonicalize().unwrap();
    let folder = folder.join(".lope/worktrees").join(&id);
    let make = |name: &str| {
        let path = folder.join(name);
        let shown = path.display().to_string();
        let branch = format!("lope/{id}/{name}");
        git(
            &shop.project,
            &["worktree", "add", "-q", "-b", &branch, &shown],
        );
        path
    };
    let [clean, dirty] = ["1", "1-1"].map(make);
    std::fs::write(dirty.join("work.txt"), "work").unwrap();
    let said = shop.work();
    let gone = format!("worktree {} is gone\n", clean.display());
    let stays = format!(
        "worktree {} stays: it has changes that are not committed\n",
        dirty.display()
    );
    assert!(
        said.err.contains(&gone) && said.err.contains(&stays),
        "{said:?}"
    );
    assert_eq!(worktree(&shop.task(&id), 0), clean, "its name is free");
    assert!(dirty.join("work.txt").is_file());
}

/// "A reviewer looks at the worktree of the work": if somebody took it away, nothing else is reviewed in
/// its place.
#[test]
fn work_whose_worktree_is_gone_is_not_reviewed() {
    let shop = repository();
    let id = shop.add("wonder", &["--review", "agent"]);
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "blocked", "{task}");
    let path = worktree(&task, 0);
    std::fs::remove_dir_all(&path).unwrap();
    shop.lope(&["tasks", "answer", &id, "it is blue"]).done();
    shop.work();
    let task = shop.task(&id);
    let reason = format!(
        "startup: the worktree {} of the work is gone",
        path.display()
    );
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&json!("review"), &json!(reason))
    );
    shop.lope(&["tasks", "reset", &id]).done();
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
}

/// What was worked on in the project itself, before there were worktrees, is reviewed there.
#[test]
fn work_in_the_project_is_reviewed_in_the_project() {
    let shop = AgentProject::new();
    git(&shop.project, &["init", "-q", "-b", "main"]);
    git(
        &shop.project,
        &["commit", "-q", "--allow-empty", "-m", "begin"],
    );
    let id = shop.add("wonder", &["--review", "agent"]);
    shop.work();
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}  worktrees: true\n")).unwrap();
    shop.lope(&["tasks", "answer", &id, "it is blue"]).done();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    let places = attempts(&task, "worktree");
    assert!(places.iter().all(|place| place.is_null()), "{task}");
}

/// A worktree is "never deleted while dirty or unpushed", and neither is its branch: when the same task
/// comes again, with its attempts counted anew, a branch that is there stays as it is.
#[test]
fn a_branch_with_commits_stays_when_its_task_is_imported_again() {
    let shop = repository();
    let id = shop.add("succeed", &[]);
    shop.work();
    let first = worktree(&shop.task(&id), 0);
    git(&first, &["add", "-A"]);
    git(&first, &["commit", "-q", "-m", "work"]);
    let branch = shop.project.join(format!(".git/refs/heads/lope/{id}/1"));
    let commit = std::fs::read_to_string(&branch).unwrap();
    let list = shop.json(&["tasks", "export", "--project", "shop"]);
    let list = list.to_string().replace("\"completed\"", "\"pending\"");
    let file = shop.home.path().join("again.json");
    std::fs::write(&file, list).unwrap();
    for is_pruned in [false, true] {
        let words = ["projects", "remove", "shop", "--force"];
        shop.lope(&words).done();
        std::fs::remove_dir_all(shop.home.path().join(".lope/worktrees")).unwrap();
        if is_pruned {
            git(&shop.project, &["worktree", "prune"]);
        }
        shop.lope(&["projects", "add", "shop"]).done();
        let words = ["tasks", "import", file.to_str().unwrap()];
        shop.lope(&[&words[..], &["--project", "shop"]].concat())
            .done();
        shop.work();
        let task = shop.task(&id);
        assert_eq!(task["status"], "completed", "{is_pruned}: {task}");
        let now = std::fs::read_to_string(&branch).unwrap();
        assert_eq!(now, commit, "{is_pruned}");
    }
}

/// A tool that tells its session and then works for as long as `go` is missing.
const CLAUDE: &str = r#"#!/bin/sh
echo "$@" >>args.log
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"abc123","model":"m"}'
while [ ! -e go ]; do sleep 0.05; done
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"abc123","total_cost_usd":0.01,"usage":{}}'
"#;

/// "resume of the tool's own session on the next attempt", also after the runner's death.
#[test]
fn the_session_of_a_killed_runners_agent_is_gone_on_with() {
    let shop = AgentProject::new();
    let program = shop.home.path().join("claude");
    crate::stage::program(&program, CLAUDE);
    let config = format!(
        "agents: {{ default: {{ command: [{:?}] }} }}\nrunners: {{ review: none, heartbeatInterval: 200ms }}\n",
        program.display().to_string()
    );
    std::fs::write(shop.home.path().join(".lope/config.yaml"), config).unwrap();
    let id = shop.add("succeed", &[]);
    let runner = shop.start();
    until("its session on the board", || {
        shop.task(&id)["attemptList"][0]["session"] == "abc123"
    });
    assert!(!shop.file("args.log").contains("--resume"));
    runner.signal(Signal::KILL);
    drop(runner);
    std::fs::write(shop.project.join("go"), "").unwrap();
    shop.work();
    let task = shop.task(&id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["attemptList"][0]["stopReason"], "runner_death");
    let calls = shop.file("args.log");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[1].contains("--resume=abc123"), "{calls:?}");
}
