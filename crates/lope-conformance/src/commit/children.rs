//! Promises of `commit`: children are admitted, mail delivered and taken, all in the run's own
//! commit.

use lope_model::Priority;

use crate::ground::{Ground, finish, hold, mail_to, rows, run_id, runs_of, sorted, version_of};
use crate::promise::{Kept, promises};
use lope_store::runs::{Admit, CommitReply, Delivered, Parent, Reach, RunCommit};

promises![
    children_are_admitted_with_the_commit,
    a_child_that_exists_stays_as_it_is,
    a_child_of_an_unknown_version_stops_the_commit,
    mail_is_delivered_with_the_commit,
    who_could_not_be_reached_is_named,
    taken_mail_is_gone_from_waiting,
    a_commit_tells_the_mail_counter,
];

async fn children_are_admitted_with_the_commit(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let parent = Parent {
        run: run.run,
        execution: "each/3".to_owned(),
    };
    let child = || Admit {
        parent: Some(parent.clone()),
        ..ground.admission()
    };
    let born = Admit {
        claimed_by: Some(owner),
        ..child()
    };
    let children = vec![
        child(),
        Admit {
            priority: Priority::HIGHEST,
            ..child()
        },
        born.clone(),
    ];
    let ids: Vec<_> = children.iter().map(|child| child.run).collect();
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            children,
            ..hold(owner, &run)
        })
        .await?;
    for id in &ids {
        let record = ground.record(*id).await?;
        assert_eq!((record.parent, record.head), (Some(parent.clone()), 1));
    }
    assert_eq!(ground.record(born.run).await?.owner, Some(owner));
    let other = ground.runner().await?;
    assert_eq!(runs_of(&ground.claim(other).await?.runs), [ids[1], ids[0]]);
    Ok(())
}

async fn a_child_that_exists_stays_as_it_is(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let child = Admit {
        key: Some("child".to_owned()),
        ..ground.admission()
    };
    ground.admit(vec![child.clone()]).await?;
    let before = ground.record(child.run).await?;
    let again = Admit {
        workflow: "other".to_owned(),
        rows: rows(1, 9),
        ..child.clone()
    };
    let same_key = Admit {
        key: child.key.clone(),
        ..ground.admission()
    };
    let id = same_key.run;
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            children: vec![again, same_key],
            ..hold(owner, &run)
        })
        .await?;
    assert_eq!(ground.record(child.run).await?, before);
    assert_eq!(ground.runs().run(id).await?, None);
    assert_eq!(ground.record(run.run).await?.head, 2);
    Ok(())
}

async fn a_child_of_an_unknown_version_stops_the_commit(ground: Ground) -> Kept {
    let runs = ground.admit_many(2).await?;
    let owner = ground.runner().await?;
    let claimed = ground.claim(owner).await?.runs;
    let sound = ground.admission();
    let unsound = Admit {
        version: version_of("never"),
        ..ground.admission()
    };
    let ids = [sound.run, unsound.run];
    let commits = vec![
        RunCommit {
            rows: rows(2, 2),
            children: vec![sound, unsound],
            ..hold(owner, &claimed[0])
        },
        RunCommit {
            rows: rows(2, 2),
            ..hold(owner, &claimed[1])
        },
    ];
    let replies = ground.runs().commit(commits).await?;
    assert_eq!(
        replies,
        [
            CommitReply::UnknownVersion,
            CommitReply::Done {
                mail: 0,
                undelivered: vec![]
            }
        ]
    );
    assert_eq!(ground.record(claimed[0].run).await?.head, 1);
    assert_eq!(ground.record(claimed[1].run).await?.head, 2);
    assert_eq!(ground.runs().load(&ids).await?, [None, None]);
    assert_eq!(sorted(runs_of(&claimed)), sorted(runs));
    Ok(())
}

async fn mail_is_delivered_with_the_commit(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let child = ground.admission();
    let sleeper = ground
        .admit(vec![Admit {
            due: lope_model::Timestamp::NEVER,
            ..ground.admission()
        }])
        .await?[0];
    let deliveries = vec![
        mail_to(sleeper, "one", Reach::Live),
        mail_to(child.run, "two", Reach::Live),
    ];
    let commit = RunCommit {
        deliveries,
        children: vec![child.clone()],
        ..finish(owner, &run, None)
    };
    ground.commit(commit).await?;
    let loaded = ground.runs().load(&[sleeper, child.run]).await?;
    for (loaded, id) in loaded.into_iter().zip(["one", "two"]) {
        let mail = loaded.expect("the run is there").mail;
        assert_eq!(
            (mail.len(), mail[0].id.as_str(), mail[0].body.as_slice()),
            (1, id, id.as_bytes())
        );
    }
    assert_eq!(
        sorted(runs_of(&ground.claim(owner).await?.runs)),
        sorted([sleeper, child.run]),
        "both are awake"
    );
    assert_eq!(ground.deliver(sleeper, "one").await?, Delivered::Duplicate);
    Ok(())
}

async fn who_could_not_be_reached_is_named(ground: Ground) -> Kept {
    let (owner, ended) = ground.owned_run().await?;
    ground.commit(finish(owner, &ended, None)).await?;
    let (owner, run) = ground.owned_run().await?;
    let reached = ground.admit_many(1).await?[0];
    let unknown = run_id();
    ground.deliver(reached, "again").await?;
    let to = |run, id| mail_to(run, id, Reach::Live);
    let deliveries = vec![
        to(reached, "mail"),
        to(reached, "again"),
        to(ended.run, "mail"),
        to(unknown, "mail"),
    ];
    let reply = ground
        .reply(RunCommit {
            rows: rows(2, 2),
            deliveries,
            ..hold(owner, &run)
        })
        .await?;
    let CommitReply::Done { undelivered, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(sorted(undelivered), sorted([ended.run, unknown]));
    assert_eq!(ground.record(reached).await?.mail, 2);
    assert_eq!(ground.record(run.run).await?.head, 2);
    Ok(())
}

async fn taken_mail_is_gone_from_waiting(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    for id in ["a", "b", "c"] {
        assert_eq!(ground.deliver(run.run, id).await?, Delivered::Accepted);
    }
    let mail = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there")
        .mail;
    let taken = vec![mail[0].number, mail[2].number];
    ground
        .commit(RunCommit {
            rows: rows(2, 3),
            taken: taken.clone(),
            ..hold(owner, &run)
        })
        .await?;
    let left = ground
        .runs()
        .load(&[run.run])
        .await?
        .remove(0)
        .expect("the run is there")
        .mail;
    assert_eq!(left, [mail[1].clone()]);
    assert_eq!(
        ground.record(run.run).await?.mail,
        3,
        "the counter counts what ever came"
    );
    ground
        .commit(RunCommit {
            taken,
            ..hold(owner, &run)
        })
        .await?;
    Ok(())
}

async fn a_commit_tells_the_mail_counter(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    for number in 0..3 {
        assert_eq!(ground.commit(hold(owner, &run)).await?, number);
        ground.deliver(run.run, &number.to_string()).await?;
    }
    assert_eq!(ground.commit(hold(owner, &run)).await?, 3);
    Ok(())
}
