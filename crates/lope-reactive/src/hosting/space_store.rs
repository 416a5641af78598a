//! The rows of a space: documents read, waves written, events sent and found, receipts.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_cells::space::Spaces;
use lope_mailbox::key::{WorkerId, append_dead_letter, inbox};
use lope_mailbox::record::DeadLetter;
use lope_model::{Failure, Timestamp, limit::PAGE_MAX};
use lope_store::Tables;
use lope_store::tables::{At, Batch, Range, Row, TableId, Write, find_or_make_table};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::codec::{decode, encode};
use super::document_rows::{ReadDocuments, RowsOfDocument};
use super::found_message::{FoundMessage, content_of};
use super::keys::{SpaceKeys, TABLE};
use crate::machine::{Arrival, EventOutcome, EventReceipt, PostChain, Wave};

/// One space on a store.
#[derive(Clone)]
pub struct SpaceStore {
    pub(super) tables: Arc<dyn Tables>,
    pub(super) keys: SpaceKeys,
    space: SpaceName,
}

/// A wave on its way to the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedWave<'a> {
    pub(super) epoch: u64,
    pub(super) wave: &'a Wave,
    /// The rows of its documents.
    pub(super) documents: &'a [Write],
    /// The messages that it ends.
    pub(super) done: &'a [FoundMessage],
}

/// What became of an event, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredReceipt {
    pub event: String,
    /// `handled`, `failed` or `no handler`.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Milliseconds since 1970.
    pub at: i64,
    /// What was sent under the id, as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u64>,
}

impl StoredReceipt {
    /// Whether nobody handled the event: sent or replayed again, it gets another try.
    pub fn is_dead(&self) -> bool {
        self.outcome == NO_HANDLER
    }

    /// Refuses to be the receipt of something else than what was sent.
    pub fn validate(&self, sent: &Arrival) -> Result<(), HostError> {
        let content = content_of(sent)?;
        if self.content.is_some_and(|known| known != content) {
            let id = self.event.clone();
            return Err(HostError::OtherContent { id });
        }
        Ok(())
    }
}

const NO_HANDLER: &str = "no handler";

/// Why a message is not handled whose id is known for another one.
const OTHER_CONTENT: &str = "something else was sent under its id before";

impl SpaceStore {
    /// Opens the table that spaces live in, and makes it if it is not there.
    pub async fn open(tables: Arc<dyn Tables>, space: SpaceName) -> Result<Self, HostError> {
        let table = make_table(&*tables).await?;
        Ok(Self::on(tables, table, space))
    }

    pub(super) fn on(tables: Arc<dyn Tables>, table: TableId, space: SpaceName) -> Self {
        Self {
            keys: SpaceKeys::new(table, &space),
            tables,
            space,
        }
    }

    /// Another space on the same store.
    pub fn beside(&self, space: SpaceName) -> Self {
        Self::on(Arc::clone(&self.tables), self.keys.table(), space)
    }

    pub fn space(&self) -> &SpaceName {
        &self.space
    }

    /// Whose inbox the events of the space wait in.
    pub fn worker(&self) -> WorkerId {
        self.keys.worker()
    }

    /// All documents of the space.
    pub async fn load(&self) -> Result<Spaces, HostError> {
        Ok(self.read_documents().await?.spaces)
    }

    /// All documents of the space, and what is known of their rows; no more than a page of rows is in
    /// memory. A document whose rows are not all in one page is read with the next.
    pub(super) async fn read_documents(&self) -> Result<ReadDocuments, HostError> {
        let mut read = ReadDocuments::default();
        let prefix = self.keys.documents();
        let mut range = Range::prefix(self.keys.table(), &prefix, PAGE_MAX);
        loop {
            let rows = self.tables.range(range.clone()).await?;
            let is_last = rows.len() < PAGE_MAX;
            let mut documents = RowsOfDocument::of_rows(rows, &prefix)?;
            if !is_last && let Some((id, _)) = documents.pop() {
                range.from = self.keys.document(&id).key;
            }
            for (id, stored) in documents {
                read.take(&self.space, id, &stored)?;
            }
            if is_last {
                return Ok(read);
            }
        }
    }

