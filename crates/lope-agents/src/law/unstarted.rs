//! What could not be started is tried again, after a pause that doubles: a runner of a project, which
//! a wake-up starts, and the agent of a task.

use lope_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::records::ProjectRecord;

/// The longest pause between two starts, unless wake-ups are further apart.
const PAUSE_MAX: Span = Span::from_secs(60 * 60);
/// The key of a project's settings.
const KEY: &str = "unstarted";

/// The pause after a start that failed, so many times in succession.
pub fn pause_after(failures: u32, first: Span) -> Span {
    let doubled = first.times(1 << failures.saturating_sub(1).min(20));
    doubled.min(longest(first))
}

fn longest(first: Span) -> Span {
    PAUSE_MAX.max(first)
}

/// That no runner of a project could be started, until one is or a person changes something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnstartedRunner {
    /// How often in succession.
    pub failures: u32,
    pub error: String,
    /// When a wake-up tries it again.
    pub not_before: Timestamp,
}

impl UnstartedRunner {
    pub fn of(project: &ProjectRecord) -> Option<Self> {
        let kept = project.settings.get(KEY)?;
        serde_json::from_value(kept.clone()).ok()
    }

    /// What is known after one more start that failed; wake-ups come at this interval.
    pub fn after(project: &ProjectRecord, error: &str, now: Timestamp, interval: Span) -> Self {
        let before = Self::of(project).map_or(0, |before| before.failures);
        let failures = before.saturating_add(1);
        Self {
            failures,
            error: error.to_owned(),
            not_before: now.plus(pause_after(failures, interval)),
        }
    }

    /// Is it too early for the next try? Whoever comes each minute comes a little sooner or later; a
    /// time further ahead than any pause was written before the clock was set back.
    pub fn is_early(&self, now: Timestamp, interval: Span) -> bool {
        let margin = Span::from_millis(interval.millis() / 2);
        let latest = now.plus(longest(interval));
        self.not_before > now.plus(margin) && self.not_before <= latest
    }

    pub(crate) fn keep(&self, project: &mut ProjectRecord) {
        let kept = serde_json::to_value(self).expect("it is a document");
        project.settings.insert(KEY.to_owned(), kept);
    }

    /// False: there was nothing to forget.
    pub(crate) fn forget(project: &mut ProjectRecord) -> bool {
        project.settings.remove(KEY).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let minute = Span::from_secs(60);
        let pauses = [1, 2, 3, 6, 7, 8, 1_000].map(|failures| pause_after(failures, minute));
        let minutes = [1, 2, 4, 32, 60, 60, 60].map(|minutes| minute.times(minutes));
        assert_eq!(pauses, minutes);
        let seldom = Span::from_secs(2 * 60 * 60);
        assert_eq!(pause_after(3, seldom), seldom);
    }

    #[test]
    fn a_try_that_is_nearly_due_is_made_and_so_is_one_from_before_a_clock_was_set_back() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let minute = Span::from_secs(60);
        let rows = [
            (0, false),
            (30, false),
            (31, true),
            (3_600, true),
            (3_601, false),
        ];
        for (seconds, is_early) in rows {
            let unstarted = UnstartedRunner {
                failures: 1,
                error: "no".to_owned(),
                not_before: now.plus(Span::from_secs(seconds)),
            };
            assert_eq!(unstarted.is_early(now, minute), is_early, "{seconds}");
        }
    }
}
