//! Promises of releasing: a run goes back to the queue and is claimed again when it should be,
//! never later.

use lope_model::{Span, Timestamp};

use super::ground::{Ground, claim_of, fail, hold, release, rows, runner_id, runs_of, sorted};
use super::promise::{Kept, promises};
use lope_store::runs::{Admit, CommitReply, Delivered, Reach, RunCommit, SessionLost, Wake};

promises![
    a_run_released_for_now_is_claimed_again,
    a_run_released_until_a_time_waits_for_it,
    a_run_released_on_mail_waits_for_it,
    the_last_commit_and_the_release_are_one,
    after_a_release_the_owner_is_lost,
    mail_before_the_release_wakes_the_run,
    mail_after_the_release_wakes_the_run,
    mail_known_at_the_release_does_not_wake_it,
    unseen_mail_prevents_parking,
    whoever_parks_a_run_whatever_its_mail_parks_it,
    a_runner_gives_back_all_it_owns,
    giving_back_leaves_others_alone,
    a_stranger_gives_back_nothing,
    a_run_starts_when_it_is_first_claimed,
];

/// Until the store's clock shows a later time; a clock that is moved by hand stands still.
async fn pass(ground: &Ground, time: Option<Timestamp>) -> Kept {
    let registration = || super::ground::registration(Span::from_secs(60));
    for _ in 0..1_000 {
        if Some(ground.runs().register(registration()).await?.now) > time {
            break;
        }
    }
    Ok(())
}

/// It is not a start when it is claimed again, or goes on after its end.
async fn a_run_starts_when_it_is_first_claimed(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?.remove(0);
    let waiting = ground.record(run).await?;
    assert_eq!(waiting.started_at, None);
    pass(&ground, Some(waiting.created_at)).await?;
    let owner = ground.runner().await?;
    let first = ground.claim(owner).await?.runs.remove(0);
    let started = ground.record(run).await?.started_at;
    assert!(started >= Some(waiting.created_at), "{started:?}");
    ground
        .commit(release(owner, &first, Wake::At(Timestamp::EPOCH), 0))
        .await?;
    pass(&ground, started).await?;
    let second = ground.claim(owner).await?.runs.remove(0);
    assert_eq!(ground.record(run).await?.started_at, started);
    ground.commit(fail(owner, &second)).await?;
    assert_eq!(ground.record(run).await?.started_at, started);
    ground.deliver_reaching(run, "retry", Reach::Reopen).await?;
    assert_eq!(ground.claim(owner).await?.runs.len(), 1);
    assert_eq!(ground.record(run).await?.started_at, started);
    let born = Admit {
        claimed_by: Some(owner),
        ..ground.admission()
    };
    let born = ground.admit(vec![born]).await?.remove(0);
    let born = ground.record(born).await?;
    assert_eq!(born.started_at, Some(born.created_at));
    Ok(())
}

async fn a_run_released_for_now_is_claimed_again(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(release(owner, &run, Wake::At(Timestamp::EPOCH), 0))
        .await?;
    let other = ground.runner().await?;
    let claimed = ground.claim(other).await?.runs;
    assert_eq!(runs_of(&claimed), [run.run]);
    assert!(claimed[0].epoch > run.epoch);
    Ok(())
}

async fn a_run_released_until_a_time_waits_for_it(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let due = ground.claim(owner).await?.now.plus(Span::from_millis(50));
    ground
        .commit(release(owner, &run, Wake::At(due), 0))
        .await?;
    let claimed = ground
        .until(|| async {
            let claimed = ground.claim(owner).await?;
            let next = claimed.next_due;
            assert!(
                !claimed.runs.is_empty() || next.is_some_and(|next| next <= due),
                "{next:?} is after {due}"
            );
            Ok((!claimed.runs.is_empty()).then_some(claimed))
        })
        .await?;
    assert!(
        claimed.now >= due,
        "claimed at {} before {due}",
        claimed.now
    );
    Ok(())
}

async fn a_run_released_on_mail_waits_for_it(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.commit(release(owner, &run, Wake::OnMail, 0)).await?;
    let claimed = ground.claim(owner).await?;
    assert_eq!((claimed.runs.len(), claimed.next_due), (0, None));
    ground.deliver(run.run, "mail").await?;
    assert_eq!(ground.claim(owner).await?.runs.len(), 1);
    Ok(())
}

async fn the_last_commit_and_the_release_are_one(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let gap = RunCommit {
        rows: rows(5, 5),
        ..release(owner, &run, Wake::OnMail, 0)
    };
    assert_eq!(ground.reply(gap).await?, CommitReply::Gap { head: 1 });
    assert_eq!(
        ground.record(run.run).await?.owner,
        Some(owner),
        "a refused commit releases nothing"
    );
    ground
        .commit(RunCommit {
            rows: rows(2, 5),
            ..release(owner, &run, Wake::OnMail, 0)
        })
        .await?;
    let record = ground.record(run.run).await?;
    assert_eq!((record.owner, record.head), (None, 5));
    Ok(())
}

