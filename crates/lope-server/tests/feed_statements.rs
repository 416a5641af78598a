//! What an open dashboard asks of a store, counted in statements: however many watch, one task looks
//! for all of them, and when nothing happens a look is one statement.

use std::sync::Arc;
use std::time::Duration;

use lope::runs::RunStartOptions;
use lope::{Client, PreparedRun, Runner, Settings, workflows};
use lope_http::feed::{FeedKind, Look, RunChanges};
use lope_model::Value;

use super::fixture::metered::ReadMeter;
use super::fixture::proxy::Proxy;

/// The server for tests; nothing if the caller chose to go without. A missing one is an error, never
/// a silent pass.
fn postgres() -> Option<String> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: LOPE_TEST_NO_POSTGRES is set");
        return None;
    }
    let url = std::env::var("LOPE_TEST_POSTGRES");
    Some(url.expect("LOPE_TEST_POSTGRES names a server: run `cargo xtask test`"))
}

/// "an open dashboard costs ≤ 1 query a second": every other second one statement, and two when the
/// store says that it is time to look, which it does every five seconds.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_look_is_one_statement_and_one_that_was_told_of_is_two() {
    let Some(url) = postgres() else { return };
    let proxy = Proxy::start(&url);
    let url = format!("{}?schema=feed_{}", proxy.url(&url), std::process::id());
    let client = Client::open(&url).await.unwrap();
    let changes = RunChanges::new(Arc::default());
    for (look, statements) in [(Look::Told, 2), (Look::Idle, 1)] {
        // A connection learns its statements.
        for _ in 0..3 {
            assert!(changes.query(&client, look).await.is_ok());
        }
        let before = proxy.statements();
        assert!(changes.query(&client, look).await.is_ok());
        let after = proxy.statements().into_iter().enumerate();
        let more = after.map(|(index, count)| count - before.get(index).copied().unwrap_or(0));
        assert_eq!(more.max(), Some(statements), "{look:?}");
    }
    assert!(RunChanges::IDLE >= Duration::from_secs(2));
    client.close().await.unwrap();
}

/// What has ended since the last look is in none of the lists that an idle look asks for: it is asked
/// for by its ids, together.
#[tokio::test(flavor = "multi_thread")]
async fn however_many_runs_have_ended_they_are_asked_for_at_once() {
    let mut calls = Vec::new();
    for count in [1, 40] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("lope.db").display());
        let opened = Client::open(&url).await.unwrap();
        let meter = ReadMeter::default();
        let client = Client::new(meter.over(opened.store()));
        let changes = ended_since_a_look(&client, &url, count).await;
        meter.take();
        let seen = changes.query(&client, Look::Idle).await;
        calls.push((count, meter.take().calls));
        let seen = seen.map_err(|error| error.message).unwrap();
        assert_eq!(changes.changes(seen).len(), count);
        opened.close().await.unwrap();
    }
    assert_eq!(calls, [(1, 2), (40, 2)], "what it costs when so many end");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_runs_have_ended_postgres_is_asked_two_statements() {
    let Some(url) = postgres() else { return };
    let mut statements = Vec::new();
    for count in [1, 40] {
        let proxy = Proxy::start(&url);
        let schema = format!("schema=left_{count}_{}", std::process::id());
        let client = format!("{}?{schema}", proxy.url(&url));
        let client = Client::open(&client).await.unwrap();
        let changes = ended_since_a_look(&client, &format!("{url}?{schema}"), count).await;
        // A connection learns its statements.
        for _ in 0..3 {
            assert!(changes.query(&client, Look::Idle).await.is_ok());
        }
        let before: u64 = proxy.statements().iter().sum();
        let seen = changes.query(&client, Look::Idle).await;
        let after: u64 = proxy.statements().iter().sum();
        statements.push((count, after - before));
        let seen = seen.map_err(|error| error.message).unwrap();
        assert_eq!(changes.changes(seen).len(), count);
        client.close().await.unwrap();
    }
    let expected = [(1, 2), (40, 2)];
    assert_eq!(statements, expected, "what it costs when so many end");
}

/// A feed that saw runs which have ended since.
async fn ended_since_a_look(client: &Client, url: &str, count: usize) -> RunChanges {
    let plan = workflows::read("name: quick\nsteps: { a: { let: 1 } }\n", "test").unwrap();
    client.deploy(&plan).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..count {
        let options = RunStartOptions {
            input: Some(Value::Null),
            ..RunStartOptions::default()
        };
        let prepared = PreparedRun::new(&plan, options, client.queue_limits()).unwrap();
        runs.push(client.start(prepared).await.unwrap().0);
    }
    let changes = RunChanges::new(Arc::default());
    let seen = changes.query(client, Look::Told).await;
    let first = changes.changes(seen.map_err(|error| error.message).unwrap());
    assert!(first.is_empty(), "the first look tells nothing");
    let builder = Runner::builder().url(url);
    let runner = builder.shared_settings(Settings::default());
    let runner = runner.build().await.unwrap();
    for run in runs {
        runner.client().wait(run).await.unwrap();
    }
    runner.shutdown(Duration::from_secs(20)).await.unwrap();
    changes
}
