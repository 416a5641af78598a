//! Promises that only many at once can break: each is tried by tasks on two handles of one store.

pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use lope_model::{Epoch, RunId, Timestamp};

use super::ground::{
    Ground, claim_of, exists, fail, finish, hold, mail_to, release, rows, runs_of, sorted,
};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Admitted, Claim, ClaimedRun, CommitReply, Delivered, JournalRow, Reach, RunCommit,
    Takeover, Wake,
};

promises![
    twenty_writers_do_not_interfere,
    no_run_goes_to_two_claimers,
    claims_during_admissions_miss_nothing,
    claimers_together_keep_to_the_bound_of_a_queue,
    one_key_admits_once,
    no_wake_up_is_lost_when_mail_meets_release,
    a_finish_and_mail_do_not_pass_each_other,
    mail_that_meets_an_end_is_dropped_with_the_rest,
    one_mail_id_arrives_once,
    one_row_number_is_written_once,
    several_takeovers_put_a_run_back_once,
    runs_that_write_to_each_other_go_on,
    a_load_sees_one_state,
];

const TASKS: usize = 8;

/// Run `task` on `TASKS` tasks, half of them on a second handle.
async fn together<T: Send + 'static, F>(
    ground: &Ground,
    task: impl Fn(Ground, usize) -> F,
) -> StoreResult<Vec<T>>
where
    F: Future<Output = StoreResult<T>> + Send + 'static,
{
    let other = ground.again().await;
    let on = |index: usize| {
        if index.is_multiple_of(2) {
            ground.clone()
        } else {
            other.clone()
        }
    };
    let tasks: Vec<_> = (0..TASKS)
        .map(|index| tokio::spawn(task(on(index), index)))
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("the task does not panic")?);
    }
    Ok(answers)
}

fn is_lost_or_done(reply: &CommitReply) -> bool {
    matches!(
        reply,
        CommitReply::Lost { .. } | CommitReply::Done { .. } | CommitReply::Gap { .. }
    )
}

async fn claimers_together_keep_to_the_bound_of_a_queue(ground: Ground) -> Kept {
    ground.admit_many(100).await?;
    for bound in [3_u32, 7, 20] {
        let claimed = together(&ground, move |ground, _| async move {
            let runner = ground.runner().await?;
            let claim = Claim {
                most: Some(bound),
                limit: 5,
                ..claim_of(runner)
            };
            Ok(ground
                .runs()
                .claim(claim)
                .await?
                .expect("the session is held")
                .runs
                .len())
        });
        claimed.await?;
        let counts = ground.runs().counts().await?;
        let owned: u64 = counts.queues.iter().map(|count| count.owned).sum();
        assert_eq!(owned, u64::from(bound), "{counts:?}");
    }
    Ok(())
}

/// "Multiple processes writing different workflow IDs concurrently don't interfere"
async fn twenty_writers_do_not_interfere(ground: Ground) -> Kept {
    ground.deploy().await?;
    let writers: Vec<_> = (0..20)
        .map(|writer: u8| {
            let ground = ground.clone();
            tokio::spawn(async move {
                let runner = ground.runner().await?;
                let admit = Admit {
                    claimed_by: Some(runner),
                    ..ground.admission()
                };
                let run = ground.admit(vec![admit]).await?[0];
                let owned = ground.runs().owned(runner, None, 10).await?.remove(0);
                for seq in 2..12 {
                    let row = JournalRow {
                        body: vec![writer; 100],
                        ..super::ground::row(seq)
                    };
                    ground
                        .commit(RunCommit {
                            rows: vec![row],
                            ..hold(runner, &owned)
                        })
                        .await?;
                }
                Ok::<_, lope_store::StoreError>((run, writer))
            })
        })
        .collect();
    for writer in writers {
        let (run, writer) = writer.await.expect("the writer does not panic")?;
        let journal = ground.runs().journal(run, 1, 100).await?;
        assert_eq!(
            journal.iter().map(|row| row.seq).collect::<Vec<_>>(),
            (2..12).collect::<Vec<_>>()
        );
        assert!(journal.iter().all(|row| row.body == vec![writer; 100]));
    }
    Ok(())
}

