//! "200 projects in under a second, no network": here, that one wake-up treats each of two hundred as
//! it should be treated; how long it takes is a figure of `lope bench agents`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agent_wakeup::{Village, count};
use crate::stage::until;

const PROJECTS: usize = 200;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What becomes of each project.
fn actions(woken: &Value) -> BTreeMap<String, String> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let steps = woken["steps"].as_array().unwrap().iter();
    steps
        .map(|step| (word(&step["project"]), word(&step["action"])))
        .collect()
}

/// Start a runner that holds its first task, if there is one.
fn begin(village: &Village, project: &Path) -> Value {
    let path = text(project);
    village.json(&["runners", "start", "--project", path])
}

fn kill(runner: &Value) {
    let pid = i32::try_from(runner["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn one_wake_up_starts_what_should_be_started_among_two_hundred_projects() {
    let village = Village::new("  wakeup: { projectPaths: [~/Projects] }\n");
    let made = (0..PROJECTS).map(|number| {
        let path = village.home.path().join(format!("Projects/p{number:03}"));
        std::fs::create_dir_all(path.join(".lope")).unwrap();
        path.canonicalize().unwrap()
    });
    let projects: Vec<PathBuf> = made.collect();
    let first = village.json(&["runners", "wakeup"]);
    let found: Vec<&str> = projects.iter().map(|path| text(path)).collect();
    assert_eq!(first["found"], json!(found));
    assert_eq!(village.json(&["runners", "list", "--all"]), json!([]));

    let add = |number: usize| village.add(&projects[number], "one");
    let hold = |number: usize| projects[number].join("hold");
    let waiting = [0, 1, 199].map(|number| (number, add(number)));
    // Of the others, some have tasks that nobody is to be woken for.
    let off = add(2);
    village.lope(&["projects", "disable", "p002"]).done();
    let skipped = add(3);
    village.lope(&["tasks", "skip", &skipped]).done();
    let by_hand = add(4);
    village.lope(&["tasks", "claim", &by_hand]).done();
    // One is worked on, in two the runner has died: with a task at work, and without one.
    let [worked, left] = [5, 6].map(|number| {
        std::fs::write(hold(number), "").unwrap();
        add(number)
    });
    let [healthy, died, idle] = [5, 6, 7].map(|number| begin(&village, &projects[number]));
    until("both begin", || {
        count(&projects[5]) == 1 && count(&projects[6]) == 1
    });
    kill(&died);
    kill(&idle);

    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    for (number, project) in projects.iter().enumerate() {
        let action = match number {
            0 | 1 | 199 => "start",
            6 => "replace",
            7 => "end",
            _ => "none",
        };
        expected.insert(text(project).to_owned(), action.to_owned());
    }
    until("the dead are seen to be so", || {
        let dry = village.json(&["runners", "wakeup", "--dry-run"]);
        actions(&dry) == expected
    });
    let woken = village.json(&["runners", "wakeup"]);
    assert_eq!(actions(&woken), expected);
    let steps = woken["steps"].as_array().unwrap();
    let started = steps.iter().filter(|step| step.get("started").is_some());
    let started: Vec<&Value> = started.map(|step| &step["project"]).collect();
    let wanted = [0, 1, 6, 199].map(|number| json!(text(&projects[number])));
    assert_eq!(started, wanted.iter().collect::<Vec<_>>());

    std::fs::remove_file(hold(6)).unwrap();
    until("the ends of all that waited", || {
        let mut ids = waiting.iter().map(|(_, id)| id).chain([&left]);
        ids.all(|id| village.status(id) == "completed")
    });
    let runners = village.json(&["runners", "list", "--all"]);
    let runners = runners.as_array().unwrap();
    assert_eq!(
        runners.len(),
        3 + 4,
        "no other was ever entered: {runners:?}"
    );
    for (number, project) in projects.iter().enumerate() {
        let begun = match number {
            0 | 1 | 5 | 199 => 1,
            // It was begun again when its runner had died.
            6 => 2,
            _ => 0,
        };
        assert_eq!(count(project), begun, "{}", project.display());
    }
    let statuses = [&off, &skipped, &by_hand, &worked].map(|id| village.status(id));
    assert_eq!(
        statuses,
        ["pending", "skipped", "in_progress", "in_progress"].map(|word| json!(word))
    );
    let again = village.json(&["runners", "wakeup"]);
    assert!(
        actions(&again).values().all(|action| action == "none"),
        "{again}"
    );
    std::fs::remove_file(hold(5)).unwrap();
    until("the end of the one that was at work", || {
        village.status(&worked) == "completed"
    });
    assert_eq!(
        village.json(&["runners", "show", healthy["id"].as_str().unwrap()])["error"],
        Value::Null
    );
}

/// A folder that is gone keeps nobody else from being woken up, and is named.
#[test]
fn a_project_whose_folder_is_gone_is_told_and_the_others_are_woken_up() {
    let village = Village::new("");
    let [gone, there] = ["gone", "there"].map(|name| village.project(name));
    let [lost, task] = [&gone, &there].map(|project| village.add(project, "one"));
    std::fs::remove_dir(&gone).unwrap();
    let woken = village.lope(&["runners", "wakeup"]);
    let words = format!("{}: {0} is no folder any more\n", gone.display());
    assert_eq!(
        (woken.code, woken.out.contains(&words)),
        (1, true),
        "{woken:?}"
    );
    until("its end", || village.status(&task) == "completed");
    assert_eq!(village.status(&lost), "pending");
    village.lope(&["projects", "disable", "gone"]).done();
    village.lope(&["runners", "wakeup"]).done();
}
