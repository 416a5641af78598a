//! What a handler sees and does: reads that are tracked, writes, messages and timers that are
//! staged. Nothing of it is in the store before the step's commit, and the commit is refused if
//! anything that was read has changed by then.

mod effects;
mod layer;
mod overlay;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use lope_model::Timestamp;
use lope_store::tables::{At, Range, Row, ScopeRule, TableId, after_prefix};

pub(crate) use effects::{Effects, row_guard, value_guard};
use layer::{Layer, Staged, has_id};

use crate::error::{BadMessage, HandlerError};
use crate::frame::{Intent, Message, MessageKind, Route, addressee};
use crate::group::CommitGroup;
use crate::key::{MessagePosition, TimerKey, WorkerId, rows};
use crate::limit;
use crate::message::{seal, validate_sealed};

/// The first table behind the mailbox's own.
const FIRST_OTHER: u16 = TableId::DEAD_LETTER.0 + 1;

/// A handler's view of the store, and its wishes.
pub struct Context {
    group: Arc<CommitGroup>,
    about: About,
    /// What was read: the value, or that there was none.
    reads: BTreeMap<At, Option<Vec<u8>>>,
    /// Scopes of ranges that were read, with their versions.
    scopes: BTreeMap<At, u64>,
    /// The innermost scope is the last; there is always one.
    layers: Vec<Layer>,
    children: u32,
}

/// An inner scope. What is staged through it is dropped with it, unless it is committed. What is
/// read counts in any case: the handler may have decided by it.
#[derive(Debug)]
pub struct NestedScope<'a> {
    context: &'a mut Context,
    depth: usize,
}

/// Which message is being handled.
#[derive(Debug, Clone)]
pub struct About {
    pub worker: WorkerId,
    pub now: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Where the message stood; none for a frame that was handed in.
    pub position: Option<MessagePosition>,
    pub message_id: Vec<u8>,
}

