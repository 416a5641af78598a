//! A runner that cannot be started is not tried each minute for ever: later each time, until one is
//! started or a person changes something; meanwhile it is said wherever one looks.

use std::path::Path;

use lope_model::Timestamp;
use serde_json::{Value, json};

use crate::agent_wakeup::Village;
use crate::stage::until;

/// A project with a task, and whose folder is gone.
fn lost_project(village: &Village) -> (String, String) {
    let folder = village.project("gone");
    let task = village.add(&folder, "one");
    std::fs::remove_dir(&folder).unwrap();
    (folder.to_str().unwrap().to_owned(), task)
}

/// What is known of the starts that failed.
fn unstarted(village: &Village) -> Value {
    village.json(&["projects", "list"])[0]["unstarted"].clone()
}

/// One try of a wake-up, which fails.
fn tried(village: &Village, path: &str) {
    let woken = village.lope(&["runners", "wakeup"]);
    let words = format!("{path}: start a runner\n{path}: {path} is no folder any more\n");
    assert_eq!((woken.code, woken.out), (1, words));
}

fn not_before(unstarted: &Value) -> Timestamp {
    unstarted["notBefore"].as_str().unwrap().parse().unwrap()
}

/// As if the pause were over.
fn pass_time(village: &Village) {
    let file = village.home.path().join(".lope/lope.db");
    let db = rusqlite::Connection::open(file).unwrap();
    let over = "update projects set settings = json_set(settings, '$.unstarted.notBefore', 0)";
    assert_eq!(db.execute(over, []).unwrap(), 1);
}

#[test]
fn a_project_without_its_folder_is_tried_less_often_each_time_and_told() {
    let village = Village::new("");
    let (path, _) = lost_project(&village);
    for (failures, minutes) in [(1, 1), (2, 2), (3, 4)] {
        let before = Timestamp::from_millis(
            i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap(),
        );
        tried(&village, &path);
        let known = unstarted(&village);
        assert_eq!(
            (&known["failures"], &known["error"]),
            (
                &json!(failures),
                &json!(format!("{path} is no folder any more"))
            )
        );
        let pause = not_before(&known).since(before);
        assert!(
            pause >= lope_model::Span::from_secs(60 * minutes),
            "{known}"
        );
        let times = if failures == 1 { "time" } else { "times" };
        let words = format!(
            "{path}: no runner could be started, {failures} {times}: {path} is no folder any more; \
             a wake-up tries again at {}",
            known["notBefore"].as_str().unwrap()
        );
        for again in [
            &["runners", "wakeup"][..],
            &["runners", "wakeup", "--dry-run"],
        ] {
            let woken = village.lope(again).done();
            assert_eq!(woken.out, format!("{words}\n"), "it is too early");
        }
        let step = &village.json(&["runners", "wakeup"])["steps"][0];
        assert_eq!(
            (&step["action"], &step["unstarted"]),
            (&json!("none"), &known)
        );
        assert_eq!(unstarted(&village), known, "nothing was tried");
        let listed = village.lope(&["runners", "list"]).done().out;
        assert_eq!(listed, format!("no runners\n\n⚠️  {words}\n"));
        let told = village.lope(&["doctor", "--json"]).json();
        let mut told = told.as_array().unwrap().iter();
        let told = told.find(|line| line["check"] == "starts").unwrap();
        assert_eq!(
            (&told["health"], &told["message"]),
            (&json!("warn"), &json!(words))
        );
        pass_time(&village);
    }
}

#[test]
fn a_runner_that_is_started_and_a_change_by_a_person_end_the_pause() {
    let village = Village::new("");
    let (path, task) = lost_project(&village);
    tried(&village, &path);
    village.lope(&["projects", "enable", "gone"]).done();
    assert_eq!(unstarted(&village), Value::Null);
    tried(&village, &path);
    assert_eq!(unstarted(&village)["failures"], 1, "it begins anew");
    std::fs::create_dir(Path::new(&path)).unwrap();
    village.lope(&["projects", "add", &path]).done();
    assert_eq!(unstarted(&village), Value::Null);
    std::fs::remove_dir(Path::new(&path)).unwrap();
    tried(&village, &path);
    std::fs::create_dir(Path::new(&path)).unwrap();
    village
        .lope(&["runners", "start", "--project", &path, "--until-idle"])
        .done();
    assert_eq!(unstarted(&village), Value::Null);
    until("its end", || village.status(&task) == "completed");
}
