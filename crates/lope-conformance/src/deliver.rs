//! Promises of `deliver`: mail arrives once, in order, and wakes the run whoever has it.

use lope_model::{RunId, Timestamp, limit};

use super::ground::{
    Ground, all_bytes, assert_refused, fail, finish, hold, mail_to, release, rows, run_id, runs_of,
};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, CommitReply, Deliver, Delivered, FinalStatus, Finish, LiveStatus, Mail, Reach,
    RunCommit, RunStatus, Then, Wake,
};

promises![
    mail_waits_in_order_of_arrival,
    mail_round_trips_byte_by_byte,
    mail_sent_twice_arrives_once,
    mail_is_remembered_after_it_was_taken,
    mail_to_nobody_is_told,
    answers_come_in_order,
    mail_wakes_a_sleeping_run,
    the_owner_is_told_of_its_mail,
    parked_runs_stay_parked_for_live_mail,
    unparking_mail_unparks,
    reopening_mail_brings_a_failed_run_back,
    reopening_mail_leaves_what_did_not_fail_as_it_is,
    a_late_retry_leaves_a_run_that_completed_since,
    a_retry_beside_a_finish_never_undoes_it,
    reopening_twice_with_one_id_happens_once,
    reopening_mail_reaches_a_live_run,
    too_much_mail_is_refused,
    unsound_mail_is_refused,
];

async fn mail_of(ground: &Ground, run: RunId) -> StoreResult<Vec<Mail>> {
    Ok(ground
        .runs()
        .load(&[run])
        .await?
        .remove(0)
        .expect("the run is there")
        .mail)
}

async fn mail_waits_in_order_of_arrival(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?[0];
    for id in ["z", "a", "m"] {
        assert_eq!(ground.deliver(run, id).await?, Delivered::Accepted);
    }
    let batch = ["y", "b"].map(|id| mail_to(run, id, Reach::Live)).to_vec();
    assert_eq!(
        ground.runs().deliver(batch).await?,
        [Delivered::Accepted; 2]
    );
    let mail = mail_of(&ground, run).await?;
    assert_eq!(
        mail.iter().map(|mail| mail.id.as_str()).collect::<Vec<_>>(),
        ["z", "a", "m", "y", "b"]
    );
    assert!(
        mail.windows(2)
            .all(|pair| pair[0].number < pair[1].number && pair[0].at <= pair[1].at)
    );
    assert_eq!(ground.record(run).await?.mail, 5);
    Ok(())
}

async fn mail_round_trips_byte_by_byte(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?[0];
    let mail = [
        ("empty", "signal", vec![]),
        ("é 'q' \"", "input ä", all_bytes()),
        ("large", "x", vec![3; 1_000_000]),
    ];
    for (id, kind, body) in &mail {
        let id = (*id).to_owned();
        let kind = (*kind).to_owned();
        let body = body.clone();
        let delivered = ground
            .runs()
            .deliver(vec![Deliver {
                run,
                id,
                kind,
                body,
                reach: Reach::Live,
                reserved: false,
            }])
            .await?;
        assert_eq!(delivered, [Delivered::Accepted]);
    }
    for (found, (id, kind, body)) in mail_of(&ground, run).await?.into_iter().zip(mail) {
        assert_eq!((found.id.as_str(), found.kind.as_str()), (id, kind));
        assert!(found.body == body);
    }
    Ok(())
}

async fn mail_sent_twice_arrives_once(ground: Ground) -> Kept {
    let (run, other) = (
        ground.admit_many(1).await?[0],
        ground.admit_many(1).await?[0],
    );
    assert_eq!(ground.deliver(run, "id").await?, Delivered::Accepted);
    assert_eq!(ground.deliver(run, "id").await?, Delivered::Duplicate);
    assert_eq!(
        ground.deliver(other, "id").await?,
        Delivered::Accepted,
        "ids are a run's own"
    );
    let twice = vec![
        mail_to(run, "both", Reach::Live),
        mail_to(run, "both", Reach::Live),
    ];
    assert_eq!(
        ground.runs().deliver(twice).await?,
        [Delivered::Accepted, Delivered::Duplicate]
    );
    assert_eq!(mail_of(&ground, run).await?.len(), 2);
    assert_eq!(ground.record(run).await?.mail, 2);
    Ok(())
}

async fn mail_is_remembered_after_it_was_taken(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "id").await?;
    let number = mail_of(&ground, run.run).await?[0].number;
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            taken: vec![number],
            ..hold(owner, &run)
        })
        .await?;
    assert_eq!(ground.deliver(run.run, "id").await?, Delivered::Duplicate);
    let again = ground
        .deliver_reaching(run.run, "second", Reach::Live)
        .await?;
    assert_eq!(again, Delivered::Accepted);
    let second = &mail_of(&ground, run.run).await?[0];
    assert!(second.number > number, "numbers are not used again");
    Ok(())
}

