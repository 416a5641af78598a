//! A removal is decided in SQL as `lope_store::verdict::remove` decides it: every kind of owner.

use lope_model::RunnerId;
use lope_store::StoreError;
use lope_store::verdict::{self, RemoveFacts};

use crate::fixture::commands::{admission, deploy, register, run_id};
use crate::fixture::{Schema, connect, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_is_decided_in_sql_as_the_verdict_decides_it() {
    let Some(url) = server() else { return };
    let schema = Schema::new(&url);
    let store = schema.open().await;
    deploy(&store).await;
    let beside = connect(&url).await;
    let name = &schema.name;
    let [live, expired, ended] = [
        register(&store).await.unwrap(),
        register(&store).await.unwrap(),
        register(&store).await.unwrap(),
    ];
    for (set, runner) in [("expires = 1", expired), ("ended_at = 1", ended)] {
        let text = format!("update {name}.sessions set {set} where runner_id = $1");
        let changed = beside.execute(&text, &[&runner.uuid()]).await;
        assert_eq!(changed.unwrap(), 1);
    }
    let unknown = RunnerId::from_bytes([7; 16]);
    for owner in [None, Some(live), Some(expired), Some(ended), Some(unknown)] {
        let run = run_id();
        store.runs.admit(vec![admission(run)]).await.unwrap();
        let text = format!("update {name}.queue set owner = $2 where run_id = $1");
        let (id, holder) = (run.uuid(), owner.map(RunnerId::uuid));
        let owned = beside.execute(&text, &[&id, &holder]).await;
        assert_eq!(owned.unwrap(), 1);
        let facts = RemoveFacts {
            owner,
            owner_lives: owner == Some(live),
        };
        let removed = store.upkeep.remove_run(run).await;
        let is_there = store.runs.run(run).await.unwrap().is_some();
        match verdict::remove(run, &facts) {
            Ok(()) => assert!(removed.unwrap() && !is_there, "{facts:?}"),
            Err(expected) => {
                let refused = removed.unwrap_err();
                assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
                assert_eq!(refused.to_string(), expected.to_string());
                assert!(is_there, "{facts:?}");
            }
        }
    }
    store.upkeep.close().await.unwrap();
}
