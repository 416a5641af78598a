//! Tests: the statements that must stay fast read their indexes and little else, with a long queue,
//! with dead rows under an old snapshot. What is counted is pages, never time.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use lope_model::{RunId, Timestamp};
use lope_store::runs::{Cursor, FinalStatus, LiveStatus, RunFilter, RunStatus};
use serde_json::Value;
use uuid::Uuid;

use crate::claim::{CLAIM, CLAIM_MANY};
use crate::connection::{DbConnection, ReadStatement, View};
use crate::failure::Sent;
use crate::list::Listing;
use crate::migrate;
use crate::options::PostgresOptions;
use crate::pool::Connector;
use crate::query::{COUNT_QUEUES, COUNT_RUNS};
use crate::session::{PUT_BACK, TAKEOVER, WAITING};
use crate::statement::{Params, Statement};

static PLACES: AtomicU64 = AtomicU64::new(0);

const ME: Uuid = Uuid::from_u128(1);
const GONE: Uuid = Uuid::from_u128(2);
const CLAIMED: i64 = 500;

/// How long the queue is: all of it under `LOPE_CHAOS=full`.
fn length() -> i64 {
    if std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full") {
        1_000_000
    } else {
        200_000
    }
}

/// A database with a store of its own; nothing if the caller chose to go without Postgres.
async fn database() -> Option<PostgresOptions> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: LOPE_TEST_NO_POSTGRES is set");
        return None;
    }
    let url =
        std::env::var("LOPE_TEST_POSTGRES").expect("LOPE_TEST_POSTGRES: run `cargo xtask test`");
    let name = format!(
        "lope_plans_{}_{}",
        std::process::id(),
        PLACES.fetch_add(1, Ordering::Relaxed)
    );
    let maker = Connector::new(PostgresOptions::new(&url).unwrap())
        .unwrap()
        .connect()
        .await
        .unwrap();
    maker
        .script(&format!("create database {name}"), Sent::Work)
        .await
        .unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let mut options = PostgresOptions::new(&format!("{server}/{name}")).unwrap();
    options.statement_timeout = std::time::Duration::from_mins(10);
    Some(options)
}

async fn store(options: &PostgresOptions) -> (Connector, DbConnection) {
    let connector = Connector::new(options.clone()).unwrap();
    let db = connector.connect().await.unwrap();
    migrate::check_version(options, &db).await.unwrap();
    (connector, db)
}

/// Runs that wait, one in a thousand of them owned by a runner that has gone, paused, tagged,
/// failed, mailed…
async fn fill(db: &DbConnection) {
    let script = format!(
        "insert into {{schema}}.sessions values
             ('{ME}', 0, 0, 9000000000000000, 1000, null, 1, 'me', 'here', 'x'),
             ('{GONE}', 0, 0, 0, 1000, 1, 1, 'gone', 'here', 'x');
         insert into {{schema}}.runs
             (run_id, parent_run, created_at, weight, priority, workflow, version, queue, realm, tags, law, epoch, head, mail,
              finished_at, status)
             select md5(n::text)::uuid, case when n % 1000 = 7 then '{ME}'::uuid end, n, 1, 4,
                    case when n % 1000 = 6 then 'rare' else 'common' end, '\\x00', 'default', 'default',
                    case when n % 1000 = 9 then '{{\"colour\": \"red\"}}' else '{{}}' end::jsonb, 1, 0, 1, 0,
                    case when n % 2 = 0 then n end,
                    case when n % 1000 = 8 then 'failed' when n % 2 = 0 then 'completed' else 'live' end
             from generate_series(1, {length} * 2) n;
         insert into {{schema}}.run_tags
             select '', status, created_at, run_id from {{schema}}.runs where status = 'failed'
             union all select 'colour', 'red', created_at, run_id from {{schema}}.runs where created_at % 1000 = 9;
         insert into {{schema}}.queue
             (run_id, owner, due, epoch, head, mail, taken, created_at, law, weight, priority, queue, realm, status)
             select run_id, case created_at % 1000 when 1 then '{GONE}'::uuid when 3 then '{ME}'::uuid end, created_at, 0, 1,
                    case when created_at % 10000 = 3 then 1 else 0 end, 0, created_at, 1, 1, 4, 'default', 'default',
                    case created_at % 1000 when 5 then 'paused' else 'queued' end
             from {{schema}}.runs where status = 'live';
         insert into {{schema}}.mail select run_id, 1, 0, 0, 'id', 'signal', '' from {{schema}}.queue where mail = 1",
        length = length()
    );
    db.script(&script, Sent::Work).await.unwrap();
    for table in ["runs", "queue", "run_tags", "mail"] {
        db.script(&format!("vacuum analyze {{schema}}.{table}"), Sent::Work)
            .await
            .unwrap();
    }
}

