//! Boot: the table manifest is checked, the tables are opened, the schema marker is held against
//! what this program expects. Nothing is touched before the step in front of it has passed.

use lope_store::Tables;
use lope_store::tables::{Manifest, marker};

use crate::config::Boot;
use crate::error::BootError;

/// Answers with the manifest as the store has it: it may hold more tables than were asked for, and
/// handlers may use them.
pub async fn boot(tables: &dyn Tables, boot: &Boot) -> Result<Manifest, BootError> {
    let manifest = Manifest::new(boot.tables.clone())?;
    tables.open(&manifest).await?;
    marker::ensure(tables, boot.schema, boot.bootstrap).await?;
    Ok(tables.manifest().await?)
}
