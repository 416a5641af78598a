//! Transactions: reads of many spaces and writes to one, seen by nobody until they are committed.
//!
//! A transaction reads the state it began with and its own writes over it. It keeps what was read,
//! and what was written as operations, so that a commit can tell whether anything it saw has
//! changed and can apply its writes to a state in which other things have. Committing and aborting
//! consume it: a closed transaction cannot be used.
//!
//! ```compile_fail
//! let mut spaces = lope_cells::Spaces::default();
//! let transaction = spaces.begin();
//! transaction.abort();
//! spaces.commit(transaction);
//! ```

pub mod operation;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::address::CellAddress;
use crate::element::normalise;
use crate::error::{CommitRefusal, WriteError};
use crate::id::{EntityId, SpaceName};
use crate::json::{Json, Number};
use crate::post_chain::PostChain;
use crate::project::{Projected, project};
use crate::read::{BeyondBound, Extent, Reads};
use crate::resolve::{self, Follow, is_elsewhere, resolve_within};
use crate::schema::Schema;
use crate::snapshot::SpaceSnapshot;
use crate::write::{self, Writes};
use operation::{Change, Operation};

/// What was read: every address with the most that was looked at there.
pub type ReadLog = BTreeMap<CellAddress, Extent>;

/// Something to be done once a transaction is committed, and only then.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectRequest {
    /// What asks for it; a later request under the same key replaces an earlier one.
    pub key: Arc<str>,
    pub request: Json,
    /// What led to it, known once it is committed.
    pub chain: PostChain,
}

impl EffectRequest {
    pub fn new(key: Arc<str>, request: Json) -> Self {
        let chain = PostChain::default();
        Self {
            key,
            request,
            chain,
        }
    }
}

/// What is asked of a space, by a message, once a transaction is committed, and only then.
#[derive(Clone, Debug, PartialEq)]
pub enum Post {
    /// A change in another space.
    Change(Operation),
    /// An event for a stream of any space.
    Event { stream: CellAddress, payload: Json },
}

impl Post {
    /// How much room it takes, about.
    pub fn weight(&self) -> usize {
        match self {
            Self::Event { payload, .. } => payload.weight(),
            Self::Change(operation) => operation.weight(),
        }
    }

    /// The stream, or the place that is to be changed.
    pub const fn at(&self) -> &CellAddress {
        match self {
            Self::Change(operation) => &operation.at,
            Self::Event { stream, .. } => stream,
        }
    }
}

/// Reads and writes that take effect together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub(crate) begun: SpaceSnapshot,
    pub(crate) space: Option<SpaceName>,
    /// The documents of that space as this transaction left them.
    pub(crate) documents: BTreeMap<EntityId, Option<Json>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) reads: ReadLog,
    pub(crate) preconditions: Vec<(CellAddress, Option<Json>)>,
    pub(crate) effects: Vec<EffectRequest>,
    /// The space that is written; what is written to others is asked of them. None: others are
    /// refused.
    pub(crate) home: Option<SpaceName>,
    pub(crate) posts: Vec<Post>,
    beyond: Option<Box<BeyondBound>>,
    /// Whether what is read or written is nobody's dependency at the moment.
    quiet: bool,
    /// Which operations were done so, in order.
    quiet_operations: Vec<Range<usize>>,
}

impl Transaction {
    pub(crate) fn on(begun: SpaceSnapshot) -> Self {
        Self {
            begun,
            space: None,
            documents: BTreeMap::new(),
            operations: Vec::new(),
            reads: ReadLog::new(),
            preconditions: Vec::new(),
            effects: Vec::new(),
            home: None,
            posts: Vec::new(),
            beyond: None,
            quiet: false,
            quiet_operations: Vec::new(),
        }
    }

    /// The value that `at` stands for, links in it left as they are.
    pub fn get(&mut self, at: &CellAddress) -> Option<Json> {
        resolve::read(self, at)
    }

    /// The value that `at` stands for, read through a schema.
    pub fn project(&mut self, at: &CellAddress, schema: &Schema) -> Option<Projected> {
        project(self, at, schema)
    }

