//! What is kept of a space besides its documents: how its nodes fared, what its waves changed, and
//! whether it needs a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::chain::PostChain;
use lope_cells::history::StoredChange;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_cells::read::Extent;
use lope_cells::space::Spaces;
use lope_model::Timestamp;
use lope_model::limit::{COMMIT_ROWS_MAX, PAGE_MAX};
use lope_store::tables::{At, Batch, Range, Row, Write};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::codec::{decode, encode};
use super::document_rows::DocumentRows;
use super::keys::{HISTORY, NODES, RECEIPTS, WIRINGS};
use super::space_store::{SpaceStore, StoredReceipt};
use crate::limit;
use crate::machine::{NodeRecord, NodeWiring, StoredNode, Wave};
use lope_cells::wave_number::WaveNumber;

/// Rows of a wave besides those of its documents, events and nodes.
const REST_ROWS: usize = 16;

/// A change of a cell, as the history of its space has it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    pub at: CellAddress,
    /// What the cell held afterwards; none if nothing, or if it is too large to be kept.
    pub value: Option<Json>,
    pub is_left_out: bool,
    pub by: String,
    pub time: Timestamp,
}

/// What a host begins with.
#[derive(Debug)]
pub(super) struct TakenUp {
    /// The documents of the space, and those of other spaces that its nodes looked at.
    pub(super) spaces: Spaces,
    /// What is known of its nodes.
    pub(super) nodes: BTreeMap<Arc<str>, StoredNode>,
    /// What is known of the rows of its documents.
    pub(super) rows: DocumentRows,
    /// What led to its last wave.
    pub(super) chain: PostChain,
}

/// What one wave changed.
#[derive(Serialize, Deserialize)]
struct HistoryRow {
    time: i64,
    changes: Vec<StoredChange>,
}

#[derive(Serialize, Deserialize)]
struct WiringRow {
    reads: Vec<(CellAddress, Extent)>,
    writes: Vec<CellAddress>,
}

