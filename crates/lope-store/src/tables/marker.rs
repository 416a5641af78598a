//! The schema marker of the byte tables: table 0, key `runner.schema.version`, value `RSV0` + major
//! + minor (u16 little-endian).
//!
//! It is the boot guard: a store whose marker differs is refused before any message is touched.

use thiserror::Error;

use super::{At, Batch, Guard, TableId, Tables, Write};
use crate::error::StoreError;

pub const KEY: &[u8] = b"runner.schema.version";
const MAGIC: &[u8; 4] = b"RSV0";

/// A schema version of the byte tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaVersion {
    pub major: u16,
    pub minor: u16,
}

/// What to do when the marker is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bootstrap {
    /// Write it.
    Create,
    /// Answer `NotFound`.
    Refuse,
}

/// Why the boot guard refused.
#[derive(Debug, Error)]
pub enum MarkerError {
    #[error("the schema marker is missing")]
    NotFound,
    #[error("the schema marker is {found:02x?}, expected {expected:02x?}")]
    Conflict { found: Vec<u8>, expected: Vec<u8> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SchemaVersion {
    pub const CURRENT: Self = Self { major: 0, minor: 0 };

    pub fn encode(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&self.major.to_le_bytes());
        bytes[6..].copy_from_slice(&self.minor.to_le_bytes());
        bytes
    }
}

/// Check the marker, or write it when it is missing and `bootstrap` allows. Of two processes that
/// boot at once one writes, the other validates.
pub async fn ensure(
    tables: &dyn Tables,
    expected: SchemaVersion,
    bootstrap: Bootstrap,
) -> Result<(), MarkerError> {
    let at = At::new(TableId::APP_STATE, KEY);
    if let Some(found) = read(tables, &at).await? {
        return compare(found, expected);
    }
    if bootstrap == Bootstrap::Refuse {
        return Err(MarkerError::NotFound);
    }
    let write = Write::Put(at.clone(), expected.encode().to_vec());
    let batch = Batch {
        guards: vec![Guard::Absent(at.clone())],
        writes: vec![write],
    };
    let replies = tables.commit(vec![batch]).await?;
    if replies.iter().all(Result::is_ok) {
        return Ok(());
    }
    let found = read(tables, &at).await?.ok_or(MarkerError::NotFound)?;
    compare(found, expected)
}

async fn read(tables: &dyn Tables, at: &At) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(tables
        .get(std::slice::from_ref(at))
        .await?
        .into_iter()
        .next()
        .flatten())
}

fn compare(found: Vec<u8>, expected: SchemaVersion) -> Result<(), MarkerError> {
    let expected = expected.encode().to_vec();
    if found == expected {
        Ok(())
    } else {
        Err(MarkerError::Conflict { found, expected })
    }
}
