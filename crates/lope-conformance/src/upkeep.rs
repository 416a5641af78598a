//! Promises of upkeep: a store that was worked with is sound, and one that was closed lets go.

use super::ground::{Ground, fail, hold, mail_to, release, rows, run_id};
use super::promise::{Kept, promises};
use lope_store::error::StoreError;
use lope_store::runs::{CommitReply, Reach, RunCommit, Takeover, Wake};
use lope_store::tables::marker::{Bootstrap, SchemaVersion, ensure};
use lope_store::tables::{Range, TableId};

promises![
    a_store_that_was_worked_with_is_sound,
    a_closed_store_answers_closed,
    closing_one_handle_leaves_the_others,
    what_was_written_is_there_after_closing,
    a_description_has_no_secrets,
    all_handles_read_one_clock,
    a_run_is_removed_whole_unless_it_is_owned,
    a_run_whose_owner_lives_no_more_is_removed,
];

async fn a_store_that_was_worked_with_is_sound(ground: Ground) -> Kept {
    ensure(ground.tables(), SchemaVersion::CURRENT, Bootstrap::Create)
        .await
        .expect("the marker is written");
    ground.admit_many(5).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let commits = vec![
        RunCommit {
            rows: rows(2, 9),
            ..hold(owner, &claimed[0])
        },
        RunCommit {
            rows: rows(2, 3),
            ..release(owner, &claimed[1], Wake::OnMail, 0)
        },
        release(owner, &claimed[2], Wake::Parked("limit".to_owned()), 0),
        fail(owner, &claimed[3]),
    ];
    ground.runs().commit(commits).await?;
    ground
        .deliver_reaching(claimed[3].run, "retry", Reach::Reopen)
        .await?;
    ground
        .runs()
        .deliver(vec![
            mail_to(claimed[1].run, "a", Reach::Live),
            mail_to(run_id(), "b", Reach::Live),
        ])
        .await?;
    ground.expired_owner().await?;
    ground.runs().takeover(Takeover { limit: 10 }).await?;
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    Ok(())
}

async fn a_closed_store_answers_closed(ground: Ground) -> Kept {
    ground.store.upkeep.close().await?;
    let answers = [
        ground
            .runs()
            .admit(vec![ground.admission()])
            .await
            .map(drop),
        ground.runs().counts().await.map(drop),
        ground
            .tables()
            .count(Range::whole(TableId::INBOX))
            .await
            .map(drop),
        ground.tables().manifest().await.map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
    Ok(())
}

async fn closing_one_handle_leaves_the_others(ground: Ground) -> Kept {
    let other = ground.again().await;
    let run = ground.admit_many(1).await?[0];
    ground.store.upkeep.close().await?;
    assert_eq!(other.record(run).await?.head, 1);
    other.admit_many(1).await?;
    Ok(())
}

async fn what_was_written_is_there_after_closing(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(RunCommit {
            rows: rows(2, 50),
            ..hold(owner, &run)
        })
        .await?;
    let before = ground.runs().load(&[run.run]).await?;
    ground.store.upkeep.close().await?;
    let again = ground.again().await;
    assert_eq!(again.runs().load(&[run.run]).await?, before);
    Ok(())
}

async fn all_handles_read_one_clock(ground: Ground) -> Kept {
    let first = ground.store.upkeep.reading().await?;
    let second = ground.again().await.store.upkeep.reading().await?;
    let third = ground.store.upkeep.reading().await?;
    assert!(
        first.moment <= second.moment && second.moment <= third.moment,
        "{first:?} {second:?} {third:?}"
    );
    assert!(first.now > lope_model::Timestamp::EPOCH, "{first:?}");
    Ok(())
}

async fn a_description_has_no_secrets(ground: Ground) -> Kept {
    let text = ground.store.upkeep.describe();
    assert!(text.contains(':'), "a scheme and a place: {text}");
    assert!(!text.contains("password"), "{text}");
    Ok(())
}

/// Also one that waits for mail and has some; whoever is owned stays.
async fn a_run_is_removed_whole_unless_it_is_owned(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "mail").await?;
    let upkeep = &ground.store.upkeep;
    let refused = upkeep.remove_run(run.run).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    let parked = release(owner, &run, Wake::Parked("damaged".to_owned()), 1);
    ground.commit(parked).await?;
    assert!(upkeep.remove_run(run.run).await?);
    assert!(ground.runs().run(run.run).await?.is_none());
    assert_eq!(ground.runs().journal(run.run, 0, 10).await?, vec![]);
    assert!(!upkeep.remove_run(run.run).await?, "it is gone");
    assert_eq!(upkeep.check().await?, vec![]);
    Ok(())
}

/// Expired, and nobody has put its runs back; what it still writes meets no run.
async fn a_run_whose_owner_lives_no_more_is_removed(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    let (dead, claimed) = ground.expired_owner().await?;
    let run = &claimed[0];
    let record = ground.runs().run(run.run).await?;
    assert_eq!(record.and_then(|record| record.owner), Some(dead));
    let upkeep = &ground.store.upkeep;
    assert!(upkeep.remove_run(run.run).await?);
    assert!(ground.runs().run(run.run).await?.is_none());
    let late = ground.reply(hold(dead, run)).await?;
    assert_eq!(late, CommitReply::Missing);
    assert!(!upkeep.remove_run(run.run).await?, "it is gone");
    ground.runs().takeover(Takeover { limit: 10 }).await?;
    assert_eq!(upkeep.check().await?, vec![]);
    Ok(())
}
