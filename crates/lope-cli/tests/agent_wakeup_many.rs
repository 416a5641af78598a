//! "200 projects in under a second, no network": here, that one wake-up treats each of two hundred as
//! it should be treated; how long it takes is a figure of `lope bench agents`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lope_model::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agent_wakeup::{Village, count, crontab};
use crate::fixture::agent_project::AgentProject;
use crate::stage::{said, until};

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

/// "Zombie detection", with several runners of one project: the dead and those that stand still are ended
/// and replaced while another one works on.
#[test]
fn a_runner_is_replaced_beside_one_that_works() {
    let village = Village::new("  maxConcurrent: 2\n  staleTimeout: 2s\n");
    let project = village.project("shop");
    std::fs::write(project.join("hold"), "").unwrap();
    let tasks = ["one", "two"].map(|title| village.add(&project, title));
    let wake = || village.json(&["runners", "wakeup"])["steps"][0].take();
    let begun = |tasks: usize| until("a beginning", || count(&project) == tasks);
    let pid = |id: &Value| {
        let shown = village.json(&["runners", "show", id.as_str().unwrap()]);
        Pid::from_raw(i32::try_from(shown["pid"].as_i64().unwrap()).unwrap()).unwrap()
    };
    let started = [1, 2].map(|tasks| {
        let step = wake();
        assert_eq!(step["action"], "start", "{step}");
        begun(tasks);
        step["started"].clone()
    });
    let [first, second] = started;
    let none = wake();
    assert_eq!(none["action"], "none", "both places are taken: {none}");
    kill_process(pid(&first), Signal::KILL).unwrap();
    let step = wake();
    let found = (&step["action"], &step["ended"]);
    assert_eq!(found, (&json!("replace"), &json!([first])), "{step}");
    begun(3);
    let still = pid(&second);
    kill_process(still, Signal::STOP).unwrap();
    let mut step = Value::Null;
    until("the other one's replacement", || {
        let woken = village.lope(&["runners", "wakeup", "--json"]);
        step = serde_json::from_str::<Value>(&woken.out).unwrap_or_default()["steps"][0].take();
        if woken.code != 0 {
            // It was stopped while it wrote, and holds the file: let it go on, and stop it again.
            kill_process(still, Signal::CONT).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            kill_process(still, Signal::STOP).unwrap();
        }
        step["action"] == "replace"
    });
    assert_eq!(step["ended"], json!([second]), "{step}");
    std::fs::remove_file(project.join("hold")).unwrap();
    for id in &tasks {
        until("its end", || village.status(id) == "completed");
        let task = village.json(&["tasks", "show", id]);
        let ends: Vec<&Value> = (task["attemptList"].as_array().unwrap().iter())
            .map(|attempt| &attempt["stopReason"])
            .collect();
        assert_eq!(ends, ["runner_death", "success"], "{task}");
    }
}

/// `wakeup.enabled: false`: nothing is woken up, and it is said. `wakeup.checkInterval`: how often cron looks, and
/// when a task whose agent hung is tried again ("hang → re-queued for the next wake-up").
#[test]
fn wake_ups_are_switched_off_and_as_often_as_the_configuration_says() {
    let village = Village::new("  wakeup: { enabled: false, checkInterval: 7m }\n");
    let project = village.project("shop");
    let task = village.add(&project, "one");
    for more in [&[][..], &["--dry-run"]] {
        let args = [&["runners", "wakeup"], more].concat();
        let said = village.lope(&args).done();
        assert_eq!(said.out, "wake-up is switched off\n", "{said:?}");
        let woken = village.json(&args);
        assert_eq!(woken["steps"], json!([]), "{woken}");
    }
    assert_eq!(count(&project), 0);
    assert_eq!(village.json(&["runners", "list", "--all"]), json!([]));

    let bin = crontab(village.home.path());
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let cron = |verb: &str| {
        let args = ["runners", "cron", verb, "--json"];
        said(village.home.command(&args).env("PATH", &path))
            .done()
            .json()
    };
    let line = cron("install")["line"].as_str().unwrap().to_owned();
    assert!(line.starts_with("*/7 * * * * PATH="), "{line}");
    assert_eq!(cron("status")["current"], true);
    let config = village.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("checkInterval: 7m", "checkInterval: 9m");
    std::fs::write(&config, text.replace("enabled: false", "enabled: true")).unwrap();
    assert_eq!(
        cron("status")["current"],
        false,
        "it is another interval now"
    );

    let woken = village.json(&["runners", "wakeup"]);
    assert_eq!(woken["steps"][0]["action"], "start", "{woken}");
    until("its end", || village.status(&task) == "completed");

    let settings =
        "  subprocessHangTimeout: 1s\n  stopGrace: 200ms\n  wakeup: { checkInterval: 9m }\n";
    let shop = AgentProject::with(settings, "");
    let hangs = shop.add("hang", &[]);
    shop.work();
    let shown = shop.task(&hangs);
    assert_eq!(shown["reason"], "hang", "{shown}");
    let time = |key: &str| -> Timestamp { shown[key].as_str().unwrap().parse().unwrap() };
    let pause = time("notBefore").millis() - time("updatedAt").millis();
    assert_eq!(pause, 9 * 60_000, "{shown}");
}