/// What a statement did.
#[derive(Debug, Default)]
struct Plan {
    /// Tables that were read from end to end.
    scanned: BTreeSet<String>,
    indexes: BTreeSet<String>,
    pages: u64,
    rows: u64,
    /// Did other processes help?
    is_shared: bool,
}

async fn explain(db: &DbConnection, text: &str, types: &str, params: Params<'_>) -> Plan {
    let text = format!("explain (analyze, buffers, format json, timing off) {text}");
    db.begin_script("begin").await.unwrap();
    let rows = db.read_once(&text, types, params).await.unwrap();
    db.end_script("rollback").await.unwrap();
    read(&rows[0].get::<_, Json>(0).0)
}

/// JSON as text, whatever the driver makes of it.
struct Json(Value);

impl<'a> tokio_postgres::types::FromSql<'a> for Json {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(serde_json::from_slice(raw)?))
    }

    fn accepts(kind: &tokio_postgres::types::Type) -> bool {
        *kind == tokio_postgres::types::Type::JSON
    }
}

fn read(json: &Value) -> Plan {
    let top = &json[0]["Plan"];
    let mut plan = Plan {
        rows: top["Actual Rows"].as_u64().unwrap(),
        ..Plan::default()
    };
    plan.pages = ["Shared Hit Blocks", "Shared Read Blocks"]
        .iter()
        .filter_map(|name| top[name].as_u64())
        .sum();
    walk(top, &mut plan);
    plan
}

fn walk(node: &Value, plan: &mut Plan) {
    let was_run = node["Actual Loops"].as_u64().unwrap_or(0) > 0;
    if node["Node Type"] == "Seq Scan" && was_run {
        plan.scanned
            .insert(node["Relation Name"].as_str().unwrap().to_owned());
    }
    plan.is_shared |= node["Workers Planned"].as_u64() > Some(0);
    if let Some(index) = node["Index Name"].as_str().filter(|_| was_run) {
        plan.indexes.insert(index.to_owned());
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, plan);
    }
}

impl Plan {
    fn uses(&self, index: &str, pages_max: u64) {
        assert!(
            self.indexes.contains(index),
            "{index} is not used: {self:?}"
        );
        let large = ["queue", "runs", "mail", "journal", "run_tags"];
        assert!(
            large.iter().all(|table| !self.scanned.contains(*table)),
            "{self:?}"
        );
        assert!(
            self.pages <= pages_max,
            "more than {pages_max} pages: {self:?}"
        );
    }
}

async fn claim(db: &DbConnection, statement: &Statement, queues: &[&str], cursor: i64) -> Plan {
    let lanes: Vec<(i16, &str)> = (0..10)
        .rev()
        .flat_map(|level| queues.iter().map(move |queue| (level, *queue)))
        .collect();
    let (priorities, names): (Vec<i16>, Vec<&str>) = lanes.into_iter().unzip();
    let (realms, cursors) = (vec!["default"; names.len()], vec![cursor; names.len()]);
    let law = 1_i64;
    let weight = i64::MAX;
    let params: Params<'_> = vec![
        &ME,
        &law,
        &CLAIMED,
        &weight,
        &names,
        &realms,
        &priorities,
        &cursors,
        &i64::MAX,
    ];
    explain(db, statement.text, statement.types, params).await
}

