//! Promises of `prune`: finished runs leave with all that belongs to them, a bounded number at a
//! time, and nothing else does.

use std::collections::BTreeSet;

use lope_model::{Digest, RunId, Span, Timestamp};

use super::ground::{Ground, fail, finish, hold, rows};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Admitted, Blob, Delivered, FinalStatus, Finish, Prune, Pruned, Reach, RunCommit,
    RunFilter, Snapshot, Then,
};

promises![
    a_pruned_run_is_not_found,
    live_runs_are_never_pruned,
    a_prune_is_bounded_and_goes_on,
    only_what_ended_before_is_pruned,
    only_the_endings_asked_for_are_pruned,
    only_the_workflow_asked_for_is_pruned,
];

fn everything() -> Prune {
    Prune {
        before: Timestamp::NEVER,
        statuses: vec![],
        workflow: None,
        limit: 100,
    }
}

/// How many are gone when a prune has come to its end.
async fn pruned(ground: &Ground, prune: Prune) -> StoreResult<usize> {
    let mut gone = 0;
    loop {
        let pruned = ground.runs().prune(prune.clone()).await?;
        gone += pruned.runs.len();
        if !pruned.more {
            return Ok(gone);
        }
    }
}

async fn left(ground: &Ground) -> StoreResult<Vec<RunId>> {
    let records = ground
        .runs()
        .list(RunFilter {
            limit: 100,
            ..RunFilter::default()
        })
        .await?;
    Ok(records.into_iter().map(|record| record.run).collect())
}

async fn ended(ground: &Ground, status: FinalStatus, workflow: &str) -> StoreResult<RunId> {
    let runner = ground.runner().await?;
    ground
        .admit(vec![Admit {
            workflow: workflow.to_owned(),
            ..ground.admission()
        }])
        .await?;
    let run = ground.claim(runner).await?.runs.remove(0);
    let finish = Finish {
        status,
        result: Some(vec![1]),
        error: None,
        seen: None,
    };
    ground
        .commit(RunCommit {
            then: Then::Finish(finish),
            ..hold(runner, &run)
        })
        .await?;
    Ok(run.run)
}

async fn a_pruned_run_is_not_found(ground: Ground) -> Kept {
    let tags = [("colour".to_owned(), "red".to_owned())].into();
    let admit = Admit {
        key: Some("key".to_owned()),
        tags,
        ..ground.admission()
    };
    ground.admit(vec![admit.clone()]).await?;
    let owner = ground.runner().await?;
    let run = ground.claim(owner).await?.runs.remove(0);
    ground.deliver(run.run, "mail").await?;
    let blob = Blob {
        digest: Digest::of(b"v"),
        bytes: b"v".to_vec(),
    };
    let snapshot = Some(Snapshot {
        seq: 2,
        law: 1,
        body: vec![],
    });
    let commit = RunCommit {
        rows: rows(2, 3),
        blobs: vec![blob.clone()],
        snapshot,
        ..finish(owner, &run, None)
    };
    ground.commit(commit).await?;
    assert_eq!(pruned(&ground, everything()).await?, 1);
    assert_eq!(ground.runs().run(run.run).await?, None);
    assert_eq!(ground.runs().load(&[run.run]).await?, [None]);
    assert_eq!(ground.runs().find_key("key").await?, None);
    assert!(ground.runs().journal(run.run, 0, 10).await?.is_empty());
    assert_eq!(ground.runs().blobs(run.run, &[blob.digest]).await?, [None]);
    assert!(left(&ground).await?.is_empty());
    assert_eq!(
        ground
            .deliver_reaching(run.run, "mail", Reach::Reopen)
            .await?,
        Delivered::Missing
    );
    nothing_is_remembered(&ground, admit).await
}

/// The id and the key of a pruned run are free.
async fn nothing_is_remembered(ground: &Ground, admit: Admit) -> Kept {
    let run = admit.run;
    let again = ground.runs().admit(vec![admit]).await?;
    assert!(
        matches!(again[0], Admitted::Created { .. }),
        "its id and key are free: {again:?}"
    );
    let loaded = ground
        .runs()
        .load(&[run])
        .await?
        .remove(0)
        .expect("admitted again");
    assert_eq!(
        (
            loaded.rows,
            loaded.snapshot,
            loaded.mail,
            loaded.record.mail
        ),
        (rows(1, 1), None, vec![], 0)
    );
    assert_eq!(
        ground.deliver(run, "mail").await?,
        Delivered::Accepted,
        "nothing of the first is remembered"
    );
    Ok(())
}

async fn live_runs_are_never_pruned(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.admit_many(2).await?;
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            ..fail(owner, &run)
        })
        .await?;
    ground
        .deliver_reaching(run.run, "retry", Reach::Reopen)
        .await?;
    assert_eq!(ground.runs().prune(everything()).await?, Pruned::default());
    assert_eq!(left(&ground).await?.len(), 3);
    Ok(())
}

async fn a_prune_is_bounded_and_goes_on(ground: Ground) -> Kept {
    ground.admit_many(25).await?;
    let runner = ground.runner().await?;
    let claimed = ground.claim(runner).await?.runs;
    ground
        .runs()
        .commit(
            claimed
                .iter()
                .map(|run| finish(runner, run, None))
                .collect(),
        )
        .await?;
    let (mut gone, mut more) = (BTreeSet::new(), true);
    while more {
        let pruned = ground
            .runs()
            .prune(Prune {
                limit: 10,
                ..everything()
            })
            .await?;
        assert!(pruned.runs.len() <= 10, "{pruned:?}");
        assert!(pruned.more || gone.len() + pruned.runs.len() == 25);
        for run in &pruned.runs {
            assert!(gone.insert(*run), "it is gone once");
            assert_eq!(ground.runs().run(*run).await?, None);
        }
        more = pruned.more;
    }
    let all: BTreeSet<RunId> = claimed.iter().map(|run| run.run).collect();
    assert_eq!(gone, all);
    assert!(left(&ground).await?.is_empty());
    Ok(())
}

async fn only_what_ended_before_is_pruned(ground: Ground) -> Kept {
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(ended(&ground, FinalStatus::Completed, "conformance").await?);
        ground.pass(Span::from_millis(3)).await;
    }
    let before = ground
        .record(runs[1])
        .await?
        .finished_at
        .expect("it has ended");
    assert_eq!(
        pruned(
            &ground,
            Prune {
                before,
                ..everything()
            }
        )
        .await?,
        1
    );
    assert_eq!(left(&ground).await?, [runs[2], runs[1]]);
    Ok(())
}

async fn only_the_endings_asked_for_are_pruned(ground: Ground) -> Kept {
    let completed = ended(&ground, FinalStatus::Completed, "conformance").await?;
    ended(&ground, FinalStatus::Failed, "conformance").await?;
    ended(&ground, FinalStatus::Cancelled, "conformance").await?;
    let statuses = vec![FinalStatus::Failed, FinalStatus::Cancelled];
    assert_eq!(
        pruned(
            &ground,
            Prune {
                statuses,
                ..everything()
            }
        )
        .await?,
        2
    );
    assert_eq!(left(&ground).await?, [completed]);
    Ok(())
}

async fn only_the_workflow_asked_for_is_pruned(ground: Ground) -> Kept {
    ended(&ground, FinalStatus::Completed, "one").await?;
    let two = ended(&ground, FinalStatus::Completed, "two").await?;
    let workflow = Some("one".to_owned());
    assert_eq!(
        pruned(
            &ground,
            Prune {
                workflow,
                ..everything()
            }
        )
        .await?,
        1
    );
    assert_eq!(left(&ground).await?, [two]);
    Ok(())
}