    /// Some documents of the space, as they stood together at one moment.
    pub async fn documents(&self, ids: &[EntityId]) -> Result<Vec<Option<Json>>, HostError> {
        let places: Vec<At> = ids.iter().map(|id| self.keys.document(id)).collect();
        self.documents_at(&places).await
    }

    /// Some documents of the space as `documents` gives them, and what led to its last wave.
    pub(super) async fn documents_and_chain(
        &self,
        ids: &[EntityId],
    ) -> Result<(Vec<Option<Json>>, PostChain), HostError> {
        let places: Vec<At> = ids.iter().map(|id| self.keys.document(id)).collect();
        let mut keys: Vec<At> = places.iter().flat_map(RowsOfDocument::keys).collect();
        keys.push(self.keys.active());
        let mut answers = self.tables.get(&keys).await?;
        let chain = match answers.pop().flatten().filter(|row| !row.is_empty()) {
            Some(row) => decode(&row)?,
            None => PostChain::default(),
        };
        let stored = RowsOfDocument::from_answers(answers);
        let documents: Result<Vec<_>, _> = stored.iter().map(RowsOfDocument::document).collect();
        Ok((documents?, chain))
    }

    /// The documents whose rows begin at these keys, as they stood together at one moment.
    pub(super) async fn documents_at(&self, places: &[At]) -> Result<Vec<Option<Json>>, HostError> {
        let keys: Vec<At> = places.iter().flat_map(RowsOfDocument::keys).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.tables.get(&keys).await?;
        let stored = RowsOfDocument::from_answers(answers);
        stored.iter().map(RowsOfDocument::document).collect()
    }

    /// All rows whose keys begin with `prefix`.
    pub(super) async fn rows(&self, prefix: &[u8]) -> Result<Vec<Row>, HostError> {
        let mut all = Vec::new();
        let keep = |row: Row| {
            all.push(row);
            Ok(())
        };
        self.each_row(prefix, keep).await?;
        Ok(all)
    }

