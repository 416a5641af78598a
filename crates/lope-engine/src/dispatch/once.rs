//! Same key, one effect: tasks of an action with an equal idempotency key. One does the work; the others wait for it and get its
//! answer. An answer is remembered for a while, within a bound of bytes; a failure is not, so that the next one tries.
//!
//! It holds within a process. Beyond it the key goes to the worker with every attempt.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use lope_model::{Value, value};

use super::Rank;
use crate::executor::{Task, Token};

/// Most answers that are remembered, and most bytes of them.
const ANSWERS_MAX: usize = 100_000;
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// One is at work on a key, the others wait.
#[derive(Debug)]
struct Working {
    token: Token,
    waiting: BTreeMap<Rank, Box<Task>>,
}

/// Keys at work, and answers.
#[derive(Debug, Default)]
pub(super) struct Once {
    working: HashMap<Arc<str>, Working>,
    answers: HashMap<Arc<str>, (Value, usize)>,
    /// Answered keys, oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

/// What becomes of a task with a key.
#[derive(Debug)]
pub(super) enum Entry {
    /// It does the work.
    Begin(Box<Task>),
    /// It waits for the one at work.
    Waits,
    /// The work was done.
    Done(Token, Value),
}

impl Once {
    /// A task is about to start.
    pub(super) fn enter(&mut self, rank: Rank, task: Box<Task>) -> Entry {
        let Some(key) = task.limits.once.clone() else { return Entry::Begin(task) };
        if let Some((answer, _)) = self.answers.get(&key) {
            return Entry::Done(task.token, answer.clone());
        }
        match self.working.get_mut(&key) {
            Some(working) if working.token != task.token => {
                working.waiting.insert(rank, task);
                Entry::Waits
            }
            Some(_) => Entry::Begin(task),
            None => {
                self.working.insert(key, Working { token: task.token.clone(), waiting: BTreeMap::new() });
                Entry::Begin(task)
            }
        }
    }

    /// The one at work has ended, with an answer or without; those that waited come back.
    pub(super) fn leave(&mut self, key: &Arc<str>, answer: Option<&Value>) -> BTreeMap<Rank, Box<Task>> {
        let Some(working) = self.working.remove(key) else { return BTreeMap::new() };
        if let Some(answer) = answer {
            self.remember(Arc::clone(key), answer.clone());
        }
        working.waiting
    }

    /// One that waits is no longer wanted.
    pub(super) fn forget(&mut self, rank: &Rank) {
        self.working.values_mut().for_each(|working| drop(working.waiting.remove(rank)));
    }

    fn remember(&mut self, key: Arc<str>, answer: Value) {
        let size = value::to_msgpack(&answer).len() + key.len();
        self.bytes += size;
        self.answers.insert(Arc::clone(&key), (answer, size));
        self.order.push_back(key);
        while (self.bytes > BYTES_MAX || self.order.len() > ANSWERS_MAX)
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.answers.remove(&oldest).map_or(0, |(_, size)| size);
        }
    }
}
