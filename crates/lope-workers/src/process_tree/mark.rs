//! A mark that a process of a tree keeps when it clears its environment and leaves its session: the
//! kernel's limit on file locks, which means nothing since Linux 2.4.25 and which every child
//! inherits. The number says which process owns the tree, and which of its trees it is.
//!
//! It is shorter than a cookie: of a long number only the end fits. Where two owners cannot be told
//! apart, the tree is held to have one.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::identity::{self, ProcessIdentity};

/// How many bits of the number each part has.
const PID: u32 = 22;
const START: u32 = 12;
const NAMESPACE: u32 = 12;
const TREE: u32 = 17;

/// Which tree of which owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TreeMark(u64);

impl TreeMark {
    pub(super) fn of(owner: &ProcessIdentity, tree: u64) -> Self {
        let parts = [
            (u64::from(owner.pid), PID),
            (owner.start_time, START),
            (owner.namespace(), NAMESPACE),
            (tree, TREE),
        ];
        let number = parts
            .into_iter()
            .fold(0, |number, (part, bits)| number << bits | part & low(bits));
        Self(number)
    }

    /// Has its owner ended? Nothing is said about one of another container.
    pub(super) fn is_abandoned(self) -> bool {
        let own = ProcessIdentity::own();
        let part = |above: u32, bits: u32| self.0 >> above & low(bits);
        let is_here = part(TREE, NAMESPACE) == own.namespace() & low(NAMESPACE);
        let start = part(TREE + NAMESPACE, START);
        let pid = u32::try_from(part(TREE + NAMESPACE + START, PID)).unwrap_or_default();
        let lives = identity::stat(pid)
            .is_some_and(|stat| stat.start_time & low(START) == start && !stat.is_zombie);
        is_here && pid != 0 && !lives
    }

    /// The mark of a process, if it has one.
    pub(super) fn find(pid: u32) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits
            .lines()
            .find_map(|it| it.strip_prefix("Max file locks"))?;
        line.split_whitespace().next()?.parse().ok().map(Self)
    }

    /// This process carries it from now on, and so does whatever it starts. One whose limit is lower
    /// already keeps that.
    pub(super) fn carry(self) {
        let known = getrlimit(Resource::Locks);
        let marked = Rlimit {
            current: Some(self.0),
            ..known
        };
        let _ = setrlimit(Resource::Locks, marked);
    }
}

const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_trees_and_owners_apart() {
        let own = ProcessIdentity::own();
        let mark = TreeMark::of(&own, 7);
        assert_eq!(mark, TreeMark::of(&own, 7));
        assert!(mark.0 < 1 << 63, "any limit may hold it");
        assert!(!mark.is_abandoned());
        let with = |change: &dyn Fn(&mut ProcessIdentity)| {
            let mut other = own.clone();
            change(&mut other);
            TreeMark::of(&other, 7)
        };
        let rows = [
            (TreeMark::of(&own, 8), false, "another tree"),
            (
                with(&|it| it.start_time += 1),
                true,
                "its number was given again",
            ),
            (with(&|it| it.pid = 4_194_303), true, "no such process"),
            (
                with(&|it| it.scope = "boot-1".to_owned()),
                false,
                "another container",
            ),
        ];
        for (other, is_abandoned, why) in rows {
            assert_ne!(mark, other, "{why}");
            assert_eq!(other.is_abandoned(), is_abandoned, "{why}");
        }
    }

    #[test]
    fn a_limit_that_nobody_set_is_no_mark() {
        assert_eq!(TreeMark::find(1), None);
        assert_eq!(TreeMark::find(u32::MAX), None);
    }
}
