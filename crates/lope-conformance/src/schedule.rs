//! Promises of schedules: a writing is guarded by its revision, and what it starts and sends
//! happens with it or not at all.

use lope_model::{Revision, RunId, Span, Timestamp};

use super::ground::{
    Ground, all_bytes, assert_refused, exists, finish, mail_to, run_id, sorted, version_of,
};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Admitted, FoundSchedule, Reach, RunFilter, ScheduleWrite, Scheduled, StoredSchedule,
};

promises![
    a_schedule_is_read_back,
    a_name_is_given_once,
    a_stale_revision_is_refused,
    repeating_a_writing_changes_nothing,
    schedules_are_listed_in_order_and_paged,
    a_fire_and_its_run_are_one,
    a_run_that_is_not_admitted_leaves_no_trace,
    a_fire_delivers_its_mail,
    mail_that_reaches_nobody_stands_in_nobodys_way,
    what_is_due_is_told_by_the_stores_clock,
    a_schedule_that_waits_is_due_when_its_run_has_ended,
    due_schedules_are_bounded_and_in_order,
    a_removed_schedule_leaves_its_runs,
    of_many_who_fire_one_tick_one_starts_a_run,
    every_tick_of_many_runners_starts_one_run,
    an_unsound_schedule_is_refused,
    another_handle_sees_and_hears_of_it,
];

const LATER: Span = Span::from_secs(3_600);

fn revision() -> Revision {
    Revision::from_uuid(run_id().uuid())
}

/// A schedule that is due for ever.
fn stored(name: &str) -> StoredSchedule {
    let due = Some(Timestamp::EPOCH);
    let body = name.as_bytes().to_vec();
    StoredSchedule {
        name: name.to_owned(),
        revision: revision(),
        due,
        last_run: None,
        waits: false,
        body,
    }
}

fn fresh(schedule: StoredSchedule) -> ScheduleWrite {
    ScheduleWrite {
        schedule,
        over: None,
        admit: None,
        mail: None,
    }
}

/// The next writing over this one, with a run.
fn fire(before: &StoredSchedule, admit: Admit) -> ScheduleWrite {
    let schedule = StoredSchedule {
        revision: revision(),
        last_run: Some(admit.run),
        ..before.clone()
    };
    ScheduleWrite {
        schedule,
        over: Some(before.revision),
        admit: Some(admit),
        mail: None,
    }
}

async fn written(ground: &Ground, write: ScheduleWrite) -> StoreResult<StoredSchedule> {
    let schedule = write.schedule.clone();
    assert_eq!(ground.runs().schedule(write).await?, Scheduled::Done);
    Ok(schedule)
}

async fn find(ground: &Ground, name: &str) -> StoreResult<FoundSchedule> {
    Ok(ground
        .runs()
        .find_schedule(name)
        .await?
        .expect("the schedule is there"))
}

async fn due_names(ground: &Ground) -> StoreResult<Vec<String>> {
    let due = ground.runs().due_schedules(100).await?.due;
    Ok(due.into_iter().map(|found| found.schedule.name).collect())
}

async fn number_of_runs(ground: &Ground) -> StoreResult<usize> {
    Ok(ground
        .runs()
        .list(RunFilter {
            limit: 1_000,
            ..RunFilter::default()
        })
        .await?
        .len())
}

async fn a_schedule_is_read_back(ground: Ground) -> Kept {
    assert_eq!(ground.runs().find_schedule("none").await?, None);
    for (name, due, last_run, waits) in [
        ("plain", None, None, false),
        (
            "full",
            Some(Timestamp::from_millis(1_700_000_000_123)),
            Some(run_id()),
            true,
        ),
    ] {
        let schedule = StoredSchedule {
            due,
            last_run,
            waits,
            body: all_bytes(),
            ..stored(name)
        };
        let schedule = written(&ground, fresh(schedule)).await?;
        assert_eq!(
            find(&ground, name).await?,
            FoundSchedule {
                schedule,
                running: false
            }
        );
    }
    Ok(())
}

async fn a_name_is_given_once(ground: Ground) -> Kept {
    let first = written(&ground, fresh(stored("nightly"))).await?;
    let second = ground.runs().schedule(fresh(stored("nightly"))).await?;
    assert_eq!(
        second,
        Scheduled::Changed {
            found: Some(first.revision)
        }
    );
    assert_eq!(find(&ground, "nightly").await?.schedule, first);
    Ok(())
}

