//! A runner for one task (`runners start --task ID --foreground`): its exit code says what became of the task.

use crate::fixture::agent_project::AgentProject;
use crate::stage::{Said, until};

fn start(shop: &AgentProject, id: &str, more: &[&str]) -> Said {
    let words = ["runners", "start", "--task", id, "--foreground"];
    shop.lope(&[&words[..], more].concat())
}

/// "Exit codes: 0 done; 1 the work failed, or what was asked for does not exist".
#[test]
fn the_exit_code_says_what_became_of_the_task() {
    let shop = AgentProject::with("  stopGrace: 200ms\n", "");
    for (deed, more, code, words) in [
        ("succeed", &[][..], 0, ""),
        ("succeed", &["--review", "person"], 0, ""),
        ("fail", &[], 1, "is failed: exit: cannot do it"),
        (
            "dear",
            &["--max-cost", "1"],
            1,
            "is blocked: budget_exhausted",
        ),
        ("ask", &[], 1, "is blocked: it waits for an answer"),
    ] {
        let id = shop.add(deed, more);
        let said = start(&shop, &id, &[]);
        assert_eq!(said.code, code, "{deed}: {said:?}");
        assert!(said.err.contains(words), "{deed}: {said:?}");
        if code == 1 {
            assert!(said.err.contains(&format!("task {id} ")), "{said:?}");
        }
        assert_eq!(shop.task(&id)["attemptList"].as_array().unwrap().len(), 1);
    }
}

/// A task that is over, or waits for a person, is not started, and it is said why.
#[test]
fn a_task_that_cannot_be_started_is_no_success() {
    let shop = AgentProject::new();
    let done = shop.add("succeed", &[]);
    shop.work();
    let skipped = shop.add("succeed", &[]);
    shop.lope(&["tasks", "skip", &skipped]).done();
    for (id, status) in [(&done, "completed"), (&skipped, "skipped")] {
        for more in [&[][..], &["--until-idle"]] {
            let said = start(&shop, id, more);
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
            let words = format!("task {id} cannot be started: it is {status}");
            assert!(said.err.contains(&words), "{said:?}");
            assert!(said.err.contains("tasks reset"), "{said:?}");
        }
        let detached = shop.lope(&["runners", "start", "--task", id]);
        assert_eq!(detached.code, 1, "{detached:?}");
    }
    let early = shop.add("limit", &[]);
    let first = start(&shop, &early, &["--until-idle"]);
    let again = start(&shop, &early, &["--until-idle"]);
    for said in [first, again] {
        let words = "it may not be started before 2099-01-02T03:04:05.000Z";
        assert!(said.code == 1 && said.err.contains(words), "{said:?}");
    }
    let held = shop.add("succeed", &[]);
    shop.lope(&["tasks", "claim", &held]).done();
    let said = start(&shop, &held, &["--until-idle"]);
    assert!(
        said.code == 1 && said.err.contains("works on it"),
        "{said:?}"
    );
    let unknown = start(&shop, "00000000-0000-4000-8000-000000000000", &[]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
}

/// One that is decided about while its runner waits for it is not waited for.
#[test]
fn a_task_that_is_skipped_meanwhile_ends_its_runner() {
    let shop = AgentProject::with("  stopGrace: 200ms\n", "");
    let id = shop.add("stay", &[]);
    let words = ["runners", "start", "--task", &id, "--foreground"];
    let runner = crate::fixture::agent_project::RunnerChild::of(&mut shop.command(&words));
    until("its beginning", || shop.begun(&id));
    shop.lope(&["tasks", "skip", &id, "--notes", "not needed"])
        .done();
    let said = runner.said();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("is skipped: not needed"), "{said:?}");
}
