//! What time it is, for what begins here.

use std::time::{SystemTime, UNIX_EPOCH};

use lope_model::time::BadTimestamp;
use lope_model::{Span, Timestamp};

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

pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
