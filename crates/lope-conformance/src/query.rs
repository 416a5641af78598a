//! Promises of queries: one run, its journal, listings by every filter and page by page, counts.

use std::collections::BTreeMap;

use lope_model::{QueueName, Realm, RunId, Span, Timestamp};

use super::ground::{Ground, finish, hold, release, rows, run_id, sorted};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, FinalStatus, Finish, LiveStatus, Parent, QueueCount, ResultHead, RunCommit, RunFilter,
    RunRecord, RunStatus, Then, Wake,
};

promises![
    an_unknown_run_is_not_found,
    a_listing_reflects_the_set,
    a_listing_shows_the_youngest_first,
    a_listing_shows_errors_and_no_results,
    runs_are_listed_by_their_ids,
    a_result_is_read_as_far_as_it_is_asked_for,
    listings_filter_by_status,
    listings_filter_by_what_was_said_at_admission,
    listings_filter_by_time,
    listings_page_without_gap_or_repeat,
    a_listing_is_bounded,
    the_journal_is_paged,
    counts_tell_statuses_and_queues,
];

fn all() -> RunFilter {
    RunFilter {
        limit: 1_000,
        ..RunFilter::default()
    }
}

async fn list(ground: &Ground, filter: RunFilter) -> StoreResult<Vec<RunId>> {
    Ok(ground
        .runs()
        .list(filter)
        .await?
        .into_iter()
        .map(|record| record.run)
        .collect())
}

async fn an_unknown_run_is_not_found(ground: Ground) -> Kept {
    assert_eq!(ground.runs().run(run_id()).await?, None);
    assert_eq!(ground.runs().find_key("never").await?, None);
    assert!(ground.runs().journal(run_id(), 0, 10).await?.is_empty());
    assert!(
        ground
            .runs()
            .owned(super::ground::runner_id(), None, 10)
            .await?
            .is_empty()
    );
    Ok(())
}

async fn a_listing_reflects_the_set(ground: Ground) -> Kept {
    assert!(list(&ground, all()).await?.is_empty());
    let mut there = Vec::new();
    for number in 1..4 {
        there.extend(ground.admit_many(number).await?);
        assert_eq!(sorted(list(&ground, all()).await?), sorted(there.clone()));
    }
    let runner = ground.runner().await?;
    for run in ground.claim(runner).await?.runs {
        ground.commit(finish(runner, &run, None)).await?;
    }
    assert_eq!(
        sorted(list(&ground, all()).await?),
        sorted(there),
        "finished runs stay in the set"
    );
    Ok(())
}

async fn a_listing_shows_the_youngest_first(ground: Ground) -> Kept {
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.insert(0, ground.admit_many(1).await?[0]);
        ground.pass(Span::from_millis(3)).await;
    }
    assert_eq!(list(&ground, all()).await?, expected);
    let batch = ground.admit_many(20).await?;
    let records = ground.runs().list(all()).await?;
    let order: Vec<_> = records
        .iter()
        .map(|record| (record.created_at, record.run))
        .collect();
    assert!(
        order.windows(2).all(|pair| pair[0] > pair[1]),
        "by time, then by id"
    );
    assert_eq!(
        sorted(order[..20].iter().map(|(_, run)| *run)),
        sorted(batch)
    );
    Ok(())
}

/// A list of many is not read for what each of them came to, but says why some failed.
async fn a_listing_shows_errors_and_no_results(ground: Ground) -> Kept {
    for bytes in [100, lope_model::limit::LISTED_ERROR_MAX + 1] {
        let (owner, run) = ground.owned_run().await?;
        let mut commit = RunCommit {
            rows: rows(2, 3),
            ..finish(owner, &run, None)
        };
        if let Then::Finish(finish) = &mut commit.then {
            finish.error = Some(vec![7; bytes]);
        }
        ground.commit(commit).await?;
        let record = ground.record(run.run).await?;
        assert_eq!(record.result, Some(b"done".to_vec()));
        assert_eq!(record.error, Some(vec![7; bytes]));
        let listed = ground.runs().list(all()).await?;
        let shown = record.error.clone().filter(|error| error.len() == 100);
        let expected = RunRecord {
            result: None,
            error: shown,
            ..record
        };
        assert!(listed.contains(&expected), "{listed:?}");
    }
    Ok(())
}