impl Context {
    pub(crate) fn new(group: Arc<CommitGroup>, about: About) -> Self {
        let layers = vec![Layer::default()];
        Self {
            group,
            about,
            reads: BTreeMap::new(),
            scopes: BTreeMap::new(),
            layers,
            children: 0,
        }
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// The value at a key, with what this handler has written so far.
    pub async fn get(&mut self, at: &At) -> Result<Option<Vec<u8>>, HandlerError> {
        may_touch(at.table)?;
        if let Some(written) = self
            .layers
            .iter()
            .rev()
            .find_map(|layer| layer.writes.get(at))
        {
            return Ok(written.clone());
        }
        if let Some(read) = self.reads.get(at) {
            return Ok(read.clone());
        }
        let value = self.group.get(at).await?;
        self.reads.insert(at.clone(), value.clone());
        Ok(value)
    }

    /// The value of a key of `app_state`.
    pub async fn state(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, HandlerError> {
        self.get(&At::new(TableId::APP_STATE, key)).await
    }

    /// The rows of a range, with what this handler has written so far. The range must lie in one
    /// scope of its table: if any key of the scope is written by somebody else before the commit,
    /// that is a conflict.
    pub async fn range(&mut self, range: Range) -> Result<Vec<Row>, HandlerError> {
        may_touch(range.table)?;
        let scope = self.scope_of(&range)?;
        let version = self.group.scope_version(&scope).await?;
        let known = *self.scopes.entry(scope).or_insert(version);
        if known != version {
            return Err(HandlerError::Conflict(
                "a range was changed between two reads".into(),
            ));
        }
        let written = overlay::inside(self.layers.iter().flat_map(|layer| &layer.writes), &range);
        let wide = Range {
            limit: range.limit.saturating_add(written.len()),
            ..range.clone()
        };
        let stored = self.group.range(wide).await?;
        Ok(overlay::laid_over(stored, written, &range))
    }

    /// Write a value, whatever was there.
    pub fn put(&mut self, at: At, value: Vec<u8>) -> Result<(), HandlerError> {
        may_touch(at.table)?;
        if value.len() > lope_model::limit::PAYLOAD_MAX {
            return Err(HandlerError::Failed(format!(
                "a value of {} bytes is too large",
                value.len()
            )));
        }
        self.top().writes.insert(at, Some(value));
        Ok(())
    }

    pub fn delete(&mut self, at: At) -> Result<(), HandlerError> {
        may_touch(at.table)?;
        self.top().writes.insert(at, None);
        Ok(())
    }

    /// Write a value of `app_state`.
    pub fn put_state(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), HandlerError> {
        self.put(At::new(TableId::APP_STATE, key), value)
    }

    /// An id for a message made by this handler: the same when the message is handled again.
    pub fn child_id(&mut self) -> Vec<u8> {
        self.children += 1;
        [
            &self.about.message_id,
            format!("/{}", self.children).as_bytes(),
        ]
        .concat()
    }

    /// Send a message with the commit. Without a sender or a route of its own it gets this
    /// worker's.
    pub fn emit(&mut self, message: &Message<'_>) -> Result<(), BadMessage> {
        let frame = seal(&self.signed(message))?;
        self.top().staged.push(Staged::Emit(frame));
        Ok(())
    }

    /// Arm a timer with the commit: the message is delivered at `due`.
    pub fn arm(&mut self, due: Timestamp, message: &Message<'_>) -> Result<(), BadMessage> {
        let frame = seal(&self.signed(message))?;
        self.stage_timer(due, frame)
    }

    /// Arm a timer for this worker itself.
    pub fn arm_own(&mut self, due: Timestamp, id: &[u8], payload: &[u8]) -> Result<(), BadMessage> {
        let to = self.about.worker.number();
        self.arm(due, &Message::new(MessageKind::Timer, to, id, payload))
    }

    /// Stage an intent from its frame, as it is. A body that is not a message is refused.
    pub fn stage(&mut self, intent: &[u8]) -> Result<(), BadMessage> {
        let intent = Intent::decode(intent)?;
        validate_sealed(intent.message())?;
        let frame = intent.message().to_vec();
        match intent {
            Intent::Emit { .. } => self.top().staged.push(Staged::Emit(frame)),
            Intent::Arm { due, .. } => self.stage_timer(Timestamp::from_millis(due), frame)?,
        }
        Ok(())
    }

    fn stage_timer(&mut self, due: Timestamp, frame: Vec<u8>) -> Result<(), BadMessage> {
        TimerKey::new(due, 0)?;
        self.top().staged.push(Staged::Arm(due, frame));
        Ok(())
    }

    /// Cancel the timer of this worker that is due at `due` with this message id. Answers whether
    /// there was one; one that has fired is gone.
    pub async fn cancel_timer(&mut self, due: Timestamp, id: &[u8]) -> Result<bool, HandlerError> {
        let staged = self.layers.iter().flat_map(|layer| layer.staged.iter());
        let balance: i32 = staged.map(|item| weight(item, due, id)).sum();
        if balance > 0 {
            self.top().staged.push(Staged::Disarm(due, id.to_vec()));
            return Ok(true);
        }
        let Ok(first) = TimerKey::new(due, 0) else {
            return Ok(false);
        };
        let found = self.find_timer(first, id).await?;
        let Some((key, frame)) = found else {
            return Ok(false);
        };
        self.top().cancelled.insert(key, frame);
        Ok(true)
    }

    async fn find_timer(
        &self,
        first: TimerKey,
        id: &[u8],
    ) -> Result<Option<(TimerKey, Vec<u8>)>, HandlerError> {
        let worker = self.about.worker;
        let end = TimerKey::new(
            Timestamp::from_millis(first.due().millis().saturating_add(1)),
            0,
        );
        let end = end.ok().map(MessagePosition::Timer);
        let mut from = Some(MessagePosition::Timer(first));
        while let Some(start) = from {
            let page = self
                .group
                .range(rows(worker, start, end, limit::TIMERS_PAGE))
                .await?;
            if let Some(row) = page.iter().find(|row| self.is_timer(row, id)) {
                return Ok(TimerKey::from_bytes(&row.key).map(|key| (key, row.value.clone())));
            }
            let last = page.last().filter(|_| page.len() == limit::TIMERS_PAGE);
            from = last
                .and_then(|row| TimerKey::from_bytes(&row.key))
                .and_then(|key| MessagePosition::Timer(key).next());
        }
        Ok(None)
    }

    /// Is this row a timer of this worker with this message id, and not cancelled yet?
    fn is_timer(&self, row: &Row, id: &[u8]) -> bool {
        let is_own = addressee(&row.value) == Some(self.about.worker.number());
        let is_cancelled = |key| {
            self.layers
                .iter()
                .any(|layer| layer.cancelled.contains_key(&key))
        };
        is_own
            && has_id(&row.value, id)
            && TimerKey::from_bytes(&row.key).is_some_and(|key| !is_cancelled(key))
    }

    /// Answer the sender of the message, with the commit. A message that asks for dedupe has its
    /// reply remembered.
    pub fn reply(&mut self, payload: impl Into<Vec<u8>>) {
        self.top().reply = Some(payload.into());
    }

    /// Open an inner scope: what is staged in it is dropped, unless it is committed into this one.
    pub fn scope(&mut self) -> NestedScope<'_> {
        self.layers.push(Layer::default());
        let depth = self.layers.len();
        NestedScope {
            context: self,
            depth,
        }
    }

    /// Everything the handler wants, to be committed.
    pub(crate) fn finish(mut self) -> Effects {
        let layer = self.layers.drain(..).reduce(|mut outer, inner| {
            outer.absorb(inner);
            outer
        });
        Effects::of(self.reads, self.scopes, layer.unwrap_or_default())
    }

    fn top(&mut self) -> &mut Layer {
        self.layers
            .last_mut()
            .expect("the outermost scope is never closed")
    }

    fn signed<'a>(&self, message: &Message<'a>) -> Message<'a> {
        let me = self.about.worker.number();
        let route = match message.route.timestamp {
            0 => Route {
                worker: me,
                timestamp: self.about.now.millis(),
            },
            _ => message.route,
        };
        Message {
            from_worker: message.from_worker.or(Some(me)),
            route,
            ..*message
        }
    }

    /// The scope that a range lies in.
    fn scope_of(&self, range: &Range) -> Result<At, HandlerError> {
        let manifest = self.group.manifest();
        let spec = manifest.table(range.table)?;
        let first = At::new(range.table, range.from.as_slice());
        let scope = manifest.scope_of(&first);
        let within = match spec.scope {
            Some(ScopeRule::Table) => true,
            Some(ScopeRule::Prefix(length)) => {
                let whole = range.from.len() >= usize::from(length);
                let end = scope.as_ref().and_then(|scope| after_prefix(&scope.key));
                whole && end.is_none_or(|end| range.to.as_ref().is_some_and(|to| *to <= end))
            }
            None => false,
        };
        let outside = || {
            HandlerError::Failed(format!(
                "a range of table '{}' must lie in one scope of it",
                spec.name
            ))
        };
        scope.filter(|_| within).ok_or_else(outside)
    }
}

