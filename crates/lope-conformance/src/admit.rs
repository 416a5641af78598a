//! Promises of `admit`: a run is stored whole or not at all, once per id and key.

use std::collections::BTreeMap;

use lope_model::{Digest, Epoch, Priority, QueueName, Realm, Timestamp, limit};

use super::ground::{
    Ground, all_bytes, assert_refused, claim_of, exists, hold, mail_to, row, rows, run_id,
    runner_id, runs_of, version_of,
};
use super::promise::{Kept, promises};
use lope_store::runs::{
    Admit, Admitted, Blob, Delivered, JournalRow, LiveStatus, Parent, Reach, RunCommit, RunRecord,
    RunStatus, Snapshot,
};

promises![
    a_run_is_stored_with_all_that_was_said,
    what_is_saved_is_loaded,
    journal_rows_round_trip_byte_by_byte,
    the_largest_value_fits_and_one_byte_more_is_refused,
    an_id_admits_once,
    a_key_admits_once,
    keys_and_ids_admit_once_within_a_call,
    an_unknown_version_is_not_admitted,
    a_run_may_be_born_claimed,
    born_claimed_needs_a_held_session,
    a_fork_goes_on_behind_its_base,
    a_run_that_is_due_never_waits_for_mail,
    an_unsound_admission_is_refused,
    another_handle_sees_the_run,
    nothing_is_an_answer_to_nothing,
];

/// An admission in which every field is set.
fn full(ground: &Ground) -> Admit {
    let tags = [("colour", "naïve 'quoted' \"text\""), ("empty", "")];
    Admit {
        key: Some("order-17/ü'\"\\%_".to_owned()),
        queue: QueueName::parse("a queue").expect("a good name"),
        priority: Priority::HIGHEST,
        realm: Realm::parse("py:shop").expect("a good name"),
        due: Timestamp::from_millis(4_000_000_000_123),
        law: 7,
        weight: u32::MAX,
        tags: tags
            .iter()
            .map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()))
            .collect(),
        parent: Some(Parent {
            run: run_id(),
            execution: "mail/3/send".to_owned(),
        }),
        rows: rows(1, 3),
        ..ground.admission()
    }
}

async fn a_run_is_stored_with_all_that_was_said(ground: Ground) -> Kept {
    let admit = full(&ground);
    ground.admit(vec![admit.clone()]).await?;
    let record = ground.record(admit.run).await?;
    let expected = RunRecord {
        run: admit.run,
        workflow: admit.workflow,
        version: admit.version,
        key: admit.key,
        status: RunStatus::Live(LiveStatus::Queued),
        queue: admit.queue,
        priority: admit.priority,
        realm: admit.realm,
        law: admit.law,
        tags: admit.tags,
        parent: admit.parent,
        created_at: record.created_at,
        started_at: None,
        finished_at: None,
        due: Some(admit.due),
        owner: None,
        epoch: Epoch(0),
        head: 3,
        mail: 0,
        parked: None,
        result: None,
        error: None,
    };
    assert_eq!(record, expected);
    let beat = ground
        .runs()
        .register(super::ground::registration(lope_model::Span::from_secs(60)))
        .await?;
    assert!(
        record.created_at <= beat.now && record.created_at.millis() > 0,
        "created by the store's clock"
    );
    Ok(())
}

