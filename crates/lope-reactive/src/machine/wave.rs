//! What is saved together: the documents that changed until everything had come to rest, the
//! receipts of the events that did it, and what is to be done once that is on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::events::{EventReceipt, StreamEvent};
use super::post::SpacePost;
use lope_cells::chain::PostChain;
pub use lope_cells::history::CellChange;
use lope_cells::id::EntityId;
use lope_cells::json::Json;
use lope_cells::record::{NodeRecord, NodeWiring};
use lope_cells::space::Committed;
use lope_cells::transaction::EffectRequest;

/// One commit to the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wave {
    pub number: u64,
    /// The documents that changed, as they are now; none for one that is gone.
    pub documents: BTreeMap<EntityId, Option<Json>>,
    pub receipts: Vec<EventReceipt>,
    /// Events that nobody handled.
    pub dead_letters: Vec<StreamEvent>,
    /// What was asked for; done after the commit.
    pub effects: Vec<EffectRequest>,
    /// What was asked of other spaces, and of streams, in order.
    pub posts: Vec<SpacePost>,
    /// How the nodes fared that ran, each by its name once; none for one that was taken out.
    pub nodes: Vec<(Arc<str>, Option<NodeRecord>)>,
    /// What those read and write that read or write something else than before.
    pub wirings: BTreeMap<Arc<str>, NodeWiring>,
    /// Where documents changed, with what stands there now and who changed it.
    pub history: Vec<CellChange>,
    /// Whether the space needs a host though no event comes: an effect is under way, a node waits,
    /// or a node looks at another space.
    pub is_active: bool,
    /// The longest chain of messages, and of reads of other spaces, that led to a change.
    pub chain: PostChain,
    /// Edits that are waiting to be told, with the revision they made.
    pub edits: Vec<(u64, u64)>,
}

/// What is to be told once a wave is on disk.
#[derive(Debug)]
pub(super) struct WaveUnderWay {
    pub(super) number: u64,
    pub(super) edits: Vec<(u64, u64)>,
    pub(super) receipts: Vec<EventReceipt>,
    pub(super) effects: Vec<EffectRequest>,
}

impl WaveUnderWay {
    pub(super) fn of(wave: &Wave) -> Self {
        Self {
            number: wave.number,
            edits: wave.edits.clone(),
            receipts: wave.receipts.clone(),
            effects: wave.effects.clone(),
        }
    }
}

impl Wave {
    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty()
            && self.receipts.is_empty()
            && self.effects.is_empty()
            && self.posts.is_empty()
            && self.edits.is_empty()
            && self.nodes.is_empty()
    }

    /// Leaves an event out that nobody had handled and that came again before that was saved.
    pub(super) fn revive(&mut self, event: &str) {
        self.receipts.retain(|receipt| &*receipt.event != event);
        self.dead_letters.retain(|dead| &*dead.id != event);
    }

    pub(super) fn add(&mut self, committed: &Committed) {
        for change in &committed.changes {
            let after = change.after.clone();
            self.documents.insert(change.id.clone(), after);
        }
        for effect in &committed.effects {
            self.effects.retain(|other| other.key != effect.key);
            self.effects.push(effect.clone());
        }
    }
}
