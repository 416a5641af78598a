//! Rows as bytes: MessagePack with the names of fields.

use serde::{Deserialize, Serialize};

use super::HostError;

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, HostError> {
    rmp_serde::to_vec_named(value).map_err(|error| HostError::Damaged(error.to_string()))
}

pub(super) fn decode<'a, T: Deserialize<'a>>(row: &'a [u8]) -> Result<T, HostError> {
    rmp_serde::from_slice(row).map_err(|error| HostError::Damaged(error.to_string()))
}
