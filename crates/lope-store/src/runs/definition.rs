//! Definitions by version.

use lope_model::{Timestamp, VersionId};

/// A definition to keep. `body` is opaque to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deploy {
    pub version: VersionId,
    pub name: String,
    pub body: Vec<u8>,
}

/// A definition as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredDefinition {
    pub version: VersionId,
    pub name: String,
    pub body: Vec<u8>,
    /// When this version was last made the latest of its name.
    pub deployed_at: Timestamp,
}
