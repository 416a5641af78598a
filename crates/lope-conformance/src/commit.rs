//! Promises of `commit`: guarded by owner and epoch, without gaps, all or nothing for each run.

pub(crate) mod children;
pub(crate) mod finish;

use lope_model::{Digest, Epoch, limit};

use super::ground::{
    Ground, all_bytes, assert_refused, claim_of, finish, hold, mail_to, release, row, rows, run_id,
    runner_id, version_of,
};
use super::mailbox_send::message;
use super::promise::{Kept, promises};
use lope_store::runs::{
    Admit, Blob, Claim, CommitReply, JournalRow, LiveStatus, Reach, Release, RunCommit, RunStatus,
    Snapshot, Then, Wake,
};
use lope_store::tables::{Range, TableId};

promises![
    rows_continue_the_journal,
    a_gap_is_told_and_nothing_written,
    a_stale_owner_or_epoch_is_refused,
    a_run_that_is_not_live_is_missing,
    a_lost_commit_leaves_the_others_alone,
    replies_come_in_the_order_of_the_commits,
    a_snapshot_replaces_the_one_before,
    a_snapshot_ahead_of_the_journal_is_a_gap,
    the_law_rises_with_a_snapshot,
    values_are_kept_by_content,
    a_refused_commit_leaves_no_trace,
    the_status_is_what_the_owner_said,
    an_unsound_commit_is_refused,
    another_handle_sees_the_commit,
];

async fn rows_continue_the_journal(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    for (from, to) in [(2, 2), (3, 7), (8, 500)] {
        ground
            .commit(RunCommit {
                rows: rows(from, to),
                ..hold(owner, &run)
            })
            .await?;
        assert_eq!(ground.record(run.run).await?.head, to);
    }
    ground.commit(hold(owner, &run)).await?;
    assert_eq!(
        ground.runs().journal(run.run, 0, 1_000).await?,
        rows(1, 500)
    );
    let loaded = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there");
    assert_eq!((loaded.rows, loaded.record.head), (rows(1, 500), 500));
    Ok(())
}

async fn a_gap_is_told_and_nothing_written(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    ground
        .commit(RunCommit {
            rows: rows(2, 4),
            ..hold(owner, &run)
        })
        .await?;
    let unsound = [
        rows(6, 6),
        rows(4, 5),
        rows(1, 1),
        vec![row(5), row(7)],
        vec![row(5), row(5)],
        vec![row(0)],
    ];
    for rows in unsound {
        let commit = RunCommit {
            rows,
            then: Then::Hold(LiveStatus::Sleeping),
            ..hold(owner, &run)
        };
        assert_eq!(
            ground.reply(commit.clone()).await?,
            CommitReply::Gap { head: 4 },
            "{:?}",
            commit.rows
        );
    }
    let record = ground.record(run.run).await?;
    assert_eq!(
        (record.head, record.status),
        (4, RunStatus::Live(LiveStatus::Running))
    );
    ground
        .commit(RunCommit {
            rows: rows(5, 5),
            ..hold(owner, &run)
        })
        .await?;
    assert_eq!(ground.runs().journal(run.run, 0, 10).await?, rows(1, 5));
    Ok(())
}

async fn a_stale_owner_or_epoch_is_refused(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let stranger = ground.runner().await?;
    let sound = RunCommit {
        rows: rows(2, 2),
        ..hold(owner, &run)
    };
    let stale = [
        RunCommit {
            owner: stranger,
            ..sound.clone()
        },
        RunCommit {
            epoch: Epoch(0),
            ..sound.clone()
        },
        RunCommit {
            epoch: Epoch(2),
            ..sound.clone()
        },
    ];
    let lost = CommitReply::Lost {
        owner: Some(owner),
        epoch: run.epoch,
    };
    for commit in stale {
        assert_eq!(ground.reply(commit).await?, lost);
    }
    assert_eq!(ground.record(run.run).await?.head, 1);
    ground.commit(sound).await?;
    Ok(())
}

async fn a_run_that_is_not_live_is_missing(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let unknown = RunCommit {
        run: run_id(),
        ..hold(owner, &run)
    };
    assert_eq!(ground.reply(unknown).await?, CommitReply::Missing);
    ground.commit(finish(owner, &run, None)).await?;
    for commit in [
        RunCommit {
            rows: rows(2, 2),
            ..hold(owner, &run)
        },
        finish(owner, &run, None),
    ] {
        assert_eq!(ground.reply(commit).await?, CommitReply::Missing);
    }
    assert_eq!(ground.record(run.run).await?.head, 1);
    Ok(())
}

