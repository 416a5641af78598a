//! What time it is, for what begins here.

use lope_model::time::BadTimestamp;
use lope_model::{Span, Timestamp};

pub(crate) use lope_terminal::clock::wall;

use crate::error::{CliError, CliResult};

/// A time that was typed: RFC 3339, or in how long.
pub(crate) fn later(flag: &str, text: &str) -> CliResult<Timestamp> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(wall().plus(span));
    }
    text.parse().map_err(|error: BadTimestamp| {
        CliError::usage(format!("{flag}: {error}")).hint("or in how long, as in 30s, 5m, 2h, 7d")
    })
}