#[tokio::test]
async fn claims_takeovers_and_listings_read_their_indexes() {
    let Some(options) = database().await else {
        return;
    };
    let (_connector, db) = store(&options).await;
    fill(&db).await;

    // A claimed run costs its row and its entries in a few indexes, however long the queue is.
    let taken = claim(&db, &CLAIM, &["default"], i64::MIN).await;
    taken.uses("queue_claim", 40 * CLAIMED as u64);
    assert_eq!(taken.rows, CLAIMED as u64);
    let merged = claim(&db, &CLAIM_MANY, &["default", "other"], i64::MIN).await;
    merged.uses("queue_claim", 40 * CLAIMED as u64);
    assert_eq!(merged.rows, CLAIMED as u64);

    explain(&db, TAKEOVER.text, TAKEOVER.types, vec![&100_i64])
        .await
        .uses("queue_owner", 6_000);
    explain(&db, PUT_BACK.text, PUT_BACK.types, vec![&ME, &100_i64])
        .await
        .uses("queue_owner", 6_000);
    let mailed = explain(&db, WAITING.text, WAITING.types, vec![&ME, &1_000_i64]).await;
    mailed.uses("queue_mailed", 2_000);
    assert_eq!(mailed.rows, length() as u64 / 5_000);
    listings(&db).await;
}

async fn listings(db: &DbConnection) {
    let page = || RunFilter {
        limit: 50,
        ..RunFilter::default()
    };
    let after = Some(Cursor {
        created_at: Timestamp::from_millis(length()),
        run: RunId::from_uuid(ME),
    });
    let status = |status| vec![status];
    let filters = [
        ("runs_created", page()),
        ("runs_created", RunFilter { after, ..page() }),
        (
            "runs_workflow",
            RunFilter {
                workflow: Some("rare".to_owned()),
                ..page()
            },
        ),
        (
            "runs_parent",
            RunFilter {
                parent: Some(RunId::from_uuid(ME)),
                ..page()
            },
        ),
        (
            "run_tags_pkey",
            RunFilter {
                tags: [("colour".to_owned(), "red".to_owned())].into(),
                ..page()
            },
        ),
        (
            "run_tags_pkey",
            RunFilter {
                statuses: status(RunStatus::Final(FinalStatus::Failed)),
                ..page()
            },
        ),
        (
            "runs_created",
            RunFilter {
                statuses: status(RunStatus::Final(FinalStatus::Completed)),
                ..page()
            },
        ),
        (
            "queue_status",
            RunFilter {
                statuses: status(RunStatus::Live(LiveStatus::Paused)),
                ..page()
            },
        ),
        (
            "queue_owner",
            RunFilter {
                statuses: status(RunStatus::Live(LiveStatus::Running)),
                ..page()
            },
        ),
    ];
    for (index, filter) in filters {
        let plan = listed(db, &Listing::of(&filter)).await;
        assert_eq!(plan.rows, 50, "{filter:?}: {plan:?}");
        // Of those at work, one in five hundred, each is looked at.
        let at_work = length().unsigned_abs() / 250;
        plan.uses(index, 4_000 + 2 * at_work);
    }
}

/// What an open dashboard asks again and again: the planner's figures are those of a long queue, and
/// there is only the room that it left.
#[tokio::test]
async fn a_look_at_live_runs_and_a_count_do_not_read_the_room_that_a_long_queue_left() {
    let Some(options) = database().await else {
        return;
    };
    let (_connector, db) = store(&options).await;
    fill(&db).await;
    // The youngest stay, so that the file is not cut.
    let gone = format!(
        "delete from {{schema}}.queue where created_at < {}",
        length() * 2 - 100
    );
    db.script(&gone, Sent::Work).await.unwrap();
    db.script("vacuum {schema}.queue", Sent::Work)
        .await
        .unwrap();
    let live = LiveStatus::ALL.map(RunStatus::Live).to_vec();
    for (index, statuses) in [("queue_pkey", live), ("runs_created", Vec::new())] {
        let filter = RunFilter {
            statuses,
            limit: 50,
            ..RunFilter::default()
        };
        let plan = listed(&db, &Listing::of(&filter)).await;
        assert_eq!(plan.rows, 50, "{plan:?}");
        plan.uses(index, 1_000);
    }
    let queues = counted(&db, &COUNT_QUEUES).await;
    assert_eq!(queues.rows, 1, "{queues:?}");
    queues.uses("queue_pkey", 1_000);
    // Of those that ended a bounded number is counted, from the table itself.
    let runs = counted(&db, &COUNT_RUNS).await;
    assert!(runs.indexes.contains("queue_pkey"), "{runs:?}");
    assert!(!runs.scanned.contains("queue"), "{runs:?}");
}

