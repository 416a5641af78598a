//! Promises of watches: whoever waits is woken by what others do, through this handle or another.

use std::time::Duration;

use super::ground::{Ground, release};
use super::promise::{Kept, promises};
use lope_store::runs::{Takeover, Wake};
use lope_store::tables::{At, Batch, TableId, Write};
use lope_store::watch::Watch;

promises![
    an_admission_wakes,
    a_delivery_wakes,
    a_release_wakes,
    a_takeover_wakes,
    a_commit_to_the_tables_wakes,
    a_change_between_two_waits_is_not_missed,
];

/// Hints may take a moment; one that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(60);

async fn woken(watch: &mut Watch, by: &str) {
    let waited = tokio::time::timeout(PATIENCE, watch.changed()).await;
    assert!(
        waited.is_ok(),
        "nobody was woken by {by} within {PATIENCE:?}"
    );
}

/// Forget the hints of what the promise did to begin with, those on their way included.
async fn settle(watch: &mut Watch) {
    while tokio::time::timeout(Duration::from_millis(100), watch.changed())
        .await
        .is_ok()
    {}
}

async fn an_admission_wakes(ground: Ground) -> Kept {
    let other = ground.again().await;
    let (mut here, mut there) = (ground.runs().watch(), other.runs().watch());
    ground.admit_many(1).await?;
    woken(&mut here, "an admission here").await;
    woken(&mut there, "an admission elsewhere").await;
    Ok(())
}

async fn a_delivery_wakes(ground: Ground) -> Kept {
    let (_, run) = ground.owned_run().await?;
    let other = ground.again().await;
    let (mut here, mut there) = (ground.runs().watch(), other.runs().watch());
    settle(&mut here).await;
    settle(&mut there).await;
    ground.deliver(run.run, "mail").await?;
    woken(&mut here, "a delivery here").await;
    woken(&mut there, "a delivery elsewhere").await;
    Ok(())
}

async fn a_release_wakes(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let mut watch = ground.runs().watch();
    settle(&mut watch).await;
    ground
        .commit(release(owner, &run, Wake::At(run.due), 0))
        .await?;
    woken(&mut watch, "a release").await;
    ground.claim(owner).await?;
    settle(&mut watch).await;
    ground.runs().release(owner).await?;
    woken(&mut watch, "a runner that gives back").await;
    Ok(())
}

async fn a_takeover_wakes(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    ground.expired_owner().await?;
    let mut watch = ground.runs().watch();
    settle(&mut watch).await;
    ground.runs().takeover(Takeover { limit: 10 }).await?;
    woken(&mut watch, "a takeover").await;
    Ok(())
}

async fn a_commit_to_the_tables_wakes(ground: Ground) -> Kept {
    let other = ground.again().await;
    let (mut here, mut there) = (ground.tables().watch(), other.tables().watch());
    let write = Write::Put(At::new(TableId::INBOX, *b"k"), vec![]);
    ground
        .tables()
        .commit(vec![Batch {
            guards: vec![],
            writes: vec![write],
        }])
        .await?;
    woken(&mut here, "a commit here").await;
    woken(&mut there, "a commit elsewhere").await;
    Ok(())
}

async fn a_change_between_two_waits_is_not_missed(ground: Ground) -> Kept {
    let mut watch = ground.runs().watch();
    for _ in 0..5 {
        ground.admit_many(1).await?;
        woken(&mut watch, "what happened before the wait").await;
        settle(&mut watch).await;
    }
    Ok(())
}
