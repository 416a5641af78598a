//! What benchmarks are told of a server's work: all of it, also that of connections that have ended.

use std::time::Duration;

use lope_postgres::{PostgresOptions, ServerMeter};

use crate::fixture::{connect, server, until};

/// The system counts the time of what has ended in hundredths of a second.
const COARSE: Duration = Duration::from_millis(20);

#[tokio::test]
async fn the_work_of_a_connection_that_has_ended_is_counted() {
    let Some(url) = server() else { return };
    let options = PostgresOptions::new(&url).unwrap();
    let meter = ServerMeter::open(&options).await.unwrap();
    let (worker, watch) = (connect(&url).await, connect(&url).await);
    let before = meter.server_time().unwrap();
    let row = worker
        .query_one(
            "select pg_backend_pid(), (select count(*) from generate_series(1, 1000000))",
            &[],
        )
        .await
        .unwrap();
    let pid: i32 = row.get(0);
    let at_work = meter.server_time().unwrap();
    assert!(at_work > before + COARSE, "{at_work:?} and {before:?}");
    drop(worker);
    until("the server has let go of the process", async || {
        let text = "select count(*) from pg_stat_activity where pid = $1";
        let there: i64 = watch.query_one(text, &[&pid]).await.unwrap().get(0);
        there == 0 && !std::path::Path::new(&format!("/proc/{pid}")).exists()
    })
    .await;
    let after = meter.server_time().unwrap();
    assert!(after + COARSE > at_work, "{after:?} and {at_work:?}");
}
