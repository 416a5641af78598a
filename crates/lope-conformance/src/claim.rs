//! Promises of `claim`: due runs go to one runner, in order, as many as it can carry, only those
//! that it can serve.

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp};

use super::ground::{Ground, claim_of, mail_to, release, run_id, runner_id, runs_of, sorted};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Claim, Claimed, ClaimedRun, LiveStatus, Reach, RunStatus, SessionLost, Wake,
};

promises![
    a_claim_tells_what_it_took,
    a_claimed_run_is_not_claimed_again,
    higher_priority_goes_first,
    earlier_due_goes_first,
    order_goes_across_queues_and_realms,
    what_is_due_later_stays_until_then,
    a_claim_takes_no_more_than_its_limit,
    a_claim_takes_no_more_than_its_weight,
    the_first_run_is_taken_whatever_it_weighs,
    only_queues_asked_for_are_claimed,
    only_realms_served_are_claimed,
    runs_of_a_later_law_stay,
    the_next_due_time_is_never_late,
    no_next_due_time_while_more_is_due,
    parked_runs_are_not_claimed,
    a_lost_session_claims_nothing,
    the_epoch_grows_with_every_claim,
    runs_are_claimed_by_name,
    no_more_runs_of_a_queue_are_owned_than_may_be,
];

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).expect("a good name")
}

fn realm(name: &str) -> Realm {
    Realm::parse(name).expect("a good name")
}

fn level(level: i64) -> Priority {
    Priority::new(level).expect("a good priority")
}

async fn take(ground: &Ground, claim: Claim) -> StoreResult<Claimed> {
    Ok(ground
        .runs()
        .claim(claim)
        .await?
        .expect("the session is held"))
}

async fn now(ground: &Ground) -> StoreResult<(RunnerId, Timestamp)> {
    let runner = ground.runner().await?;
    Ok((runner, ground.claim(runner).await?.now))
}

async fn runs_are_claimed_by_name(ground: Ground) -> Kept {
    let runner = ground.runner().await?;
    let ids = ground.admit_many(4).await?;
    let elsewhere = Admit {
        queue: queue("q"),
        realm: realm("r"),
        ..ground.admission()
    };
    let later = ground.claim(runner).await?.now;
    ground.runs().release(runner).await?;
    let runner = ground.runner().await?;
    let later = Admit {
        due: later.plus(Span::from_secs(3_600)),
        ..ground.admission()
    };
    ground.admit(vec![elsewhere.clone(), later.clone()]).await?;
    let only = |only: Vec<RunId>| Claim {
        only,
        ..claim_of(runner)
    };
    let claimed = take(
        &ground,
        only(vec![later.run, elsewhere.run, ids[1], run_id(), ids[1]]),
    )
    .await?;
    assert_eq!(runs_of(&claimed.runs), sorted([elsewhere.run, ids[1]]));
    assert_eq!(claimed.next_due, Some(later.due));
    let again = take(&ground, only(vec![ids[1], ids[2], ids[3]])).await?;
    assert_eq!(runs_of(&again.runs), sorted([ids[2], ids[3]]));
    assert!(again.runs.iter().all(|run| run.epoch > Epoch(0)));
    let limited = take(
        &ground,
        Claim {
            limit: 0,
            ..only(vec![ids[0]])
        },
    )
    .await?;
    assert!(limited.runs.is_empty());
    assert_eq!(
        runs_of(&take(&ground, claim_of(runner)).await?.runs),
        [ids[0]],
        "what was not named stays"
    );
    Ok(())
}

async fn a_claim_tells_what_it_took(ground: Ground) -> Kept {
    let admit = Admit {
        queue: queue("q"),
        realm: realm("r"),
        priority: level(7),
        law: 3,
        weight: 12_345,
        ..ground.admission()
    };
    ground.admit(vec![admit.clone()]).await?;
    ground
        .runs()
        .deliver(vec![
            mail_to(admit.run, "a", Reach::Live),
            mail_to(admit.run, "b", Reach::Live),
        ])
        .await?;
    let due = ground
        .record(admit.run)
        .await?
        .due
        .expect("a live run is due");
    let runner = ground.runner().await?;
    let claim = Claim {
        queues: vec![admit.queue.clone()],
        realms: vec![admit.realm.clone()],
        law: 3,
        ..claim_of(runner)
    };
    let claimed = take(&ground, claim).await?;
    let expected = ClaimedRun {
        run: admit.run,
        epoch: Epoch(1),
        version: admit.version,
        queue: admit.queue,
        priority: admit.priority,
        realm: admit.realm,
        law: 3,
        weight: 12_345,
        mail: 2,
        due,
    };
    assert_eq!(claimed.runs, vec![expected.clone()]);
    assert_eq!(ground.runs().owned(runner, None, 10).await?, [expected]);
    let record = ground.record(admit.run).await?;
    assert_eq!((record.owner, record.epoch), (Some(runner), Epoch(1)));
    assert_eq!(record.status, RunStatus::Live(LiveStatus::Running));
    Ok(())
}