impl SpaceStore {
    /// What a wave says of nodes, of what changed, and of the need for a host.
    pub(super) fn record_wave(
        &self,
        epoch: u64,
        wave: &Wave,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> Result<(), HostError> {
        // A node without a record runs once more when the space is taken up; that is all.
        let room = COMMIT_ROWS_MAX.saturating_sub(writes.len() + REST_ROWS);
        for (name, record) in wave.nodes.iter().take(room / 2) {
            writes.extend(self.node_rows(name, record.as_ref(), wave)?);
        }
        if !wave.history.is_empty() {
            let row = HistoryRow {
                time: now.millis(),
                changes: StoredChange::all(&wave.history, limit::RECORD_MAX),
            };
            let at = self.keys.history(epoch, wave.number);
            writes.push(Write::Put(at, encode(&row)?));
        }
        if let Some(old) = wave.number.checked_sub(limit::HISTORY_MAX) {
            writes.push(Write::Delete(self.keys.history(epoch, old)));
        }
        writes.push(if wave.is_active {
            let led_here = (!wave.chain.is_empty()).then(|| encode(&wave.chain));
            Write::Put(
                self.keys.active(),
                led_here.transpose()?.unwrap_or_default(),
            )
        } else {
            Write::Delete(self.keys.active())
        });
        Ok(())
    }

    fn node_rows(
        &self,
        name: &Arc<str>,
        record: Option<&NodeRecord>,
        wave: &Wave,
    ) -> Result<Vec<Write>, HostError> {
        let at = self.keys.node(name);
        let wired = self.keys.wiring(name);
        let Some(record) = record else {
            return Ok([at, wired].map(Write::Delete).into());
        };
        let mut rows = vec![Write::Put(at, encode(record)?)];
        if let Some(wiring) = wave.wirings.get(name) {
            rows.push(Write::Put(wired, wiring_row(wiring)?));
        }
        let is_long =
            |row: &Write| matches!(row, Write::Put(_, value) if value.len() > limit::RECORD_MAX);
        if rows.iter().any(is_long) {
            return self.node_rows(name, None, wave);
        }
        Ok(rows)
    }

    /// What is known of the nodes of the space.
    pub async fn nodes(&self) -> Result<BTreeMap<Arc<str>, StoredNode>, HostError> {
        let mut wirings = BTreeMap::new();
        let prefix = self.keys.all(WIRINGS);
        for row in self.rows(&prefix).await? {
            let wiring: WiringRow = decode(&row.value)?;
            let wiring = NodeWiring {
                reads: wiring.reads.into_iter().collect(),
                writes: wiring.writes.into_iter().collect(),
            };
            wirings.insert(row.key[prefix.len()..].to_vec(), wiring);
        }
        let prefix = self.keys.all(NODES);
        let mut nodes = BTreeMap::new();
        for row in self.rows(&prefix).await? {
            let key = &row.key[prefix.len()..];
            let Ok(name) = std::str::from_utf8(key) else {
                continue;
            };
            let record: NodeRecord = decode(&row.value)?;
            // What a handler reads is found out anew; any other node without it runs again.
            let is_handler = record.handled.is_some();
            let wiring = wirings.remove(key);
            if let Some(wiring) = wiring.or_else(|| is_handler.then(NodeWiring::default)) {
                nodes.insert(name.into(), StoredNode { record, wiring });
            }
        }
        Ok(nodes)
    }

    /// Everything that whoever hosts the space begins with.
    pub(super) async fn take_up(&self) -> Result<TakenUp, HostError> {
        let read = self.read_documents().await?;
        let mut spaces = read.spaces;
        let nodes = self.nodes().await?;
        let mut foreign: BTreeMap<SpaceName, BTreeSet<EntityId>> = BTreeMap::new();
        let looked_at = nodes.values().flat_map(|node| node.wiring.reads.keys());
        for at in looked_at.filter(|at| at.space != *self.space() && !at.id.is_inline()) {
            let ids = foreign.entry(at.space.clone()).or_default();
            ids.insert(at.id.clone());
        }
        for (space, ids) in foreign {
            let ids: Vec<EntityId> = ids.into_iter().collect();
            let values = self.beside(space.clone()).documents(&ids).await?;
            for (id, value) in ids.into_iter().zip(values) {
                if let Some(value) = value {
                    spaces.load(&space, id, value);
                }
            }
        }
        let (_, chain) = self.documents_and_chain(&[]).await?;
        Ok(TakenUp {
            spaces,
            nodes,
            rows: read.rows,
            chain,
        })
    }

    /// What changed in the space, oldest first; whoever did it is named as people do.
    pub async fn history(&self) -> Result<Vec<HistoryEntry>, HostError> {
        let labels = self.labels(&[self.space().clone()].into()).await?;
        let mut entries = Vec::new();
        for row in self.rows(&self.keys.all(HISTORY)).await? {
            entries.extend(self.changes_of(&row)?);
        }
        for entry in &mut entries {
            entry.by = labels.text(&entry.by);
        }
        Ok(entries)
    }

    /// The waves behind a number that changed something, oldest first, at most so many.
    pub async fn changes_after(
        &self,
        after: WaveNumber,
        limit: usize,
    ) -> Result<Vec<(WaveNumber, Vec<HistoryEntry>)>, HostError> {
        let prefix = self.keys.all(HISTORY);
        let mut range = Range::prefix(self.keys.table(), &prefix, limit.min(PAGE_MAX));
        let last = self.keys.history(after.epoch, after.wave);
        range.from = [&*last.key, &[0]].concat();
        let rows = self.tables.range(range).await?;
        let waves = rows.iter().map(|row| {
            let number = WaveNumber::read(&row.key[prefix.len()..]);
            let number = number.ok_or_else(|| HostError::Damaged("a wave's number".to_owned()))?;
            Ok((number, self.changes_of(row)?))
        });
        waves.collect()
    }

    /// The number of the last wave that was saved.
    pub async fn last_wave(&self) -> Result<WaveNumber, HostError> {
        let rows = self.tables.get(&[self.keys.wave()]).await?;
        let row = rows.into_iter().next().flatten();
        Ok(row
            .and_then(|row| WaveNumber::read(&row))
            .unwrap_or_default())
    }

    fn changes_of(&self, row: &Row) -> Result<Vec<HistoryEntry>, HostError> {
        let row: HistoryRow = decode(&row.value)?;
        let time = Timestamp::from_millis(row.time);
        let changes = row.changes.into_iter().map(|change| HistoryEntry {
            at: CellAddress::document(self.space().clone(), change.id).with_path(change.path),
            value: change.value,
            is_left_out: change.left_out,
            by: change.by,
            time,
        });
        Ok(changes.collect())
    }

    /// Forgets what is older than it is kept: receipts that were written before `before`, the
    /// history beyond its length. Gives how many rows went, or would go.
    pub async fn prune(&self, before: Timestamp, is_rehearsal: bool) -> Result<u64, HostError> {
        let is_old = |row: &Row| {
            let receipt: Result<StoredReceipt, _> = decode(&row.value);
            receipt.is_ok_and(|receipt| Timestamp::from_millis(receipt.at) < before)
        };
        let receipts = Range::prefix(self.keys.table(), &self.keys.all(RECEIPTS), PAGE_MAX);
        let receipts = self.forget(receipts, is_old, is_rehearsal).await?;
        let changes = Range::prefix(self.keys.table(), &self.keys.all(HISTORY), usize::MAX);
        let kept = limit::HISTORY_MAX;
        let beyond = self
            .tables
            .count(changes.clone())
            .await?
            .saturating_sub(kept);
        let mut left = beyond;
        let is_beyond = |_: &Row| {
            let is_one = left > 0;
            left -= u64::from(is_one);
            is_one
        };
        let page = PAGE_MAX.min(beyond as usize);
        let changes = Range {
            limit: page,
            ..changes
        };
        if page == 0 {
            return Ok(receipts);
        }
        Ok(receipts + self.forget(changes, is_beyond, is_rehearsal).await?)
    }

    /// Deletes the rows of a range that are to go, page by page.
    async fn forget(
        &self,
        mut range: Range,
        mut goes: impl FnMut(&Row) -> bool,
        is_rehearsal: bool,
    ) -> Result<u64, HostError> {
        let mut count = 0;
        loop {
            let rows = self.tables.range(range.clone()).await?;
            let is_last = rows.len() < range.limit;
            if let Some(last) = rows.last() {
                range.from = [&*last.key, &[0]].concat();
            }
            let gone = rows.into_iter().filter(|row| goes(row));
            let table = self.keys.table();
            let gone = gone.map(|row| Write::Delete(At::new(table, row.key)));
            let writes: Vec<Write> = gone.collect();
            count += writes.len() as u64;
            if !writes.is_empty() && !is_rehearsal {
                let guards = Vec::new();
                self.commit(Batch { guards, writes }).await?;
            }
            if is_last {
                return Ok(count);
            }
        }
    }
}

/// Whether a wiring or a wave's changes can be read.
pub(super) fn is_readable(row: &Row) -> bool {
    match row.key.first() {
        Some(&WIRINGS) => decode::<WiringRow>(&row.value).is_ok(),
        Some(&HISTORY) => decode::<HistoryRow>(&row.value).is_ok(),
        _ => false,
    }
}

fn wiring_row(wiring: &NodeWiring) -> Result<Vec<u8>, HostError> {
    let reads = wiring.reads.iter();
    encode(&WiringRow {
        reads: reads.map(|(at, extent)| (at.clone(), *extent)).collect(),
        writes: wiring.writes.iter().cloned().collect(),
    })
}
