//! Damage of runs that nobody works on, seen with the real binary on both stores: ended runs, what is
//! left of one whose record is lost, counts and statuses that cannot be. Each is named with what
//! takes it away, and is gone then.

use lope_model::RunId;

use crate::damage::DamageSite;
use crate::stage::until;

const ECHO: &str = "name: echo\nsteps: { done: { return: '${{ size(input) }}' } }\n";

/// "`store check` finds all of them on both stores; `lope store remove-run` gets rid of one."
fn what_nobody_works_on_is_named_and_removed(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let ended: Vec<RunId> = (0..5)
        .map(|_| site.start(&echo, &"x".repeat(100_000)))
        .collect();
    let up = site.up();
    until("they end", || {
        let statuses = site.statuses();
        let is_done = |run: &&RunId| statuses[&run.to_string()] == "completed";
        ended.iter().filter(is_done).count() == ended.len()
    });
    up.ends();
    let live: Vec<RunId> = (0..3).map(|_| site.start(&echo, "x")).collect();
    let garbage = site.bytes(&[0xff, 0xfe]);
    let of_ended = [
        format!("update journal set body = {garbage}"),
        format!("update blobs set bytes = {garbage}"),
        "delete from runs".to_owned(),
        "update runs set status = 'nothing'".to_owned(),
    ];
    let of_live = [
        "update queue set mail = 1000000".to_owned(),
        "update queue set status = 'nothing'".to_owned(),
    ];
    let damages = ended.iter().zip(&of_ended).chain(live.iter().zip(&of_live));
    let mut damaged = Vec::new();
    for (run, damage) in damages {
        let id = site.id(*run);
        site.sql(&format!("{damage} where run_id = {id}"));
        damaged.push(*run);
    }
    let listed = site.lope(&["runs", "list"]).done();
    for run in [ended[3], live[1]] {
        let named = format!("a damaged run is left out of the list (run: {run},");
        assert!(listed.err.contains(&named), "{listed:?}");
    }
    for run in [ended[4], live[2]] {
        assert!(listed.out.contains(&run.to_string()), "{listed:?}");
    }
    let full = site.lope(&["runs", "signal", &live[0].to_string(), "go"]);
    assert!(
        full.code == 3 && full.err.contains("lope store check"),
        "{full:?}"
    );
    let checked = site.lope(&["store", "check", "--json"]).json();
    let findings = checked["findings"].as_array().unwrap();
    for run in &damaged {
        let of_run = |finding: &&serde_json::Value| {
            let message = finding["message"].as_str().unwrap();
            message.contains(&run.to_string())
        };
        let of_run: Vec<_> = findings.iter().filter(of_run).collect();
        assert!(!of_run.is_empty(), "{run}: {checked}");
        for finding in of_run {
            let hint = finding["hint"].as_str().unwrap();
            assert!(hint.contains("lope store remove-run"), "{finding}");
        }
    }
    site.check_and_remove(&damaged);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
    site.work(&[live[2]], &[]);
}

#[test]
fn what_nobody_works_on_is_named_and_removed_on_sqlite() {
    what_nobody_works_on_is_named_and_removed(&DamageSite::sqlite());
}

#[test]
fn what_nobody_works_on_is_named_and_removed_on_postgres() {
    if let Some(site) = DamageSite::postgres("ends") {
        what_nobody_works_on_is_named_and_removed(&site);
    }
}
