//! Logs of runners and attempts: old ones go, those that are still written stay.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::fixture::agent_project::AgentProject;
use crate::stage::until;

/// The logs below a folder.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                logs(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect()
}

/// "retention by age": what somebody still writes to is not old, however long ago its last line was and
/// however short the retention is.
#[test]
fn logs_of_those_at_work_stay_when_another_runner_takes_old_ones_away() {
    let shop = AgentProject::with("  logRetention: 0s\n", "");
    std::fs::create_dir(shop.home.path().join("library")).unwrap();
    shop.json(&["projects", "add", "library"]);
    let old = shop.add("succeed", &[]);
    shop.work();
    let home = shop.home.path().join(".lope");
    let of_old = logs(&home);
    let at_work = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&at_work));
    let live = shop.json(&["runners", "list"])[0]["id"].clone();
    let live = live.as_str().unwrap();
    let ago = SystemTime::now() - Duration::from_hours(1);
    for path in logs(&home) {
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(ago).unwrap();
    }
    let words = ["runners", "start", "--project", "library", "--foreground"];
    let other = shop.json(&[&words[..], &["--until-idle"]].concat());
    let left: Vec<&PathBuf> = of_old.iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty() && of_old.len() > 1, "{left:?}");
    assert_eq!(shop.lope(&["tasks", "logs", &old]).code, 1);
    shop.lope(&["tasks", "logs", &at_work]).done();
    for id in [live, other["id"].as_str().unwrap()] {
        let said = shop.lope(&["runners", "logs", id]).done();
        let line = format!(" runner {id} works on ");
        assert!(said.out.contains(&line), "{said:?}");
    }
    drop(runner);
}
