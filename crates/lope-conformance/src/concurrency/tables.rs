//! Promises of the byte tables that only many at once can break.

use std::collections::BTreeSet;

use crate::ground::Ground;
use crate::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::tables::{At, Batch, BatchReply, Guard, Range, TableId, Write};

use super::{TASKS, together};

promises![
    guarded_counters_are_exact,
    one_of_many_creates_wins,
    batches_that_meet_crosswise_go_on,
    appended_numbers_are_unique_and_rise,
    absence_guards_hold_against_each_other,
    range_guards_hold_against_each_other,
    a_read_sees_one_state,
];

fn at(key: impl AsRef<[u8]>) -> At {
    At::new(TableId::OUTBOX, key.as_ref())
}

fn state(key: impl AsRef<[u8]>) -> At {
    At::new(TableId::APP_STATE, key.as_ref())
}

async fn apply(ground: &Ground, guards: Vec<Guard>, writes: Vec<Write>) -> StoreResult<BatchReply> {
    Ok(ground
        .tables()
        .commit(vec![Batch { guards, writes }])
        .await?
        .remove(0))
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| {
        u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    })
}

async fn guarded_counters_are_exact(ground: Ground) -> Kept {
    together(&ground, |ground, _| async move {
        let mut done = 0;
        while done < 15 {
            let value = ground.get(&at("counter")).await?;
            let guard = match &value {
                Some(value) => Guard::Equals(at("counter"), value.clone()),
                None => Guard::Absent(at("counter")),
            };
            let put = Write::Put(at("counter"), (number(value) + 1).to_be_bytes().to_vec());
            done += usize::from(apply(&ground, vec![guard], vec![put]).await?.is_ok());
        }
        Ok(())
    })
    .await?;
    assert_eq!(number(ground.get(&at("counter")).await?), 15 * TASKS as u64);
    Ok(())
}

async fn one_of_many_creates_wins(ground: Ground) -> Kept {
    for round in 0..20_u8 {
        let replies = together(&ground, move |ground, index| async move {
            let key = at([round]);
            let beside = Write::Put(at([round, index as u8]), vec![]);
            if index < TASKS / 2 {
                apply(
                    &ground,
                    vec![],
                    vec![beside, Write::Create(key, vec![index as u8])],
                )
                .await
            } else {
                let put = Write::Put(key.clone(), vec![index as u8]);
                apply(&ground, vec![Guard::Absent(key)], vec![beside, put]).await
            }
        })
        .await?;
        let winners: Vec<u8> = (0..)
            .zip(&replies)
            .filter(|(_, reply)| reply.is_ok())
            .map(|(index, _)| index)
            .collect();
        assert_eq!(winners.len(), 1, "{replies:?}");
        assert_eq!(ground.get(&at([round])).await?, Some(winners.clone()));
        let beside = ground
            .tables()
            .range(Range::prefix(TableId::OUTBOX, &[round], 100))
            .await?;
        let keys: Vec<_> = beside.into_iter().map(|row| row.key).collect();
        assert_eq!(
            keys,
            [vec![round], vec![round, winners[0]]],
            "the losers left nothing"
        );
    }
    Ok(())
}

/// Money goes from account to account, each batch touching two in another order: all go on, none is
/// made or lost.
async fn batches_that_meet_crosswise_go_on(ground: Ground) -> Kept {
    const ACCOUNTS: usize = 4;
    let open = (0..ACCOUNTS)
        .map(|account| Write::Put(at([account as u8]), 100_u64.to_be_bytes().to_vec()));
    apply(&ground, vec![], open.collect())
        .await?
        .expect("nothing is guarded");
    together(&ground, |ground, index| async move {
        for round in 0..20 {
            let (from, to) = (
                (index + round) % ACCOUNTS,
                (index + 3 * round + 1) % ACCOUNTS,
            );
            if from != to {
                transfer(&ground, [from as u8], [to as u8]).await?;
            }
        }
        Ok(())
    })
    .await?;
    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += number(ground.get(&at([account as u8])).await?);
    }
    assert_eq!(sum, 100 * ACCOUNTS as u64);
    Ok(())
}

/// One unit, if there is one; a conflict leaves it for the next round.
async fn transfer(ground: &Ground, from: [u8; 1], to: [u8; 1]) -> StoreResult<()> {
    let values = ground.tables().get(&[at(from), at(to)]).await?;
    let [Some(source), Some(target)] = &values[..] else {
        panic!("the accounts are there")
    };
    let (have, there) = (number(Some(source.clone())), number(Some(target.clone())));
    if have > 0 {
        let guards = vec![
            Guard::Equals(at(from), source.clone()),
            Guard::Equals(at(to), target.clone()),
        ];
        let put = |key: [u8; 1], value: u64| Write::Put(at(key), value.to_be_bytes().to_vec());
        let _moved_or_not = apply(
            ground,
            guards,
            vec![put(from, have - 1), put(to, there + 1)],
        )
        .await?;
    }
    Ok(())
}

