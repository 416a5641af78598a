//! One turn of a runner with the limits, decided: what each piece of work comes to, and which rows
//! that changes. Pure: rows, time and who lives in; verdicts and guarded batches out.
//!
//! Work that touches the same rows is decided one after the other and written together; work that
//! shares nothing is independent, so that one that loses a race does not take others with it.

mod row_drafts;

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use lope_definition::policy::{Admission, Breaker};
use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Failure, RunnerId, Span, Timestamp, Value, failure, limit, value};
use lope_store::tables::{Batch, TableId};

use self::row_drafts::RowDrafts;
use crate::circuit_row::CircuitRow;
use crate::codec::UnreadableRow;
use crate::holder::{AttemptRef, Holder};
use crate::key::LimitKey;
use crate::outcome_row::{KeyEntry, OutcomeRow, enter};
use crate::permits::Permitted;
use crate::rate_line::{LineDraft, RateLine, RateRequest};
use crate::request::{LimitEnd, LimitRequest, LimitVerdict, LimitWork, circuit_key, rate_key};

/// When an attempt whose limit cannot be read asks again.
const UNREADABLE_FOR: Span = Span::from_secs(30);
/// Room that an outcome leaves in its row for what stands before it.
const HEADER_MAX: usize = 16 * 1024;

/// The rates of one runner, by name.
pub(crate) type RateLines = HashMap<LimitKey, RateLine>;

/// What is known when a turn is decided.
pub(crate) struct LimitFacts<'a> {
    pub(crate) now: Timestamp,
    pub(crate) runner: RunnerId,
    pub(crate) table: TableId,
    /// The rows of all keys, as they were read.
    pub(crate) found: &'a HashMap<LimitKey, Option<Vec<u8>>>,
    /// Of the other runners that the rows name, those whose sessions live.
    pub(crate) live: &'a HashSet<RunnerId>,
    pub(crate) lines: &'a RateLines,
}

/// What becomes of work that shares rows.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    /// Which work, by its place.
    pub(crate) members: Vec<usize>,
    /// What the requests among it are answered once the batch is written.
    pub(crate) verdicts: Vec<(usize, LimitVerdict)>,
    pub(crate) batch: Batch,
    /// Must it outlive the machine?
    pub(crate) durable: bool,
    pub(crate) lines: HashMap<LimitKey, LineDraft>,
}