async fn mail_to_nobody_is_told(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.commit(finish(owner, &run, None)).await?;
    for reach in [Reach::Live, Reach::Unpark, Reach::Reopen] {
        assert_eq!(
            ground.deliver_reaching(run_id(), "id", reach).await?,
            Delivered::Missing
        );
    }
    for reach in [Reach::Live, Reach::Unpark] {
        assert_eq!(
            ground.deliver_reaching(run.run, "id", reach).await?,
            Delivered::Finished
        );
    }
    let record = ground.record(run.run).await?;
    assert_eq!(
        (record.mail, record.status),
        (0, RunStatus::Final(FinalStatus::Completed))
    );
    Ok(())
}

async fn answers_come_in_order(ground: Ground) -> Kept {
    let (owner, ended) = ground.owned_run().await?;
    ground.commit(finish(owner, &ended, None)).await?;
    let live = ground.admit_many(2).await?;
    let to = |run, id| mail_to(run, id, Reach::Live);
    let mail = vec![
        to(live[1], "a"),
        to(run_id(), "a"),
        to(live[0], "a"),
        to(ended.run, "a"),
        to(live[1], "a"),
    ];
    let expected = [
        Delivered::Accepted,
        Delivered::Missing,
        Delivered::Accepted,
        Delivered::Finished,
        Delivered::Duplicate,
    ];
    assert_eq!(ground.runs().deliver(mail).await?, expected);
    Ok(())
}

async fn mail_wakes_a_sleeping_run(ground: Ground) -> Kept {
    let far = Timestamp::from_millis(4_000_000_000_000);
    for wake in [Wake::At(far), Wake::OnMail] {
        let (owner, run) = ground.owned_run().await?;
        ground.commit(release(owner, &run, wake, 0)).await?;
        assert!(ground.claim(owner).await?.runs.is_empty());
        assert_eq!(ground.deliver(run.run, "wake").await?, Delivered::Accepted);
        let claimed = ground.claim(owner).await?.runs;
        assert_eq!((runs_of(&claimed), claimed[0].mail), (vec![run.run], 1));
    }
    Ok(())
}

async fn the_owner_is_told_of_its_mail(ground: Ground) -> Kept {
    let runs = ground.admit_many(4).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let unowned = ground.admit_many(1).await?[0];
    assert!(ground.runs().waiting(owner, 10).await?.is_empty());
    for (run, id) in [
        (runs[0], "a"),
        (runs[2], "b"),
        (runs[2], "c"),
        (unowned, "d"),
    ] {
        ground.deliver(run, id).await?;
    }
    let mut waiting = ground.runs().waiting(owner, 10).await?;
    waiting.sort_by_key(|(run, _)| *run);
    let of = |id: usize| {
        waiting
            .iter()
            .find(|(run, _)| *run == runs[id])
            .map(|(_, mail)| mail.clone())
    };
    assert_eq!(
        (waiting.len(), of(0), of(2)),
        (
            2,
            Some(mail_of(&ground, runs[0]).await?),
            Some(mail_of(&ground, runs[2]).await?)
        )
    );
    assert_eq!(ground.runs().waiting(owner, 1).await?.len(), 1);
    let second = claimed
        .iter()
        .find(|run| run.run == runs[2])
        .expect("claimed");
    let taken = of(2)
        .expect("waiting")
        .iter()
        .map(|mail| mail.number)
        .collect();
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            taken,
            ..hold(owner, second)
        })
        .await?;
    let waiting = ground.runs().waiting(owner, 10).await?;
    assert_eq!(
        waiting.iter().map(|(run, _)| *run).collect::<Vec<_>>(),
        [runs[0]]
    );
    let nobody = ground.runner().await?;
    assert!(ground.runs().waiting(nobody, 10).await?.is_empty());
    Ok(())
}

async fn parked(ground: &Ground) -> StoreResult<RunId> {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(release(owner, &run, Wake::Parked("paused".to_owned()), 0))
        .await?;
    Ok(run.run)
}

async fn parked_runs_stay_parked_for_live_mail(ground: Ground) -> Kept {
    let run = parked(&ground).await?;
    assert_eq!(ground.deliver(run, "mail").await?, Delivered::Accepted);
    let runner = ground.runner().await?;
    assert!(ground.claim(runner).await?.runs.is_empty());
    let record = ground.record(run).await?;
    assert_eq!((record.parked.as_deref(), record.mail), (Some("paused"), 1));
    assert_eq!(
        ground
            .deliver_reaching(run, "resume", Reach::Unpark)
            .await?,
        Delivered::Accepted
    );
    let claimed = ground.claim(runner).await?.runs;
    assert_eq!((runs_of(&claimed), claimed[0].mail), (vec![run], 2));
    assert_eq!(
        mail_of(&ground, run).await?.len(),
        2,
        "what came before waits too"
    );
    Ok(())
}

