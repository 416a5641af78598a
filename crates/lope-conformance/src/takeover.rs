//! Promises of `takeover`: what a dead runner owned is worked on by another, and the dead one's
//! writes are refused for ever.

use lope_model::{Epoch, RunId, Timestamp};

use super::ground::{Ground, claim_of, fail, hold, release, rows, runs_of, sorted};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Admitted, CommitReply, Reach, RunCommit, RunnerRecord, SessionLost, TakenOver, Takeover,
    Wake,
};

promises![
    runs_of_an_expired_session_go_back,
    live_sessions_keep_their_runs,
    stale_epochs_are_refused,
    a_takeover_is_bounded_and_goes_on,
    a_session_is_ended_once,
    runs_that_nobody_owns_are_left_alone,
    runs_born_claimed_are_due_at_once,
    mail_to_a_dead_owner_is_not_lost,
    the_epoch_never_restarts,
];

async fn takeover(ground: &Ground, limit: usize) -> StoreResult<TakenOver> {
    ground.runs().takeover(Takeover { limit }).await
}

async fn runs_of_an_expired_session_go_back(ground: Ground) -> Kept {
    let runs = ground.admit_many(10).await?;
    let (dead, claimed) = ground.expired_owner().await?;
    assert_eq!(sorted(runs_of(&claimed)), sorted(runs.clone()));
    let heir = ground.runner().await?;
    assert!(
        ground.claim(heir).await?.runs.is_empty(),
        "before the takeover they are still the dead one's"
    );
    assert_eq!(
        takeover(&ground, 100).await?,
        TakenOver {
            ended: vec![dead],
            runs: 10,
            more: false
        }
    );
    for run in &runs {
        let record = ground.record(*run).await?;
        assert_eq!(record.owner, None);
        assert!(record.epoch > Epoch(1), "a higher epoch");
    }
    assert_eq!(
        sorted(runs_of(&ground.claim(heir).await?.runs)),
        sorted(runs),
        "due now"
    );
    let record = of(&ground, dead).await?;
    assert!(
        !record.live && record.ended_at.is_some() && record.owns == 0,
        "{record:?}"
    );
    Ok(())
}

async fn of(ground: &Ground, runner: lope_model::RunnerId) -> StoreResult<RunnerRecord> {
    let runners = ground.runs().runners(100).await?;
    Ok(runners
        .into_iter()
        .find(|record| record.runner == runner)
        .expect("a registered runner is listed"))
}

async fn live_sessions_keep_their_runs(ground: Ground) -> Kept {
    let (alive, run) = ground.owned_run().await?;
    let (dead, _) = ground.expired_owner().await?;
    assert_eq!(
        takeover(&ground, 100).await?,
        TakenOver {
            ended: vec![dead],
            runs: 0,
            more: false
        }
    );
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            ..hold(alive, &run)
        })
        .await?;
    assert!(ground.runs().heartbeat(alive).await?.is_ok());
    assert_eq!(takeover(&ground, 100).await?, TakenOver::default());
    Ok(())
}

async fn stale_epochs_are_refused(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    let (dead, claimed) = ground.expired_owner().await?;
    let stale = RunCommit {
        rows: rows(2, 2),
        ..hold(dead, &claimed[0])
    };
    let refused = |reply| matches!(reply, CommitReply::Lost { .. });
    takeover(&ground, 100).await?;
    assert!(
        refused(ground.reply(stale.clone()).await?),
        "after the takeover"
    );
    let heir = ground.runner().await?;
    let run = ground.claim(heir).await?.runs.remove(0);
    assert!(run.epoch > claimed[0].epoch);
    assert!(
        refused(ground.reply(stale.clone()).await?),
        "after the claim"
    );
    assert!(
        refused(
            ground
                .reply(RunCommit {
                    epoch: run.epoch,
                    ..stale.clone()
                })
                .await?
        ),
        "with a guessed epoch"
    );
    assert!(
        refused(
            ground
                .reply(RunCommit {
                    owner: heir,
                    ..stale.clone()
                })
                .await?
        ),
        "with a guessed owner"
    );
    ground
        .commit(RunCommit {
            rows: rows(2, 3),
            ..hold(heir, &run)
        })
        .await?;
    assert!(
        refused(
            ground
                .reply(RunCommit {
                    rows: rows(4, 4),
                    ..stale.clone()
                })
                .await?
        ),
        "after the heir's commit"
    );
    ground.commit(release(heir, &run, Wake::OnMail, 0)).await?;
    assert!(
        refused(ground.reply(stale).await?),
        "after the heir's release"
    );
    assert_eq!(ground.runs().journal(run.run, 0, 10).await?, rows(1, 3));
    assert_eq!(ground.runs().heartbeat(dead).await?, Err(SessionLost));
    assert_eq!(ground.runs().claim(claim_of(dead)).await?, Err(SessionLost));
    Ok(())
}