async fn a_claimed_run_is_not_claimed_again(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let other = ground.runner().await?;
    assert!(ground.claim(other).await?.runs.is_empty());
    assert!(
        ground.claim(owner).await?.runs.is_empty(),
        "not even by its owner"
    );
    ground.deliver(run.run, "mail").await?;
    assert!(
        ground.claim(other).await?.runs.is_empty(),
        "mail does not take it from its owner"
    );
    Ok(())
}

async fn higher_priority_goes_first(ground: Ground) -> Kept {
    let of = |level_of| Admit {
        priority: level(level_of),
        ..ground.admission()
    };
    ground.admit([4, 0, 9, 5, 4].map(of).to_vec()).await?;
    let runner = ground.runner().await?;
    let claimed = ground.claim(runner).await?.runs;
    let levels: Vec<u8> = claimed.iter().map(|run| run.priority.level()).collect();
    assert_eq!(levels, [9, 5, 4, 4, 0]);
    Ok(())
}

async fn earlier_due_goes_first(ground: Ground) -> Kept {
    let (runner, now) = now(&ground).await?;
    let after = |millis| Admit {
        due: now.plus(Span::from_millis(millis)),
        ..ground.admission()
    };
    // Far enough ahead that none is due before it is admitted, on a clock that does not wait.
    let admits = [2_900, 2_300, 2_600, 3_200].map(after).to_vec();
    let runs = ground.admit(admits.clone()).await?;
    let last = admits[3].due;
    ground.until(|| is_past(&ground, last)).await?;
    let claimed = runs_of(&ground.claim(runner).await?.runs);
    assert_eq!(claimed, [runs[1], runs[2], runs[0], runs[3]]);
    Ok(())
}

/// Asks the store's clock through a claim that can take nothing.
async fn is_past(ground: &Ground, time: Timestamp) -> StoreResult<Option<()>> {
    let runner = ground.runner().await?;
    let claimed = take(
        ground,
        Claim {
            queues: vec![queue("nothing here")],
            ..claim_of(runner)
        },
    )
    .await?;
    Ok((claimed.now >= time).then_some(()))
}

async fn order_goes_across_queues_and_realms(ground: Ground) -> Kept {
    let of = |q: &str, r: &str, level_of, law| Admit {
        queue: queue(q),
        realm: realm(r),
        priority: level(level_of),
        law,
        ..ground.admission()
    };
    ground
        .admit(vec![
            of("a", "x", 1, 1),
            of("b", "x", 9, 2),
            of("a", "y", 5, 1),
            of("b", "y", 7, 1),
        ])
        .await?;
    let runner = ground.runner().await?;
    let claim = Claim {
        queues: vec![queue("a"), queue("b"), queue("a")],
        realms: vec![realm("x"), realm("y"), realm("x")],
        law: 2,
        limit: 3,
        ..claim_of(runner)
    };
    let levels = |claimed: Claimed| {
        claimed
            .runs
            .iter()
            .map(|run| run.priority.level())
            .collect::<Vec<_>>()
    };
    assert_eq!(levels(take(&ground, claim.clone()).await?), [9, 7, 5]);
    assert_eq!(levels(take(&ground, claim).await?), [1]);
    Ok(())
}

async fn what_is_due_later_stays_until_then(ground: Ground) -> Kept {
    let (runner, now) = now(&ground).await?;
    let later = Admit {
        due: now.plus(Span::from_secs(3_600)),
        ..ground.admission()
    };
    let soon = Admit {
        due: now.plus(Span::from_millis(50)),
        ..ground.admission()
    };
    ground.admit(vec![later, soon.clone()]).await?;
    let claimed = ground
        .until(|| async {
            let claimed = ground.claim(runner).await?;
            Ok((!claimed.runs.is_empty()).then_some(claimed))
        })
        .await?;
    assert_eq!(runs_of(&claimed.runs), [soon.run]);
    assert!(
        claimed.now >= soon.due,
        "taken at {} before it was due at {}",
        claimed.now,
        soon.due
    );
    Ok(())
}

