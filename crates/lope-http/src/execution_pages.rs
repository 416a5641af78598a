//! Executions of a long run, part by part, in the order in which they were opened.
//!
//! A part is folded from the nearest place that is still known from an earlier one, and only until
//! all that it holds is over. What is open for much longer than the others, as the loop around them
//! is, would be over only at the end of the journal: the first such part reads it all, and what was
//! found there is remembered. However long a run is, no more of it is held than a part, what is at
//! work, and a few such places.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lope::runs::{Execution, ExecutionStatus, Follower, Historian, HistoryMark, RunRecord};
use lope::stores::{StoreError, StoreResult};
use lope::workflows::Plan;
use lope::{Client, RunId};

/// Runs of which something is remembered.
const RUNS: usize = 2;
/// Places in a run that are remembered, and how many bytes one may take.
const MARKS: usize = 4;
const MARK_BYTES: usize = 2 * 1024 * 1024;
/// Who is open for more rows than this is late.
const LATE_ROWS: u64 = 2_000;
/// Most late ones that are remembered.
const LATE_MAX: usize = 1_000;
/// Executions besides a part's that are over and still known.
const KNOWN: usize = 1_000;

/// What is remembered of the runs that were asked for last.
#[derive(Debug, Default)]
pub struct ExecutionPages(Mutex<VecDeque<(RunId, KnownRun)>>);

/// Some executions of a run.
#[derive(Debug)]
pub struct ExecutionPart {
    /// With their numbers.
    pub executions: Vec<(u64, Execution)>,
    /// Are there others behind them?
    pub more: bool,
}

#[derive(Debug, Default)]
struct KnownRun {
    marks: VecDeque<HistoryMark>,
    /// The end of its journal, when that was last read.
    end: Option<HistoryMark>,
    /// Late ones that were over there, by number.
    late: BTreeMap<u64, Execution>,
}

/// A part that is being read.
struct PartFold<'a> {
    follower: Follower<'a>,
    numbers: Range<u64>,
    head: u64,
}

impl ExecutionPages {
    /// The executions of a run with these numbers, as they are now.
    pub async fn part(
        &self,
        client: &Client,
        record: &RunRecord,
        plan: &Plan,
        numbers: Range<u64>,
    ) -> StoreResult<ExecutionPart> {
        let mut known = self.take(record.run);
        let mark = known.before(numbers.start);
        let follower = match mark {
            Some(mark) => client.follow_from(record.run, plan, mark),
            None => client.follow(record.run, plan).await?,
        };
        let mut fold = PartFold {
            follower: follower.with_limit(KNOWN).pinning(numbers.clone()),
            numbers: numbers.clone(),
            head: record.head,
        };
        fold.fill(&mut known).await?;
        let mut part = fold.part();
        if fold.is_open() {
            known.go_to_the_end(client, record, plan).await?;
            if !known.tells_all(&part) {
                fold.go_to_the_end(&mut known).await?;
                part = fold.part();
            }
            known.tell(&mut part);
        }
        self.keep(record.run, known);
        Ok(part)
    }

    fn take(&self, run: RunId) -> KnownRun {
        let mut all = self.all();
        let place = all.iter().position(|(known, _)| *known == run);
        let found = place.and_then(|place| all.remove(place));
        found.map(|(_, known)| known).unwrap_or_default()
    }