/// One run of every status.
async fn one_of_each(ground: &Ground) -> StoreResult<BTreeMap<RunStatus, RunId>> {
    let mut runs = BTreeMap::new();
    for status in RunStatus::ALL {
        let (owner, run) = ground.owned_run().await?;
        let commit = match status {
            RunStatus::Live(LiveStatus::Running) => hold(owner, &run),
            RunStatus::Live(said) => {
                let wake = Wake::At(Timestamp::from_millis(4_000_000_000_000));
                let released = release(owner, &run, wake, 0);
                let Then::Release(release) = released.then.clone() else {
                    unreachable!("a release")
                };
                RunCommit {
                    then: Then::Release(lope_store::runs::Release {
                        status: said,
                        ..release
                    }),
                    ..released
                }
            }
            RunStatus::Final(status) => {
                let finish = Finish {
                    status,
                    result: None,
                    error: None,
                    seen: None,
                };
                RunCommit {
                    then: Then::Finish(finish),
                    ..hold(owner, &run)
                }
            }
        };
        ground.commit(commit).await?;
        runs.insert(status, run.run);
    }
    Ok(runs)
}

async fn listings_filter_by_status(ground: Ground) -> Kept {
    let runs = one_of_each(&ground).await?;
    for (status, run) in &runs {
        assert_eq!(
            list(
                &ground,
                RunFilter {
                    statuses: vec![*status],
                    ..all()
                }
            )
            .await?,
            [*run],
            "{status}"
        );
        assert_eq!(ground.record(*run).await?.status, *status);
    }
    let some = [
        RunStatus::Live(LiveStatus::Queued),
        RunStatus::Final(FinalStatus::Failed),
    ];
    let found = list(
        &ground,
        RunFilter {
            statuses: some.to_vec(),
            ..all()
        },
    )
    .await?;
    assert_eq!(sorted(found), sorted(some.map(|status| runs[&status])));
    Ok(())
}

/// Runs that differ in what was said at their admission.
fn various(ground: &Ground, said: &SaidAtAdmission) -> Vec<Admit> {
    let plain = || ground.admission();
    let tagged = |pairs: &[(&str, &str)]| Admit {
        tags: tags(pairs),
        ..plain()
    };
    vec![
        Admit {
            workflow: "other".to_owned(),
            ..plain()
        },
        Admit {
            queue: said.queue.clone(),
            ..plain()
        },
        Admit {
            realm: said.realm.clone(),
            ..plain()
        },
        Admit {
            parent: Some(Parent {
                run: said.parent,
                execution: "a".to_owned(),
            }),
            ..plain()
        },
        tagged(&[("a", "1")]),
        tagged(&[("a", "1"), ("b", "2")]),
        Admit {
            workflow: "other".to_owned(),
            ..tagged(&[("a", "2"), ("b", "1")])
        },
    ]
}

/// What is said of some of the runs.
struct SaidAtAdmission {
    parent: RunId,
    queue: QueueName,
    realm: Realm,
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()))
        .collect()
}

/// Filters, and which of the runs they let through.
fn filters(said: SaidAtAdmission) -> Vec<(RunFilter, Vec<usize>)> {
    let of_workflow = |name: &str| RunFilter {
        workflow: Some(name.to_owned()),
        ..all()
    };
    let of_parent = |parent| RunFilter {
        parent: Some(parent),
        ..all()
    };
    let tagged = |pairs: &[(&str, &str)]| RunFilter {
        tags: tags(pairs),
        ..all()
    };
    let queue = RunFilter {
        queue: Some(said.queue),
        ..all()
    };
    let realm = RunFilter {
        realm: Some(said.realm),
        ..all()
    };
    let both = RunFilter {
        tags: tags(&[("b", "1")]),
        ..of_workflow("other")
    };
    vec![
        (of_workflow("other"), vec![0, 6]),
        (queue, vec![1]),
        (realm, vec![2]),
        (of_parent(said.parent), vec![3]),
        (tagged(&[("a", "1")]), vec![4, 5]),
        (tagged(&[("a", "1"), ("b", "2")]), vec![5]),
        (tagged(&[("a", "1"), ("b", "1")]), vec![]),
        (both, vec![6]),
        (of_workflow("oth%"), vec![]),
        (of_parent(run_id()), vec![]),
    ]
}