async fn a_claim_takes_no_more_than_its_limit(ground: Ground) -> Kept {
    let runs = ground.admit_many(10).await?;
    let runner = ground.runner().await?;
    let limited = |limit| {
        take(
            &ground,
            Claim {
                limit,
                ..claim_of(runner)
            },
        )
    };
    assert_eq!(limited(0).await?.runs.len(), 0);
    let mut taken = limited(3).await?.runs;
    assert_eq!(taken.len(), 3);
    taken.extend(limited(usize::MAX).await?.runs);
    assert_eq!(sorted(runs_of(&taken)), sorted(runs));
    Ok(())
}

async fn a_claim_takes_no_more_than_its_weight(ground: Ground) -> Kept {
    ground.admit_many(10).await?;
    let runner = ground.runner().await?;
    let weighing = |weight| {
        take(
            &ground,
            Claim {
                weight,
                ..claim_of(runner)
            },
        )
    };
    assert_eq!(weighing(399).await?.runs.len(), 3, "100 each");
    assert_eq!(weighing(400).await?.runs.len(), 4);
    assert_eq!(weighing(u64::MAX).await?.runs.len(), 3);
    Ok(())
}

async fn the_first_run_is_taken_whatever_it_weighs(ground: Ground) -> Kept {
    let heavy = Admit {
        weight: u32::MAX,
        priority: Priority::HIGHEST,
        ..ground.admission()
    };
    ground
        .admit(vec![heavy.clone(), ground.admission()])
        .await?;
    let runner = ground.runner().await?;
    let claimed = take(
        &ground,
        Claim {
            weight: 0,
            ..claim_of(runner)
        },
    )
    .await?;
    assert_eq!(runs_of(&claimed.runs), [heavy.run]);
    Ok(())
}

/// Three runs in three lanes; a claim that can serve the second takes it alone, and says nothing of
/// the others.
async fn takes_only_the_second(ground: &Ground, admits: [Admit; 3], claim: Claim) -> Kept {
    let runs: Vec<RunId> = ground.admit(admits.to_vec()).await?;
    let claimed = take(ground, claim).await?;
    assert_eq!(runs_of(&claimed.runs), [runs[1]]);
    assert_eq!(
        claimed.next_due, None,
        "nothing else will become due for this claim"
    );
    Ok(())
}

async fn only_queues_asked_for_are_claimed(ground: Ground) -> Kept {
    let admits = ["a", "b", "c"].map(|name| Admit {
        queue: queue(name),
        ..ground.admission()
    });
    let runner = ground.runner().await?;
    assert!(
        take(
            &ground,
            Claim {
                queues: vec![],
                ..claim_of(runner)
            }
        )
        .await?
        .runs
        .is_empty()
    );
    takes_only_the_second(
        &ground,
        admits,
        Claim {
            queues: vec![queue("b")],
            ..claim_of(runner)
        },
    )
    .await
}

async fn only_realms_served_are_claimed(ground: Ground) -> Kept {
    let admits = ["a", "b", "c"].map(|name| Admit {
        realm: realm(name),
        ..ground.admission()
    });
    let runner = ground.runner().await?;
    assert!(
        take(
            &ground,
            Claim {
                realms: vec![],
                ..claim_of(runner)
            }
        )
        .await?
        .runs
        .is_empty()
    );
    takes_only_the_second(
        &ground,
        admits,
        Claim {
            realms: vec![realm("b")],
            ..claim_of(runner)
        },
    )
    .await
}

async fn runs_of_a_later_law_stay(ground: Ground) -> Kept {
    let admits = [3, 2, 4].map(|law| Admit {
        law,
        ..ground.admission()
    });
    let runner = ground.runner().await?;
    takes_only_the_second(
        &ground,
        admits,
        Claim {
            law: 2,
            ..claim_of(runner)
        },
    )
    .await?;
    assert_eq!(
        take(
            &ground,
            Claim {
                law: 4,
                ..claim_of(runner)
            }
        )
        .await?
        .runs
        .len(),
        2
    );
    Ok(())
}

