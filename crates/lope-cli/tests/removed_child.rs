//! Taking away a run that another one waits for, with the real binary on both stores: refused while it
//! could still answer, done when it is damaged, and then told to whoever asks why the other waits.

use lope_model::RunId;

use crate::damage::DamageSite;
use crate::stage::until;

const PARENT: &str = "name: parent\nsteps: { ask: { workflow: child } }\n";
const CHILD: &str = "name: child\nsteps: { approval: { wait: approved } }\n";

fn a_run_that_its_parent_waits_for_stays_unless_it_is_damaged(site: &DamageSite) {
    let child_file = site.home.file("child.yaml", CHILD);
    let parent_file = site.home.file("parent.yaml", PARENT);
    site.lope(&["workflows", "deploy", &child_file]).done();
    let parent = site.start(&parent_file, "x");
    let up = site.up();
    let mut found: Option<RunId> = None;
    until("the child waits", || {
        let statuses = site.statuses().into_iter();
        let mut waits = statuses
            .filter(|(run, status)| status.as_str() == "waiting" && *run != parent.to_string());
        found = waits.next().map(|(run, _)| run.parse().unwrap());
        found.is_some()
    });
    up.ends();
    let child = found.unwrap();

    let why = || site.lope(&["runs", "why", &parent.to_string()]).done();
    let waits = format!("ask waits for its child run {child}");
    let told = why();
    assert!(told.out.contains(&waits), "{told:?}");
    assert!(!told.out.contains("removed"), "{told:?}");
    let remove = ["store", "remove-run", &child.to_string()];
    let refused = site.lope(&remove);
    assert_eq!(refused.code, 3, "{refused:?}");
    let wanted =
        format!("run {parent} waits for run {child}; cancel it first: lope runs cancel {child}");
    assert!(refused.err.contains(&wanted), "{refused:?}");

    let garbage = site.bytes(&[0xff, 0xfe, 0xfd]);
    let id = site.id(child);
    site.sql(&format!(
        "update journal set body = {garbage} where seq = 1 and run_id = {id}"
    ));
    site.lope(&remove).done();
    let told = why();
    for wanted in [
        format!("{waits}, which was removed"),
        format!("lope runs cancel {parent}"),
    ] {
        assert!(told.out.contains(&wanted), "{told:?}");
    }
    // What the hint says ends it.
    site.lope(&["runs", "cancel", &parent.to_string()]).done();
    let up = site.up();
    until("the parent is cancelled", || {
        let statuses = site.statuses();
        statuses.get(&parent.to_string()).map(String::as_str) == Some("cancelled")
    });
    up.ends();
}

#[test]
fn a_run_that_its_parent_waits_for_stays_unless_it_is_damaged_on_sqlite() {
    a_run_that_its_parent_waits_for_stays_unless_it_is_damaged(&DamageSite::sqlite());
}

#[test]
fn a_run_that_its_parent_waits_for_stays_unless_it_is_damaged_on_postgres() {
    if let Some(site) = DamageSite::postgres("removed_child") {
        a_run_that_its_parent_waits_for_stays_unless_it_is_damaged(&site);
    }
}