    /// Shows all rows whose keys begin with `prefix`; no more than a page of them is in memory.
    async fn each_row(
        &self,
        prefix: &[u8],
        mut see: impl FnMut(Row) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        let mut range = Range::prefix(self.keys.table(), prefix, PAGE_MAX);
        loop {
            let rows = self.tables.range(range.clone()).await?;
            let is_last = rows.len() < PAGE_MAX;
            if let Some(last) = rows.last() {
                range.from = [&*last.key, &[0]].concat();
            }
            rows.into_iter().try_for_each(&mut see)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// What became of several events.
    pub(super) async fn receipts(
        &self,
        events: impl Iterator<Item = &str>,
    ) -> Result<Vec<Option<StoredReceipt>>, HostError> {
        let keys: Vec<At> = events.map(|event| self.keys.receipt(event)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.tables.get(&keys).await?;
        let rows = rows.iter();
        rows.map(|row| row.as_deref().map(decode).transpose())
            .collect()
    }

    /// What became of an event; none as long as nobody has handled it.
    pub async fn receipt(&self, event: &str) -> Result<Option<StoredReceipt>, HostError> {
        let rows = self.tables.get(&[self.keys.receipt(event)]).await?;
        let row = rows.into_iter().next().flatten();
        row.as_deref().map(decode).transpose()
    }

    /// Saves a wave, with the events it is done with; says whether the space is still the owner's.
    pub(super) async fn save(
        &self,
        saved: SavedWave<'_>,
        now: Timestamp,
    ) -> Result<bool, HostError> {
        let SavedWave {
            epoch,
            wave,
            documents,
            done,
        } = saved;
        let mut writes = documents.to_vec();
        let first = first_of_each(done);
        for receipt in &wave.receipts {
            let at = self.keys.receipt(&receipt.event);
            let content = first.get(&*receipt.event).map(|sent| content_of(sent));
            let receipt = StoredReceipt {
                content: content.transpose()?,
                ..stored(receipt, now)
            };
            writes.push(Write::Put(at, encode(&receipt)?));
        }
        writes.extend(self.posting(epoch, wave, done, now)?);
        for found in done {
            let key = inbox(self.keys.worker(), found.seq);
            writes.push(Write::Delete(At::new(TableId::INBOX, key)));
            let Some(arrival) = &found.arrival else {
                continue;
            };
            let mut dead = wave.dead_letters.iter();
            if first.get(&**arrival.id()) != Some(&arrival) {
                writes.push(self.bury(found, OTHER_CONTENT, now));
            } else if dead.any(|dead| dead.id == *arrival.id()) {
                writes.push(self.bury(found, "nobody handled its stream", now));
            }
        }
        self.record_wave(epoch, wave, now, &mut writes)?;
        writes.push(Write::Put(self.keys.wave(), wave_mark(epoch, wave)));
        let guards = vec![self.fence(epoch)];
        self.commit(Batch { guards, writes }).await
    }

    /// Whether a wave whose commit was not answered had happened.
    pub(super) async fn is_saved(&self, epoch: u64, wave: &Wave) -> Result<bool, HostError> {
        let rows = self.tables.get(&[self.keys.wave()]).await?;
        Ok(rows.into_iter().next().flatten() == Some(wave_mark(epoch, wave)))
    }

    /// Takes a message out of the inbox: what was handled before, as its receipt says, or, to the dead
    /// letters, what is no event and what is something else than was handled under its id.
    pub(super) async fn remove_message(
        &self,
        epoch: u64,
        found: &FoundMessage,
        receipt: Option<&StoredReceipt>,
        now: Timestamp,
    ) -> Result<bool, HostError> {
        let key = inbox(self.keys.worker(), found.seq);
        let guards = vec![self.fence(epoch)];
        let mut writes = vec![Write::Delete(At::new(TableId::INBOX, key))];
        match (&found.arrival, receipt) {
            (None, _) => writes.push(self.bury(found, "it is no event of this space", now)),
            (Some(sent), Some(receipt)) if receipt.validate(sent).is_err() => {
                writes.push(self.bury(found, OTHER_CONTENT, now));
            }
            (Some(_), _) => {}
        }
        self.commit(Batch { guards, writes }).await
    }

    fn bury(&self, found: &FoundMessage, reason: &str, now: Timestamp) -> Write {
        let letter = DeadLetter {
            reason: reason.to_owned(),
            attempts: 0,
            failed_at: now,
            frame: found.frame.clone(),
        };
        append_dead_letter(self.keys.worker(), letter.encode())
    }

    /// Applies a batch; false if a guard did not hold.
    pub(super) async fn commit(&self, batch: Batch) -> Result<bool, HostError> {
        let replies = self.tables.commit(vec![batch]).await?;
        Ok(replies.first().is_some_and(Result::is_ok))
    }
}

/// The table that spaces live in, if it is there.
pub(super) async fn find_table(tables: &dyn Tables) -> Result<Option<TableId>, HostError> {
    Ok(tables.manifest().await?.id_of(TABLE))
}

/// The table that spaces live in; it is made if it is missing.
pub(super) async fn make_table(tables: &dyn Tables) -> Result<TableId, HostError> {
    Ok(find_or_make_table(tables, TABLE).await?)
}

fn wave_mark(epoch: u64, wave: &Wave) -> Vec<u8> {
    [epoch.to_be_bytes(), wave.number.to_be_bytes()].concat()
}

pub(super) fn stored(receipt: &EventReceipt, now: Timestamp) -> StoredReceipt {
    let (outcome, failure) = match &receipt.outcome {
        EventOutcome::Handled => ("handled", None),
        EventOutcome::Failed(failure) => ("failed", Some(failure.clone())),
        EventOutcome::NoHandler => (NO_HANDLER, None),
    };
    StoredReceipt {
        event: receipt.event.to_string(),
        outcome: outcome.to_owned(),
        failure,
        at: now.millis(),
        content: None,
    }
}

/// Of messages with the same id, the first is what was handled under it.
fn first_of_each(done: &[FoundMessage]) -> BTreeMap<&str, &Arrival> {
    let arrivals = done.iter().filter_map(|found| found.arrival.as_ref());
    let mut first = BTreeMap::new();
    for arrival in arrivals {
        first.entry(&**arrival.id()).or_insert(arrival);
    }
    first
}

impl std::fmt::Debug for SpaceStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SpaceStore").field(&self.space).finish()
    }
}
