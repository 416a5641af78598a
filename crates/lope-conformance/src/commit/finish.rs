//! Promises of `commit` at a run's end: the record stays, and no mail is overlooked.

use crate::ground::{Ground, all_bytes, finish, hold, rows};
use crate::promise::{Kept, promises};
use lope_store::runs::{CommitReply, FinalStatus, Finish, RunCommit, RunStatus, Then};

promises![
    a_finished_run_keeps_its_record,
    a_finish_does_not_overlook_mail,
    a_finish_may_ignore_mail,
];

async fn a_finished_run_keeps_its_record(ground: Ground) -> Kept {
    let endings = [
        (FinalStatus::Completed, Some(all_bytes()), None),
        (FinalStatus::Failed, None, Some(b"error".to_vec())),
        (FinalStatus::Cancelled, Some(vec![]), Some(vec![])),
    ];
    for (status, result, error) in endings {
        let (owner, run) = ground.owned_run().await?;
        ground.deliver(run.run, "unread").await?;
        let finish = Finish {
            status,
            result: result.clone(),
            error: error.clone(),
            seen: None,
        };
        ground
            .commit(RunCommit {
                rows: rows(2, 4),
                then: Then::Finish(finish),
                ..hold(owner, &run)
            })
            .await?;
        let record = ground.record(run.run).await?;
        assert_eq!(
            (record.status, &record.result, &record.error),
            (RunStatus::Final(status), &result, &error)
        );
        assert_eq!(
            (record.head, record.owner, record.due, &record.parked),
            (4, None, None, &None)
        );
        assert!(record.started_at.is_some_and(|at| at >= record.created_at));
        assert!(
            record
                .finished_at
                .is_some_and(|at| Some(at) >= record.started_at)
        );
        assert_eq!((record.epoch, record.mail), (run.epoch, 1));
        let loaded = ground
            .runs()
            .load(&[run.run])
            .await?
            .remove(0)
            .expect("the run is there");
        assert_eq!(
            (loaded.record, loaded.rows, loaded.mail),
            (record, rows(1, 4), vec![])
        );
        assert!(ground.runs().owned(owner, None, 10).await?.is_empty());
        assert!(ground.claim(owner).await?.runs.is_empty());
    }
    Ok(())
}

async fn a_finish_does_not_overlook_mail(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "early").await?;
    let commit = |seen| RunCommit {
        rows: rows(2, 2),
        ..finish(owner, &run, Some(seen))
    };
    assert_eq!(
        ground.reply(commit(0)).await?,
        CommitReply::Mail { mail: 1 }
    );
    assert_eq!(ground.record(run.run).await?.head, 1);
    ground.deliver(run.run, "late").await?;
    assert_eq!(
        ground.reply(commit(1)).await?,
        CommitReply::Mail { mail: 2 }
    );
    assert_eq!(ground.commit(commit(2)).await?, 2);
    assert_eq!(
        ground.record(run.run).await?.status,
        RunStatus::Final(FinalStatus::Completed)
    );
    Ok(())
}

async fn a_finish_may_ignore_mail(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "mail").await?;
    ground.commit(finish(owner, &run, None)).await?;
    assert_eq!(
        ground.record(run.run).await?.status,
        RunStatus::Final(FinalStatus::Completed)
    );
    Ok(())
}
