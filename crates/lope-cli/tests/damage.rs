//! Damage, seen with the real binary on both stores: a run whose row, journal, commit or definition
//! is broken is set aside alone and named with what mends it; the others do not notice.

use crate::{fixture, stage};

use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use lope_model::RunId;
use rustix::process::{Pid, Signal, kill_process};

use fixture::cluster::{Cluster, Stop};
use stage::{Said, Watch, until};

/// Ends at once, without any executor, and keeps its input in its journal.
const ECHO: &str = "name: echo\nsteps: { done: { return: '${{ size(input) }}' } }\n";
/// Writes what its step came to.
const WRITES: &str = "name: writes\nsteps: { a: { js: '() => 1' } }\n";
/// Another definition, to be broken.
const OTHER: &str = "name: other\nsteps: { done: { return: '${{ 1 + 1 }}' } }\n";
/// Runs that nothing happens to.
const NEIGHBOURS: usize = 8;
/// Runs beside each other in pages, and how long the input of each is.
const PAGED: usize = 36;
const INPUT: usize = 900;

/// Which of the two stores.
enum DamagedStore {
    Sqlite,
    Postgres { server: String, schema: String },
}

/// A store of one of the two kinds, with a home.
pub(crate) struct DamageSite {
    pub(crate) home: stage::Home,
    pub(crate) url: String,
    kind: DamagedStore,
}

impl DamageSite {
    pub(crate) fn sqlite() -> Self {
        let home = stage::Home::new();
        let url = format!("sqlite:{}", home.path().join("lope.db").display());
        let kind = DamagedStore::Sqlite;
        Self { home, url, kind }
    }

    /// A schema of this test in the server for tests.
    pub(crate) fn postgres(name: &str) -> Option<Self> {
        let server = fixture::server()?;
        let schema = format!("cli_{name}_{}", std::process::id());
        Some(Self::on_schema(server, schema))
    }