impl NestedScope<'_> {
    /// Let the outer scope have it.
    pub fn commit(self) {
        for inner in self.context.layers.split_off(self.depth - 1) {
            self.context.top().absorb(inner);
        }
    }
}

impl Drop for NestedScope<'_> {
    fn drop(&mut self) {
        // After a commit the layer is gone already.
        self.context.layers.truncate(self.depth - 1);
    }
}

impl Deref for NestedScope<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context
    }
}

impl DerefMut for NestedScope<'_> {
    fn deref_mut(&mut self) -> &mut Context {
        self.context
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// The tables of the mailbox itself are written by the mailbox alone.
fn may_touch(table: TableId) -> Result<(), HandlerError> {
    if table == TableId::APP_STATE || table.0 >= FIRST_OTHER {
        return Ok(());
    }
    Err(HandlerError::Failed(format!(
        "table {table} belongs to the mailbox; handlers read and write others"
    )))
}

fn weight(item: &Staged, due: Timestamp, id: &[u8]) -> i32 {
    match item {
        Staged::Arm(at, frame) if *at == due && has_id(frame, id) => 1,
        Staged::Disarm(at, gone) if *at == due && gone == id => -1,
        Staged::Emit(_) | Staged::Arm(..) | Staged::Disarm(..) => 0,
    }
}
