//! The heap of a run: what its code in Python holds between two awaits, as bytes that only its
//! workers understand.
//!
//! A region is work like any other, but that it has the heap alone: it gets the bytes, and its
//! outcome says what is added to them. Regions of one run follow each other in the order in which
//! they became ready, as code between awaits does under one event loop. A region whose attempt is
//! lost or cancelled has changed nothing.
//!
//! A region may also start tasks, which become elements of the definition's open `each`, cancel
//! them, and wake steps that wait: those wait for a signal whose name begins as no signal of a
//! user's does.

use std::sync::Arc;

use lope_model::{Map, Value};

use super::arena::Key;
use super::effect::Dispatch;
use super::machine::Machine;
use super::state::{Exit, Heap, Job, State, Work, WorkItem, WorkerJob};

/// The entry of a region's arguments and of its answer that is the heap's.
const ENTRY: &str = "heap";
/// The entry of a region's answer about tasks: those it starts and cancels, and whom it wakes.
const TASKS: &str = "tasks";
/// How the names of signals begin that only regions send.
pub(crate) const INTERNAL: char = '\0';

impl Machine<'_> {
    /// The next attempt that may start: the first, but no region while another has the heap.
    pub(crate) fn next_ready(&mut self) -> Option<Key> {
        if !self.state.heap_is_taken() {
            return self.state.ready.pop_first().map(|(_, exec)| exec);
        }
        let state = &*self.state;
        let (ready_key, exec) = state
            .ready
            .iter()
            .find(|(_, exec)| state.region(**exec).is_none())
            .map(|(ready_key, exec)| (*ready_key, *exec))?;
        self.state.ready.remove(&ready_key);
        Some(exec)
    }

    /// An attempt starts: if it is a region, it has the heap from now on.
    pub(crate) fn take_heap(&mut self, exec: Key) {
        if self.state.region(exec).is_some() {
            self.heap_for(exec).user = exec;
        }
    }

    fn heap_for(&mut self, exec: Key) -> &mut Heap {
        self.state
            .heap
            .get_or_insert_with(|| Box::new(Heap::new(exec)))
    }

    /// The step whose elements are the run's tasks has begun.
    pub(crate) fn host_tasks(&mut self, exec: Key) {
        self.heap_for(exec).tasks = Some(exec);
    }

    /// Takes the heap out of what a region answered; what is left is its value.
    pub(crate) fn keep_heap(&mut self, exec: Key, answer: Value) -> Value {
        if self.state.region(exec).is_none() {
            return answer;
        }
        let Value::Map(mut entries) = answer else {
            return answer;
        };
        let left = Arc::make_mut(&mut entries);
        let (changed, tasks) = (left.shift_remove(ENTRY), left.shift_remove(TASKS));
        if let (Some(heap), Some(changed)) = (&mut self.state.heap, changed) {
            heap.change(&changed);
        }
        if let Some(tasks) = tasks {
            self.change_tasks(&tasks);
        }
        Value::Map(entries)
    }

    fn change_tasks(&mut self, tasks: &Value) {
        let listed = |name| tasks.get(name).and_then(Value::as_list).unwrap_or_default();
        self.start_tasks(listed("start"));
        for woken in listed("wake") {
            if let Some([Value::Str(name), value]) = woken.as_list()
                && name.starts_with(INTERNAL)
                // It means nothing to those who come later.
                && self.state.waiters.contains_key(name)
            {
                self.signal(Arc::clone(name), value.clone());
            }
        }
        for lane in listed("cancel") {
            let lane = lane.as_int().and_then(|lane| u64::try_from(lane).ok());
            if let Some(act) = lane.and_then(|lane| self.task_at(lane)) {
                let exit = Exit::Cancelled;
                self.enqueue(WorkItem::Leave { act, exit });
            }
        }
    }
}

impl Dispatch {
    /// The arguments that its step gives it: the heap is the run's.
    pub(crate) fn arguments(&self) -> Value {
        match &self.with {
            Value::Map(entries) if self.heap => {
                let mut own = Map::clone(entries);
                own.shift_remove(ENTRY);
                Value::Map(Arc::new(own))
            }
            plain => plain.clone(),
        }
    }
}

impl State {
    /// The arguments of an action, with the heap if it works on it.
    pub(crate) fn with_heap(&self, job: &WorkerJob) -> Value {
        match &job.with {
            Value::Map(entries) if job.heap => {
                let heap = self.heap.as_ref().map(|heap| heap.to_value());
                let mut entries = Map::clone(entries);
                entries.insert(ENTRY.into(), heap.unwrap_or_default());
                Value::Map(Arc::new(entries))
            }
            plain => plain.clone(),
        }
    }

    fn heap_is_taken(&self) -> bool {
        let user = self.heap.as_ref().map(|heap| heap.user);
        user.and_then(|exec| self.execs.get(exec))
            .is_some_and(|exec| {
                matches!(&exec.work, Work::Attempt(attempt) if attempt.in_flight() && is_region(&attempt.job))
            })
    }

    fn region(&self, exec: Key) -> Option<&WorkerJob> {
        match &self.execs.get(exec)?.work {
            Work::Attempt(attempt) => match &attempt.job {
                Job::Worker(job) if job.heap => Some(job),
                Job::Worker(_) | Job::Child { .. } => None,
            },
            Work::Send(_) | Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) | Work::Block(_) => None,
            Work::Each(_) | Work::While(_) | Work::Try(_) | Work::Race(_) | Work::All(_) => None,
        }
    }
}

fn is_region(job: &Job) -> bool {
    matches!(job, Job::Worker(job) if job.heap)
}