async fn after_a_release_the_owner_is_lost(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.commit(release(owner, &run, Wake::OnMail, 0)).await?;
    let reply = ground
        .reply(RunCommit {
            rows: rows(2, 2),
            ..hold(owner, &run)
        })
        .await?;
    assert!(
        matches!(reply, CommitReply::Lost { owner: None, .. }),
        "{reply:?}"
    );
    assert_eq!(ground.record(run.run).await?.head, 1);
    Ok(())
}

async fn mail_before_the_release_wakes_the_run(ground: Ground) -> Kept {
    let far = Timestamp::from_millis(4_000_000_000_000);
    for wake in [Wake::At(far), Wake::OnMail] {
        let (owner, run) = ground.owned_run().await?;
        ground.deliver(run.run, "mail").await?;
        assert_eq!(
            ground.commit(release(owner, &run, wake.clone(), 0)).await?,
            1,
            "the owner is told"
        );
        assert_eq!(
            runs_of(&ground.claim(owner).await?.runs),
            [run.run],
            "{wake:?}"
        );
    }
    Ok(())
}

async fn mail_after_the_release_wakes_the_run(ground: Ground) -> Kept {
    let far = Timestamp::from_millis(4_000_000_000_000);
    for wake in [Wake::At(far), Wake::OnMail] {
        let (owner, run) = ground.owned_run().await?;
        ground.commit(release(owner, &run, wake.clone(), 0)).await?;
        ground.deliver(run.run, "mail").await?;
        assert_eq!(
            runs_of(&ground.claim(owner).await?.runs),
            [run.run],
            "{wake:?}"
        );
    }
    Ok(())
}

async fn mail_known_at_the_release_does_not_wake_it(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "known").await?;
    ground.commit(release(owner, &run, Wake::OnMail, 1)).await?;
    assert!(ground.claim(owner).await?.runs.is_empty());
    ground.deliver(run.run, "fresh").await?;
    assert_eq!(ground.claim(owner).await?.runs.len(), 1);
    Ok(())
}

async fn unseen_mail_prevents_parking(ground: Ground) -> Kept {
    for reach in [Reach::Live, Reach::Unpark] {
        let (owner, run) = ground.owned_run().await?;
        assert_eq!(
            ground.deliver_reaching(run.run, "resume", reach).await?,
            Delivered::Accepted
        );
        ground
            .commit(release(owner, &run, Wake::Parked("paused".to_owned()), 0))
            .await?;
        assert_eq!(ground.record(run.run).await?.parked, None);
        let again = ground.claim(owner).await?.runs.remove(0);
        ground
            .commit(release(owner, &again, Wake::Parked("paused".to_owned()), 1))
            .await?;
        assert!(
            ground.claim(owner).await?.runs.is_empty(),
            "known mail does not"
        );
    }
    Ok(())
}

/// A runner that sets a run aside does not know its mail, and says that it has seen all there is.
async fn whoever_parks_a_run_whatever_its_mail_parks_it(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "unread").await?;
    let parked = Wake::Parked("set aside".to_owned());
    ground
        .commit(release(owner, &run, parked, u64::MAX))
        .await?;
    let record = ground.record(run.run).await?;
    assert_eq!(record.parked.as_deref(), Some("set aside"));
    assert!(ground.claim(owner).await?.runs.is_empty());
    Ok(())
}

async fn a_runner_gives_back_all_it_owns(ground: Ground) -> Kept {
    let runs = ground.admit_many(25).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            ..hold(owner, &claimed[0])
        })
        .await?;
    assert_eq!(ground.runs().release(owner).await?, 25);
    assert_eq!(ground.runs().heartbeat(owner).await?, Err(SessionLost));
    assert_eq!(
        ground.runs().claim(claim_of(owner)).await?,
        Err(SessionLost)
    );
    assert!(ground.runs().owned(owner, None, 100).await?.is_empty());
    let reply = ground
        .reply(RunCommit {
            rows: rows(3, 3),
            ..hold(owner, &claimed[0])
        })
        .await?;
    assert!(matches!(reply, CommitReply::Lost { .. }), "{reply:?}");
    let other = ground.runner().await?;
    let again = ground.claim(other).await?.runs;
    assert_eq!(sorted(runs_of(&again)), sorted(runs), "due now");
    let epoch_of = |run| {
        claimed
            .iter()
            .find(|before| before.run == run)
            .map(|before| before.epoch)
    };
    assert!(again.iter().all(|run| Some(run.epoch) > epoch_of(run.run)));
    assert_eq!(
        ground.runs().release(owner).await?,
        0,
        "a second time there is nothing"
    );
    Ok(())
}

async fn giving_back_leaves_others_alone(ground: Ground) -> Kept {
    let (stays, run) = ground.owned_run().await?;
    let (goes, _) = ground.owned_run().await?;
    assert_eq!(ground.runs().release(goes).await?, 1);
    assert_eq!(
        runs_of(&ground.runs().owned(stays, None, 10).await?),
        [run.run]
    );
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            ..hold(stays, &run)
        })
        .await?;
    assert!(ground.runs().heartbeat(stays).await?.is_ok());
    Ok(())
}

async fn a_stranger_gives_back_nothing(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    assert_eq!(ground.runs().release(runner_id()).await?, 0);
    assert_eq!(
        runs_of(&ground.runs().owned(owner, None, 10).await?),
        [run.run]
    );
    Ok(())
}