/// Claim in small batches until nothing comes.
async fn drain(ground: Ground) -> StoreResult<Vec<ClaimedRun>> {
    let runner = ground.runner().await?;
    let mut taken = Vec::new();
    loop {
        let claimed = ground
            .runs()
            .claim(Claim {
                limit: 7,
                ..claim_of(runner)
            })
            .await?
            .expect("held");
        if claimed.runs.is_empty() {
            return Ok(taken);
        }
        taken.extend(claimed.runs);
    }
}

async fn no_run_goes_to_two_claimers(ground: Ground) -> Kept {
    let runs = ground.admit_many(400).await?;
    let taken = together(&ground, |ground, _| drain(ground)).await?.concat();
    assert_eq!(sorted(runs_of(&taken)), sorted(runs));
    assert!(taken.iter().all(|run| run.epoch == Epoch(1)));
    Ok(())
}

async fn claims_during_admissions_miss_nothing(ground: Ground) -> Kept {
    ground.deploy().await?;
    let answers = together(&ground, |ground, index| async move {
        let mut runs = Vec::new();
        for _ in 0..20 {
            if index % 2 == 0 {
                runs.extend(ground.admit_many(5).await?);
            } else {
                runs.extend(runs_of(&drain(ground.clone()).await?));
            }
        }
        Ok((index % 2 == 0, runs))
    })
    .await?;
    let of = |admitted: bool| {
        answers
            .iter()
            .filter(move |(is, _)| *is == admitted)
            .flat_map(|(_, runs)| runs.clone())
    };
    let rest = runs_of(&drain(ground.clone()).await?);
    assert_eq!(sorted(of(false).chain(rest)), sorted(of(true)));
    Ok(())
}

async fn one_key_admits_once(ground: Ground) -> Kept {
    ground.deploy().await?;
    for round in 0..10 {
        let answers = together(&ground, |ground, _| async move {
            let admit = Admit {
                key: Some(format!("key {round}")),
                ..ground.admission()
            };
            Ok((admit.run, ground.runs().admit(vec![admit]).await?.remove(0)))
        })
        .await?;
        let created: Vec<RunId> = answers
            .iter()
            .filter(|(_, admitted)| matches!(admitted, Admitted::Created { .. }))
            .map(|(run, _)| *run)
            .collect();
        assert_eq!(created.len(), 1, "{answers:?}");
        let there = exists(created[0]);
        assert_eq!(
            answers
                .iter()
                .filter(|(_, admitted)| *admitted == there)
                .count(),
            TASKS - 1
        );
    }
    Ok(())
}

/// The owner releases a run that waits for mail only, while mail is delivered to it: whoever comes
/// first, it is claimed again.
async fn no_wake_up_is_lost_when_mail_meets_release(ground: Ground) -> Kept {
    ground.deploy().await?;
    let far = Timestamp::from_millis(4_000_000_000_000);
    let wakes = [
        Wake::OnMail,
        Wake::At(far),
        Wake::Parked("paused".to_owned()),
    ];
    for round in 0..60 {
        let (owner, run) = ground.owned_run().await?;
        let wake = wakes[round % wakes.len()].clone();
        let id = round.to_string();
        let target = run.run;
        let sender = ground.again_sometimes(round).await;
        let releaser = ground.clone();
        let sent =
            tokio::spawn(async move { sender.deliver_reaching(target, &id, Reach::Unpark).await });
        let commit = RunCommit {
            rows: rows(2, 2),
            ..release(owner, &run, wake.clone(), 0)
        };
        let released = tokio::spawn(async move { releaser.reply(commit).await });
        assert_eq!(
            sent.await.expect("delivering does not panic")?,
            Delivered::Accepted
        );
        let reply = released.await.expect("releasing does not panic")?;
        assert!(matches!(reply, CommitReply::Done { .. }), "{reply:?}");
        let claimed = ground.claim(owner).await?.runs;
        assert_eq!(
            runs_of(&claimed),
            [run.run],
            "round {round}: {wake:?} slept over mail"
        );
        ground.commit(finish(owner, &claimed[0], None)).await?;
    }
    Ok(())
}

