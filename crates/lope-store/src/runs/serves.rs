//! What a runner serves, as the registry tells it: a line for each queue and realm, for people and
//! programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lope_model::{QueueName, Realm};

/// The queues and realms that a runner claims from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Serves {
    /// Each with the most runs of it that may be at work at once, in the whole store, if that is
    /// bounded.
    pub queues: BTreeMap<QueueName, Option<u32>>,
    pub realms: BTreeSet<Realm>,
}

impl fmt::Display for Serves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (queue, most) in &self.queues {
            match most {
                None => writeln!(f, "queue {queue}")?,
                Some(most) => writeln!(f, "at most {most} of queue {queue}")?,
            }
        }
        self.realms
            .iter()
            .try_for_each(|realm| writeln!(f, "realm {realm}"))
    }
}

impl Serves {
    /// Reads what `Display` writes; lines of another kind (of another version) are left out.
    pub fn parse(text: &str) -> Self {
        let mut serves = Self::default();
        for line in text.lines() {
            if let Some(realm) = line
                .strip_prefix("realm ")
                .and_then(|name| Realm::parse(name).ok())
            {
                serves.realms.insert(realm);
            } else if let Some((queue, most)) = queue(line) {
                serves.queues.insert(queue, most);
            }
        }
        serves
    }
}

fn queue(line: &str) -> Option<(QueueName, Option<u32>)> {
    let bounded = || line.strip_prefix("at most ")?.split_once(" of queue ");
    let (most, name) = match line.strip_prefix("queue ") {
        Some(name) => (None, name),
        None => bounded().and_then(|(most, name)| Some((Some(most.parse().ok()?), name)))?,
    };
    Some((QueueName::parse(name).ok()?, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let queue = |name: &str| QueueName::parse(name).expect("a good name");
        let queues = [
            (queue("default"), None),
            (queue("of queue x"), Some(3)),
            (queue("queue"), Some(0)),
        ];
        let realms = [
            Realm::default(),
            Realm::parse("at most 2").expect("a good name"),
        ];
        let serves = Serves {
            queues: queues.into(),
            realms: realms.into(),
        };
        assert_eq!(Serves::parse(&serves.to_string()), serves);
        assert_eq!(
            Serves::parse("colour blue\nat most many of queue x\n"),
            Serves::default()
        );
    }
}