    pub(crate) fn on_schema(server: String, schema: String) -> Self {
        Self {
            home: stage::Home::new(),
            url: format!("{server}?schema={schema}"),
            kind: DamagedStore::Postgres { server, schema },
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("LOPE_STORE", &self.url);
        command
    }

    pub(crate) fn lope(&self, args: &[&str]) -> Said {
        stage::said(&mut self.command(args))
    }

    pub(crate) fn start(&self, file: &str, input: &str) -> RunId {
        let input = format!("\"{input}\"");
        let started = self.lope(&["start", file, "--input", &input, "--json"]);
        let run = started.done().json()["run_id"].as_str().unwrap().to_owned();
        run.parse().unwrap()
    }

    /// Bytes as they are written in SQL.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> String {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match &self.kind {
            DamagedStore::Sqlite => format!("x'{hex}'"),
            DamagedStore::Postgres { .. } => format!("'\\x{hex}'"),
        }
    }

    pub(crate) fn id(&self, run: RunId) -> String {
        match &self.kind {
            DamagedStore::Sqlite => self.bytes(run.as_bytes()),
            DamagedStore::Postgres { .. } => format!("'{run}'"),
        }
    }

    /// By hand, behind Lope's back. The first column of what it answers, as text.
    pub(crate) fn sql(&self, text: &str) -> Vec<String> {
        match &self.kind {
            DamagedStore::Sqlite => sqlite(&self.home.path().join("lope.db"), text),
            DamagedStore::Postgres { server, schema } => {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(postgres(server, schema, text))
            }
        }
    }

    /// What every commit of a run meets from now on.
    fn forbid(&self, run: RunId) {
        let id = self.id(run);
        self.sql(&match &self.kind {
            DamagedStore::Sqlite => format!(
                "create trigger no_more before insert on journal when new.run_id = {id}
                 begin select raise(abort, 'this row cannot be written'); end"
            ),
            DamagedStore::Postgres { .. } => format!(
                "create function no_more() returns trigger language plpgsql as
                     $$ begin raise exception 'this row cannot be written' using errcode = '23514'; end $$;
                 create trigger no_more before insert on journal for each row
                     when (new.run_id = {id}) execute function no_more()"
            ),
        });
    }

    fn allow(&self) {
        self.sql(match &self.kind {
            DamagedStore::Sqlite => "drop trigger no_more",
            DamagedStore::Postgres { .. } => "drop function no_more cascade",
        });
    }

    /// Why a run was set aside, once it was.
    pub(crate) fn parked(&self, run: RunId) -> Option<String> {
        let id = self.id(run);
        let asked = format!("select parked from queue where run_id = {id} and parked is not null");
        self.sql(&asked).pop()
    }

    pub(crate) fn statuses(&self) -> std::collections::BTreeMap<String, String> {
        let listed = self.lope(&["runs", "list", "--limit", "1000", "--json"]);
        let listed = listed.done().json();
        let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        runs.iter()
            .map(|run| (text(&run["run_id"]), text(&run["status"])))
            .collect()
    }

    pub(crate) fn up(&self) -> DamageRunner {
        let words = std::fs::File::create(self.home.path().join("words")).unwrap();
        let mut command = self.command(&["up"]);
        let child = command.stdout(Stdio::null()).stderr(words).spawn().unwrap();
        let watch = Watch::over(&child);
        DamageRunner {
            child,
            _watch: watch,
        }
    }

    /// With a runner at work: the others end, these are set aside.
    pub(crate) fn work(&self, neighbours: &[RunId], damaged: &[RunId]) {
        let up = self.up();
        until("the neighbours end", || {
            let statuses = self.statuses();
            let is_done = |run: &RunId| {
                statuses.get(&run.to_string()).map(String::as_str) == Some("completed")
            };
            neighbours.iter().all(is_done)
        });
        for run in damaged {
            until("a damaged run is set aside", || self.parked(*run).is_some());
        }
        up.ends();
    }

    /// `store check` names each of them, `remove-run` takes each away.
    pub(crate) fn check_and_remove(&self, damaged: &[RunId]) {
        let checked = self.lope(&["store", "check"]);
        assert_eq!(checked.code, 1, "{checked:?}");
        for run in damaged {
            assert!(checked.out.contains(&run.to_string()), "{run}: {checked:?}");
        }
        assert!(checked.out.contains("lope store remove-run"), "{checked:?}");
        for run in damaged {
            let removed = self.lope(&["store", "remove-run", &run.to_string()]).done();
            assert!(removed.out.contains("is removed"), "{removed:?}");
        }
        let statuses = self.statuses();
        for run in damaged {
            assert!(!statuses.contains_key(&run.to_string()), "{run}");
            let again = self.lope(&["store", "remove-run", &run.to_string()]);
            assert_eq!(again.code, 1, "it is gone: {again:?}");
        }
    }
}

fn sqlite(path: &std::path::Path, text: &str) -> Vec<String> {
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    if !text.starts_with("select") {
        db.execute_batch(text).unwrap();
        return Vec::new();
    }
    let mut statement = db.prepare(text).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    rows.unwrap().map(Result::unwrap).collect()
}

