//! How long a worker with nothing to do may sleep.

use lope_model::{Moment, Span, Timestamp};

/// `min(max(next_due − now, 0), max_idle)`; without a timer, `max_idle`.
pub fn idle_sleep(next_due: Option<Timestamp>, now: Timestamp, max_idle: Span) -> Span {
    next_due.map_or(max_idle, |due| due.since(now).min(max_idle))
}

/// How long until a moment; nothing if it is past.
pub fn until(moment: Moment, now: Moment) -> Span {
    Span::from_millis(moment.0.saturating_sub(now.0).max(0).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Idle sleep = min(max(next_due − now, 0), max idle); no timer: max idle; 0 when due."
    #[test]
    fn sleep_ends_with_the_next_timer_or_the_longest_idle() {
        let sleep = |due: Option<i64>| {
            idle_sleep(
                due.map(Timestamp::from_millis),
                Timestamp::from_millis(1_000),
                Span::from_millis(250),
            )
            .millis()
        };
        for (due, expected) in [
            (None, 250),
            (Some(1_100), 100),
            (Some(1_000), 0),
            (Some(5), 0),
            (Some(9_999), 250),
        ] {
            assert_eq!(sleep(due), expected, "{due:?}");
        }
        assert_eq!(until(Moment(5), Moment(2)), Span::from_millis(3));
        assert_eq!(until(Moment(2), Moment(5)), Span::ZERO);
    }
}