async fn a_stale_revision_is_refused(ground: Ground) -> Kept {
    let first = written(&ground, fresh(stored("nightly"))).await?;
    let over = |before: &StoredSchedule, body: &[u8]| {
        let schedule = StoredSchedule {
            revision: revision(),
            body: body.to_vec(),
            ..before.clone()
        };
        ScheduleWrite {
            over: Some(before.revision),
            ..fresh(schedule)
        }
    };
    let second = written(&ground, over(&first, b"second")).await?;
    let stale = ground.runs().schedule(over(&first, b"stale")).await?;
    assert_eq!(
        stale,
        Scheduled::Changed {
            found: Some(second.revision)
        }
    );
    assert_eq!(find(&ground, "nightly").await?.schedule, second);
    // One that was removed and added again is another one.
    assert!(ground.runs().unschedule("nightly", None).await?);
    assert_eq!(
        ground.runs().schedule(over(&second, b"gone")).await?,
        Scheduled::Changed { found: None }
    );
    let third = written(&ground, fresh(stored("nightly"))).await?;
    let stale = ground.runs().schedule(over(&second, b"stale")).await?;
    assert_eq!(
        stale,
        Scheduled::Changed {
            found: Some(third.revision)
        }
    );
    Ok(())
}

async fn repeating_a_writing_changes_nothing(ground: Ground) -> Kept {
    ground.deploy().await?;
    let first = fresh(stored("nightly"));
    let before = written(&ground, first.clone()).await?;
    written(&ground, first).await?;
    let fired = fire(&before, ground.admission());
    written(&ground, fired.clone()).await?;
    written(&ground, fired.clone()).await?;
    assert_eq!(find(&ground, "nightly").await?.schedule, fired.schedule);
    assert_eq!(number_of_runs(&ground).await?, 1);
    Ok(())
}

async fn schedules_are_listed_in_order_and_paged(ground: Ground) -> Kept {
    assert!(ground.runs().schedules(None, 10).await?.is_empty());
    for name in ["pear", "apple", "fig", "Zebra", "apple-2"] {
        written(&ground, fresh(stored(name))).await?;
    }
    let (mut names, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = ground.runs().schedules(after.as_deref(), 2).await?;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        after = Some(last.schedule.name.clone());
        names.extend(page.into_iter().map(|found| found.schedule.name));
    }
    assert_eq!(names, ["Zebra", "apple", "apple-2", "fig", "pear"]);
    Ok(())
}

async fn a_fire_and_its_run_are_one(ground: Ground) -> Kept {
    ground.deploy().await?;
    let before = written(&ground, fresh(stored("nightly"))).await?;
    let fired = written(&ground, fire(&before, ground.admission())).await?;
    let run = fired.last_run.expect("it started a run");
    assert_eq!(
        find(&ground, "nightly").await?,
        FoundSchedule {
            schedule: fired,
            running: true
        }
    );
    assert_eq!(
        (
            ground.record(run).await?.head,
            number_of_runs(&ground).await?
        ),
        (1, 1)
    );
    // A fire that lost starts nothing.
    let lost = ground
        .runs()
        .schedule(fire(&before, ground.admission()))
        .await?;
    assert!(matches!(lost, Scheduled::Changed { .. }), "{lost:?}");
    assert_eq!(number_of_runs(&ground).await?, 1);
    // The run is like any other.
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    assert_eq!(claimed.iter().map(|run| run.run).collect::<Vec<_>>(), [run]);
    ground.commit(finish(owner, &claimed[0], None)).await?;
    assert!(!find(&ground, "nightly").await?.running);
    Ok(())
}

async fn a_run_that_is_not_admitted_leaves_no_trace(ground: Ground) -> Kept {
    let before = written(&ground, fresh(stored("nightly"))).await?;
    let unknown = Admit {
        version: version_of("never deployed"),
        ..ground.admission()
    };
    let refused = ground.runs().schedule(fire(&before, unknown)).await?;
    assert_eq!(refused, Scheduled::NotAdmitted(Admitted::UnknownVersion));
    let keyed = Admit {
        key: Some("taken".to_owned()),
        ..ground.admission()
    };
    let run = ground.admit(vec![keyed.clone()]).await?[0];
    let second = Admit {
        run: run_id(),
        ..keyed
    };
    let refused = ground.runs().schedule(fire(&before, second)).await?;
    assert_eq!(refused, Scheduled::NotAdmitted(exists(run)));
    assert_eq!(find(&ground, "nightly").await?.schedule, before);
    assert_eq!(number_of_runs(&ground).await?, 1);
    Ok(())
}

