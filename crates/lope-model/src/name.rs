//! Names that users choose and that stores sort by: queues, realms, priorities.
//!
//! Each is checked where it enters, so that no later room has to.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limit;

/// A name that is empty, too long or holds control characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "bad {kind} name '{text}': 1 to {} characters, none of them a control character",
    limit::NAME_MAX
)]
pub struct BadName {
    kind: &'static str,
    text: String,
}

/// A priority outside the levels we keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("priority {level} is outside 0 to {}: higher goes first, {} is normal", Priority::HIGHEST.0, Priority::NORMAL.0)]
pub struct BadPriority {
    level: i64,
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, BadName> {
                let fits = !text.is_empty() && text.len() <= limit::NAME_MAX && !text.chars().any(char::is_control);
                fits.then(|| Self(text.into())).ok_or_else(|| BadName { kind: $kind, text: text.to_owned() })
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self("default".into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

text_name!(
    /// Where a run waits to be claimed.
    QueueName,
    "queue"
);
text_name!(
    /// What a runner must be able to serve to take a run: a runner without your Python module does
    /// not claim your run.
    Realm,
    "realm"
);

/// How soon a due run is claimed: higher first, few levels so that claims stay index reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Priority(u8);

impl Priority {
    pub const LOWEST: Self = Self(0);
    pub const NORMAL: Self = Self(4);
    pub const HIGHEST: Self = Self(9);

    pub fn new(level: i64) -> Result<Self, BadPriority> {
        u8::try_from(level)
            .ok()
            .filter(|level| *level <= Self::HIGHEST.0)
            .map(Self)
            .ok_or(BadPriority { level })
    }

    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl TryFrom<i64> for Priority {
    type Error = BadPriority;

    fn try_from(level: i64) -> Result<Self, BadPriority> {
        Self::new(level)
    }
}

impl From<Priority> for i64 {
    fn from(priority: Priority) -> i64 {
        i64::from(priority.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_priorities_are_checked_where_they_enter() {
        assert_eq!(QueueName::parse("mail").unwrap().as_str(), "mail");
        assert!(QueueName::parse("").is_err());
        assert!(QueueName::parse("a\nb").is_err());
        assert!(Realm::parse(&"x".repeat(limit::NAME_MAX + 1)).is_err());
        assert_eq!(Priority::new(9).unwrap(), Priority::HIGHEST);
        assert!(Priority::new(10).is_err());
        assert!(Priority::new(-1).is_err());
    }
}