    /// Makes `value` what `at` stands for; only what differs is written.
    pub fn set(&mut self, at: &CellAddress, value: &Json) -> Result<(), WriteError> {
        write::write(self, at, value)
    }

    /// Removes what `at` stands for.
    pub fn remove(&mut self, at: &CellAddress) -> Result<(), WriteError> {
        write::remove(self, at)
    }

    /// Removes what `at` stands for; elements of a list behind it move up.
    pub fn take_out(&mut self, at: &CellAddress) -> Result<(), WriteError> {
        write::take_out(self, at)
    }

    /// Appends to the list at `at`, whatever others do to it meanwhile.
    pub fn append(&mut self, at: &CellAddress, elements: &[Json]) -> Result<(), CommitRefusal> {
        let (at, elements) = self.stored_elements(at, elements)?;
        self.intend(at, Change::Append(elements))
    }

    /// Appends to the list at `at` unless it has an equal element, or one with the same `id`.
    pub fn add_unique(&mut self, at: &CellAddress, element: &Json) -> Result<(), CommitRefusal> {
        let (at, elements) = self.stored_elements(at, std::slice::from_ref(element))?;
        self.intend(at, Change::AddUnique(elements))
    }

    /// Takes every element out of the list at `at` that equals `element` or has its `id`.
    pub fn remove_value(&mut self, at: &CellAddress, element: &Json) -> Result<(), CommitRefusal> {
        let at = self.list_at(at)?;
        if self.leads_out(&at) {
            return self.intend(at, Change::RemoveValue(element.clone()));
        }
        let list = Json::array([element.clone()]);
        let stored = normalise(&list, &at)?.value;
        let stored = stored.child("0").cloned().unwrap_or_default();
        self.intend(at, Change::RemoveValue(stored))
    }

    /// Adds to the number at `at`, whatever others add to it meanwhile. What is absent counts as 0.
    pub fn increment(&mut self, at: &CellAddress, by: Number) -> Result<(), CommitRefusal> {
        let at = self.list_at(at)?;
        self.intend(at, Change::Increment(by))
    }

    /// Asks that `at` stand for `expected` when this is committed; if not, it is refused.
    pub fn require(&mut self, at: &CellAddress, expected: Option<Json>) {
        self.preconditions.push((at.clone(), expected));
    }

    /// Asks for something to be done after the commit.
    pub fn after_commit(&mut self, effect: EffectRequest) {
        self.effects.retain(|other| other.key != effect.key);
        self.effects.push(effect);
    }

    /// Sends an event to a stream, of this space or another, after the commit.
    pub fn send(&mut self, to: &CellAddress, payload: Json) -> Result<(), WriteError> {
        let home = self.home.clone();
        let stream = resolve_within(self, to, Follow::Every, home.as_ref())?.address;
        if stream.id.is_inline() {
            return Err(WriteError::Inline { at: stream });
        }
        self.posts.push(Post::Event { stream, payload });
        Ok(())
    }