async fn unparking_mail_unparks(ground: Ground) -> Kept {
    for reach in [Reach::Unpark, Reach::Reopen] {
        let run = parked(&ground).await?;
        assert_eq!(
            ground.deliver_reaching(run, "resume", reach).await?,
            Delivered::Accepted
        );
        assert_eq!(ground.record(run).await?.parked, None);
        let runner = ground.runner().await?;
        assert_eq!(runs_of(&ground.claim(runner).await?.runs), [run]);
    }
    Ok(())
}

async fn reopening_mail_brings_a_failed_run_back(ground: Ground) -> Kept {
    let admit = Admit {
        key: Some("key".to_owned()),
        ..ground.admission()
    };
    ground.admit(vec![admit.clone()]).await?;
    let owner = ground.runner().await?;
    let run = ground.claim(owner).await?.runs.remove(0);
    ground.deliver(run.run, "dropped").await?;
    ground
        .commit(RunCommit {
            rows: rows(2, 3),
            ..fail(owner, &run)
        })
        .await?;
    assert_eq!(
        ground
            .deliver_reaching(run.run, "retry", Reach::Reopen)
            .await?,
        Delivered::Accepted
    );
    let record = ground.record(run.run).await?;
    assert_eq!(record.status, RunStatus::Live(LiveStatus::Queued));
    assert_eq!(
        (record.finished_at, &record.error, record.head),
        (None, &None, 3)
    );
    assert_eq!(ground.runs().find_key("key").await?, Some(run.run));
    let again = ground.claim(owner).await?.runs.remove(0);
    assert!(again.epoch > run.epoch, "the epoch never restarts");
    let loaded = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there");
    assert_eq!(loaded.rows, rows(1, 3));
    assert_eq!(
        loaded
            .mail
            .iter()
            .map(|mail| mail.id.as_str())
            .collect::<Vec<_>>(),
        ["retry"]
    );
    let stale = ground
        .reply(RunCommit {
            rows: rows(4, 4),
            ..hold(owner, &run)
        })
        .await?;
    assert!(matches!(stale, CommitReply::Lost { .. }), "{stale:?}");
    ground
        .commit(RunCommit {
            rows: rows(4, 4),
            ..finish(owner, &again, Some(again.mail))
        })
        .await?;
    assert_eq!(ground.record(run.run).await?.result, Some(b"done".to_vec()));
    Ok(())
}

async fn reopening_twice_with_one_id_happens_once(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.deliver(run.run, "before").await?;
    ground.commit(fail(owner, &run)).await?;
    assert_eq!(
        ground
            .deliver_reaching(run.run, "before", Reach::Reopen)
            .await?,
        Delivered::Duplicate
    );
    assert_eq!(
        ground
            .deliver_reaching(run.run, "retry", Reach::Reopen)
            .await?,
        Delivered::Accepted
    );
    let again = ground.claim(owner).await?.runs.remove(0);
    ground.commit(fail(owner, &again)).await?;
    assert_eq!(
        ground
            .deliver_reaching(run.run, "retry", Reach::Reopen)
            .await?,
        Delivered::Duplicate
    );
    assert_eq!(
        ground.record(run.run).await?.status,
        RunStatus::Final(FinalStatus::Failed)
    );
    Ok(())
}

async fn reopening_mail_leaves_what_did_not_fail_as_it_is(ground: Ground) -> Kept {
    for status in [FinalStatus::Completed, FinalStatus::Cancelled] {
        let (owner, run) = ground.owned_run().await?;
        let end = Finish {
            status,
            result: Some(b"done".to_vec()),
            error: None,
            seen: None,
        };
        ground
            .commit(RunCommit {
                then: Then::Finish(end),
                ..hold(owner, &run)
            })
            .await?;
        let before = ground.runs().load(&[run.run]).await?;
        let twice = ["retry", "another"].map(|id| mail_to(run.run, id, Reach::Reopen));
        assert_eq!(
            ground.runs().deliver(twice.to_vec()).await?,
            [Delivered::Finished; 2],
            "{status:?}"
        );
        assert_eq!(ground.runs().load(&[run.run]).await?, before);
        assert!(ground.claim(owner).await?.runs.is_empty(), "{status:?}");
    }
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    Ok(())
}

/// Two people see a run fail; the second retries it when the first one's retry has completed it.
async fn a_late_retry_leaves_a_run_that_completed_since(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.commit(fail(owner, &run)).await?;
    let retry = async |id| ground.deliver_reaching(run.run, id, Reach::Reopen).await;
    assert_eq!(retry("first").await?, Delivered::Accepted);
    let again = ground.claim(owner).await?.runs.remove(0);
    ground.commit(finish(owner, &again, None)).await?;
    let before = ground.record(run.run).await?;
    assert_eq!(retry("late").await?, Delivered::Finished);
    assert_eq!(ground.record(run.run).await?, before);
    assert_eq!(before.result, Some(b"done".to_vec()));
    assert!(ground.claim(owner).await?.runs.is_empty());
    Ok(())
}

