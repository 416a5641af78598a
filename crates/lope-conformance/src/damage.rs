//! Promises about what happens behind a store's back: damage stays where it is, and a store that is
//! gone says so. A store that lives in its process alone cannot be reached that way: for it they are left
//! out, and the report says so.

use super::ground::Ground;
use super::promise::{Kept, promises};
use lope_store::error::StoreError;
use lope_store::runs::RunFilter;

pub(crate) const MODULE: &str = module_path!();

promises![
    a_damaged_run_is_set_aside_and_its_neighbours_do_not_notice,
    a_store_that_was_taken_away_says_so_and_takes_nothing,
];

async fn a_damaged_run_is_set_aside_and_its_neighbours_do_not_notice(ground: Ground) -> Kept {
    let runs = ground.admit_many(20).await?;
    let damaged = runs[7];
    ground.site().damage(damaged).await;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    assert_eq!(claimed.len(), 19);
    assert!(claimed.iter().all(|run| run.run != damaged));
    assert!(
        ground.claim(owner).await?.runs.is_empty(),
        "it is set aside"
    );
    let all = RunFilter {
        limit: 100,
        ..RunFilter::default()
    };
    assert_eq!(ground.runs().list(all).await?.len(), 19);
    assert_eq!(ground.runs().listed(&runs).await?.len(), 19);
    ground.runs().counts().await?;
    let found = ground.store.upkeep.check().await?;
    let hex = |text: &str| {
        text.replace('-', "")
            .contains(&damaged.to_string().replace('-', ""))
    };
    assert!(
        found
            .iter()
            .any(|finding| hex(&finding.message) && finding.hint.contains("remove-run")),
        "it is named, with what mends it: {found:?}"
    );
    assert!(ground.store.upkeep.remove_run(damaged).await?);
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    Ok(())
}

async fn a_store_that_was_taken_away_says_so_and_takes_nothing(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    let owner = ground.runner().await?;
    ground.site().take_away().await;
    let admitted = ground.runs().admit(vec![ground.admission()]).await;
    assert!(
        matches!(admitted, Err(StoreError::Missing { .. })),
        "{admitted:?}"
    );
    let beaten = ground.runs().heartbeat(owner).await;
    assert!(
        matches!(beaten, Err(StoreError::Missing { .. })),
        "a runner hears of it with its next heartbeat: {beaten:?}"
    );
    Ok(())
}
