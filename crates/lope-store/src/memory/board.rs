//! What the door *Board* keeps in memory: rows by key, a table each, and its rules of uniqueness.

use std::collections::BTreeMap;

use crate::board::{BoardChange, BoardIndex, BoardSelect, BoardTable, RowOrder};
use crate::row::{TransferRow, TransferValue};

type KeyedRows = BTreeMap<Vec<TransferValue>, TransferRow>;

/// Everything the board keeps.
#[derive(Debug, Clone, Default)]
pub(super) struct BoardState {
    tables: BTreeMap<&'static str, KeyedRows>,
}

impl BoardState {
    pub(super) fn select(&self, select: &BoardSelect) -> Vec<TransferRow> {
        let rows = self.tables.get(select.table.rows.name);
        let rows = rows.into_iter().flat_map(BTreeMap::values);
        let matching = rows.filter(|row| select.matches(row)).cloned();
        match select.order {
            RowOrder::ByKey => matching.take(select.limit).collect(),
            RowOrder::ByKeyBackwards => matching.rev().take(select.limit).collect(),
        }
    }

    /// False: it cannot be made.
    pub(super) fn apply(&mut self, change: &BoardChange) -> bool {
        let table = change.table();
        let rows = self.tables.entry(table.rows.name).or_default();
        let key = change.key();
        let found = rows.get(key);
        let has_revision =
            |over: i64| found.is_some_and(|row| row[table.revision()] == TransferValue::Int(over));
        match change {
            BoardChange::Insert { row, .. } => {
                if found.is_some() || !is_free(rows, table, row) {
                    return false;
                }
                rows.insert(key.to_vec(), row.clone());
            }
            BoardChange::Update { row, over, .. } => {
                if !has_revision(*over) || !is_free(rows, table, row) {
                    return false;
                }
                rows.insert(key.to_vec(), row.clone());
            }
            BoardChange::Delete { over, .. } => {
                if !has_revision(*over) {
                    return false;
                }
                rows.remove(key);
            }
            BoardChange::Require { values, .. } => {
                let holds = |row: &TransferRow| {
                    let mut values = values.iter();
                    values.all(|(column, value)| row[table.column_index(column)] == *value)
                };
                return found.is_some_and(holds);
            }
        }
        true
    }
}

/// May this row stand beside the others, by the rules of uniqueness?
fn is_free(rows: &KeyedRows, table: &BoardTable, row: &TransferRow) -> bool {
    let key = table.rows.key_of(row);
    table.unique.iter().all(|index| {
        let Some(own) = indexed(table, index, row) else {
            return true;
        };
        let others = rows.iter().filter(|(other, _)| other.as_slice() != key);
        let mut others = others.filter_map(|(_, other)| indexed(table, index, other));
        others.all(|other| other != own)
    })
}

/// A row's values in an index; nothing if it is not in it.
fn indexed<'a>(
    table: &BoardTable,
    index: &BoardIndex,
    row: &'a TransferRow,
) -> Option<Vec<&'a TransferValue>> {
    if let Some((column, texts)) = index.when {
        let value = &row[table.column_index(column)];
        if !matches!(value, TransferValue::Text(text) if texts.contains(&text.as_str())) {
            return None;
        }
    }
    let values = index
        .columns
        .iter()
        .map(|column| &row[table.column_index(column)]);
    let values: Vec<_> = values.collect();
    (!values.contains(&&TransferValue::Null)).then_some(values)
}