async fn listings_filter_by_what_was_said_at_admission(ground: Ground) -> Kept {
    let said = SaidAtAdmission {
        parent: run_id(),
        queue: QueueName::parse("q").expect("a good name"),
        realm: Realm::parse("r").expect("a good name"),
    };
    let runs = ground.admit(various(&ground, &said)).await?;
    for (filter, expected) in filters(said) {
        let expected = sorted(expected.into_iter().map(|index: usize| runs[index]));
        assert_eq!(
            sorted(list(&ground, filter.clone()).await?),
            expected,
            "{filter:?}"
        );
    }
    Ok(())
}

async fn listings_filter_by_time(ground: Ground) -> Kept {
    let mut records = Vec::new();
    for _ in 0..3 {
        let run = ground.admit_many(1).await?[0];
        records.push(ground.record(run).await?);
        ground.pass(Span::from_millis(3)).await;
    }
    let middle = records[1].created_at;
    let since = list(
        &ground,
        RunFilter {
            since: Some(middle),
            ..all()
        },
    )
    .await?;
    assert_eq!(
        since,
        [records[2].run, records[1].run],
        "at this time or later"
    );
    let until = list(
        &ground,
        RunFilter {
            until: Some(middle),
            ..all()
        },
    )
    .await?;
    assert_eq!(until, [records[0].run], "before this time");
    let none = list(
        &ground,
        RunFilter {
            since: Some(middle),
            until: Some(middle),
            ..all()
        },
    )
    .await?;
    assert!(none.is_empty());
    let turned = RunFilter {
        since: Some(records[2].created_at),
        until: Some(records[0].created_at),
        ..all()
    };
    assert!(list(&ground, turned).await?.is_empty());
    Ok(())
}

async fn listings_page_without_gap_or_repeat(ground: Ground) -> Kept {
    ground.admit_many(12).await?;
    ground.pass(Span::from_millis(3)).await;
    let other = (0..11)
        .map(|_| Admit {
            workflow: "other".to_owned(),
            ..ground.admission()
        })
        .collect();
    ground.admit(other).await?;
    ground.admit_many(4).await?;
    for workflow in [None, Some("other".to_owned())] {
        let filter = RunFilter { workflow, ..all() };
        let whole = list(&ground, filter.clone()).await?;
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = ground
                .runs()
                .list(RunFilter {
                    after,
                    limit: 5,
                    ..filter.clone()
                })
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(last.cursor());
            assert!(page.len() <= 5);
            paged.extend(page.into_iter().map(|record| record.run));
        }
        assert_eq!(paged, whole);
    }
    Ok(())
}

async fn a_listing_is_bounded(ground: Ground) -> Kept {
    ground.admit_many(5).await?;
    for (limit, expected) in [(0, 0), (3, 3), (5, 5), (usize::MAX, 5)] {
        assert_eq!(
            list(&ground, RunFilter { limit, ..all() }).await?.len(),
            expected
        );
    }
    Ok(())
}

/// As a listing shows them; each once, and those that are not there not at all.
async fn runs_are_listed_by_their_ids(ground: Ground) -> Kept {
    assert!(ground.runs().listed(&[]).await?.is_empty());
    assert!(ground.runs().listed(&[run_id()]).await?.is_empty());
    one_of_each(&ground).await?;
    ground.admit_many(3).await?;
    let mut all = ground.runs().list(all()).await?;
    all.sort_by_key(|record| record.run);
    for kept in [1, 2, all.len()] {
        let mut asked: Vec<RunId> = all[..kept].iter().map(|record| record.run).collect();
        asked.extend([run_id(), asked[0]]);
        let mut found = ground.runs().listed(&asked).await?;
        found.sort_by_key(|record| record.run);
        assert_eq!(found, all[..kept]);
    }
    Ok(())
}