async fn what_is_saved_is_loaded(ground: Ground) -> Kept {
    let bytes = all_bytes();
    let (blob, empty) = (
        Blob {
            digest: Digest::of(&bytes),
            bytes,
        },
        Blob {
            digest: Digest::of(b""),
            bytes: vec![],
        },
    );
    let admit = Admit {
        blobs: vec![blob.clone(), empty.clone()],
        rows: rows(1, 5),
        ..full(&ground)
    };
    ground.admit(vec![admit.clone()]).await?;
    let loaded = ground.runs().load(&[run_id(), admit.run]).await?;
    assert_eq!(loaded[0], None);
    let loaded = loaded[1].clone().expect("the run is there");
    assert_eq!(loaded.record, ground.record(admit.run).await?);
    assert_eq!(
        (loaded.rows, loaded.snapshot, loaded.mail),
        (admit.rows.clone(), None, vec![])
    );
    let digests = [empty.digest, Digest::of(b"unknown"), blob.digest];
    let found = ground.runs().blobs(admit.run, &digests).await?;
    assert_eq!(found, [Some(vec![]), None, Some(blob.bytes)]);
    assert_eq!(
        ground.runs().blobs(run_id(), &[empty.digest]).await?,
        [None]
    );
    assert_eq!(ground.runs().journal(admit.run, 0, 100).await?, admit.rows);
    Ok(())
}

async fn journal_rows_round_trip_byte_by_byte(ground: Ground) -> Kept {
    let bodies = [Vec::new(), vec![0], all_bytes(), vec![0x5a; 1_000_000]];
    let times = [0, -1, 1_700_000_000_123, i64::MAX];
    let events = ["a", "step done", "naïve/µ'\"", "x"];
    let rows: Vec<JournalRow> = bodies
        .into_iter()
        .zip(times.into_iter().zip(events))
        .zip(1..)
        .map(|((body, (at, event)), seq)| JournalRow {
            seq,
            at: Timestamp::from_millis(at),
            event: event.into(),
            body,
        })
        .collect();
    let runs = ground
        .admit(vec![Admit {
            rows: rows.clone(),
            ..ground.admission()
        }])
        .await?;
    assert!(ground.runs().journal(runs[0], 0, 10).await? == rows);
    let loaded = ground
        .runs()
        .load(&runs)
        .await?
        .remove(0)
        .expect("the run is there");
    assert!(loaded.rows == rows);
    Ok(())
}

async fn the_largest_value_fits_and_one_byte_more_is_refused(ground: Ground) -> Kept {
    let mut bytes = vec![0xc3; limit::PAYLOAD_MAX];
    let digest = Digest::of(&bytes);
    let with = |bytes| Admit {
        blobs: vec![Blob { digest, bytes }],
        ..ground.admission()
    };
    let run = ground.admit(vec![with(bytes.clone())]).await?[0];
    assert!(ground.runs().blobs(run, &[digest]).await?[0].as_ref() == Some(&bytes));
    bytes.push(0);
    let sound = ground.admission();
    let unsound = with(bytes.clone());
    let id = sound.run;
    assert_refused(ground.runs().admit(vec![sound, unsound]).await);
    assert_eq!(
        ground.runs().run(id).await?,
        None,
        "a refused call writes nothing"
    );
    let row = JournalRow {
        body: bytes,
        ..row(1)
    };
    assert_refused(
        ground
            .runs()
            .admit(vec![Admit {
                rows: vec![row],
                ..ground.admission()
            }])
            .await,
    );
    Ok(())
}

async fn an_id_admits_once(ground: Ground) -> Kept {
    let first = ground.admission();
    ground.admit(vec![first.clone()]).await?;
    let second = Admit {
        workflow: "other".to_owned(),
        rows: rows(1, 9),
        ..first.clone()
    };
    assert_eq!(
        ground.runs().admit(vec![second]).await?,
        [exists(first.run)]
    );
    let record = ground.record(first.run).await?;
    assert_eq!((record.workflow, record.head), (first.workflow, 1));
    Ok(())
}

async fn a_key_admits_once(ground: Ground) -> Kept {
    let keyed = || Admit {
        key: Some("order-17".to_owned()),
        ..ground.admission()
    };
    assert_eq!(ground.runs().find_key("order-17").await?, None);
    let first = ground.admit(vec![keyed()]).await?[0];
    let second = keyed();
    let id = second.run;
    assert_eq!(ground.runs().admit(vec![second]).await?, [exists(first)]);
    assert_eq!(ground.runs().run(id).await?, None);
    assert_eq!(ground.runs().find_key("order-17").await?, Some(first));
    assert_eq!(ground.runs().find_key("order-1").await?, None);
    Ok(())
}