/// Either the mail is accepted and the finish is told of it, or the finish is done and the sender
/// is told.
async fn a_finish_and_mail_do_not_pass_each_other(ground: Ground) -> Kept {
    ground.deploy().await?;
    for round in 0..60 {
        let (owner, run) = ground.owned_run().await?;
        let sender = ground.again_sometimes(round).await;
        let finisher = ground.clone();
        let target = run.run;
        let sent = tokio::spawn(async move { sender.deliver(target, "mail").await });
        let commit = finish(owner, &run, Some(0));
        let finished = tokio::spawn(async move { finisher.reply(commit).await });
        let answers = (
            sent.await.expect("delivering does not panic")?,
            finished.await.expect("finishing does not panic")?,
        );
        match answers {
            (Delivered::Accepted, CommitReply::Mail { mail: 1 }) => {
                ground.commit(finish(owner, &run, Some(1))).await?;
            }
            (Delivered::Finished, CommitReply::Done { .. }) => {}
            other => panic!("round {round}: {other:?}"),
        }
    }
    Ok(())
}

/// Mail that was accepted while its run ended waits for nobody: whoever opens the run again finds
/// what opened it, and as much as is counted.
async fn mail_that_meets_an_end_is_dropped_with_the_rest(ground: Ground) -> Kept {
    ground.deploy().await?;
    let other = ground.again().await;
    for round in 0..60 {
        let (owner, run) = ground.owned_run().await?;
        let sender = other.clone();
        let finisher = ground.clone();
        let target = run.run;
        let sent = tokio::spawn(async move { sender.deliver(target, "mail").await });
        let commit = fail(owner, &run);
        let finished = tokio::spawn(async move { finisher.commit(commit).await });
        sent.await.expect("delivering does not panic")?;
        finished.await.expect("finishing does not panic")?;
        let retried = ground
            .deliver_reaching(target, "retry", Reach::Reopen)
            .await?;
        assert_eq!(retried, Delivered::Accepted);
        let loaded = ground.runs().load(&[target]).await?.remove(0);
        let waiting: Vec<String> = loaded
            .into_iter()
            .flat_map(|loaded| loaded.mail)
            .map(|mail| mail.id)
            .collect();
        assert_eq!(waiting, ["retry"], "round {round}");
        let heir = ground.claim(owner).await?.runs.remove(0);
        ground.commit(finish(owner, &heir, None)).await?;
    }
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    Ok(())
}

async fn one_mail_id_arrives_once(ground: Ground) -> Kept {
    let run = ground.admit_many(1).await?[0];
    for round in 0..10 {
        let answers = together(&ground, |ground, index| async move {
            let mine = format!("{round} of {index}");
            let mail = vec![
                mail_to(run, &round.to_string(), Reach::Live),
                mail_to(run, &mine, Reach::Live),
            ];
            ground.runs().deliver(mail).await
        })
        .await?;
        assert_eq!(
            answers
                .iter()
                .filter(|answer| answer[0] == Delivered::Accepted)
                .count(),
            1,
            "{answers:?}"
        );
        assert!(
            answers
                .iter()
                .all(|answer| answer[1] == Delivered::Accepted)
        );
    }
    let mail = ground
        .runs()
        .load(&[run])
        .await?
        .remove(0)
        .expect("the run is there")
        .mail;
    assert_eq!(mail.len(), 10 * (TASKS + 1));
    assert_eq!(
        mail.iter()
            .map(|mail| mail.number)
            .collect::<BTreeSet<_>>()
            .len(),
        mail.len()
    );
    assert_eq!(ground.record(run).await?.mail, mail.len() as u64);
    Ok(())
}