impl LimitFacts<'_> {
    pub(crate) fn plan(&self, works: &[LimitWork]) -> Vec<GroupPlan> {
        let groups = grouped(works).into_iter();
        groups
            .map(|members| self.plan_group(works, members))
            .collect()
    }

    /// Ends first: what they give back may be taken in the same turn.
    fn plan_group(&self, works: &[LimitWork], members: Vec<usize>) -> GroupPlan {
        let mut rows = RowDrafts::new(self);
        let mut verdicts = Vec::new();
        for &member in &members {
            if let LimitWork::End(end) = &works[member]
                && let Err(unreadable) = self.end(&mut rows, end)
            {
                tracing::error!(%unreadable, keys = ?works[member].keys(), "a limit could not be given back");
            }
        }
        for &member in &members {
            if let LimitWork::Request(request) = &works[member] {
                verdicts.push((member, self.request(&mut rows, request)));
            }
        }
        let (batch, durable, lines) = rows.into_batch();
        GroupPlan {
            members,
            verdicts,
            batch,
            durable,
            lines,
        }
    }

    fn request(&self, rows: &mut RowDrafts<'_>, request: &LimitRequest) -> LimitVerdict {
        match self.grant(rows, request) {
            Ok(inherited) => LimitVerdict::Granted { inherited },
            Err(NotGranted::Verdict(verdict)) => verdict,
            Err(NotGranted::Unreadable(key, why)) => LimitVerdict::Refused {
                until: self.now.plus(UNREADABLE_FOR),
                reason: format!("{key}: {why}").into(),
            },
        }
    }

    /// All that the attempt needs, or nothing. A rate is asked last, since its yes counts.
    fn grant(&self, rows: &mut RowDrafts<'_>, request: &LimitRequest) -> Result<bool, NotGranted> {
        let holder = self.holder(&request.attempt);
        let mut inherited = false;
        if let Some(key) = request.idempotency_key.clone().map(LimitKey::Outcome) {
            inherited |= self.enter_key(rows, &key, &request.attempt)?;
        }
        let mut permits = None;
        if let Some((name, limit)) = &request.permit {
            let key = LimitKey::Permits(name.clone());
            let mut row = rows.permits(&key).map_err(NotGranted::at(&key))?.clone();
            match row.take(holder.clone(), *limit, |runner| self.is_live(runner)) {
                Permitted::Yes => {}
                Permitted::Inherited => inherited = true,
                Permitted::No => return Err(LimitVerdict::Held(key).into()),
            }
            permits = Some((key, row));
        }
        let circuit = match request.circuit.as_deref() {
            Some(settings) => self.ask_circuit(rows, settings, &holder)?,
            None => None,
        };
        if let Some(rate) = request.rate.as_deref() {
            self.ask_rate(rows, rate, &request.attempt)?;
        }
        if let Some(key) = request.idempotency_key.clone().map(LimitKey::Outcome) {
            rows.put_outcome(key, Some(OutcomeRow::Working(holder)));
        }
        if let Some((key, row)) = permits {
            rows.put_permits(key, row);
        }
        if let Some((key, row)) = circuit {
            rows.put_circuit(key, row);
        }
        Ok(inherited)
    }

    /// May the attempt do the work of its idempotency key? Does it so in another's place?
    fn enter_key(
        &self,
        rows: &mut RowDrafts<'_>,
        key: &LimitKey,
        attempt: &AttemptRef,
    ) -> Result<bool, NotGranted> {
        let row = rows.outcome(key).map_err(NotGranted::at(key))?;
        match enter(row, self.runner, attempt, |runner| self.is_live(runner)) {
            KeyEntry::Begin => Ok(false),
            KeyEntry::Inherit => Ok(true),
            KeyEntry::Wait => Err(LimitVerdict::Held(key.clone()).into()),
            KeyEntry::Done(outcome) => Err(LimitVerdict::Done(outcome).into()),
        }
    }

    /// The circuit's row after the attempt was let through, if that changes it.
    fn ask_circuit(
        &self,
        rows: &mut RowDrafts<'_>,
        settings: &CircuitBreaker,
        holder: &Holder,
    ) -> Result<Option<(LimitKey, Option<CircuitRow>)>, NotGranted> {
        let key = circuit_key(settings);
        let row = rows.circuit(&key).map_err(NotGranted::at(&key))?;
        let before = self.breaker(settings, row);
        let mut after = before;
        match after.admit(settings, self.now) {
            Admission::Go if after == before => Ok(None),
            Admission::Go => Ok(Some((key, CircuitRow::of(after, holder.clone())))),
            // Whoever waits for a probe goes on when it ends.
            Admission::Wait(_) if matches!(before, Breaker::HalfOpen(_)) => {
                Err(LimitVerdict::Held(key).into())
            }
            Admission::Wait(until) => {
                let reason = format!("the circuit '{}' is open", key.name()).into();
                Err(LimitVerdict::Refused { until, reason }.into())
            }
        }
    }

    /// The circuit as it is now: the probe of a runner that is gone is over, and a clock that was
    /// set back keeps none open for longer than it may be.
    fn breaker(&self, settings: &CircuitBreaker, row: Option<&CircuitRow>) -> Breaker {
        let is_lost = row.is_some_and(|row| !self.is_live(row.by.runner));
        let latest = self.now.plus(settings.reset);
        match CircuitRow::breaker(row) {
            Breaker::HalfOpen(_) if is_lost => Breaker::Open(self.now),
            Breaker::HalfOpen(since) => Breaker::HalfOpen(since.min(self.now)),
            Breaker::Open(until) if until > latest => Breaker::Open(self.now),
            other => other,
        }
    }

    fn ask_rate(
        &self,
        rows: &mut RowDrafts<'_>,
        rate: &RateLimit,
        attempt: &AttemptRef,
    ) -> Result<(), NotGranted> {
        let key = rate_key(rate);
        let none = RateLine::default();
        let line = self.lines.get(&key).unwrap_or(&none);
        let request = RateRequest {
            rate,
            runner: self.runner,
            now: self.now,
        };
        let (row, draft) = rows.rate(&key, line).map_err(NotGranted::at(&key))?;
        let asked = draft.admit(line, row, request, attempt);
        asked.map_err(|until| {
            let name = key.name();
            let count = rate.count;
            let per = rate.per;
            let reason = format!("the rate '{name}' allows {count} in {per}").into();
            LimitVerdict::Refused { until, reason }.into()
        })
    }

    fn end(&self, rows: &mut RowDrafts<'_>, end: &LimitEnd) -> Result<(), UnreadableRow> {
        let LimitRequest {
            attempt,
            idempotency_key,
            permit,
            circuit,
            ..
        } = &end.request;
        if let Some(name) = idempotency_key {
            self.leave_key(rows, &LimitKey::Outcome(name.clone()), end)?;
        }
        if let Some((name, _)) = permit {
            let key = LimitKey::Permits(name.clone());
            let mut row = rows.permits(&key)?.clone();
            row.give_back(self.runner, attempt);
            rows.put_permits(key, row);
        }
        if let (Some(settings), Some(result)) = (circuit.as_deref(), &end.result) {
            let key = circuit_key(settings);
            let mut breaker = self.breaker(settings, rows.circuit(&key)?);
            breaker.record(settings, self.now, result.is_ok());
            rows.put_circuit(key, CircuitRow::of(breaker, self.holder(attempt)));
        }
        Ok(())
    }

    /// The one at work under a key has ended: its answer stays, or the next one may try.
    fn leave_key(
        &self,
        rows: &mut RowDrafts<'_>,
        key: &LimitKey,
        end: &LimitEnd,
    ) -> Result<(), UnreadableRow> {
        let by = &end.request.attempt;
        match rows.outcome(key)? {
            Some(OutcomeRow::Working(holder)) if holder.is(self.runner, by) => {}
            Some(_) | None => return Ok(()),
        }
        let done = match &end.result {
            Some(Ok(value)) => Some(OutcomeRow::Done {
                at: self.now,
                by: by.clone(),
                outcome: kept(value),
            }),
            Some(Err(())) | None => None,
        };
        rows.put_outcome(key.clone(), done);
        Ok(())
    }

    fn holder(&self, attempt: &AttemptRef) -> Holder {
        Holder {
            runner: self.runner,
            attempt: attempt.clone(),
            since: self.now,
        }
    }

    fn is_live(&self, runner: RunnerId) -> bool {
        runner == self.runner || self.live.contains(&runner)
    }
}

