//! Runs of the queue, and those whose row cannot be read: they are set aside alone, by whoever meets
//! them.

use lope_store::StoreError;
use lope_store::runs::ClaimedRun;
use rusqlite::{Row, params};

use crate::columns;
use crate::failure::Worked;
use crate::tx::Tx;

const SET_ASIDE: &str = "UPDATE queue SET owner = NULL, parked = ?2 WHERE run_id = ?1";

/// A run whose row cannot be read. The others do not notice.
pub(crate) struct DamagedRun {
    pub(crate) run: Vec<u8>,
    pub(crate) why: StoreError,
}

/// A run of the queue, or what is wrong with its row.
pub(crate) fn read_run(row: &Row<'_>) -> Worked<Result<ClaimedRun, DamagedRun>> {
    match columns::claimed_run(row).map_err(StoreError::from) {
        Ok(run) => Ok(Ok(run)),
        Err(why @ StoreError::Corrupt { .. }) => {
            let run = row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec();
            Ok(Err(DamagedRun { run, why }))
        }
        Err(other) => Err(other.into()),
    }
}

/// Damaged runs leave the queue, each with the reason, for a person to look at.
pub(crate) fn set_aside(tx: &Tx<'_>, damaged: &[DamagedRun]) -> Worked<()> {
    for DamagedRun { run, why } in damaged {
        let name = columns::written(run);
        let reason = lope_store::runs::damaged(&why.to_string());
        tracing::error!(run = %name, %reason, "a damaged run is set aside");
        tx.statement(SET_ASIDE)?.execute(params![run, reason])?;
    }
    Ok(())
}
