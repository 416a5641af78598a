//! A handler's own writes laid over the rows of a range, so that it reads what it wrote.

use std::collections::BTreeMap;

use lope_model::limit;
use lope_store::tables::{At, Direction, Range, Row};

type OverlayRows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The writes inside a range; of several to one key the last counts.
pub(super) fn inside<'a>(
    writes: impl Iterator<Item = (&'a At, &'a Option<Vec<u8>>)>,
    range: &Range,
) -> OverlayRows {
    let is_inside = |at: &At| {
        let before_end = range.to.as_ref().is_none_or(|to| at.key < *to);
        at.table == range.table && at.key >= range.from && before_end
    };
    writes
        .filter(|(at, _)| is_inside(at))
        .map(|(at, value)| (at.key.clone(), value.clone()))
        .collect()
}

/// Stored rows with the writes laid over them, in the range's direction and up to its limit.
pub(super) fn laid_over(stored: Vec<Row>, written: OverlayRows, range: &Range) -> Vec<Row> {
    let mut merged: OverlayRows = stored
        .into_iter()
        .map(|row| (row.key, Some(row.value)))
        .collect();
    merged.extend(written);
    let rows = merged
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| Row { key, value }));
    let limit = range.limit.min(limit::PAGE_MAX);
    match range.direction {
        Direction::Forward => rows.take(limit).collect(),
        Direction::Backward => rows.rev().take(limit).collect(),
    }
}
