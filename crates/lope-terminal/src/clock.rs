//! What time it is, for what is shown.

use std::time::{SystemTime, UNIX_EPOCH};

use lope_model::Timestamp;

pub fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
