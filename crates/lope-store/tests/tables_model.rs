//! Random batches against a model that keeps the tables as one map and applies a batch to a copy of
//! it.

use std::collections::BTreeMap;

use lope_model::Digest;
use lope_store::tables::{
    Applied, At, Batch, BatchReply, Conflict, Direction, Guard, Range, Row, TableId, Write,
};
use lope_store::{MemoryStore, Store};
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<(u16, Vec<u8>), Vec<u8>>,
    sequence: u64,
    scope: u64,
}

impl Model {
    fn value(&self, at: &At) -> Option<&Vec<u8>> {
        self.rows.get(&(at.table.0, at.key.clone()))
    }

    fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Absent(at) => self.value(at).is_none(),
            Guard::Equals(at, value) => self.value(at) == Some(value),
            Guard::Unchanged(at, digest) => {
                self.value(at).map(|value| Digest::of(value)) == Some(*digest)
            }
            Guard::ScopeUnchanged(_, version) => self.scope == *version,
        }
    }

    fn put(&mut self, at: &At, value: Option<&Vec<u8>>) {
        self.scope += u64::from(at.table == TableId::APP_STATE);
        match value {
            Some(value) => drop(
                self.rows
                    .insert((at.table.0, at.key.clone()), value.clone()),
            ),
            None => drop(self.rows.remove(&(at.table.0, at.key.clone()))),
        }
    }

    fn apply(&mut self, batch: &Batch) -> BatchReply {
        let mut next = self.clone();
        let mut applied = Applied::default();
        if let Some(index) = batch.guards.iter().position(|guard| !self.holds(guard)) {
            return Err(Conflict {
                index,
                at: batch.guards[index].at().clone(),
            });
        }
        for (index, write) in batch.writes.iter().enumerate() {
            match write {
                Write::Delete(at) => next.put(at, None),
                Write::Create(at, _) if next.value(at).is_some() => {
                    return Err(Conflict {
                        index: batch.guards.len() + index,
                        at: at.clone(),
                    });
                }
                Write::Put(at, value) | Write::Create(at, value) => next.put(at, Some(value)),
                Write::Append {
                    table,
                    prefix,
                    value,
                    ..
                } => {
                    let at = loop {
                        next.sequence += 1;
                        let at = At::new(
                            *table,
                            [prefix.as_slice(), &next.sequence.to_be_bytes()].concat(),
                        );
                        if next.value(&at).is_none() {
                            break at;
                        }
                    };
                    next.put(&at, Some(value));
                    applied.appended.push(next.sequence);
                }
            }
        }
        *self = next;
        Ok(applied)
    }

    fn range(&self, range: &Range) -> Vec<Row> {
        let inside =
            |key: &[u8]| *key >= *range.from && range.to.as_ref().is_none_or(|to| *key < **to);
        let rows = self
            .rows
            .iter()
            .filter(|((table, key), _)| *table == range.table.0 && inside(key));
        let mut rows: Vec<Row> = rows
            .map(|((_, key), value)| Row {
                key: key.clone(),
                value: value.clone(),
            })
            .collect();
        if range.direction == Direction::Backward {
            rows.reverse();
        }
        rows.truncate(range.limit);
        rows
    }
}

/// Few keys, so that batches meet; among them those that an append would choose.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0..3_u8, 0..3),
        (0..12_u64).prop_map(|number| [&b"p"[..], &number.to_be_bytes()].concat()),
    ]
}

fn at() -> impl Strategy<Value = At> {
    (0..2_u16, key()).prop_map(|(table, key)| At::new(TableId(table), key))
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..2_u8, 0..2)
}

fn write() -> impl Strategy<Value = Write> {
    let append = (0..2_u16, value()).prop_map(|(table, value)| Write::Append {
        table: TableId(table),
        prefix: b"p".to_vec(),
        sequence: b"s".to_vec(),
        value,
    });
    prop_oneof![
        3 => (at(), value()).prop_map(|(at, value)| Write::Put(at, value)),
        2 => (at(), value()).prop_map(|(at, value)| Write::Create(at, value)),
        1 => at().prop_map(Write::Delete),
        2 => append,
    ]
}

/// Guards of table 0 alone, which has a scope, so that none is refused.
fn guard() -> impl Strategy<Value = Guard> {
    let state = || key().prop_map(|key| At::new(TableId::APP_STATE, key));
    prop_oneof![
        state().prop_map(Guard::Absent),
        (state(), value()).prop_map(|(at, value)| Guard::Equals(at, value)),
        (state(), value()).prop_map(|(at, value)| Guard::Unchanged(at, Digest::of(&value))),
        (0..6_u64).prop_map(|version| Guard::ScopeUnchanged(
            At::new(TableId::APP_STATE, vec![]),
            version
        )),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    (
        prop::collection::vec(guard(), 0..2),
        prop::collection::vec(write(), 0..6),
    )
        .prop_map(|(guards, writes)| Batch { guards, writes })
}

fn range() -> impl Strategy<Value = Range> {
    (
        0..2_u16,
        key(),
        prop::option::of(key()),
        prop::bool::ANY,
        0..20_usize,
    )
        .prop_map(|(table, from, to, forward, limit)| {
            let direction = if forward {
                Direction::Forward
            } else {
                Direction::Backward
            };
            Range {
                table: TableId(table),
                from,
                to,
                direction,
                limit,
            }
        })
}

async fn compare(store: &Store, model: &mut Model, calls: Vec<Vec<Batch>>, ranges: Vec<Range>) {
    for batches in calls {
        let expected: Vec<BatchReply> = batches.iter().map(|batch| model.apply(batch)).collect();
        let replies = store
            .tables
            .commit(batches)
            .await
            .expect("every batch is sound");
        assert_eq!(replies, expected);
    }
    for range in ranges {
        let expected = model.range(&range);
        assert_eq!(
            store
                .tables
                .range(range)
                .await
                .expect("every range is sound"),
            expected
        );
    }
    let scope = At::new(TableId::APP_STATE, vec![]);
    assert_eq!(
        store
            .tables
            .scope_version(&scope)
            .await
            .expect("it is declared"),
        model.scope
    );
}

proptest! {
    #[test]
    fn the_memory_is_the_model(
        calls in prop::collection::vec(prop::collection::vec(batch(), 1..4), 1..12),
        ranges in prop::collection::vec(range(), 0..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        runtime.block_on(compare(&MemoryStore::open(), &mut Model::default(), calls, ranges));
    }
}