async fn a_result_is_read_as_far_as_it_is_asked_for(ground: Ground) -> Kept {
    assert_eq!(ground.runs().result(run_id(), 10).await?, None);
    let (owner, run) = ground.owned_run().await?;
    assert_eq!(ground.runs().result(run.run, 10).await?, None);
    let whole: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    let mut commit = finish(owner, &run, None);
    if let Then::Finish(finish) = &mut commit.then {
        finish.result = Some(whole.clone());
    }
    ground.commit(commit).await?;
    for most in [0, 1, 65_536, 100_000, 100_001, usize::MAX] {
        let found = ground.runs().result(run.run, most).await?;
        let expected = ResultHead {
            bytes: whole[..most.min(whole.len())].to_vec(),
            total: 100_000,
        };
        assert_eq!(found, Some(expected), "{most}");
    }
    Ok(())
}

async fn the_journal_is_paged(ground: Ground) -> Kept {
    let run = ground
        .admit(vec![Admit {
            rows: rows(1, 20),
            ..ground.admission()
        }])
        .await?[0];
    assert_eq!(ground.runs().journal(run, 0, 7).await?, rows(1, 7));
    assert_eq!(ground.runs().journal(run, 7, 7).await?, rows(8, 14));
    assert_eq!(
        ground.runs().journal(run, 14, usize::MAX).await?,
        rows(15, 20)
    );
    assert!(ground.runs().journal(run, 20, 7).await?.is_empty());
    assert!(ground.runs().journal(run, 99, 7).await?.is_empty());
    assert!(ground.runs().journal(run, 0, 0).await?.is_empty());
    Ok(())
}

async fn counts_tell_statuses_and_queues(ground: Ground) -> Kept {
    let counts = ground.runs().counts().await?;
    assert!(
        counts.by_status.values().all(|count| *count == 0) && counts.queues.is_empty(),
        "{counts:?}"
    );
    one_of_each(&ground).await?;
    let queue = QueueName::parse("q").expect("a good name");
    let own = |due| Admit {
        queue: queue.clone(),
        due,
        ..ground.admission()
    };
    // Due at once: they wait since they were created.
    let admitted = ground
        .admit(vec![
            own(Timestamp::EPOCH),
            own(Timestamp::EPOCH),
            own(Timestamp::NEVER),
        ])
        .await?;
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(release(owner, &run, Wake::Parked("limit".to_owned()), 0))
        .await?;
    let counts = ground.runs().counts().await?;
    assert_eq!(ground.runs().queues().await?, counts.queues);
    let mut waits_since = Timestamp::NEVER;
    for run in &admitted[..2] {
        let record = ground.runs().run(*run).await?;
        waits_since = waits_since.min(record.expect("it was admitted").created_at);
    }
    for (status, expected) in RunStatus::ALL.iter().zip([4, 1, 1, 1, 2, 1, 1, 1, 1]) {
        assert_eq!(
            counts.by_status.get(status.as_str()).copied().unwrap_or(0),
            expected,
            "{status}: {counts:?}"
        );
    }
    let of = |name: &QueueName| {
        counts
            .queues
            .iter()
            .find(|count| count.queue == *name)
            .cloned()
    };
    let standard = QueueName::default();
    let expected = QueueCount {
        queue: standard.clone(),
        due: 0,
        later: 5,
        owned: 1,
        parked: 1,
        oldest: None,
    };
    assert_eq!(of(&standard), Some(expected));
    assert_eq!(
        of(&queue),
        Some(QueueCount {
            queue,
            due: 2,
            later: 1,
            owned: 0,
            parked: 0,
            oldest: Some(waits_since),
        })
    );
    Ok(())
}