async fn a_lost_commit_leaves_the_others_alone(ground: Ground) -> Kept {
    ground.admit_many(5).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let mut commits: Vec<RunCommit> = claimed
        .iter()
        .map(|run| RunCommit {
            rows: rows(2, 3),
            ..hold(owner, run)
        })
        .collect();
    commits[1].epoch = Epoch(9);
    commits[2].rows = rows(3, 3);
    commits[3].run = run_id();
    let replies = ground.runs().commit(commits).await?;
    let done = CommitReply::Done {
        mail: 0,
        undelivered: vec![],
    };
    let lost = CommitReply::Lost {
        owner: Some(owner),
        epoch: Epoch(1),
    };
    assert_eq!(
        replies,
        [
            done.clone(),
            lost,
            CommitReply::Gap { head: 1 },
            CommitReply::Missing,
            done
        ]
    );
    for (run, head) in claimed.iter().zip([3, 1, 1, 1, 3]) {
        assert_eq!(ground.record(run.run).await?.head, head);
        assert_eq!(ground.runs().journal(run.run, 0, 10).await?, rows(1, head));
    }
    Ok(())
}

async fn replies_come_in_the_order_of_the_commits(ground: Ground) -> Kept {
    let runs = ground.admit_many(20).await?;
    for (index, run) in runs.iter().enumerate() {
        for number in 0..index {
            ground.deliver(*run, &number.to_string()).await?;
        }
    }
    let owner = ground.runner().await?;
    let mut claimed = ground.claim(owner).await?.runs;
    claimed.sort_by_key(|run| std::cmp::Reverse(run.mail));
    let replies = ground
        .runs()
        .commit(claimed.iter().map(|run| hold(owner, run)).collect())
        .await?;
    let counters: Vec<u64> = replies
        .iter()
        .map(|reply| match reply {
            CommitReply::Done { mail, .. } => *mail,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counters, (0..20).rev().collect::<Vec<_>>());
    Ok(())
}

async fn a_snapshot_replaces_the_one_before(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let snapshot = |seq, body| Some(Snapshot { seq, law: 1, body });
    for (head, at, body) in [
        (5, 3, all_bytes()),
        (9, 9, vec![]),
        (12, 10, vec![1; 1_000_000]),
    ] {
        let from = ground.record(run.run).await?.head + 1;
        let taken = snapshot(at, body);
        ground
            .commit(RunCommit {
                rows: rows(from, head),
                snapshot: taken.clone(),
                ..hold(owner, &run)
            })
            .await?;
        let loaded = ground
            .runs()
            .load(&[run.run])
            .await?
            .remove(0)
            .expect("the run is there");
        assert!(loaded.snapshot == taken, "the snapshot at {at} differs");
        assert_eq!(
            loaded.rows,
            rows(at + 1, head),
            "the journal behind the snapshot"
        );
    }
    assert_eq!(
        ground.runs().journal(run.run, 0, 100).await?,
        rows(1, 12),
        "the whole journal stays"
    );
    Ok(())
}

async fn a_snapshot_ahead_of_the_journal_is_a_gap(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let snapshot = Some(Snapshot {
        seq: 4,
        law: 1,
        body: vec![],
    });
    let commit = RunCommit {
        rows: rows(2, 3),
        snapshot,
        ..hold(owner, &run)
    };
    assert_eq!(ground.reply(commit).await?, CommitReply::Gap { head: 1 });
    let loaded = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there");
    assert_eq!((loaded.snapshot, loaded.rows), (None, rows(1, 1)));
    Ok(())
}

async fn the_law_rises_with_a_snapshot(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let snapshot = Some(Snapshot {
        seq: 1,
        law: 2,
        body: vec![],
    });
    ground
        .commit(RunCommit {
            snapshot,
            ..release(owner, &run, Wake::At(run.due), 0)
        })
        .await?;
    assert_eq!(ground.record(run.run).await?.law, 2);
    assert!(
        ground.claim(owner).await?.runs.is_empty(),
        "a runner that knows only law 1 leaves it"
    );
    let claimed = ground
        .runs()
        .claim(Claim {
            law: 2,
            ..claim_of(owner)
        })
        .await?
        .expect("held");
    assert_eq!((claimed.runs.len(), claimed.runs[0].law), (1, 2));
    Ok(())
}

async fn values_are_kept_by_content(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let blob = |bytes: &[u8]| Blob {
        digest: Digest::of(bytes),
        bytes: bytes.to_vec(),
    };
    let (one, two, empty) = (blob(b"one"), blob(&all_bytes()), blob(b""));
    ground
        .commit(RunCommit {
            blobs: vec![one.clone(), empty.clone()],
            ..hold(owner, &run)
        })
        .await?;
    ground
        .commit(RunCommit {
            blobs: vec![two.clone(), one.clone()],
            ..hold(owner, &run)
        })
        .await?;
    let found = ground
        .runs()
        .blobs(run.run, &[two.digest, one.digest, empty.digest])
        .await?;
    assert_eq!(found, [Some(two.bytes), Some(one.bytes), Some(empty.bytes)]);
    let other = ground.admit_many(1).await?[0];
    assert_eq!(
        ground.runs().blobs(other, &[one.digest]).await?,
        [None],
        "values belong to a run"
    );
    Ok(())
}

async fn a_refused_commit_leaves_no_trace(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let target = ground.admit_many(1).await?[0];
    ground.deliver(run.run, "mail").await?;
    let child = ground.admission();
    let blob = Blob {
        digest: Digest::of(b"v"),
        bytes: b"v".to_vec(),
    };
    let whole = RunCommit {
        rows: rows(2, 2),
        blobs: vec![blob.clone()],
        snapshot: Some(Snapshot {
            seq: 2,
            law: 2,
            body: vec![],
        }),
        taken: vec![1],
        children: vec![child.clone()],
        deliveries: vec![mail_to(target, "mail", Reach::Live)],
        mailbox_sends: vec![message(b"refused", b"m")],
        ..finish(owner, &run, Some(0))
    };
    let refused = [
        RunCommit {
            epoch: Epoch(7),
            ..whole.clone()
        },
        RunCommit {
            owner: runner_id(),
            ..whole.clone()
        },
        RunCommit {
            rows: rows(3, 3),
            ..whole.clone()
        },
        RunCommit {
            children: vec![
                child.clone(),
                Admit {
                    version: version_of("never"),
                    ..ground.admission()
                },
            ],
            then: Then::Hold(LiveStatus::Idle),
            ..whole.clone()
        },
        whole,
    ];
    let before = ground.runs().load(&[run.run, target, child.run]).await?;
    for commit in refused {
        let reply = ground.reply(commit).await?;
        assert!(!matches!(reply, CommitReply::Done { .. }), "{reply:?}");
        assert_eq!(
            ground.runs().load(&[run.run, target, child.run]).await?,
            before,
            "after {reply:?}"
        );
        assert_eq!(ground.runs().blobs(run.run, &[blob.digest]).await?, [None]);
        assert_eq!(
            ground.tables().count(Range::whole(TableId::INBOX)).await?,
            0
        );
    }
    Ok(())
}

async fn the_status_is_what_the_owner_said(ground: Ground) -> Kept {
    use LiveStatus::{Idle, Paused, Queued, Running, Sleeping, Waiting};
    for said in [Queued, Running, Idle, Sleeping, Waiting, Paused] {
        let (owner, run) = ground.owned_run().await?;
        ground
            .commit(RunCommit {
                then: Then::Hold(said),
                ..hold(owner, &run)
            })
            .await?;
        assert_eq!(
            ground.record(run.run).await?.status,
            RunStatus::of_live(said, true),
            "{said:?}, owned"
        );
        let then = Then::Release(Release {
            status: said,
            wake: Wake::OnMail,
            seen: 0,
        });
        ground
            .commit(RunCommit {
                then,
                ..hold(owner, &run)
            })
            .await?;
        assert_eq!(
            ground.record(run.run).await?.status,
            RunStatus::of_live(said, false),
            "{said:?}, unowned"
        );
    }
    Ok(())
}

async fn an_unsound_commit_is_refused(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let sound = RunCommit {
        rows: rows(2, 2),
        ..hold(owner, &run)
    };
    assert_refused(
        ground
            .runs()
            .commit(vec![sound.clone(), sound.clone()])
            .await,
    );
    let large = JournalRow {
        body: vec![0; limit::PAYLOAD_MAX + 1],
        ..row(2)
    };
    assert_refused(
        ground
            .runs()
            .commit(vec![RunCommit {
                rows: vec![large],
                ..sound.clone()
            }])
            .await,
    );
    let nameless = JournalRow {
        event: "".into(),
        ..row(2)
    };
    assert_refused(
        ground
            .runs()
            .commit(vec![RunCommit {
                rows: vec![nameless],
                ..sound.clone()
            }])
            .await,
    );
    assert_eq!(ground.record(run.run).await?.head, 1);
    ground.commit(sound).await?;
    Ok(())
}

async fn another_handle_sees_the_commit(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let other = ground.again().await;
    for seq in 2..20 {
        ground
            .commit(RunCommit {
                rows: rows(seq, seq),
                ..hold(owner, &run)
            })
            .await?;
        let reader = other.clone();
        let read = tokio::spawn(async move { reader.runs().journal(run.run, 0, 100).await });
        assert_eq!(read.await.expect("reading does not panic")?, rows(1, seq));
    }
    Ok(())
}
