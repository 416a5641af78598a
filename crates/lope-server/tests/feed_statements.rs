//! What an open dashboard asks of Postgres, counted in statements: however many watch, one task looks
//! for all of them, and when nothing happens a look is one statement.

use std::sync::Arc;
use std::time::Duration;

use lope::Client;
use lope_http::feed::{FeedKind, Look, RunChanges};

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
