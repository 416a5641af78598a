//! A page with the records of runs that cannot be read, on both stores, with the real binary: those
//! whose records are on it are set aside, and the others do not notice.

use std::os::unix::fs::FileExt;

use lope::Client;
use lope_model::RunId;

use crate::damage::DamageSite;
use crate::fixture::cluster::{Cluster, Stop};
use crate::stage::until;

const ECHO: &str = "name: echo\nsteps: { done: { return: '${{ size(input) }}' } }\n";
/// So many runs, with records so long, that there are several pages of them.
const RUNS: usize = 72;
const NOTE: usize = 200;

fn recorded(site: &DamageSite) -> Vec<RunId> {
    let echo = site.home.file("echo.yaml", ECHO);
    let note = format!("note={}", "n".repeat(NOTE));
    let started = |_| {
        let words = ["start", &echo, "--input", "\"x\"", "--tag", &note, "--json"];
        let run = site.lope(&words).done().json()["run_id"].clone();
        run.as_str().unwrap().parse().unwrap()
    };
    (0..RUNS).map(started).collect()
}

fn status(site: &DamageSite, run: RunId) -> String {
    let shown = site.lope(&["runs", "show", &run.to_string(), "--json"]);
    shown.done().json()["status"].as_str().unwrap().to_owned()
}

/// "A damaged run is set aside alone, each is named with what mends it, the others do not notice;
/// `store check` finds all of them on both stores; `lope store remove-run` gets rid of one." Those on
/// the pages beside may have to be moved over the damaged one when they end.
fn a_damaged_page_of_records_keeps_its_runs_and_no_other(
    site: &DamageSite,
    runs: &[RunId],
    damaged: &[RunId],
) {
    let several = damaged.len();
    assert!((2..runs.len() / 4).contains(&several), "{damaged:?}");
    let first = runs.iter().position(|run| damaged.contains(run)).unwrap();
    let last = runs.iter().rposition(|run| damaged.contains(run)).unwrap();
    let others = (0..runs.len()).filter(|place| place + several < first || *place > last + several);
    let others: Vec<RunId> = others.map(|place| runs[place]).collect();
    assert!(others.len() >= runs.len() / 3, "{damaged:?}");
    the_sound_are_listed(site, runs, damaged);
    let up = site.up();
    for run in &others {
        until("the others end", || status(site, *run) == "completed");
    }
    for run in damaged {
        until("it is set aside", || site.parked(*run).is_some());
        let why = site.parked(*run).unwrap();
        assert!(why.contains("lope store remove-run"), "{why}");
    }
    up.ends();
    the_sound_are_counted(site, runs, damaged);
    let words = std::fs::read_to_string(site.home.path().join("words")).unwrap();
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for run in damaged {
        let named = run.to_string();
        assert!(words.contains(&named), "the runner names {run}: {words}");
        assert!(checked.out.contains(&named), "{run}: {checked:?}");
        let removed = site.lope(&["store", "remove-run", &named]).done();
        assert!(removed.out.contains("is removed"), "{removed:?}");
        let again = site.lope(&["store", "remove-run", &named]);
        assert_eq!(again.code, 1, "it is gone: {again:?}");
    }
    the_sound_are_listed(site, runs, damaged);
}

/// The runs of the list that is asked for with these words.
fn listed(site: &DamageSite, words: &[&str]) -> Vec<RunId> {
    let listed = site.lope(&[&["runs", "list", "--json"], words].concat());
    assert_eq!(listed.code, 0, "{words:?}: {listed:?}");
    let listed = listed.json();
    let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
    let run = |run: &serde_json::Value| run["run_id"].as_str().unwrap().parse().unwrap();
    runs.iter().map(run).collect()
}

