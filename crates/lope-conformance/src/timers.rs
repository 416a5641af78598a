//! Promises about timers: those of one worker are found among all, by what their values name.

use super::ground::{Ground, assert_refused, hold};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::RunCommit;
use lope_store::tables::{Append, At, Batch, Direction, Range, TableId, Write};

promises![timers_are_found_by_their_worker];

fn batch(writes: Vec<Write>) -> Batch {
    Batch {
        guards: Vec::new(),
        writes,
    }
}

async fn applied(ground: &Ground, writes: Vec<Write>) -> Kept {
    let replies = ground.tables().commit(vec![batch(writes)]).await?;
    assert!(replies[0].is_ok(), "{replies:?}");
    Ok(())
}

/// A timer's value: sixteen bytes, then the worker, then whatever.
fn timer(worker: u8, rest: &[u8]) -> Vec<u8> {
    [&[7; 16][..], &[worker; 8], rest].concat()
}

/// The timers of a worker as the store finds them: keys, and the last bytes of their values.
async fn timers_of(ground: &Ground, worker: u8, range: Range) -> StoreResult<Vec<(Vec<u8>, u8)>> {
    let rows = ground.tables().timers_of(&[worker; 8], range).await?;
    let found = rows.into_iter().map(|row| {
        assert!(row.value.starts_with(&timer(worker, b"")), "{row:?}");
        (row.key, row.value[row.value.len() - 1])
    });
    Ok(found.collect())
}

async fn timers_are_found_by_their_worker(ground: Ground) -> Kept {
    let timers = TableId::TIMERS;
    let key = |number: u8| vec![1, number];
    let put =
        |number: u8, worker: u8| Write::Put(At::new(timers, key(number)), timer(worker, &[number]));
    let writes = (0..40).map(|number| put(number, number % 4)).collect();
    applied(&ground, writes).await?;
    let all = || Range::whole(timers);
    let numbers = |found: Vec<(Vec<u8>, u8)>| -> Vec<u8> {
        let number = |(key, number): (Vec<u8>, u8)| {
            assert_eq!(key, [1, number]);
            number
        };
        found.into_iter().map(number).collect()
    };
    let every_fourth = |from: u8| (from..40).step_by(4).collect::<Vec<u8>>();
    for worker in 0..4 {
        let found = numbers(timers_of(&ground, worker, all()).await?);
        assert_eq!(found, every_fourth(worker));
    }
    assert_eq!(timers_of(&ground, 9, all()).await?, []);
    let part = Range {
        from: key(6),
        to: Some(key(30)),
        limit: 3,
        ..all()
    };
    let found = numbers(timers_of(&ground, 2, part.clone()).await?);
    assert_eq!(found, [6, 10, 14], "from there on, at most so many");
    let backward = Range {
        direction: Direction::Backward,
        ..part
    };
    let found = numbers(timers_of(&ground, 2, backward).await?);
    assert_eq!(found, [26, 22, 18], "the end is not part of it");
    timers_follow_their_writes(&ground).await
}

/// What is deleted, overwritten, created, appended, taken back, and sent by a run.
async fn timers_follow_their_writes(ground: &Ground) -> Kept {
    let timers = TableId::TIMERS;
    let at = |key: &[u8]| At::new(timers, key);
    applied(
        ground,
        vec![
            Write::Delete(at(&[1, 0])),
            Write::Put(at(&[1, 4]), timer(3, &[1])),
            Write::Create(at(&[1, 200]), timer(0, &[2])),
            Write::Append {
                table: timers,
                prefix: vec![2],
                sequence: b"timers".to_vec(),
                value: timer(0, &[3]),
            },
            Write::Put(at(&[3]), b"short".to_vec()),
        ],
    )
    .await?;
    let refused = vec![
        Write::Put(at(&[1, 8]), timer(3, &[1])),
        Write::Create(at(&[1, 12]), timer(0, &[1])),
    ];
    let reply = ground.tables().commit(vec![batch(refused)]).await?;
    assert!(reply[0].is_err(), "there is a timer already");
    let (owner, run) = ground.owned_run().await?;
    let sent = Append {
        table: timers,
        prefix: vec![4],
        sequence: b"timers".to_vec(),
        value: timer(0, &[4]),
    };
    ground
        .commit(RunCommit {
            mailbox_sends: vec![sent],
            ..hold(owner, &run)
        })
        .await?;
    let found = timers_of(ground, 0, Range::whole(timers)).await?;
    let last: Vec<u8> = found.iter().map(|(_, last)| *last).collect();
    assert_eq!(last, [8, 12, 16, 20, 24, 28, 32, 36, 2, 3, 4]);
    let found = timers_of(ground, 3, Range::whole(timers)).await?;
    assert_eq!(found.len(), 11, "one that was another's");
    assert_eq!(found[1], (vec![1, 4], 1));
    let elsewhere = ground
        .tables()
        .timers_of(&[0; 8], Range::whole(TableId::OUTBOX));
    assert_refused(elsewhere.await);
    Ok(())
}