    fn keep(&self, run: RunId, mut known: KnownRun) {
        if known.late.len() > LATE_MAX {
            (known.late, known.end) = (BTreeMap::new(), None);
        }
        let mut all = self.all();
        all.retain(|(other, _)| *other != run);
        all.push_front((run, known));
        all.truncate(RUNS);
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<(RunId, KnownRun)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownRun {
    /// The nearest place before an execution.
    fn before(&self, number: u64) -> Option<HistoryMark> {
        let before = self.marks.iter().filter(|mark| mark.opened() <= number);
        before.max_by_key(|mark| mark.opened()).cloned()
    }

    fn remember(&mut self, mut mark: HistoryMark) {
        let is_known = |it: &HistoryMark| it.opened() == mark.opened();
        if self.marks.iter().any(is_known) || mark.weight() > MARK_BYTES {
            return;
        }
        self.marks.push_front(mark);
        self.marks.truncate(MARKS);
    }

    /// Read what came since the end was read.
    async fn go_to_the_end(
        &mut self,
        client: &Client,
        record: &RunRecord,
        plan: &Plan,
    ) -> StoreResult<()> {
        let Some(end) = self.end.take() else {
            return Ok(());
        };
        let follower = client.follow_from(record.run, plan, end);
        let mut follower = follower.with_limit(KNOWN);
        follower
            .catch_up(|_, _, history| self.note(history))
            .await?;
        self.end = Some(follower.historian().mark());
        Ok(())
    }

    /// Remember those that the last row ended late, forget those that it opened again.
    fn note(&mut self, history: &Historian<'_>) {
        for (number, execution) in history.touched_numbered() {
            if execution.status == ExecutionStatus::Running {
                self.late.remove(&number);
            } else if history.seq().saturating_sub(execution.opened_by) > LATE_ROWS {
                self.late.insert(number, execution.clone());
            }
        }
    }

    /// Is it known what became of everything in a part that was open?
    fn tells_all(&self, part: &ExecutionPart) -> bool {
        let Some(end) = &self.end else {
            return false;
        };
        let mut open = part.open();
        open.all(|number| self.late.contains_key(&number) || end.live(number).is_some())
    }

    /// Put what is known of the open ones in their place.
    fn tell(&self, part: &mut ExecutionPart) {
        for (number, execution) in &mut part.executions {
            let is_open = execution.status == ExecutionStatus::Running;
            let live = self.end.as_ref().and_then(|end| end.live(*number));
            if let Some(found) = self.late.get(number).or(live).filter(|_| is_open) {
                *execution = found.clone();
            }
        }
    }
}

impl ExecutionPart {
    fn open(&self) -> impl Iterator<Item = u64> {
        let open = self.executions.iter();
        let open = open.filter(|(_, it)| it.status == ExecutionStatus::Running);
        open.map(|(number, _)| *number)
    }
}

impl PartFold<'_> {
    /// Fold until the part is full and over, or late, or the journal ends.
    async fn fill(&mut self, known: &mut KnownRun) -> StoreResult<()> {
        let mut full_at = None;
        loop {
            let history = self.follower.historian();
            if history.opened() <= self.numbers.end {
                known.remember(history.mark());
            } else {
                let full_at = *full_at.get_or_insert(history.seq());
                if !self.is_open() || history.seq() - full_at > LATE_ROWS {
                    return Ok(());
                }
            }
            if self.follower.catch_up_page(|_, _, _| ()).await? == 0 {
                return self.has_ended();
            }
        }
    }

    async fn go_to_the_end(&mut self, known: &mut KnownRun) -> StoreResult<()> {
        let told = self.follower.catch_up(|_, _, history| known.note(history));
        told.await?;
        known.end = Some(self.follower.historian().mark());
        self.has_ended()
    }

    fn has_ended(&self) -> StoreResult<()> {
        let seq = self.follower.historian().seq();
        if seq >= self.head {
            return Ok(());
        }
        let message = format!(
            "its journal ends at row {seq}, and row {} was written",
            self.head
        );
        Err(StoreError::corrupt(message))
    }

    /// Is something of the part open?
    fn is_open(&self) -> bool {
        let mut own = self.follower.historian().numbered(self.numbers.clone());
        own.any(|(_, it)| it.status == ExecutionStatus::Running)
    }

    fn part(&self) -> ExecutionPart {
        let history = self.follower.historian();
        let own = history.numbered(self.numbers.clone());
        ExecutionPart {
            executions: own.map(|(number, it)| (number, it.clone())).collect(),
            more: history.opened() > self.numbers.end,
        }
    }
}
