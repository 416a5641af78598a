//! Are the rows of limits readable? A row is found by the digest of its name, so that one which
//! cannot be read is told by its kind and that digest.

use lope_store::tables::{Direction, Range, Row};
use lope_store::{Store, StoreResult};

use crate::circuit_row::CircuitRow;
use crate::codec::{self, UnreadableRow};
use crate::key::{self, TABLE};
use crate::outcome_row::OutcomeRow;
use crate::permits::Permits;
use crate::rate_row::RateRow;

/// Rows read at a time.
const PAGE: usize = 1_000;

/// What is wrong with the rows of limits, a sentence each, at most so many.
pub async fn check(store: &Store, most: usize) -> StoreResult<Vec<String>> {
    let Some(table) = store.tables.manifest().await?.id_of(TABLE) else {
        return Ok(Vec::new());
    };
    let mut faults = Vec::new();
    let mut from = Vec::new();
    loop {
        let range = Range {
            table,
            from,
            to: None,
            direction: Direction::Forward,
            limit: PAGE,
        };
        let rows = store.tables.range(range).await?;
        faults.extend(rows.iter().filter_map(fault));
        faults.truncate(most);
        let Some(last) = rows.last().filter(|_| rows.len() == PAGE) else {
            return Ok(faults);
        };
        // The key right behind it.
        from = [&last.key[..], &[0]].concat();
    }
}

fn fault(row: &Row) -> Option<String> {
    let (kind, digest) = row.key.split_first()?;
    let read = match *kind {
        key::OUTCOME => OutcomeRow::decode(&row.value).map(drop),
        key::PERMITS => codec::decode::<Permits>(&row.value).map(drop),
        key::CIRCUIT => codec::decode::<CircuitRow>(&row.value).map(drop),
        key::RATE | key::QUEUE_RATE => codec::decode::<RateRow>(&row.value).map(drop),
        key::BY_TIME => Ok(()),
        other => Err(UnreadableRow::new(format!("kind {other}"))),
    };
    let what = key::kind_name(*kind);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    read.err()
        .map(|error| format!("{what} whose name has the digest {digest}: {error}"))
}