    /// Does `work` without making what it reads and writes a dependency of whoever runs in this
    /// transaction.
    pub fn quietly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let from = self.operations.len();
        let before = std::mem::replace(&mut self.quiet, true);
        let done = work(self);
        self.quiet = before;
        let to = self.operations.len();
        match self.quiet_operations.last_mut() {
            _ if before || from == to => {}
            Some(last) if last.end == from => last.end = to,
            Some(_) | None => self.quiet_operations.push(from..to),
        }
        done
    }

    /// Where was written, except quietly.
    pub fn writes(&self) -> impl Iterator<Item = &CellAddress> {
        let quiet = &self.quiet_operations;
        let is_quiet = move |index: usize| {
            let place = quiet.partition_point(|range| range.end <= index);
            quiet.get(place).is_some_and(|range| range.contains(&index))
        };
        let operations = self.operations.iter().enumerate();
        let loud = operations.filter(move |(index, _)| !is_quiet(*index));
        loud.map(|(_, operation)| &operation.at)
    }

    /// Forgets everything.
    pub fn abort(self) {}

    /// The space that was written, if one was.
    pub fn space(&self) -> Option<&SpaceName> {
        self.space.as_ref()
    }

    /// What was asked to be done after the commit.
    pub fn effects(&self) -> &[EffectRequest] {
        &self.effects
    }

    /// What is asked of spaces after the commit, in order.
    pub fn posts(&self) -> &[Post] {
        &self.posts
    }

    /// The first bound that a read went beyond: what was read then is not all there is.
    pub fn beyond(&self) -> Option<&BeyondBound> {
        self.beyond.as_deref()
    }

    /// What was read so far.
    pub fn reads(&self) -> &ReadLog {
        &self.reads
    }

    /// What was written so far, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Where an intent for `at` applies: at the end of all links.
    fn list_at(&mut self, at: &CellAddress) -> Result<CellAddress, WriteError> {
        let home = self.home.clone();
        let found = resolve_within(self, at, Follow::Every, home.as_ref())?.address;
        if !self.leads_out(&found) {
            self.record(&found, Extent::Link);
        }
        Ok(found)
    }

    /// The elements as a list at `at` holds them; those that are documents are written.
    fn stored_elements(
        &mut self,
        at: &CellAddress,
        elements: &[Json],
    ) -> Result<(CellAddress, Vec<Json>), WriteError> {
        let at = self.list_at(at)?;
        if self.leads_out(&at) {
            return Ok((at, elements.to_vec()));
        }
        let normal = normalise(&Json::array(elements.iter().cloned()), &at)?;
        for (id, content) in normal.elements {
            let document = CellAddress::document(at.space.clone(), id);
            write::write(self, &document, &content)?;
        }
        let stored = normal.value.as_array().into_iter();
        Ok((at, stored.flat_map(|array| array.iter().cloned()).collect()))
    }

    fn intend(&mut self, at: CellAddress, change: Change) -> Result<(), CommitRefusal> {
        self.operate(Operation { at, change }, Operation::apply)
    }

    /// Applies an operation to this transaction's own copy and keeps it for the commit.
    fn operate<E: From<WriteError>>(
        &mut self,
        operation: Operation,
        apply: impl FnOnce(&Operation, &mut Option<Json>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = &operation.at;
        if at.id.is_inline() {
            return Err(WriteError::Inline { at: at.clone() }.into());
        }
        if self.leads_out(at) {
            self.posts.push(Post::Change(operation));
            return Ok(());
        }
        if let Some(first) = self.space.as_ref().filter(|space| **space != at.space) {
            let (first, second) = (first.clone(), at.space.clone());
            return Err(WriteError::OtherSpace { first, second }.into());
        }
        let mut document = match self.documents.remove(&at.id) {
            Some(document) => document,
            None => self.begun.document(&at.space, &at.id).cloned(),
        };
        let applied = apply(&operation, &mut document);
        self.documents.insert(at.id.clone(), document);
        applied?;
        self.space = Some(at.space.clone());
        self.operations.push(operation);
        Ok(())
    }
}

impl Reads for Transaction {
    fn document(&self, space: &SpaceName, id: &EntityId) -> Option<Json> {
        if self.space.as_ref() == Some(space)
            && let Some(document) = self.documents.get(id)
        {
            return document.clone();
        }
        self.begun.document(space, id).cloned()
    }

    fn record(&mut self, at: &CellAddress, extent: Extent) {
        if self.quiet || at.id.is_inline() {
            return;
        }
        let known = self.reads.entry(at.clone()).or_insert(extent);
        *known = extent.max(*known);
    }

    /// A space that is asked for its changes.
    fn leads_out(&self, at: &CellAddress) -> bool {
        let home = self.home.as_ref();
        home.is_some_and(|home| is_elsewhere(at, home))
    }

    fn cut_short(&mut self, by: BeyondBound) {
        self.beyond.get_or_insert_with(|| Box::new(by));
    }
}

impl Writes for Transaction {
    fn home(&self) -> Option<SpaceName> {
        self.home.clone()
    }

    fn put(&mut self, at: &CellAddress, value: Option<Json>) -> Result<(), WriteError> {
        let operation = Operation {
            at: at.clone(),
            change: Change::Put(value.clone()),
        };
        self.operate(operation, |operation, document| {
            operation.store(document, value)
        })
    }
}