async fn postgres(server: &str, schema: &str, text: &str) -> Vec<String> {
    let (client, wire) = tokio_postgres::connect(server, tokio_postgres::NoTls)
        .await
        .unwrap();
    let wire = tokio::spawn(wire);
    let within = format!("set search_path = {schema}; {text}");
    let answers = client.simple_query(&within).await.unwrap();
    drop(client);
    wire.await.unwrap().unwrap();
    let first = |answer| match answer {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    answers.into_iter().filter_map(first).collect()
}

pub(crate) struct DamageRunner {
    child: Child,
    _watch: Watch,
}

impl DamageRunner {
    pub(crate) fn ends(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// "`update runs set version=x'00'` on one run … one bad `status`, `priority` or `tags` … a
/// definition that cannot be read … A damaged run is set aside alone, each is named with what mends
/// it, the others do not notice; `store check` finds all of them on both stores; `lope store
/// remove-run` gets rid of one."
fn each_damaged_run_is_set_aside_alone(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let other = site.home.file("other.yaml", OTHER);
    let lost = site.start(&other, "x");
    let writes = site.home.file("writes.yaml", WRITES);
    let unwritable = site.start(&writes, "x");
    let none = site.bytes(&[0]);
    let garbage = site.bytes(&[0xff, 0xfe, 0xfd]);
    let damages = [
        format!("update runs set version = {none} where run_id = "),
        "update queue set status = 'nothing' where run_id = ".to_owned(),
        "update runs set priority = 99 where run_id = ".to_owned(),
        "update runs set tags = '[1]' where run_id = ".to_owned(),
        "update runs set tags = '{\"a\": 1}' where run_id = ".to_owned(),
        format!("update journal set body = {garbage} where seq = 1 and run_id = "),
        "delete from journal where run_id = ".to_owned(),
        "update queue set epoch = -1 where run_id = ".to_owned(),
        "update queue set head = -5 where run_id = ".to_owned(),
        "update queue set taken = -5 where run_id = ".to_owned(),
        "delete from runs where run_id = ".to_owned(),
    ];
    let mut damaged = vec![lost, unwritable];
    let mut neighbours = Vec::new();
    for damage in &damages {
        neighbours.push(site.start(&echo, "x"));
        let run = site.start(&echo, "x");
        site.sql(&format!("{damage}{}", site.id(run)));
        damaged.push(run);
    }
    neighbours.extend((0..NEIGHBOURS).map(|_| site.start(&echo, "x")));
    site.sql(&format!(
        "update workflows set body = {garbage} where name = 'other'"
    ));
    site.forbid(unwritable);

    let before = site.lope(&["runs", "list", "--limit", "1000"]).done();
    for run in &neighbours {
        let listed = before.out.contains(&run.to_string());
        assert!(listed, "{run} is not hidden: {before:?}");
    }
    site.work(&neighbours, &damaged);
    for run in &damaged {
        let why = site.parked(*run).unwrap();
        assert!(!why.is_empty(), "{run}");
    }
    let refused = site.parked(unwritable).unwrap();
    assert!(refused.contains("this row cannot be written"), "{refused}");
    site.allow();

    let checked = site.lope(&["store", "check"]);
    let definition = "the definition of workflow 'other' cannot be read";
    assert!(checked.out.contains(definition), "{checked:?}");
    site.check_and_remove(&damaged);
    // What mends a definition is to deploy it again, as the hint says.
    site.lope(&["workflows", "deploy", &other]).done();
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn each_damaged_run_is_set_aside_alone_on_sqlite() {
    each_damaged_run_is_set_aside_alone(&DamageSite::sqlite());
}

#[test]
fn each_damaged_run_is_set_aside_alone_on_postgres() {
    if let Some(site) = DamageSite::postgres("damage") {
        each_damaged_run_is_set_aside_alone(&site);
    }
}

/// An input that is on one page, and says whose it is.
fn marked(number: usize) -> String {
    format!("{number:04}{}", "abcdefgh".repeat(INPUT / 8))
}

fn paged(site: &DamageSite) -> Vec<RunId> {
    let echo = site.home.file("echo.yaml", ECHO);
    (0..PAGED)
        .map(|number| site.start(&echo, &marked(number)))
        .collect()
}

/// "One damaged journal page keeps 200 of 300": it keeps those whose rows are on it, and at most the
/// two beside them, whose rows may be found only by way of that page.
fn a_damaged_page_keeps_its_runs_and_no_other(
    site: &DamageSite,
    runs: &[RunId],
    damaged: &[RunId],
) {
    assert!(
        !damaged.is_empty() && damaged.len() < runs.len() / 2,
        "{damaged:?}"
    );
    let first = runs.iter().position(|run| damaged.contains(run)).unwrap();
    let last = runs.iter().rposition(|run| damaged.contains(run)).unwrap();
    let neighbours: Vec<RunId> = (0..runs.len())
        .filter(|place| *place + 1 < first || *place > last + 1)
        .map(|place| runs[place])
        .collect();
    site.work(&neighbours, damaged);
    site.check_and_remove(damaged);
    let after = site.lope(&["store", "check"]);
    assert_eq!(after.code, 1, "the page is still damaged: {after:?}");
}

#[test]
fn a_damaged_page_keeps_its_runs_and_no_other_on_sqlite() {
    let site = DamageSite::sqlite();
    let runs = paged(&site);
    site.sql("pragma wal_checkpoint(truncate)");
    let path = site.home.path().join("lope.db");
    let bytes = std::fs::read(&path).unwrap();
    let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let is_on = |page: &[u8], number: usize| {
        let mark = marked(number).into_bytes();
        page.windows(12).any(|found| *found == mark[..12])
    };
    let page = bytes
        .chunks(size)
        .position(|page| is_on(page, PAGED / 2))
        .unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let noise = vec![0xff; size];
    file.write_all_at(&noise, (page * size) as u64).unwrap();
    drop(file);
    // A page may hold what was moved to another one long ago: those are damaged whose rows SQLite
    // itself cannot read any more.
    let db = rusqlite::Connection::open(&path).unwrap();
    let is_readable = |run: &RunId| {
        let mut rows = db
            .prepare("select body from journal where run_id = ?1 order by seq limit (select head from queue where run_id = ?1)")
            .unwrap();
        let mut rows = rows.query([run.as_bytes()]).unwrap();
        loop {
            match rows.next() {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    };
    let damaged: Vec<RunId> = runs
        .iter()
        .filter(|run| !is_readable(run))
        .copied()
        .collect();
    drop(db);
    a_damaged_page_keeps_its_runs_and_no_other(&site, &runs, &damaged);
}

#[test]
fn a_damaged_page_keeps_its_runs_and_no_other_on_postgres() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let site = DamageSite::on_schema(cluster.url(), "lope".to_owned());
    let runs = paged(&site);
    let on_page = "select run_id from journal where ctid >= '(1,0)' and ctid < '(2,0)'";
    let damaged: Vec<RunId> = site
        .sql(on_page)
        .iter()
        .map(|run| run.parse().unwrap())
        .collect();
    let file = site
        .sql("select distinct pg_relation_filepath(tableoid) from journal")
        .pop()
        .unwrap();
    cluster.down(Stop::Fast);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(cluster.pgdata().join(file))
        .unwrap();
    file.write_all_at(&[0xff; 8192], 8192).unwrap();
    drop(file);
    cluster.up();
    a_damaged_page_keeps_its_runs_and_no_other(&site, &runs, &damaged);
}

/// "Takeover goes on around what cannot be read": one run of a killed runner has an owner, and one
/// session a runner, that nobody can read.
#[test]
fn runs_of_a_killed_runner_are_taken_over_beside_an_owner_that_cannot_be_read() {
    let site = DamageSite::sqlite();
    let go = site.home.path().join("go");
    let held = format!(
        "name: held\nsteps: {{ a: {{ run: \"until [ -e '{}' ]; do sleep 0.1; done\" }} }}\n",
        go.display()
    );
    let held = site.home.file("held.yaml", &held);
    let runs: Vec<RunId> = (0..4).map(|_| site.start(&held, "x")).collect();
    let mut killed = site.up();
    let owned = "select hex(run_id) from queue where length(owner) = 16";
    until("the runner has them", || {
        site.sql(owned).len() == runs.len()
    });
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let [gone, unreadable] = [runs[0], runs[1]];
    for run in [gone, unreadable] {
        let id = site.id(run);
        site.sql(&format!(
            "update queue set owner = x'01' where run_id = {id}"
        ));
    }
    site.sql(
        "insert into sessions select x'07', name, host, pid, program, started_at, heartbeat_at, expires, lease,
             boot_id, null, serves, process from sessions limit 1",
    );
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for named in [
        gone.to_string(),
        unreadable.to_string(),
        "the session 07".to_owned(),
    ] {
        assert!(checked.out.contains(&named), "{named}: {checked:?}");
    }
    // Neither an owner that cannot be read nor one that is dead stands in the way.
    for run in [gone, runs[2]] {
        site.lope(&["store", "remove-run", &run.to_string()]).done();
    }
    let up = site.up();
    std::fs::write(&go, "").unwrap();
    until("the others end", || {
        let statuses = site.statuses();
        [unreadable, runs[3]]
            .iter()
            .all(|run| statuses.get(&run.to_string()).map(String::as_str) == Some("completed"))
    });
    up.ends();
    let words = std::fs::read_to_string(site.home.path().join("words")).unwrap();
    assert!(words.contains(&unreadable.to_string()), "{words}");
    assert!(!words.contains("Cannot read"), "{words}");
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

/// "Each damaged schedule is passed by and named with what mends it, list shows the others and names
/// the damaged one, `store check` finds it."
fn a_damaged_schedule_stops_no_other(site: &DamageSite, damages: &[(&str, String)]) {
    let echo = site.home.file("echo.yaml", ECHO);
    site.lope(&["workflows", "deploy", &echo]).done();
    let add = |name: &str| {
        let added = [
            "schedules",
            "add",
            name,
            "echo",
            "--every",
            "1s",
            "--input",
            "\"x\"",
        ];
        site.lope(&added).done();
    };
    for (name, damage) in damages {
        add(name);
        site.sql(&format!(
            "update schedules set {damage} where name = '{name}'"
        ));
    }
    add("sound");
    let listed = site.lope(&["schedules", "list"]).done();
    assert!(listed.out.contains("sound"), "{listed:?}");
    let checked = site.lope(&["store", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let up = site.up();
    until("the sound one starts runs", || !site.statuses().is_empty());
    let words = || std::fs::read_to_string(site.home.path().join("words")).unwrap();
    for (name, _) in damages {
        let mends = format!("lope schedules remove {name}");
        assert!(listed.err.contains(&mends), "{listed:?}");
        assert!(checked.out.contains(&mends), "{checked:?}");
        until("a runner names it", || words().contains(&mends));
    }
    up.ends();
    for (name, _) in damages {
        site.lope(&["schedules", "remove", name]).done();
        add(name);
    }
    let listed = site.lope(&["schedules", "list"]).done();
    assert_eq!(listed.err, "", "{listed:?}");
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_damaged_schedule_stops_no_other_on_sqlite() {
    let site = DamageSite::sqlite();
    let damages = [
        "revision = x'00'",
        "last_run = x'00'",
        "body = x'00'",
        "body = x'01'",
        "body = x'02'",
    ];
    let names = ["a-revision", "b-run", "c-body", "d-body", "e-body"];
    let damages: Vec<(&str, String)> = names.into_iter().zip(damages.map(str::to_owned)).collect();
    a_damaged_schedule_stops_no_other(&site, &damages);
}

#[test]
fn a_damaged_schedule_stops_no_other_on_postgres() {
    if let Some(site) = DamageSite::postgres("schedules") {
        let damage = |byte| format!("body = {}", site.bytes(&[byte]));
        let damages = [
            ("c-body", damage(0)),
            ("d-body", damage(1)),
            ("e-body", damage(2)),
        ];
        a_damaged_schedule_stops_no_other(&site, &damages);
    }
}

/// "It shall name the run and `lope store remove-run ID`", whatever of the run is damaged; and what
/// `store check` says of one that is live and not in the queue mends it.
fn what_mends_a_damaged_run_is_said(site: &DamageSite) {
    let echo = site.home.file("echo.yaml", ECHO);
    let none = site.bytes(&[0]);
    let garbage = site.bytes(&[0xff, 0xfe, 0xfd]);
    let damages = [
        format!("update runs set version = {none} where run_id = "),
        "update queue set status = 'nothing' where run_id = ".to_owned(),
        format!("update journal set body = {garbage} where seq = 1 and run_id = "),
    ];
    for damage in &damages {
        let run = site.start(&echo, "x");
        site.sql(&format!("{damage}{}", site.id(run)));
        let why = site.lope(&["runs", "why", &run.to_string()]);
        assert_eq!(why.code, 1, "{damage}: {why:?}");
        assert!(
            why.err.contains(&format!("run {run} is damaged")),
            "{why:?}"
        );
        let mends = format!("lope store remove-run {run}");
        assert!(why.err.contains(&mends), "{damage}: {why:?}");
        site.lope(&["store", "remove-run", &run.to_string()]).done();
    }
    let run = site.start(&echo, "x");
    site.sql(&format!(
        "delete from queue where run_id = {}",
        site.id(run)
    ));
    site.check_and_remove(&[run]);
    let sound = site.lope(&["store", "check"]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn what_mends_a_damaged_run_is_said_on_sqlite() {
    what_mends_a_damaged_run_is_said(&DamageSite::sqlite());
}

#[test]
fn what_mends_a_damaged_run_is_said_on_postgres() {
    if let Some(site) = DamageSite::postgres("mends") {
        what_mends_a_damaged_run_is_said(&site);
    }
}
