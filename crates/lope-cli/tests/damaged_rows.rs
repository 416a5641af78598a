//! Rows that cannot be read, seen with the real binary: one of them hides no other, each is named with
//! what mends it, and that mends it. SQLite keeps any bytes as text.

use lope_model::RunId;

use crate::damage::DamageSite;
use crate::stage::until;

const ECHO: &str = "name: echo\nsteps: { done: { return: '${{ size(input) }}' } }\n";
const OTHER: &str = "name: other\nsteps: { done: { return: '${{ 1 + 1 }}' } }\n";

fn add_schedule(site: &DamageSite, name: &str) {
    let added = ["schedules", "add", name, "echo", "--every", "1s"];
    site.lope(&[&added[..], &["--input", "\"x\""]].concat())
        .done();
}

/// "`update schedules set name=cast(x'ff41' as text)` stops every schedule."
#[test]
fn a_schedule_whose_name_is_no_text_stops_no_other() {
    let site = DamageSite::sqlite();
    let echo = site.home.file("echo.yaml", ECHO);
    site.lope(&["workflows", "deploy", &echo]).done();
    for (name, bytes) in [("bad5", "ff41"), ("bad6", "61ff"), ("bad7", "ff42")] {
        add_schedule(&site, name);
        site.sql(&format!(
            "update schedules set name = cast(x'{bytes}' as text) where name = '{name}'"
        ));
    }
    add_schedule(&site, "sound");
    let listed = site.lope(&["schedules", "list"]).done();
    assert!(listed.out.contains("sound"), "{listed:?}");
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let up = site.up();
    until("the sound one starts runs", || !site.statuses().is_empty());
    let words = || std::fs::read_to_string(site.home.path().join("words")).unwrap();
    let shown = ["\u{fffd}A", "a\u{fffd}", "\u{fffd}B"];
    for name in shown {
        let mends = format!("lope schedules remove {name}");
        assert!(listed.err.contains(&mends), "{listed:?}");
        assert!(checked.out.contains(&mends), "{checked:?}");
        until("a runner names it", || words().contains(&mends));
    }
    assert!(!words().contains("were not looked at"), "{}", words());
    up.ends();
    for name in shown {
        let showed = site.lope(&["schedules", "show", name]);
        assert!(showed.err.contains("cannot be read"), "{showed:?}");
        site.lope(&["schedules", "remove", name]).done();
        let again = site.lope(&["schedules", "remove", name]);
        assert_eq!(again.code, 1, "it is gone: {again:?}");
    }
    let listed = site.lope(&["schedules", "list"]).done();
    assert_eq!(listed.err, "", "{listed:?}");
    assert!(listed.out.contains("sound"), "{listed:?}");
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// The same for a workflow: its runs go on, and to deploy it again mends it.
#[test]
fn a_workflow_whose_name_is_no_text_hides_no_other() {
    let site = DamageSite::sqlite();
    let echo = site.home.file("echo.yaml", ECHO);
    let other = site.home.file("other.yaml", OTHER);
    let run = site.start(&other, "x");
    site.lope(&["workflows", "deploy", &echo]).done();
    site.sql("update workflows set name = cast(x'ff41' as text) where name = 'other'");
    let listed = site.lope(&["workflows", "list"]).done();
    assert!(listed.out.contains("echo"), "{listed:?}");
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for said in [
        "the name '\u{fffd}A' of the workflow",
        "lope workflows deploy",
    ] {
        assert!(checked.out.contains(said), "{said}: {checked:?}");
    }
    let up = site.up();
    until("its run ends", || {
        let statuses = site.statuses();
        statuses.get(&run.to_string()).map(String::as_str) == Some("completed")
    });
    up.ends();
    site.lope(&["workflows", "deploy", &other]).done();
    let listed = site.lope(&["workflows", "list"]).done();
    assert!(listed.out.contains("other"), "{listed:?}");
    assert!(!listed.out.contains('\u{fffd}'), "{listed:?}");
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// `store check`, `runs why KEY` and `start --key KEY` name a damaged run, whatever of it is damaged,
/// and what takes it away.
fn a_damaged_run_is_named_by_its_key(site: &DamageSite, damages: &[String]) {
    let echo = site.home.file("echo.yaml", ECHO);
    let mut damaged: Vec<RunId> = Vec::new();
    for (number, damage) in damages.iter().enumerate() {
        let key = format!("key-{number}");
        let start: [&str; 7] = ["start", &echo, "--input", "\"x\"", "--key", &key, "--json"];
        let started = site.lope(&start).done().json();
        let run: RunId = started["run_id"].as_str().unwrap().parse().unwrap();
        let id = site.id(run);
        site.sql(&format!("update {damage} where run_id = {id}"));
        let asked: [&[&str]; 2] = [&["runs", "why", &key], &start];
        for asked in asked {
            let said = site.lope(asked);
            assert_eq!(said.code, 1, "{damage}: {said:?}");
            let named = format!("run {run} is damaged");
            assert!(said.err.contains(&named), "{damage}: {said:?}");
            let mends = format!("lope store remove-run {run}");
            assert!(said.err.contains(&mends), "{damage}: {said:?}");
        }
        damaged.push(run);
    }
    site.check_and_remove(&damaged);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_damaged_run_is_named_by_its_key_on_sqlite() {
    let damages = [
        "runs set version = x'00'",
        "runs set tags = '{'",
        "runs set tags = cast(x'ff' as text)",
        "runs set workflow = cast(x'ff' as text)",
        "runs set status = 'nothing'",
        "runs set status = cast(x'ff' as text)",
        "runs set priority = 99",
        "runs set realm = cast(x'ff' as text)",
        "runs set queue = cast(x'ff' as text)",
        "runs set parent_run = x'01'",
        "runs set parent_execution = cast(x'ff' as text)",
        "queue set epoch = -1",
        "queue set head = -5",
        "queue set status = cast(x'ff' as text)",
    ];
    let site = DamageSite::sqlite();
    a_damaged_run_is_named_by_its_key(&site, &damages.map(str::to_owned));
}

#[test]
fn a_damaged_run_is_named_by_its_key_on_postgres() {
    if let Some(site) = DamageSite::postgres("keys") {
        // The status of a live run is its queue row's.
        let damages = [
            format!("runs set version = {}", site.bytes(&[0])),
            "runs set tags = '[1]'".to_owned(),
            "queue set status = 'nothing'".to_owned(),
            "runs set priority = 99".to_owned(),
            "runs set realm = ''".to_owned(),
            "queue set epoch = -1".to_owned(),
            "queue set head = -5".to_owned(),
            "queue set priority = 42".to_owned(),
            "queue set priority = -1".to_owned(),
            "queue set realm = ''".to_owned(),
            "queue set realm = 'other'".to_owned(),
            "queue set queue = ''".to_owned(),
            "queue set queue = 'no such queue'".to_owned(),
        ];
        a_damaged_run_is_named_by_its_key(&site, &damages);
    }
}

/// Runners look for runs by queue, realm and priority: one that stands where nobody looks is in
/// nobody's way, and is named with what takes it away.
#[test]
fn a_run_that_stands_where_nobody_looks_stops_no_other_on_postgres() {
    let Some(site) = DamageSite::postgres("unseen") else {
        return;
    };
    let echo = site.home.file("echo.yaml", ECHO);
    let (mut damaged, mut neighbours) = (Vec::new(), Vec::new());
    for damage in ["priority = 42", "priority = -1", "realm = ''", "queue = ''"] {
        let run = site.start(&echo, "x");
        let id = site.id(run);
        site.sql(&format!("update queue set {damage} where run_id = {id}"));
        damaged.push(run);
        neighbours.push(site.start(&echo, "x"));
    }
    site.work(&neighbours, &[]);
    for run in &damaged {
        let why = site.lope(&["runs", "why", &run.to_string()]);
        let mends = format!("lope store remove-run {run}");
        assert!(why.code == 1 && why.err.contains(&mends), "{why:?}");
    }
    site.check_and_remove(&damaged);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// "Pruning a run whose tags are damaged leaves its `run_tags` row behind."
#[test]
fn a_run_whose_tags_are_damaged_is_pruned_with_its_tags() {
    let site = DamageSite::sqlite();
    let echo = site.home.file("echo.yaml", ECHO);
    let damages = ["'{'", "'[1]'", "'{\"a\": 1}'", "cast(x'7bff7d' as text)"];
    let mut runs = Vec::new();
    for _ in damages {
        let start: [&str; 7] = ["start", &echo, "--input", "\"x\"", "--tag", "a=b", "--json"];
        let started = site.lope(&start).done().json();
        let run: RunId = started["run_id"].as_str().unwrap().parse().unwrap();
        runs.push(run);
    }
    let up = site.up();
    until("they end", || {
        let statuses = site.statuses();
        let ended = statuses.values().filter(|status| *status == "completed");
        ended.count() == runs.len()
    });
    up.ends();
    for (run, tags) in runs.iter().zip(damages) {
        let id = site.id(*run);
        site.sql(&format!(
            "update runs set tags = {tags} where run_id = {id}"
        ));
    }
    site.lope(&["store", "prune", "--older", "0s"]).done();
    let left = "select cast(count(*) as text) from";
    for table in ["runs", "run_tags", "journal"] {
        assert_eq!(site.sql(&format!("{left} {table}")), ["0"], "{table}");
    }
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
    // What an earlier version left behind is named with what takes it away.
    let run = runs[0];
    let id = site.id(run);
    site.sql(&format!("insert into run_tags values ('a', 'b', 1, {id})"));
    site.check_and_remove(&[run]);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// "A blob whose bytes do not fit its digest is believed (wrong result)": never, and it is named.
fn a_large_value_is_what_its_digest_says(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let run = site.start(&echo, &"x".repeat(100_000));
    // Another value, whole in itself.
    let other = site.bytes(b"\xa5other");
    let id = site.id(run);
    site.sql(&format!(
        "update blobs set bytes = {other} where run_id = {id}"
    ));
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for said in [&run.to_string(), "is missing or damaged"] {
        assert!(checked.out.contains(said), "{said}: {checked:?}");
    }
    let up = site.up();
    until("it is set aside", || {
        site.parked(run)
            .is_some_and(|why| why.contains("is missing or damaged"))
    });
    up.ends();
    site.check_and_remove(&[run]);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_large_value_is_what_its_digest_says_on_sqlite() {
    a_large_value_is_what_its_digest_says(&DamageSite::sqlite());
}

#[test]
fn a_large_value_is_what_its_digest_says_on_postgres() {
    if let Some(site) = DamageSite::postgres("large") {
        a_large_value_is_what_its_digest_says(&site);
    }
}

/// "A damaged result of an ended run is printed as null with status completed."
fn a_result_that_cannot_be_read_is_told(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let run = site.start(&echo, "x");
    let up = site.up();
    let wait = ["runs", "wait", &run.to_string()];
    site.lope(&wait).done();
    up.ends();
    let garbage = site.bytes(&[0xc1]);
    let id = site.id(run);
    site.sql(&format!(
        "update runs set result = {garbage} where run_id = {id}"
    ));
    let said = site.lope(&wait);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("the result cannot be read"), "{said:?}");
    let said = site.lope(&[&wait[..], &["--json"]].concat());
    assert_eq!(said.code, 1, "{said:?}");
    let damage = said.json()["damage"].as_str().unwrap().to_owned();
    assert!(damage.contains("the result cannot be read"), "{said:?}");
    let checked = site.lope(&["store", "check"]);
    assert!(checked.out.contains(&damage), "{checked:?}");
    site.check_and_remove(&[run]);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_result_that_cannot_be_read_is_told_on_sqlite() {
    a_result_that_cannot_be_read_is_told(&DamageSite::sqlite());
}

#[test]
fn a_result_that_cannot_be_read_is_told_on_postgres() {
    if let Some(site) = DamageSite::postgres("result") {
        a_result_that_cannot_be_read_is_told(&site);
    }
}

/// Steps whose limits cannot be read wait and say so, the others do not notice, and each row is named.
fn a_limit_that_cannot_be_read_is_named(site: &DamageSite) {
    let limited = "name: limited\nsteps:\n  once:\n    js: '() => 1'\n    idempotency_key: one\n    rate_limit: 1000/1s\n";
    let limited = site.home.file("limited.yaml", limited);
    let other = site.home.file("other.yaml", OTHER);
    let first = site.start(&limited, "x").to_string();
    let up = site.up();
    site.lope(&["runs", "wait", &first]).done();
    let garbage = site.bytes(&[0xc1]);
    let rows = "tbl = (select idx from table_manifest where name = 'limits')";
    site.sql(&format!(
        "update table_rows set value = {garbage} where {rows}"
    ));
    let waits = site.start(&limited, "x").to_string();
    let neighbour = site.start(&other, "x").to_string();
    site.lope(&["runs", "wait", &neighbour]).done();
    until("it says what it waits for", || {
        let why = site.lope(&["runs", "why", &waits]);
        why.out.contains("cannot be read")
    });
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for said in [
        "the idempotency key whose name has the digest",
        "the rate whose name has the digest",
        "its row cannot be read: format 193",
        "restore a backup",
    ] {
        assert!(checked.out.contains(said), "{said}: {checked:?}");
    }
    site.sql(&format!("delete from table_rows where {rows}"));
    site.lope(&["runs", "cancel", &waits]).done();
    up.ends();
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_limit_that_cannot_be_read_is_named_on_sqlite() {
    a_limit_that_cannot_be_read_is_named(&DamageSite::sqlite());
}

#[test]
fn a_limit_that_cannot_be_read_is_named_on_postgres() {
    if let Some(site) = DamageSite::postgres("limit") {
        a_limit_that_cannot_be_read_is_named(&site);
    }
}

/// "A final state that is adopted is finished again": a late retry once opened runs that had ended.
/// Where that happened, each ends again as it did, and nothing of it is done a second time.
fn what_was_opened_again_ends_as_it_did(site: &DamageSite) {
    let fails = "name: fails\nsteps: { a: { js: '() => { throw new Error(\"no\") }' } }\n";
    let waits = "name: waits\nsteps: { w: { wait: never } }\n";
    let runs = [
        ("echo.yaml", ECHO),
        ("fails.yaml", fails),
        ("waits.yaml", waits),
    ]
    .map(|(name, text)| site.start(&site.home.file(name, text), "x"));
    site.lope(&["runs", "cancel", &runs[2].to_string()]).done();
    let are_over = || {
        site.sql("select status from runs where status = 'live'")
            .is_empty()
    };
    let ends = || {
        runs.map(|run| {
            let shown = site.lope(&["runs", "show", &run.to_string(), "--json"]);
            let mut shown = shown.done().json();
            for changes in ["finished_at", "epoch"] {
                shown[changes] = serde_json::Value::Null;
            }
            shown
        })
    };
    let up = site.up();
    until("they end", are_over);
    up.ends();
    let before = ends();
    let statuses: Vec<&str> = before
        .iter()
        .map(|end| end["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["completed", "failed", "cancelled"]);
    assert_eq!(before[0]["result"], 1, "{before:?}");
    assert_eq!(before[1]["error"]["message"], "no", "{before:?}");
    site.sql(
        "insert into queue (run_id, owner, due, epoch, head, mail, taken, created_at, law, weight, priority, queue, realm,
             status, parked, started_at)
         select run_id, null, 0, epoch, head, mail, mail, created_at, law, weight, priority, queue, realm,
             'queued', null, started_at from runs;
         update runs set status = 'live', finished_at = null, result = null, error = null;
         delete from run_tags where tag = ''",
    );
    assert!(!are_over());
    let up = site.up();
    until("they end again", are_over);
    up.ends();
    assert_eq!(ends(), before);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn what_was_opened_again_ends_as_it_did_on_sqlite() {
    what_was_opened_again_ends_as_it_did(&DamageSite::sqlite());
}

#[test]
fn what_was_opened_again_ends_as_it_did_on_postgres() {
    if let Some(site) = DamageSite::postgres("opened") {
        what_was_opened_again_ends_as_it_did(&site);
    }
}

/// "One commit that cannot succeed keeps its group of 1,000 unanswered": also if it meets a row that
/// should not be there, which a server tells in the same words as a race.
#[test]
fn a_run_whose_end_is_marked_already_keeps_nobody_else_on_postgres() {
    let Some(site) = DamageSite::postgres("marked") else {
        return;
    };
    let fails = "name: fails\nsteps: { a: { js: '() => { throw new Error(\"no\") }' } }\n";
    let fails = site.home.file("fails.yaml", fails);
    let damaged = site.start(&fails, "x");
    let echo = site.home.file("echo.yaml", ECHO);
    let sound: Vec<RunId> = (0..8).map(|_| site.start(&echo, "x")).collect();
    let id = site.id(damaged);
    site.sql(&format!(
        "insert into run_tags (tag, value, created_at, run_id)
         select '', 'failed', created_at, run_id from runs where run_id = {id}"
    ));
    site.work(&sound, &[damaged]);
    let why = site.parked(damaged).unwrap();
    assert!(why.contains("run_tags"), "{why}");
    let removed = ["store", "remove-run", &damaged.to_string()];
    site.lope(&removed).done();
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// "A damaged run is set aside alone, the others do not notice": also where only one run of the queue
/// may be at work.
fn a_damaged_run_keeps_no_place_in_its_queue(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let bound = "queues: { default: { concurrency: 1 } }\n";
    std::fs::create_dir_all(site.home.path().join(".lope")).unwrap();
    site.home.file(".lope/config.yaml", bound);
    let read = site.home.lope(&["config", "show"]).done().out;
    let is_read = read.contains("queues.default");
    assert!(is_read, "the bound is in force: {read}");
    let damaged = site.start(&echo, "x");
    let sound: Vec<RunId> = (0..3).map(|_| site.start(&echo, "x")).collect();
    let id = site.id(damaged);
    site.sql(&format!("delete from journal where run_id = {id}"));
    site.work(&sound, &[damaged]);
}

#[test]
fn a_damaged_run_keeps_no_place_in_its_queue_on_sqlite() {
    a_damaged_run_keeps_no_place_in_its_queue(&DamageSite::sqlite());
}

#[test]
fn a_damaged_run_keeps_no_place_in_its_queue_on_postgres() {
    if let Some(site) = DamageSite::postgres("place") {
        a_damaged_run_keeps_no_place_in_its_queue(&site);
    }
}

/// A run that somebody paused is as sound as any other: nothing is said of it, and nothing advises to
/// take it away.
fn a_paused_run_is_sound(site: &DamageSite) {
    let waits = "name: waits\nsteps: { a: { wait: go } }\n";
    let run = site.start(&site.home.file("waits.yaml", waits), "x");
    let up = site.up();
    site.lope(&["runs", "pause", &run.to_string()]).done();
    until("it is paused", || site.parked(run).is_some());
    up.ends();
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(!checked.out.contains(&run.to_string()), "{checked:?}");
}

#[test]
fn a_paused_run_is_sound_on_sqlite() {
    a_paused_run_is_sound(&DamageSite::sqlite());
}

#[test]
fn a_paused_run_is_sound_on_postgres() {
    if let Some(site) = DamageSite::postgres("paused") {
        a_paused_run_is_sound(&site);
    }
}