/// What a count did, as the store asks for it.
async fn counted(db: &DbConnection, statement: &Statement) -> Plan {
    let text = format!(
        "explain (analyze, buffers, format json, timing off) {}",
        statement.text
    );
    let types = statement.types;
    let asked = [(ReadStatement::Once { text: &text, types }, Vec::new())];
    let answers = db.read_together(View::Rows, &asked).await.unwrap();
    read(&answers[0][0].get::<_, Json>(0).0)
}

/// The same before anybody has swept: the first look finds what is dead, and the next steps over it
/// without reading the tables.
#[tokio::test]
async fn a_look_at_live_runs_steps_over_what_an_earlier_one_found_dead() {
    let Some(options) = database().await else {
        return;
    };
    let (_connector, link) = store(&options).await;
    let off = "alter table {schema}.queue set (autovacuum_enabled = off)";
    link.script(off, Sent::Work).await.unwrap();
    fill(&link).await;
    let gone = format!(
        "delete from {{schema}}.queue where created_at < {}",
        length() * 2 - 100
    );
    link.script(&gone, Sent::Work).await.unwrap();
    let filter = RunFilter {
        statuses: LiveStatus::ALL.map(RunStatus::Live).to_vec(),
        limit: 50,
        ..RunFilter::default()
    };
    let listing = Listing::of(&filter);
    let first = listed(&link, &listing).await;
    let mut next = listed(&link, &listing).await;
    // Whoever reads any table for its figures meanwhile holds up what counts as dead.
    let mut others = 0;
    while next.pages * 2 >= first.pages && others < 100 {
        others += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        next = listed(&link, &listing).await;
    }
    assert_eq!((first.rows, next.rows), (50, 50));
    // The pages of the index alone.
    next.uses("queue_pkey", length().unsigned_abs() / 100);
    assert!(!first.is_shared && !next.is_shared, "{first:?} {next:?}");
    assert!(next.pages * 2 < first.pages, "{first:?} {next:?}");
}

/// What a listing did, as the store asks for it.
async fn listed(db: &DbConnection, listing: &Listing) -> Plan {
    let text = format!(
        "explain (analyze, buffers, format json, timing off) {}",
        listing.text
    );
    let types = &listing.types;
    let ask = ReadStatement::Once { text: &text, types };
    let asked = [(ask, listing.params())];
    let answers = db.read_together(listing.view, &asked).await.unwrap();
    read(&answers[0][0].get::<_, Json>(0).0)
}

/// "a claim stays fast over 200,000 dead rows held by an old snapshot"
#[tokio::test]
async fn a_claim_steps_over_dead_rows_that_an_old_snapshot_holds() {
    let Some(options) = database().await else {
        return;
    };
    let (connector, db) = store(&options).await;
    fill(&db).await;
    let clean = claim(&db, &CLAIM, &["default"], i64::MIN).await;
    let old = connector.connect().await.unwrap();
    old.begin_script("begin isolation level repeatable read")
        .await
        .unwrap();
    assert_eq!(
        old.read_once("select count(*) from {schema}.sessions", "", vec![])
            .await
            .unwrap()
            .len(),
        1
    );
    // Two in three rows are taken and gone, as by claims and commits; vacuum may not remove them.
    let taken_until = length() * 4 / 3;
    let taken = format!("delete from {{schema}}.queue where due <= {taken_until}");
    db.script(&taken, Sent::Work).await.unwrap();
    db.script("vacuum {schema}.queue", Sent::Work)
        .await
        .unwrap();

    let from_the_beginning = claim(&db, &CLAIM, &["default"], i64::MIN).await;
    let from_the_cursor = claim(&db, &CLAIM, &["default"], taken_until).await;
    old.end_script("rollback").await.unwrap();
    assert_eq!(
        (from_the_beginning.rows, from_the_cursor.rows),
        (CLAIMED as u64, CLAIMED as u64)
    );
    from_the_cursor.uses("queue_claim", clean.pages * 6 / 5);
    let dead_pages = taken_until.cast_unsigned() / 2 / 50;
    assert!(
        from_the_beginning.pages > from_the_cursor.pages + dead_pages,
        "without cursors it would be as fast: {from_the_beginning:?} {from_the_cursor:?}"
    );
}