/// Youngest first, whatever is asked for: all of them, those that a filter means, a page of them.
fn the_sound_are_listed(site: &DamageSite, runs: &[RunId], damaged: &[RunId]) {
    let note = format!("note={}", "n".repeat(NOTE));
    let filters: [&[&str]; 6] = [
        &[],
        &["--workflow", "echo"],
        &["--tag", &note],
        &["--queue", "default"],
        &["--status", "completed", "--status", "queued"],
        &[
            "--status",
            "completed",
            "--status",
            "queued",
            "--queue",
            "default",
        ],
    ];
    let is_sound = |run: &&RunId| !damaged.contains(run);
    let sound: Vec<RunId> = runs.iter().rev().filter(is_sound).copied().collect();
    for filter in filters {
        let words = [filter, &["--limit", "1000"][..]].concat();
        assert_eq!(listed(site, &words), sound, "{filter:?}");
    }
    let few = sound.len() - 2;
    let first = listed(site, &["--limit", &few.to_string()]);
    assert_eq!(first, sound[..few], "a page of them");
    let others = listed(site, &["--workflow", "other"]);
    assert_eq!(others, [], "of another workflow");
}

/// What embedders ask: so many have completed, and these are the records of all that can be read.
fn the_sound_are_counted(site: &DamageSite, runs: &[RunId], damaged: &[RunId]) {
    let completed = listed(site, &["--status", "completed", "--limit", "1000"]).len();
    let asked = async {
        let client = Client::open(&site.url).await.unwrap();
        let counts = client.counts().await.unwrap();
        (counts, client.listed(runs).await.unwrap())
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (counts, records) = runtime.block_on(asked);
    let counted = counts.by_status.get("completed").copied();
    assert_eq!(counted.unwrap_or_default(), completed as u64, "{counts:?}");
    let mut read: Vec<RunId> = records.iter().map(|record| record.run).collect();
    read.sort_unstable();
    let sound = runs.iter().filter(|run| !damaged.contains(run));
    assert_eq!(read, sound.copied().collect::<Vec<_>>());
}

#[test]
fn a_damaged_page_of_records_keeps_its_runs_and_no_other_on_sqlite() {
    let site = DamageSite::sqlite();
    let runs = recorded(&site);
    site.sql("pragma wal_checkpoint(truncate)");
    let path = site.home.path().join("lope.db");
    let bytes = std::fs::read(&path).unwrap();
    let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let db = rusqlite::Connection::open(&path).unwrap();
    let asked = "select version from runs limit 1";
    let version: Vec<u8> = db.query_row(asked, [], |row| row.get(0)).unwrap();
    drop(db);
    // Every record names the version of its definition, and nothing else does so often.
    let has_records = |page: &[u8]| {
        let parts = page.windows(version.len());
        parts.filter(|part| *part == version).count() > 2
    };
    let pages = bytes.chunks(size).enumerate();
    let of_records = pages.filter(|(_, page)| has_records(page));
    let places: Vec<usize> = of_records.map(|(place, _)| place).collect();
    let page = places[places.len() / 2];
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let noise = vec![0xff; size];
    file.write_all_at(&noise, (page * size) as u64).unwrap();
    drop(file);
    let db = rusqlite::Connection::open(&path).unwrap();
    let is_lost = |run: &&RunId| {
        let asked = "select workflow from runs where run_id = ?1";
        let read = db.query_row(asked, [run.as_bytes()], |row| row.get::<_, String>(0));
        read.is_err()
    };
    let damaged: Vec<RunId> = runs.iter().filter(is_lost).copied().collect();
    drop(db);
    a_damaged_page_of_records_keeps_its_runs_and_no_other(&site, &runs, &damaged);
}

#[test]
fn a_damaged_page_of_records_keeps_its_runs_and_no_other_on_postgres() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let site = DamageSite::on_schema(cluster.url(), "lope".to_owned());
    let runs = recorded(&site);
    let on_page = "select run_id from runs where ctid >= '(1,0)' and ctid < '(2,0)'";
    let damaged = site.sql(on_page);
    let damaged: Vec<RunId> = damaged.iter().map(|run| run.parse().unwrap()).collect();
    let place = "select pg_relation_filepath('runs')";
    let file = cluster.pgdata().join(site.sql(place).pop().unwrap());
    cluster.down(Stop::Fast);
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[0xff; 8192], 8192).unwrap();
    drop(file);
    cluster.up();
    a_damaged_page_of_records_keeps_its_runs_and_no_other(&site, &runs, &damaged);
}