async fn a_retry_beside_a_finish_never_undoes_it(ground: Ground) -> Kept {
    ground.admit_many(20).await?;
    let owner = ground.runner().await?;
    for (round, run) in ground.claim(owner).await?.runs.into_iter().enumerate() {
        let sender = ground.again_sometimes(round).await;
        let target = run.run;
        let retry = tokio::spawn(async move {
            sender
                .deliver_reaching(target, "retry", Reach::Reopen)
                .await
        });
        ground.commit(finish(owner, &run, None)).await?;
        let retried = retry.await.expect("delivering does not panic")?;
        assert!(
            matches!(retried, Delivered::Accepted | Delivered::Finished),
            "{retried:?}"
        );
        let record = ground.record(target).await?;
        assert_eq!(
            (record.status, record.result),
            (
                RunStatus::Final(FinalStatus::Completed),
                Some(b"done".to_vec())
            )
        );
    }
    assert!(ground.claim(owner).await?.runs.is_empty());
    Ok(())
}

async fn reopening_mail_reaches_a_live_run(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            ..hold(owner, &run)
        })
        .await?;
    assert_eq!(
        ground
            .deliver_reaching(run.run, "mail", Reach::Reopen)
            .await?,
        Delivered::Accepted
    );
    assert_eq!(
        ground
            .commit(RunCommit {
                rows: rows(3, 3),
                ..hold(owner, &run)
            })
            .await?,
        1,
        "its owner goes on"
    );
    Ok(())
}

async fn too_much_mail_is_refused(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?[0];
    let mail = |range: std::ops::Range<u64>| {
        range
            .map(|id| mail_to(run, &id.to_string(), Reach::Live))
            .collect()
    };
    let half = limit::MAIL_MAX / 2;
    for batch in [0..half, half..limit::MAIL_MAX - 1] {
        let delivered = ground.runs().deliver(mail(batch)).await?;
        assert!(
            delivered
                .iter()
                .all(|delivered| *delivered == Delivered::Accepted)
        );
    }
    let last = ground
        .runs()
        .deliver(mail(limit::MAIL_MAX - 1..limit::MAIL_MAX + 2))
        .await?;
    assert_eq!(
        last,
        [Delivered::Accepted, Delivered::Full, Delivered::Full]
    );
    assert_eq!(ground.record(run).await?.mail, limit::MAIL_MAX);
    // What steers the run has room of its own, also in one call with what has none.
    let steering = |id: &str, reach| Deliver {
        reserved: true,
        ..mail_to(run, id, reach)
    };
    let mixed = vec![
        mail_to(run, "one more", Reach::Live),
        steering("cancel", Reach::Unpark),
        mail_to(run, "and another", Reach::Live),
        steering("child", Reach::Live),
    ];
    assert_eq!(
        ground.runs().deliver(mixed).await?,
        [
            Delivered::Full,
            Delivered::Accepted,
            Delivered::Full,
            Delivered::Accepted
        ]
    );
    let waiting = mail_of(&ground, run).await?;
    let numbers = waiting.iter().map(|mail| mail.number);
    assert!(
        numbers.eq(1..=limit::MAIL_MAX + 2),
        "numbers have no gaps, though some were refused"
    );
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs.remove(0);
    let numbers = mail_of(&ground, run).await?;
    let taken = numbers.iter().take(3).map(|mail| mail.number).collect();
    ground
        .commit(RunCommit {
            taken,
            ..hold(owner, &claimed)
        })
        .await?;
    assert_eq!(
        ground.deliver(run, "room again").await?,
        Delivered::Accepted
    );
    assert_eq!(ground.deliver(run, "no room").await?, Delivered::Full);
    Ok(())
}

async fn unsound_mail_is_refused(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?[0];
    let sound = mail_to(run, "id", Reach::Live);
    let unsound = [
        Deliver {
            id: "zero\0byte".to_owned(),
            ..sound.clone()
        },
        Deliver {
            id: "i".repeat(limit::KEY_MAX + 1),
            ..sound.clone()
        },
        Deliver {
            kind: String::new(),
            ..sound.clone()
        },
        Deliver {
            body: vec![0; limit::PAYLOAD_MAX + 1],
            ..sound.clone()
        },
    ];
    for mail in unsound {
        assert_refused(ground.runs().deliver(vec![sound.clone(), mail]).await);
    }
    assert!(mail_of(&ground, run).await?.is_empty());
    Ok(())
}
