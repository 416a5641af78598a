//! Many damaged runs, with the real binary on both stores: none of them is passed over in silence.

use std::collections::BTreeSet;

use crate::damage::DamageSite;
use crate::stage::until;

/// Leaves a crowd of runs behind that wait for a runner.
const CROWD: &str = "name: crowd\nsteps: { all: { each: '${{ range(105) }}', parallel: max, steps: { one: { workflow: one, detach: true } } } }\n";
const ONE: &str = "name: one\nsteps: { done: { wait: never } }\n";
const RUNS: usize = 105;

/// "`store check` finds all of them on both stores": it names them, or says how many more there are.
fn every_damaged_run_is_named_or_counted(site: &DamageSite) {
    let one = site.home.file("one.yaml", ONE);
    let crowd = site.home.file("crowd.yaml", CROWD);
    site.lope(&["workflows", "deploy", &one]).done();
    site.lope(&["run", &crowd]).done();
    let none = site.bytes(&[0]);
    site.sql(&format!(
        "update runs set version = {none} where workflow = 'one'"
    ));
    let checked = site.lope(&["store", "check", "--json"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let findings = checked.json()["findings"].clone();
    let findings = findings.as_array().unwrap();
    let messages: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["rule"] == "runs")
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    // Behind those that are named stands how many more there are.
    let place = messages.iter().position(|it| it.starts_with("and "));
    let (named, rest) = messages.split_at(place.unwrap());
    let ending = " is damaged: its version cannot be read";
    assert!(named.iter().all(|it| it.ends_with(ending)), "{named:?}");
    let named: BTreeSet<&&str> = named.iter().collect();
    assert_eq!(named.len(), 100, "{messages:?}");
    let more = format!("and {} more", RUNS - named.len());
    assert_eq!(rest[0], more, "{messages:?}");
    let text = site.lope(&["store", "check"]);
    let told = format!(
        "  runs: {more}\n    hint: see to those that are named and check again: the next ones are named then\n"
    );
    assert!(format!("{}\n", text.out).contains(&told), "{text:?}");
}

#[test]
fn every_damaged_run_is_named_or_counted_on_sqlite() {
    every_damaged_run_is_named_or_counted(&DamageSite::sqlite());
}

#[test]
fn every_damaged_run_is_named_or_counted_on_postgres() {
    if let Some(site) = DamageSite::postgres("many") {
        every_damaged_run_is_named_or_counted(&site);
    }
}

/// `doctor` counts what a runner has set aside, though its record cannot be read.
fn the_doctor_counts_what_was_set_aside(site: &DamageSite) {
    let one = site.home.file("one.yaml", ONE);
    let runs = [(); 3].map(|()| site.start(&one, "x"));
    let none = site.bytes(&[0]);
    site.sql(&format!("update runs set version = {none}"));
    let up = site.up();
    for run in runs {
        until("it is set aside", || site.parked(run).is_some());
    }
    up.ends();
    let told = site.lope(&["doctor", "--json"]);
    let checks = told.json();
    let stuck = checks.as_array().unwrap().iter();
    let stuck: Vec<_> = stuck.filter(|check| check["check"] == "stuck").collect();
    assert_eq!(stuck.len(), 1, "{told:?}");
    assert_eq!(stuck[0]["message"], "damaged runs that were set aside: 3");
}

#[test]
fn the_doctor_counts_what_was_set_aside_on_sqlite() {
    the_doctor_counts_what_was_set_aside(&DamageSite::sqlite());
}

#[test]
fn the_doctor_counts_what_was_set_aside_on_postgres() {
    if let Some(site) = DamageSite::postgres("set_aside") {
        the_doctor_counts_what_was_set_aside(&site);
    }
}
