//! Can a schedule be kept and ever start anything? Asked before it is entered. Pure.

use lope_model::{Span, Timestamp, limit};
use thiserror::Error;

use crate::timing::Timing;
use crate::{Schedule, TAG, TICK_TAG};

/// Largest jitter of a cron expression.
const JITTER_MAX: Span = Span::from_secs(24 * 3_600);

/// Most bytes that a schedule's standing takes.
const STANDING_MAX: usize = 16 * 1024;

/// Why a schedule makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum InvalidSchedule {
    #[error(
        "bad schedule name '{name}': 1 to {} characters, none of them a control character, not '.' or '..'",
        limit::NAME_MAX
    )]
    Name { name: String },
    #[error("a jitter of {jitter} is too long: at most {most}")]
    Jitter { jitter: Span, most: Span },
    #[error("the schedule ends at {until}, before it begins at {from}")]
    Bounds { from: Timestamp, until: Timestamp },
    #[error("the schedule never ticks: {timing} has no time behind {now}{}", before(*.until))]
    Never {
        timing: String,
        now: Timestamp,
        until: Option<Timestamp>,
    },
    #[error("the tag '{0}' is set by the schedule itself")]
    Tag(String),
    #[error("a schedule has at most {} tags: two more say where its runs come from", limit::TAGS_MAX - 2)]
    Tags,
    #[error("the schedule with its input takes {size} bytes: at most {}", limit::SCHEDULE_MAX - STANDING_MAX)]
    TooLarge { size: usize },
}

impl InvalidSchedule {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name { .. } => "choose a short name, as in nightly-report",
            Self::Jitter { .. } => "a run must start before the next tick comes",
            Self::Bounds { .. } => "exchange the two times",
            Self::Never { .. } => "look at the days, the months and the end",
            Self::Tag(_) | Self::Tags => "choose other tags",
            Self::TooLarge { .. } => {
                "keep large inputs in a file or a database and let the workflow read them"
            }
        }
    }
}

fn before(until: Option<Timestamp>) -> String {
    until.map_or_else(String::new, |until| format!(" and up to {until}"))
}

impl Schedule {
    pub fn validate(&self, now: Timestamp) -> Result<(), InvalidSchedule> {
        // In the path of a URL the two mean a folder, however they are written.
        let named = !["", ".", ".."].contains(&&*self.name) && self.name.len() <= limit::NAME_MAX;
        if !named || self.name.chars().any(char::is_control) {
            return Err(InvalidSchedule::Name {
                name: self.name.clone(),
            });
        }
        let most = match &self.timing {
            Timing::Cron(_) => JITTER_MAX,
            Timing::Every { every, .. } => *every,
        };
        if self.jitter > most {
            return Err(InvalidSchedule::Jitter {
                jitter: self.jitter,
                most,
            });
        }
        if let Some((from, until)) = self
            .from
            .zip(self.until)
            .filter(|(from, until)| from > until)
        {
            return Err(InvalidSchedule::Bounds { from, until });
        }
        if let Some(tag) = [TAG, TICK_TAG]
            .into_iter()
            .find(|tag| self.tags.contains_key(*tag))
        {
            return Err(InvalidSchedule::Tag(tag.to_owned()));
        }
        if self.tags.len() > limit::TAGS_MAX - 2 {
            return Err(InvalidSchedule::Tags);
        }
        let size = rmp_serde::to_vec_named(self)
            .expect("every schedule has a MessagePack form")
            .len();
        if size > limit::SCHEDULE_MAX - STANDING_MAX {
            return Err(InvalidSchedule::TooLarge { size });
        }
        match self.next(now) {
            Some(_) => Ok(()),
            None => Err(InvalidSchedule::Never {
                timing: self.timing.to_string(),
                now,
                until: self.until,
            }),
        }
    }
}