async fn a_fire_delivers_its_mail(ground: Ground) -> Kept {
    ground.deploy().await?;
    let before = written(&ground, fresh(stored("nightly"))).await?;
    let first = written(&ground, fire(&before, ground.admission())).await?;
    let other = first.last_run.expect("it started a run");
    let mail = Some(mail_to(other, "cancel", Reach::Unpark));
    written(
        &ground,
        ScheduleWrite {
            mail,
            ..fire(&first, ground.admission())
        },
    )
    .await?;
    assert_eq!(ground.record(other).await?.mail, 1);
    let lost = Some(mail_to(other, "another", Reach::Unpark));
    let lost = ground
        .runs()
        .schedule(ScheduleWrite {
            mail: lost,
            ..fire(&first, ground.admission())
        })
        .await?;
    assert!(matches!(lost, Scheduled::Changed { .. }), "{lost:?}");
    assert_eq!(ground.record(other).await?.mail, 1);
    Ok(())
}

async fn mail_that_reaches_nobody_stands_in_nobodys_way(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground.commit(finish(owner, &run, None)).await?;
    let mut before = written(&ground, fresh(stored("nightly"))).await?;
    for (gone, number) in [(run.run, 2), (run_id(), 3)] {
        let mail = Some(mail_to(gone, "cancel", Reach::Unpark));
        before = written(
            &ground,
            ScheduleWrite {
                mail,
                ..fire(&before, ground.admission())
            },
        )
        .await?;
        assert_eq!(number_of_runs(&ground).await?, number);
    }
    Ok(())
}

async fn what_is_due_is_told_by_the_stores_clock(ground: Ground) -> Kept {
    let empty = ground.runs().due_schedules(10).await?;
    assert_eq!(
        (empty.due, empty.next_due, empty.waits),
        (vec![], None, false)
    );
    let now = ground.store.upkeep.reading().await?.now;
    let (soon, later) = (now.plus(Span::from_millis(50)), now.plus(LATER));
    for (name, due) in [
        ("past", Some(Timestamp::EPOCH)),
        ("soon", Some(soon)),
        ("later", Some(later)),
        ("never", None),
    ] {
        written(
            &ground,
            fresh(StoredSchedule {
                due,
                ..stored(name)
            }),
        )
        .await?;
    }
    let soon_due = || async { Ok((due_names(&ground).await? == ["past", "soon"]).then_some(())) };
    ground.until(soon_due).await?;
    let found = ground.runs().due_schedules(10).await?;
    assert_eq!((found.next_due, found.waits), (Some(later), false));
    assert!(found.now >= soon);
    Ok(())
}

async fn a_schedule_that_waits_is_due_when_its_run_has_ended(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let waiting = StoredSchedule {
        due: None,
        last_run: Some(run.run),
        waits: true,
        ..stored("waiting")
    };
    written(&ground, fresh(waiting)).await?;
    let patient = StoredSchedule {
        due: None,
        last_run: Some(run.run),
        ..stored("patient")
    };
    written(&ground, fresh(patient)).await?;
    let found = ground.runs().due_schedules(10).await?;
    assert_eq!((found.due, found.waits), (vec![], true));
    assert!(find(&ground, "waiting").await?.running);
    ground.commit(finish(owner, &run, None)).await?;
    assert_eq!(due_names(&ground).await?, ["waiting"]);
    assert!(!find(&ground, "waiting").await?.running);
    Ok(())
}

async fn due_schedules_are_bounded_and_in_order(ground: Ground) -> Kept {
    for (name, due) in [("c", 1), ("b", 2), ("a", 2), ("d", 0)] {
        let due = Some(Timestamp::from_millis(due));
        written(
            &ground,
            fresh(StoredSchedule {
                due,
                ..stored(name)
            }),
        )
        .await?;
    }
    let ended = StoredSchedule {
        due: None,
        last_run: Some(run_id()),
        waits: true,
        ..stored("0")
    };
    written(&ground, fresh(ended)).await?;
    assert_eq!(due_names(&ground).await?, ["d", "c", "a", "b", "0"]);
    assert_eq!(ground.runs().due_schedules(2).await?.due.len(), 2);
    Ok(())
}