/// The answer as it is kept: one that is too large for a row is kept as a failure, since the work
/// was done.
pub(crate) fn kept(answer: &Value) -> Result<Value, Box<Failure>> {
    let size = value::to_msgpack(answer).len();
    let most = limit::PAYLOAD_MAX - HEADER_MAX;
    if size <= most {
        return Ok(answer.clone());
    }
    let message = format!(
        "the answer has {size} bytes; one that is kept under an idempotency key has at most {most}"
    );
    Err(Box::new(Failure::new(failure::kind::LIMIT, message)))
}

/// Why a request is not granted.
enum NotGranted {
    Verdict(LimitVerdict),
    Unreadable(LimitKey, UnreadableRow),
}

impl NotGranted {
    fn at(key: &LimitKey) -> impl Fn(UnreadableRow) -> Self + use<> {
        let key = key.clone();
        move |why| Self::Unreadable(key.clone(), why)
    }
}

impl From<LimitVerdict> for NotGranted {
    fn from(verdict: LimitVerdict) -> Self {
        Self::Verdict(verdict)
    }
}

/// The places of works that share rows, directly or through others; each group in order.
fn grouped(works: &[LimitWork]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: HashMap<LimitKey, usize> = HashMap::default();
    for (index, work) in works.iter().enumerate() {
        let keys = work.keys();
        let met: BTreeSet<usize> = keys
            .iter()
            .filter_map(|key| group_of.get(key).copied())
            .collect();
        let mut met = met.into_iter();
        let group = met.next().unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        for other in met {
            let joined = std::mem::take(&mut groups[other]);
            groups[group].extend(joined);
            group_of
                .values_mut()
                .filter(|of| **of == other)
                .for_each(|of| *of = group);
        }
        groups[group].push(index);
        group_of.extend(keys.into_iter().map(|key| (key, group)));
    }
    groups.retain(|group| !group.is_empty());
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

#[cfg(test)]
mod tests;