async fn appended_numbers_are_unique_and_rise(ground: Ground) -> Kept {
    let answers = together(&ground, |ground, index| async move {
        let mut numbers = Vec::new();
        for _ in 0..20 {
            let append = |prefix: &[u8]| Write::Append {
                table: TableId::OUTBOX,
                prefix: prefix.to_vec(),
                sequence: b"one".to_vec(),
                value: vec![index as u8],
            };
            let applied = apply(&ground, vec![], vec![append(b"x"), append(b"x")]).await?;
            numbers.extend(applied.expect("nothing is guarded").appended);
        }
        Ok(numbers)
    })
    .await?;
    for numbers in &answers {
        assert!(
            numbers.windows(2).all(|pair| pair[0] < pair[1]),
            "they rise for each sender: {numbers:?}"
        );
    }
    let unique: BTreeSet<u64> = answers.concat().into_iter().collect();
    assert_eq!(unique.len(), 40 * TASKS);
    let rows = ground
        .tables()
        .range(Range::prefix(TableId::OUTBOX, b"x", 1_000))
        .await?;
    let stored: Vec<u64> = rows
        .iter()
        .map(|row| number(Some(row.key[1..].to_vec())))
        .collect();
    assert_eq!(stored, unique.into_iter().collect::<Vec<_>>());
    Ok(())
}

/// Each task writes its own key if the others' are not there. Checking first and writing later
/// would let several pass.
async fn absence_guards_hold_against_each_other(ground: Ground) -> Kept {
    for round in 0..20_u8 {
        let replies = together(&ground, move |ground, index| async move {
            let others = (0..TASKS).filter(|other| *other != index);
            let guards = others
                .map(|other| Guard::Absent(state([round, other as u8])))
                .collect();
            apply(
                &ground,
                guards,
                vec![Write::Put(state([round, index as u8]), vec![])],
            )
            .await
        })
        .await?;
        let won = replies.iter().filter(|reply| reply.is_ok()).count();
        let there = ground
            .tables()
            .range(Range::prefix(TableId::APP_STATE, &[round], 100))
            .await?;
        assert_eq!((won, there.len()), (1, 1), "round {round}: {replies:?}");
    }
    Ok(())
}

/// Each task adds a row as long as it counts fewer than ten: there are never more.
async fn range_guards_hold_against_each_other(ground: Ground) -> Kept {
    const SEATS: usize = 10;
    together(&ground, |ground, index| async move {
        for round in 0..200_u8 {
            let scope = state("");
            let version = ground.tables().scope_version(&scope).await?;
            let taken = ground
                .tables()
                .range(Range::prefix(TableId::APP_STATE, b"seat", 100))
                .await?;
            if taken.len() >= SEATS {
                return Ok(());
            }
            let seat = state([&b"seat"[..], &[index as u8, round]].concat());
            let _taken_or_not = apply(
                &ground,
                vec![Guard::ScopeUnchanged(scope, version)],
                vec![Write::Put(seat, vec![])],
            )
            .await?;
        }
        panic!("the seats are not taken after 200 rounds");
    })
    .await?;
    let taken = ground
        .tables()
        .range(Range::prefix(TableId::APP_STATE, b"seat", 100))
        .await?;
    assert_eq!(taken.len(), SEATS);
    Ok(())
}

/// Two keys are always written together; whoever reads both sees them equal.
async fn a_read_sees_one_state(ground: Ground) -> Kept {
    let both = |value: u64| {
        let value = value.to_be_bytes().to_vec();
        vec![
            Write::Put(at("left"), value.clone()),
            Write::Put(at("right"), value),
        ]
    };
    apply(&ground, vec![], both(0))
        .await?
        .expect("nothing is guarded");
    together(&ground, move |ground, index| async move {
        for round in 1..30_u64 {
            if index < 2 {
                apply(&ground, vec![], both(round * 10 + index as u64))
                    .await?
                    .expect("nothing is guarded");
            } else {
                let pair = ground.tables().get(&[at("left"), at("right")]).await?;
                assert_eq!(pair[0], pair[1], "a read between two writes of one batch");
                let rows = ground
                    .tables()
                    .range(Range::prefix(TableId::OUTBOX, b"", 10))
                    .await?;
                assert_eq!(rows[0].value, rows[1].value);
            }
        }
        Ok(())
    })
    .await?;
    Ok(())
}