async fn keys_and_ids_admit_once_within_a_call(ground: Ground) -> Kept {
    ground.deploy().await?;
    let keyed = || Admit {
        key: Some("key".to_owned()),
        ..ground.admission()
    };
    let first = keyed();
    let plain = ground.admission();
    let run = first.run;
    let id = plain.run;
    let answers = ground
        .runs()
        .admit(vec![first, keyed(), plain.clone(), plain])
        .await?;
    let created = Admitted::Created {
        epoch: Epoch(0),
        owned: false,
    };
    assert_eq!(
        answers,
        [created.clone(), exists(run), created, exists(id),]
    );
    Ok(())
}

async fn an_unknown_version_is_not_admitted(ground: Ground) -> Kept {
    ground.deploy().await?;
    let unknown = Admit {
        version: version_of("never"),
        key: Some("k".to_owned()),
        ..ground.admission()
    };
    let id = unknown.run;
    let sound = ground.admission();
    let answers = ground.runs().admit(vec![unknown, sound.clone()]).await?;
    assert_eq!(
        answers,
        [
            Admitted::UnknownVersion,
            Admitted::Created {
                epoch: Epoch(0),
                owned: false
            }
        ]
    );
    assert_eq!(ground.runs().run(id).await?, None);
    assert_eq!(ground.runs().find_key("k").await?, None);
    assert!(ground.runs().run(sound.run).await?.is_some());
    Ok(())
}

async fn a_run_may_be_born_claimed(ground: Ground) -> Kept {
    ground.deploy().await?;
    let (owner, other) = (ground.runner().await?, ground.runner().await?);
    let born = Admit {
        claimed_by: Some(owner),
        ..ground.admission()
    };
    let answers = ground.runs().admit(vec![born.clone()]).await?;
    assert_eq!(
        answers,
        [Admitted::Created {
            epoch: Epoch(1),
            owned: true
        }]
    );
    assert!(ground.claim(other).await?.runs.is_empty());
    let record = ground.record(born.run).await?;
    assert_eq!((record.owner, record.epoch), (Some(owner), Epoch(1)));
    assert_eq!(record.status, RunStatus::Live(LiveStatus::Running));
    let owned = ground.runs().owned(owner, None, 10).await?;
    assert_eq!(runs_of(&owned), [born.run]);
    ground
        .commit(RunCommit {
            rows: rows(2, 3),
            ..hold(owner, &owned[0])
        })
        .await?;
    Ok(())
}

async fn born_claimed_needs_a_held_session(ground: Ground) -> Kept {
    ground.deploy().await?;
    let (gone, claimer) = (ground.runner().await?, ground.runner().await?);
    ground.runs().release(gone).await?;
    let (expired, _) = ground.expired_owner().await?;
    for runner in [gone, expired, runner_id()] {
        let born = Admit {
            claimed_by: Some(runner),
            ..ground.admission()
        };
        let answers = ground.runs().admit(vec![born.clone()]).await?;
        assert_eq!(
            answers,
            [Admitted::Created {
                epoch: Epoch(0),
                owned: false
            }]
        );
        assert_eq!(
            runs_of(&ground.claim(claimer).await?.runs),
            [born.run],
            "it waits like any other"
        );
    }
    Ok(())
}

