//! Tables of rooms: found by their names, made when they are first needed.

use super::{Manifest, TableId, Tables};
use crate::{StoreError, StoreResult};

impl Manifest {
    /// Where the table of this name is, if there is one.
    pub fn id_of(&self, name: &str) -> Option<TableId> {
        let mut specs = self.specs().iter();
        let found = specs.find(|spec| spec.name == name);
        found.map(|spec| TableId(spec.index))
    }
}

/// The table of this name, without scopes; it is made if it is not there. Of many who make it at
/// once one does, and all of them find it.
pub async fn find_or_make_table(tables: &dyn Tables, name: &str) -> StoreResult<TableId> {
    loop {
        let manifest = tables.manifest().await?;
        if let Some(table) = manifest.id_of(name) {
            return Ok(table);
        }
        let wanted = manifest.clone().with(name, None);
        let wanted = wanted.map_err(StoreError::corrupt)?;
        if let Err(error) = tables.open(&wanted).await
            && tables.manifest().await? == manifest
        {
            return Err(error);
        }
    }
}
