//! What the processes say they did, one line each, gathered by the parent.

use std::collections::BTreeMap;
use std::fmt;

use lope_model::{Epoch, RunId};

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Who was given a run in an epoch: more than one is a broken promise.
    pub(super) claims: BTreeMap<(RunId, Epoch), usize>,
    /// How often a run was finished.
    pub(super) finishes: BTreeMap<RunId, usize>,
    /// How often each shared key was created.
    pub(super) created: BTreeMap<String, usize>,
    /// Runs that were created.
    pub(super) admitted: Vec<RunId>,
    /// Numbers that appends were given.
    pub(super) appended: Vec<u64>,
    /// Guarded increments that were applied.
    pub(super) increments: u64,
    /// Commits with an epoch of the past that were refused.
    pub(super) stale: u64,
    /// Runs that takeovers put back.
    pub(super) taken_over: u64,
    /// The most processes that were at work at once, counted in the store.
    pub(super) inside: u64,
}

impl Evidence {
    pub(super) fn enter(&mut self, process: usize, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["claim", run, epoch] => {
                *self
                    .claims
                    .entry((id(run), Epoch(number(epoch))))
                    .or_default() += 1;
            }
            ["finish", run] => *self.finishes.entry(id(run)).or_default() += 1,
            ["created", key, run] => {
                *self.created.entry(key.to_owned()).or_default() += 1;
                self.admitted.push(id(run));
            }
            ["admitted", run] => self.admitted.push(id(run)),
            ["appended", value] => self.appended.push(number(value)),
            ["incremented"] => self.increments += 1,
            ["stale"] => self.stale += 1,
            ["taken", runs] => self.taken_over += number(runs),
            ["inside", count] => self.inside = self.inside.max(number(count)),
            _ => panic!("process {process} said '{line}'"),
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            claims,
            finishes,
            appended,
            increments,
            stale,
            taken_over,
            inside,
            ..
        } = self;
        write!(
            f,
            "{} claims, {} runs finished, {} appends, ",
            claims.len(),
            finishes.len(),
            appended.len()
        )?;
        write!(
            f,
            "{increments} guarded increments, {stale} stale commits refused, {taken_over} runs taken over, "
        )?;
        write!(f, "up to {inside} at work at once")
    }
}

fn id(text: &str) -> RunId {
    text.parse().expect("a run id")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}