async fn a_removed_schedule_leaves_its_runs(ground: Ground) -> Kept {
    ground.deploy().await?;
    let before = written(&ground, fresh(stored("nightly"))).await?;
    let fired = written(&ground, fire(&before, ground.admission())).await?;
    assert!(
        !ground
            .runs()
            .unschedule("nightly", Some(before.revision))
            .await?
    );
    assert!(
        ground
            .runs()
            .unschedule("nightly", Some(fired.revision))
            .await?
    );
    assert!(!ground.runs().unschedule("nightly", None).await?);
    assert_eq!(ground.runs().find_schedule("nightly").await?, None);
    assert_eq!(
        ground
            .record(fired.last_run.expect("it started a run"))
            .await?
            .head,
        1
    );
    let late = ground
        .runs()
        .schedule(fire(&fired, ground.admission()))
        .await?;
    assert_eq!(late, Scheduled::Changed { found: None });
    assert_eq!(number_of_runs(&ground).await?, 1);
    Ok(())
}

const RUNNERS: usize = 8;

/// "a fire and its run are one transaction, so two runners never both fire a tick."
async fn of_many_who_fire_one_tick_one_starts_a_run(ground: Ground) -> Kept {
    ground.deploy().await?;
    let other = ground.again().await;
    for tick in 0..10 {
        let before = written(&ground, fresh(stored(&format!("tick {tick}")))).await?;
        let fires: Vec<_> = (0..RUNNERS)
            .map(|runner| {
                let ground = if runner.is_multiple_of(2) {
                    ground.clone()
                } else {
                    other.clone()
                };
                let write = fire(&before, ground.admission());
                tokio::spawn(async move { ground.runs().schedule(write).await })
            })
            .collect();
        let mut done = 0;
        for fire in fires {
            done += usize::from(fire.await.expect("the task does not panic")? == Scheduled::Done);
        }
        assert_eq!((done, number_of_runs(&ground).await?), (1, tick + 1));
    }
    Ok(())
}

/// As runners do it: read what is there, and write over it. The body counts the ticks.
async fn every_tick_of_many_runners_starts_one_run(ground: Ground) -> Kept {
    const TICKS: u8 = 20;
    ground.deploy().await?;
    written(
        &ground,
        fresh(StoredSchedule {
            body: vec![0],
            ..stored("nightly")
        }),
    )
    .await?;
    let other = ground.again().await;
    let runners: Vec<_> = (0..RUNNERS)
        .map(|runner| {
            let ground = if runner.is_multiple_of(2) {
                ground.clone()
            } else {
                other.clone()
            };
            tokio::spawn(async move {
                let mut started: Vec<RunId> = Vec::new();
                loop {
                    let before = find(&ground, "nightly").await?.schedule;
                    if before.body[0] == TICKS {
                        return Ok::<_, lope_store::StoreError>(started);
                    }
                    let mut write = fire(&before, ground.admission());
                    write.schedule.body[0] += 1;
                    let run = write.schedule.last_run;
                    if ground.runs().schedule(write).await? == Scheduled::Done {
                        started.extend(run);
                    }
                }
            })
        })
        .collect();
    let mut started = Vec::new();
    for runner in runners {
        started.extend(runner.await.expect("the task does not panic")?);
    }
    let runs = ground
        .runs()
        .list(RunFilter {
            limit: 1_000,
            ..RunFilter::default()
        })
        .await?;
    assert_eq!(started.len(), usize::from(TICKS));
    assert_eq!(sorted(started), sorted(runs.into_iter().map(|run| run.run)));
    Ok(())
}

async fn an_unsound_schedule_is_refused(ground: Ground) -> Kept {
    for name in [String::new(), "zero\0byte".to_owned(), "n".repeat(201)] {
        assert_refused(ground.runs().schedule(fresh(stored(&name))).await);
    }
    let large = StoredSchedule {
        body: vec![0; lope_model::limit::SCHEDULE_MAX + 1],
        ..stored("large")
    };
    assert_refused(ground.runs().schedule(fresh(large)).await);
    let bad = Admit {
        workflow: String::new(),
        ..ground.admission()
    };
    assert_refused(
        ground
            .runs()
            .schedule(ScheduleWrite {
                admit: Some(bad),
                ..fresh(stored("bad"))
            })
            .await,
    );
    assert!(ground.runs().schedules(None, 10).await?.is_empty());
    Ok(())
}

async fn another_handle_sees_and_hears_of_it(ground: Ground) -> Kept {
    let other = ground.again().await;
    let (mut here, mut there) = (ground.runs().watch(), other.runs().watch());
    let schedule = written(&ground, fresh(stored("nightly"))).await?;
    for watch in [&mut here, &mut there] {
        let woken =
            tokio::time::timeout(std::time::Duration::from_secs(120), watch.changed()).await;
        assert!(woken.is_ok(), "nobody was woken by a new schedule");
    }
    assert_eq!(find(&other, "nightly").await?.schedule, schedule);
    Ok(())
}