async fn a_takeover_is_bounded_and_goes_on(ground: Ground) -> Kept {
    let runs = ground.admit_many(25).await?;
    let (dead, _) = ground.expired_owner().await?;
    let (mut ended, mut back) = (Vec::new(), 0);
    for round in 0.. {
        assert!(round < 10, "a takeover that does not end");
        let taken = takeover(&ground, 10).await?;
        assert!(taken.runs <= 10);
        ended.extend(taken.ended);
        back += taken.runs;
        if !taken.more {
            break;
        }
    }
    assert_eq!((ended, back), (vec![dead], 25));
    let heir = ground.runner().await?;
    assert_eq!(
        sorted(runs_of(&ground.claim(heir).await?.runs)),
        sorted(runs)
    );
    Ok(())
}

async fn a_session_is_ended_once(ground: Ground) -> Kept {
    let (dead, _) = ground.expired_owner().await?;
    assert_eq!(takeover(&ground, 10).await?.ended, [dead]);
    assert_eq!(takeover(&ground, 10).await?, TakenOver::default());
    Ok(())
}

async fn runs_that_nobody_owns_are_left_alone(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let far = Timestamp::from_millis(4_000_000_000_000);
    ground
        .commit(release(owner, &run, Wake::At(far), 0))
        .await?;
    let before = ground.record(run.run).await?;
    ground.expired_owner().await?;
    takeover(&ground, 10).await?;
    assert_eq!(ground.record(run.run).await?, before);
    assert_eq!(before.due, Some(far));
    Ok(())
}

/// Born claimed with a due time far off, as a safety net: when the owner dies or gives it back, it
/// is due now.
async fn runs_born_claimed_are_due_at_once(ground: Ground) -> Kept {
    ground.deploy().await?;
    let born = |runner| Admit {
        due: Timestamp::NEVER,
        claimed_by: Some(runner),
        ..ground.admission()
    };
    let bear = |runner| {
        let admission = ground.runs().admit(vec![born(runner)]);
        async {
            Ok(matches!(admission.await?[0], Admitted::Created { owned: true, .. }).then_some(()))
        }
    };
    ground.expired_after(bear).await?;
    assert_eq!(takeover(&ground, 10).await?.runs, 1);
    let heir = ground.runner().await?;
    assert_eq!(ground.claim(heir).await?.runs.len(), 1, "after a takeover");
    let giver = ground.runner().await?;
    ground.admit(vec![born(giver)]).await?;
    assert_eq!(ground.runs().release(giver).await?, 1);
    assert_eq!(ground.claim(heir).await?.runs.len(), 1, "after a release");
    Ok(())
}

async fn mail_to_a_dead_owner_is_not_lost(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    let (_, claimed) = ground.expired_owner().await?;
    ground.deliver(claimed[0].run, "before").await?;
    takeover(&ground, 10).await?;
    ground.deliver(claimed[0].run, "after").await?;
    let heir = ground.runner().await?;
    let run = ground.claim(heir).await?.runs.remove(0);
    assert_eq!(run.mail, 2);
    let mail = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there")
        .mail;
    assert_eq!(
        mail.iter().map(|mail| mail.id.as_str()).collect::<Vec<_>>(),
        ["before", "after"]
    );
    Ok(())
}

/// Through claim, takeover, release by run and by runner, finish and reopening, the epoch only
/// grows.
async fn the_epoch_never_restarts(ground: Ground) -> Kept {
    let run: RunId = ground.admit_many(1).await?[0];
    let mut epochs = vec![ground.record(run).await?.epoch];
    let (_, claimed) = ground.expired_owner().await?;
    epochs.push(claimed[0].epoch);
    takeover(&ground, 10).await?;
    let runner = ground.runner().await?;
    for round in 0..3 {
        let claimed = ground.claim(runner).await?.runs.remove(0);
        epochs.push(claimed.epoch);
        ground.commit(fail(runner, &claimed)).await?;
        assert_eq!(ground.record(run).await?.epoch, claimed.epoch);
        ground
            .deliver_reaching(run, &format!("retry {round}"), Reach::Reopen)
            .await?;
    }
    let claimed = ground.claim(runner).await?.runs.remove(0);
    epochs.push(claimed.epoch);
    ground.runs().release(runner).await?;
    let other = ground.runner().await?;
    epochs.push(ground.claim(other).await?.runs.remove(0).epoch);
    assert!(
        epochs.windows(2).all(|pair| pair[0] < pair[1]),
        "{epochs:?}"
    );
    Ok(())
}
