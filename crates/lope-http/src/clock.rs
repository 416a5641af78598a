//! The wall clock, for ages and for times that are said as "in two hours".

use std::time::{SystemTime, UNIX_EPOCH};

use lope_model::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
