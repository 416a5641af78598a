//! What an open dashboard asks again and again, the youngest runs and those that live, is one
//! statement each: no transaction around it, nothing to make it ready.

use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::runs::{LiveStatus, RunFilter, RunStatus};

use crate::fixture::commands::{admission, deploy, run_id};
use crate::fixture::proxy::Proxy;
use crate::fixture::{database, server};

#[tokio::test]
async fn a_look_at_runs_is_one_statement() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let proxy = Proxy::start(&url);
    let options = PostgresOptions::new(&proxy.url(&url)).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    deploy(&store).await;
    let admits = (0..6).map(|_| admission(run_id())).collect();
    store.runs.admit(admits).await.unwrap();
    let live = LiveStatus::ALL.map(RunStatus::Live).to_vec();
    for statuses in [Vec::new(), live] {
        let filter = RunFilter {
            statuses,
            limit: 200,
            ..RunFilter::default()
        };
        // A connection learns its statements.
        for _ in 0..3 {
            store.runs.list(filter.clone()).await.unwrap();
        }
        let before = proxy.statements();
        let listed = store.runs.list(filter.clone()).await.unwrap();
        assert_eq!(listed.len(), 6);
        // Of that connection: what others are told has one of its own.
        let after = proxy.statements().into_iter().enumerate();
        let more = after.map(|(index, count)| count - before.get(index).copied().unwrap_or(0));
        assert_eq!(more.max(), Some(1), "{filter:?}");
    }
    store.upkeep.close().await.unwrap();
}