/// Eight that believe to be the owner write the same row: one is done, the others are told, the
/// journal has no gap.
async fn one_row_number_is_written_once(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    for seq in 2..12 {
        let run = run.clone();
        let replies = together(&ground, move |ground, index| {
            let row = JournalRow {
                body: vec![index as u8],
                ..super::ground::row(seq)
            };
            let commit = RunCommit {
                rows: vec![row],
                ..hold(owner, &run)
            };
            async move { ground.reply(commit).await }
        })
        .await?;
        let done = replies
            .iter()
            .filter(|reply| matches!(reply, CommitReply::Done { .. }))
            .count();
        assert_eq!(done, 1, "{replies:?}");
        assert!(replies.iter().all(is_lost_or_done), "{replies:?}");
    }
    let journal = ground.runs().journal(run.run, 0, 100).await?;
    assert_eq!(
        journal.iter().map(|row| row.seq).collect::<Vec<_>>(),
        (1..12).collect::<Vec<_>>()
    );
    Ok(())
}

async fn several_takeovers_put_a_run_back_once(ground: Ground) -> Kept {
    let runs = ground.admit_many(50).await?;
    let (dead, claimed) = ground.expired_owner().await?;
    let before: BTreeMap<RunId, Epoch> = claimed.iter().map(|run| (run.run, run.epoch)).collect();
    let taken = together(&ground, |ground, _| async move {
        let mut taken = ground.runs().takeover(Takeover { limit: 7 }).await?;
        while taken.more {
            let next = ground.runs().takeover(Takeover { limit: 7 }).await?;
            taken.ended.extend(next.ended);
            taken.runs += next.runs;
            taken.more = next.more;
        }
        Ok(taken)
    })
    .await?;
    assert_eq!(
        taken
            .iter()
            .flat_map(|taken| taken.ended.clone())
            .collect::<Vec<_>>(),
        [dead]
    );
    assert_eq!(taken.iter().map(|taken| taken.runs).sum::<u64>(), 50);
    for run in runs {
        assert_eq!(ground.record(run).await?.epoch, before[&run].next());
    }
    Ok(())
}

/// Two owners commit at once, each delivering to the other's run, in opposite orders.
async fn runs_that_write_to_each_other_go_on(ground: Ground) -> Kept {
    ground.admit_many(TASKS).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let all = runs_of(&claimed);
    together(&ground, move |ground, index| {
        let (run, mut others) = (claimed[index].clone(), all.clone());
        others.retain(|other| *other != run.run);
        if index % 2 == 0 {
            others.reverse();
        }
        async move {
            for round in 0..10 {
                let id = format!("{round} from {index}");
                let deliveries = others
                    .iter()
                    .map(|other| mail_to(*other, &id, Reach::Live))
                    .collect();
                let seq = round + 2;
                ground
                    .commit(RunCommit {
                        rows: rows(seq, seq),
                        deliveries,
                        ..hold(owner, &run)
                    })
                    .await?;
            }
            Ok(())
        }
    })
    .await?;
    for run in ground.runs().owned(owner, None, 100).await? {
        let record = ground.record(run.run).await?;
        assert_eq!((record.head, record.mail), (11, 10 * (TASKS as u64 - 1)));
    }
    Ok(())
}

/// Mail arrives and rows are written while the run is loaded: counter and mail, head and rows
/// always belong together.
async fn a_load_sees_one_state(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    together(&ground, move |ground, index| {
        let run = run.clone();
        async move {
            for round in 0..40 {
                match index {
                    0 => {
                        ground.deliver(run.run, &round.to_string()).await?;
                    }
                    1 => {
                        ground
                            .commit(RunCommit {
                                rows: rows(round + 2, round + 2),
                                ..hold(owner, &run)
                            })
                            .await?;
                    }
                    _ => {
                        let loaded = ground
                            .runs()
                            .load(&[run.run])
                            .await?
                            .remove(0)
                            .expect("the run is there");
                        assert_eq!(
                            loaded.mail.len() as u64,
                            loaded.record.mail,
                            "mail and its counter"
                        );
                        assert_eq!(
                            loaded.rows.len() as u64,
                            loaded.record.head,
                            "rows and their head"
                        );
                    }
                }
            }
            Ok(())
        }
    })
    .await?;
    Ok(())
}
