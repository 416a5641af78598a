//! What every process of a tree carries in its environment: whose it is. A child inherits it, also
//! one that has left its group and session.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use lope_engine::executor::Token;

use super::identity::ProcessIdentity;
use super::mark::TreeMark;

/// The variable of the processes of a tree: what is started where it is set ends with the tree.
pub const TREE_VARIABLE: &str = "LOPE_PROCESS_TREE";
/// The variable of the process that supervises a tree.
pub(super) const SUBREAPER_VARIABLE: &str = "LOPE_PROCESS_TREE_SUBREAPER";

/// What a tree works on, where it is no attempt of a step: those of one name with a lower epoch, or
/// an earlier attempt, are ended before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeWork {
    pub name: String,
    pub attempt: u32,
    pub epoch: u64,
}

/// Whose process this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TreeCookie {
    /// The runner that started it.
    owner: ProcessIdentity,
    /// Which of its trees.
    tree: u64,
    /// What it works on; the same for all attempts.
    work: String,
    attempt: u32,
    epoch: u64,
}

impl TreeCookie {
    pub(super) fn of_attempt(owner: &ProcessIdentity, token: &Token) -> Self {
        Self {
            owner: owner.clone(),
            tree: next_tree(),
            work: format!("{}/{}", token.run, token.execution),
            attempt: token.attempt,
            epoch: token.epoch.0,
        }
    }

    pub(super) fn of_work(owner: &ProcessIdentity, work: &TreeWork) -> Self {
        Self {
            owner: owner.clone(),
            tree: next_tree(),
            work: work.name.clone(),
            attempt: work.attempt,
            epoch: work.epoch,
        }
    }

    /// Of a worker process, which works for many.
    pub(super) fn of_worker(owner: &ProcessIdentity, worker: u64) -> Self {
        Self {
            owner: owner.clone(),
            tree: next_tree(),
            work: format!("worker/{worker}"),
            attempt: 1,
            epoch: 1,
        }
    }

    /// What it works on, a run and an execution for a step, and the attempt.
    pub(super) fn of(&self) -> (&str, u32) {
        (&self.work, self.attempt)
    }

    /// Was there anything before this attempt?
    pub(super) fn is_first(&self) -> bool {
        self.attempt == 1 && self.epoch == 1
    }

    /// Is this what an earlier attempt, or an earlier owner, of the same work has left?
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.work == other.work && (self.epoch, self.attempt) < (other.epoch, other.attempt)
    }

    /// Is nobody there any more who would end it?
    pub(super) fn is_abandoned(&self) -> bool {
        self.owner.is_gone()
    }

    /// What its processes keep when they lose the cookie.
    pub(super) fn mark(&self) -> TreeMark {
        TreeMark::of(&self.owner, self.tree)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, ' ');
        Some(Self {
            owner: ProcessIdentity::parse(parts.next()?)?,
            tree: parts.next()?.parse().ok()?,
            attempt: parts.next()?.parse().ok()?,
            epoch: parts.next()?.parse().ok()?,
            work: parts.next()?.to_owned(),
        })
    }

    /// The cookie in an environment as the kernel shows it, and whether it is a subreaper's.
    pub(super) fn find(environment: &[u8]) -> Option<(Self, bool)> {
        environment.split(|byte| *byte == 0).find_map(|entry| {
            let entry = std::ffi::OsStr::from_bytes(entry).to_str()?;
            let (name, value) = entry.split_once('=')?;
            let is_subreaper = name == SUBREAPER_VARIABLE;
            (is_subreaper || name == TREE_VARIABLE)
                .then(|| Self::parse(value))
                .flatten()
                .map(|cookie| (cookie, is_subreaper))
        })
    }
}

/// Trees are counted, so that two of one process are never taken for one.
fn next_tree() -> u64 {
    static TREES: AtomicU64 = AtomicU64::new(0);
    TREES.fetch_add(1, Ordering::Relaxed)
}

impl std::fmt::Display for TreeCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            owner,
            tree,
            work,
            attempt,
            epoch,
        } = self;
        write!(f, "{owner} {tree} {attempt} {epoch} {work}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lope_model::{Epoch, RunId};

    use super::*;

    fn cookie(execution: &str, attempt: u32, epoch: u64) -> TreeCookie {
        let token = Token {
            run: RunId::from_bytes([3; 16]),
            execution: Arc::from(execution),
            attempt,
            epoch: Epoch(epoch),
        };
        TreeCookie::of_attempt(&ProcessIdentity::own(), &token)
    }

    #[test]
    fn a_cookie_is_found_again_and_knows_what_came_before_it() {
        let own = cookie("a/0/two words", 2, 7);
        let environment = format!("PATH=/bin\0{TREE_VARIABLE}={own}\0X=1\0");
        assert_eq!(
            TreeCookie::find(environment.as_bytes()),
            Some((own.clone(), false))
        );
        assert_eq!(TreeCookie::find(b"PATH=/bin\0LOPE_PROCESS_TREE=x\0"), None);
        let rows = [
            (cookie("a/0/two words", 1, 7), true),
            (cookie("a/0/two words", 2, 6), true),
            (cookie("a/0/two words", 2, 7), false),
            (cookie("a/0/two words", 1, 8), false),
            (cookie("a/1", 1, 1), false),
        ];
        for (other, expected) in rows {
            assert_eq!(other.is_before(&own), expected, "{other}");
        }
        assert!(!own.is_abandoned());
    }
}
