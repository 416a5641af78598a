//! The bounds of commands to the board. Each store asks here first.

use lope_model::limit;

use super::change::BoardChange;
use super::select::BoardSelect;
use crate::error::{StoreError, StoreResult};
use crate::row::{ColumnType, TransferRow, TransferValue};

pub fn selects(selects: &[BoardSelect]) -> StoreResult<()> {
    let too_many = |what: &str, most: usize| {
        StoreError::refused(format!("a read of the board has {what}, more than {most}"))
    };
    if selects.len() > limit::BOARD_SELECTS_MAX {
        return Err(too_many("too many selections", limit::BOARD_SELECTS_MAX));
    }
    let values = selects.iter().flat_map(|select| &select.among);
    let values = values.map(|(_, values)| values.len());
    if values.max().unwrap_or_default() > limit::BOARD_VALUES_MAX {
        return Err(too_many("too many values", limit::BOARD_VALUES_MAX));
    }
    Ok(())
}

pub fn changes(changes: &[BoardChange]) -> StoreResult<()> {
    if changes.len() > limit::BOARD_CHANGES_MAX {
        let message = format!(
            "{} changes of the board in one commit, more than {}",
            changes.len(),
            limit::BOARD_CHANGES_MAX
        );
        return Err(StoreError::refused(message));
    }
    changes.iter().try_for_each(change)
}

fn change(change: &BoardChange) -> StoreResult<()> {
    let table = change.table();
    match change {
        BoardChange::Insert { row, .. } | BoardChange::Update { row, .. } => {
            validate_row(row, table.rows.columns)
        }
        BoardChange::Delete { key, .. } | BoardChange::Require { key, .. } => {
            validate_row(key, &table.rows.columns[..table.rows.key])
        }
    }
    .map_err(|what| StoreError::refused(format!("a row of {}: {what}", table.rows.name)))
}

/// Every value is of its column's kind, and no text is longer than it may be.
fn validate_row(row: &TransferRow, columns: &[(&'static str, ColumnType)]) -> Result<(), String> {
    if row.len() != columns.len() {
        return Err(format!(
            "{} values for {} columns",
            row.len(),
            columns.len()
        ));
    }
    for (value, (name, kind)) in row.iter().zip(columns) {
        match (value, kind) {
            (TransferValue::Null, _) | (TransferValue::Int(_), ColumnType::Int) => {}
            (TransferValue::Text(text), ColumnType::Text) => {
                if text.len() > limit::BOARD_TEXT_MAX {
                    let length = text.len();
                    let most = limit::BOARD_TEXT_MAX;
                    return Err(format!("{name} has {length} bytes, more than {most}"));
                }
                if text.contains('\0') {
                    return Err(format!("{name} holds a zero byte"));
                }
            }
            _ => return Err(format!("{name} is of another kind")),
        }
    }
    Ok(())
}
