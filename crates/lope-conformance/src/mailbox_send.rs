//! Promises of the messages that go with a run's commit: rows of inboxes and timers, numbered as
//! appends are, written with the commit or not at all.

use super::ground::{Ground, assert_refused, finish, hold, rows};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::RunCommit;
use lope_store::tables::{Append, At, Batch, Direction, Range, TableId, Write};

promises![
    messages_are_written_with_the_commit,
    a_message_never_overwrites_a_row,
    messages_wake_their_workers
];

/// A row for the inbox whose keys begin so.
pub(super) fn message(prefix: &[u8], value: &[u8]) -> Append {
    let sequence = [b"inbox/", prefix].concat();
    Append {
        table: TableId::INBOX,
        prefix: prefix.to_vec(),
        sequence,
        value: value.to_vec(),
    }
}

async fn inbox(ground: &Ground, prefix: &[u8]) -> StoreResult<Vec<(u64, Vec<u8>)>> {
    let from = prefix.to_vec();
    let direction = Direction::Forward;
    let to = Some([prefix, &[0xff; 9]].concat());
    let rows = ground
        .tables()
        .range(Range {
            table: TableId::INBOX,
            from,
            to,
            direction,
            limit: 100,
        })
        .await?;
    let number =
        |key: &[u8]| u64::from_be_bytes(key[prefix.len()..].try_into().expect("eight bytes"));
    Ok(rows
        .into_iter()
        .map(|row| (number(&row.key), row.value))
        .collect())
}

async fn messages_are_written_with_the_commit(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let timer = Append {
        table: TableId::TIMERS,
        ..message(b"at", b"timer")
    };
    let mailbox_sends = vec![
        message(b"a", b"1"),
        message(b"b", b"2"),
        message(b"a", b"3"),
        timer,
    ];
    ground
        .commit(RunCommit {
            rows: rows(2, 2),
            mailbox_sends,
            ..hold(owner, &run)
        })
        .await?;
    ground
        .commit(RunCommit {
            mailbox_sends: vec![message(b"a", b"4")],
            ..hold(owner, &run)
        })
        .await?;
    let by_batch = message(b"a", b"5");
    let write = Write::Append {
        table: by_batch.table,
        prefix: by_batch.prefix,
        sequence: by_batch.sequence,
        value: by_batch.value,
    };
    ground
        .tables()
        .commit(vec![Batch {
            guards: vec![],
            writes: vec![write],
        }])
        .await?
        .remove(0)
        .expect("unguarded");
    ground
        .commit(RunCommit {
            mailbox_sends: vec![message(b"a", b"6")],
            ..finish(owner, &run, None)
        })
        .await?;
    let (numbers, values): (Vec<u64>, Vec<Vec<u8>>) =
        inbox(&ground, b"a").await?.into_iter().unzip();
    assert_eq!(values, [b"1", b"3", b"4", b"5", b"6"]);
    assert!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "{numbers:?}"
    );
    assert_eq!(
        (
            inbox(&ground, b"b").await?.len(),
            ground.tables().count(Range::whole(TableId::TIMERS)).await?
        ),
        (1, 1)
    );
    only_mailboxes_are_written(&ground).await
}

async fn only_mailboxes_are_written(ground: &Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let elsewhere = Append {
        table: TableId::APP_STATE,
        ..message(b"x", b"")
    };
    let commit = RunCommit {
        rows: rows(2, 2),
        mailbox_sends: vec![elsewhere],
        ..hold(owner, &run)
    };
    assert_refused(ground.runs().commit(vec![commit]).await);
    assert_eq!(ground.record(run.run).await?.head, 1);
    Ok(())
}

async fn a_message_never_overwrites_a_row(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let at = |number: u64| {
        At::new(
            TableId::INBOX,
            [b"p".as_slice(), &number.to_be_bytes()].concat(),
        )
    };
    let writes = [1, 3]
        .map(|number| Write::Put(at(number), b"mine".to_vec()))
        .to_vec();
    ground
        .tables()
        .commit(vec![Batch {
            guards: vec![],
            writes,
        }])
        .await?
        .remove(0)
        .expect("unguarded");
    ground
        .commit(RunCommit {
            mailbox_sends: vec![message(b"p", b"m"); 3],
            ..hold(owner, &run)
        })
        .await?;
    let rows = inbox(&ground, b"p").await?;
    assert_eq!(rows.len(), 5, "{rows:?}");
    assert!(
        rows.iter()
            .all(|(number, value)| (value == b"mine") == [1, 3].contains(number)),
        "{rows:?}"
    );
    Ok(())
}

async fn messages_wake_their_workers(ground: Ground) -> Kept {
    let (owner, run) = ground.owned_run().await?;
    let mut watch = ground.tables().watch();
    ground
        .commit(RunCommit {
            mailbox_sends: vec![message(b"a", b"1")],
            ..hold(owner, &run)
        })
        .await?;
    watch.changed().await;
    Ok(())
}