async fn the_next_due_time_is_never_late(ground: Ground) -> Kept {
    let (runner, now) = now(&ground).await?;
    assert_eq!(ground.claim(runner).await?.next_due, None, "an empty queue");
    let after = |secs| Admit {
        due: now.plus(Span::from_secs(secs)),
        ..ground.admission()
    };
    let soon = Admit {
        priority: Priority::LOWEST,
        ..after(1_000)
    };
    ground
        .admit(vec![
            after(2_000),
            soon.clone(),
            after(3_000),
            ground.admission(),
        ])
        .await?;
    let claimed = ground.claim(runner).await?;
    assert_eq!(claimed.runs.len(), 1);
    let next = claimed.next_due.expect("three runs become due");
    assert!(next <= soon.due, "{next} is after {}", soon.due);
    Ok(())
}

async fn no_next_due_time_while_more_is_due(ground: Ground) -> Kept {
    let (runner, now) = now(&ground).await?;
    let later = Admit {
        due: now.plus(Span::from_secs(1_000)),
        ..ground.admission()
    };
    ground
        .admit(vec![ground.admission(), ground.admission(), later])
        .await?;
    let claimed = take(
        &ground,
        Claim {
            limit: 1,
            ..claim_of(runner)
        },
    )
    .await?;
    let early = claimed.next_due.is_none_or(|next| next <= claimed.now);
    assert!(early, "more is due now, not at {:?}", claimed.next_due);
    Ok(())
}

async fn parked_runs_are_not_claimed(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(release(
            owner,
            &run,
            Wake::Parked("limit of the queue".to_owned()),
            0,
        ))
        .await?;
    assert_eq!(
        ground.record(run.run).await?.parked.as_deref(),
        Some("limit of the queue")
    );
    let claimed = ground.claim(owner).await?;
    assert_eq!((claimed.runs.len(), claimed.next_due), (0, None));
    Ok(())
}

async fn a_lost_session_claims_nothing(ground: Ground) -> Kept {
    let released = ground.runner().await?;
    ground.runs().release(released).await?;
    let (expired, _) = ground.expired_owner().await?;
    ground.admit_many(1).await?;
    for runner in [released, expired, runner_id()] {
        assert_eq!(
            ground.runs().claim(claim_of(runner)).await?,
            Err(SessionLost)
        );
    }
    let held = ground.runner().await?;
    assert_eq!(ground.claim(held).await?.runs.len(), 1);
    Ok(())
}

async fn the_epoch_grows_with_every_claim(ground: Ground) -> Kept {
    ground.admit_many(1).await?;
    let mut epoch = Epoch(0);
    for _ in 0..5 {
        let runner = ground.runner().await?;
        let run = ground.claim(runner).await?.runs.remove(0);
        assert!(run.epoch > epoch, "{} after {epoch}", run.epoch);
        epoch = run.epoch;
        ground
            .commit(release(runner, &run, Wake::At(Timestamp::EPOCH), 0))
            .await?;
    }
    Ok(())
}

async fn no_more_runs_of_a_queue_are_owned_than_may_be(ground: Ground) -> Kept {
    let of = |name: &str| Admit {
        queue: queue(name),
        ..ground.admission()
    };
    ground
        .admit(vec![of("a"), of("a"), of("a"), of("a"), of("b")])
        .await?;
    let (one, other) = (ground.runner().await?, ground.runner().await?);
    let claim = |runner, name: &str, most| {
        let queues = vec![queue(name)];
        take(
            &ground,
            Claim {
                queues,
                most: Some(most),
                ..claim_of(runner)
            },
        )
    };
    assert!(claim(one, "a", 0).await?.runs.is_empty());
    let first = claim(one, "a", 2).await?.runs;
    assert_eq!(first.len(), 2);
    let full = claim(other, "a", 2).await?;
    let early = full.next_due.is_none_or(|next| next <= full.now);
    assert!(
        full.runs.is_empty() && early,
        "runs of others count: {full:?}"
    );
    assert_eq!(
        claim(other, "b", 2).await?.runs.len(),
        1,
        "runs of other queues do not"
    );
    assert_eq!(claim(other, "a", 3).await?.runs.len(), 1);
    ground
        .commit(release(one, &first[0], Wake::OnMail, 0))
        .await?;
    ground
        .commit(release(one, &first[1], Wake::Parked("x".to_owned()), 0))
        .await?;
    assert_eq!(
        claim(other, "a", 2).await?.runs.len(),
        1,
        "what was let go does not count"
    );
    Ok(())
}
