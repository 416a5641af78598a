//! What a host has seen of the leases of others, by a clock of its own that nobody sets.
//!
//! Hosts on several machines, or with a server whose wall clock was set, do not agree on what time
//! it is. So no time that another host wrote is held against a clock here: a lease is over when its
//! rows have stood unchanged for as long as it runs, and somebody who lives renews it four times in
//! that time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use lope_cells::id::SpaceName;
use lope_model::{Moment, Span};

/// Most spaces that are kept in mind; beyond, the oldest sightings are forgotten, and their spaces
/// are watched anew.
const SIGHTINGS_MAX: usize = 100_000;

/// Leases of others as they were seen last, and since when they have looked like that.
#[derive(Default)]
pub(super) struct Sightings(Mutex<BTreeMap<SpaceName, Sighting>>);

struct Sighting {
    rows: Vec<u8>,
    since: Moment,
}

impl Sightings {
    /// A lease looks like this now: for how long has it?
    pub(super) fn unchanged_for(&self, space: &SpaceName, rows: Vec<u8>, now: Moment) -> Span {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.get(space)
            && known.rows == rows
        {
            return now.since(known.since);
        }
        if seen.len() >= SIGHTINGS_MAX {
            let oldest = seen.iter().min_by_key(|(_, known)| known.since);
            if let Some(oldest) = oldest.map(|(space, _)| space.clone()) {
                seen.remove(&oldest);
            }
        }
        seen.insert(space.clone(), Sighting { rows, since: now });
        Span::ZERO
    }

    /// The space is free, or one's own.
    pub(super) fn forget(&self, space: &SpaceName) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(space);
    }
}

impl fmt::Debug for Sightings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sightings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_changes_is_watched_anew() {
        let seen = Sightings::default();
        let space: SpaceName = "home".parse().unwrap();
        let look = |rows: &[u8], at: i64| {
            seen.unchanged_for(&space, rows.to_vec(), Moment(at))
                .millis()
        };
        assert_eq!(look(b"a", 100), 0);
        assert_eq!(look(b"a", 150), 50);
        assert_eq!(look(b"b", 160), 0, "it was renewed");
        assert_eq!(look(b"b", 175), 15);
        seen.forget(&space);
        assert_eq!(look(b"b", 180), 0);
    }
}