async fn a_fork_goes_on_behind_its_base(ground: Ground) -> Kept {
    let snapshot = Snapshot {
        seq: 5,
        law: 1,
        body: all_bytes(),
    };
    let based = Admit {
        snapshot: Some(snapshot.clone()),
        rows: rows(6, 7),
        ..ground.admission()
    };
    let bare = Admit {
        snapshot: Some(snapshot.clone()),
        rows: vec![],
        ..ground.admission()
    };
    let runs = ground.admit(vec![based, bare]).await?;
    let loaded = ground.runs().load(&runs).await?;
    let loaded: Vec<_> = loaded
        .into_iter()
        .map(|loaded| loaded.expect("the run is there"))
        .collect();
    assert_eq!((loaded[0].record.head, &loaded[0].rows), (7, &rows(6, 7)));
    assert_eq!((loaded[1].record.head, &loaded[1].rows), (5, &vec![]));
    assert!(
        loaded
            .iter()
            .all(|loaded| loaded.snapshot.as_ref() == Some(&snapshot))
    );
    assert_eq!(ground.runs().journal(runs[0], 0, 10).await?, rows(6, 7));
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let bare = claimed
        .iter()
        .find(|run| run.run == runs[1])
        .expect("both are due");
    ground
        .commit(RunCommit {
            rows: rows(6, 6),
            ..hold(owner, bare)
        })
        .await?;
    assert_eq!(ground.record(runs[1]).await?.head, 6);
    Ok(())
}

async fn a_run_that_is_due_never_waits_for_mail(ground: Ground) -> Kept {
    let run = ground
        .admit(vec![Admit {
            due: Timestamp::NEVER,
            ..ground.admission()
        }])
        .await?[0];
    let runner = ground.runner().await?;
    let claimed = ground.claim(runner).await?;
    assert_eq!((claimed.runs.len(), claimed.next_due), (0, None));
    let delivered = ground
        .runs()
        .deliver(vec![mail_to(run, "wake", Reach::Live)])
        .await?;
    assert_eq!(delivered, [Delivered::Accepted]);
    assert_eq!(runs_of(&ground.claim(runner).await?.runs), [run]);
    Ok(())
}

async fn an_unsound_admission_is_refused(ground: Ground) -> Kept {
    ground.deploy().await?;
    let sound = || ground.admission();
    let long = "n".repeat(limit::NAME_MAX + 1);
    let tags: BTreeMap<_, _> = (0..=limit::TAGS_MAX)
        .map(|i| (format!("t{i}"), String::new()))
        .collect();
    let unsound = [
        Admit {
            rows: vec![row(2)],
            ..sound()
        },
        Admit {
            rows: vec![row(1), row(3)],
            ..sound()
        },
        Admit {
            rows: vec![row(1), row(1)],
            ..sound()
        },
        Admit {
            snapshot: Some(Snapshot {
                seq: 4,
                law: 1,
                body: vec![],
            }),
            ..sound()
        },
        Admit {
            workflow: long.clone(),
            ..sound()
        },
        Admit {
            workflow: String::new(),
            ..sound()
        },
        Admit {
            key: Some(long),
            ..sound()
        },
        Admit {
            key: Some("zero\0byte".to_owned()),
            ..sound()
        },
        Admit { tags, ..sound() },
    ];
    for admit in unsound {
        let run = admit.run;
        assert_refused(ground.runs().admit(vec![admit]).await);
        assert_eq!(ground.runs().run(run).await?, None);
    }
    assert!(
        ground
            .runs()
            .claim(claim_of(ground.runner().await?))
            .await?
            .expect("held")
            .runs
            .is_empty()
    );
    Ok(())
}

async fn another_handle_sees_the_run(ground: Ground) -> Kept {
    let other = ground.again().await;
    for _ in 0..10 {
        let run = ground.admit_many(1).await?[0];
        let reader = other.clone();
        let seen = tokio::spawn(async move { reader.record(run).await })
            .await
            .expect("reading does not panic")?;
        assert_eq!(seen, ground.record(run).await?);
    }
    Ok(())
}

async fn nothing_is_an_answer_to_nothing(ground: Ground) -> Kept {
    assert!(ground.runs().admit(vec![]).await?.is_empty());
    assert!(ground.runs().commit(vec![]).await?.is_empty());
    assert!(ground.runs().deliver(vec![]).await?.is_empty());
    assert!(ground.runs().load(&[]).await?.is_empty());
    assert!(ground.runs().blobs(run_id(), &[]).await?.is_empty());
    Ok(())
}
