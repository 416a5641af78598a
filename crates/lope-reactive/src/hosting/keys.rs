//! The keys of a space in the table `cells`: what kind of row, which space, which document. And the
//! worker of the mailbox to whom a space's events are sent.

use lope_mailbox::key::WorkerId;
use lope_model::Digest;
use lope_store::tables::{At, TableId};

use crate::limit::DOCUMENT_LEVELS;
use lope_cells::id::{EntityId, SpaceName};

/// The table that spaces live in.
pub(super) const TABLE: &str = "cells";

/// The kinds of rows.
pub(super) const DOCUMENTS: u8 = b'd';
pub(super) const LEASES: u8 = b'l';
pub(super) const EPOCHS: u8 = b'e';
pub(super) const WAVES: u8 = b'w';
pub(super) const HOSTS: u8 = b'o';
pub(super) const RECEIPTS: u8 = b'r';
pub(super) const NODES: u8 = b'n';
pub(super) const WIRINGS: u8 = b'v';
pub(super) const HISTORY: u8 = b'h';
pub(super) const ACTIVE: u8 = b'a';
pub(super) const POSTS: u8 = b'p';
pub(super) const DELAYED: u8 = b'q';
pub(super) const ENTRIES: u8 = b'i';

/// The worker of the mailbox to whom the events of a space are sent.
pub fn worker_of(space: &SpaceName) -> WorkerId {
    let number = Digest::of_parts(&[b"space", space.as_str().as_bytes()]).short() >> 1;
    WorkerId::new(number.cast_signed()).expect("half of a number is not negative")
}

/// The row that names the space of a worker.
pub(super) fn entry(table: TableId, worker: WorkerId) -> At {
    At::new(table, [&[ENTRIES][..], &worker.to_bytes()].concat())
}

/// Until when a host keeps all its spaces.
pub(super) fn host(table: TableId, owner: &str) -> At {
    let digest = Digest::of(owner.as_bytes());
    At::new(table, [&[HOSTS], &digest.as_bytes()[..]].concat())
}

/// The name of the space that a key is of; not for entries and hosts.
pub(super) fn space_of(key: &[u8]) -> Option<SpaceName> {
    let (name, _) = parts(key)?;
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// The key of one of the rows that hold what changed of a document. No id has a byte 0, so that these
/// rows stand right behind the document's.
pub(super) fn document_level(document: &At, number: usize) -> At {
    let key = [&*document.key, &[0, number as u8]].concat();
    At::new(document.table, key)
}

/// The document that a key is of, and the number of the row if it holds changes; `key` is what stands
/// behind the name of the space.
pub(super) fn read_document(key: &[u8]) -> Option<(EntityId, Option<usize>)> {
    let end = key.iter().position(|byte| *byte == 0);
    let (id, rest) = key.split_at(end.unwrap_or(key.len()));
    let level = match rest {
        [] => None,
        [_, number] => Some(usize::from(*number)).filter(|number| *number < DOCUMENT_LEVELS),
        _ => return None,
    };
    if !rest.is_empty() && level.is_none() {
        return None;
    }
    Some((std::str::from_utf8(id).ok()?.parse().ok()?, level))
}

/// What stands behind the name of the space in a key.
pub(super) fn rest_of(key: &[u8]) -> Option<&[u8]> {
    parts(key).map(|(_, rest)| rest)
}

fn parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = key.get(1..)?.split_at_checked(2)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// The rows of one space.
#[derive(Clone, Debug)]
pub(super) struct SpaceKeys {
    table: TableId,
    /// The length of the space's name and the name.
    space: Vec<u8>,
    worker: WorkerId,
}

impl SpaceKeys {
    pub(super) fn new(table: TableId, space: &SpaceName) -> Self {
        let name = space.as_str().as_bytes();
        let length = (name.len() as u16).to_be_bytes();
        Self {
            table,
            space: [&length, name].concat(),
            worker: worker_of(space),
        }
    }

    pub(super) fn worker(&self) -> WorkerId {
        self.worker
    }

    pub(super) fn table(&self) -> TableId {
        self.table
    }

    /// What the keys of all documents begin with.
    pub(super) fn documents(&self) -> Vec<u8> {
        self.all(DOCUMENTS)
    }

    pub(super) fn document(&self, id: &EntityId) -> At {
        let key = [&*self.documents(), id.as_str().as_bytes()].concat();
        At::new(self.table, key)
    }

    /// The receipt of an event.
    pub(super) fn receipt(&self, event: &str) -> At {
        let digest = Digest::of(event.as_bytes());
        let key = [&*self.all(RECEIPTS), digest.as_bytes()].concat();
        At::new(self.table, key)
    }

    /// Who has the space until when.
    pub(super) fn lease(&self) -> At {
        At::new(self.table, self.all(LEASES))
    }

    /// How often the space changed hands: what fences the waves of a former owner.
    pub(super) fn epoch(&self) -> At {
        At::new(self.table, self.all(EPOCHS))
    }

    /// What the keys of everything of one kind begin with.
    pub(super) fn all(&self, kind: u8) -> Vec<u8> {
        [&[kind], &*self.space].concat()
    }

    /// How a node fared.
    pub(super) fn node(&self, name: &str) -> At {
        At::new(self.table, [&self.all(NODES), name.as_bytes()].concat())
    }

    /// What a node reads and writes.
    pub(super) fn wiring(&self, name: &str) -> At {
        At::new(self.table, [&self.all(WIRINGS), name.as_bytes()].concat())
    }

    /// What a wave changed.
    pub(super) fn history(&self, epoch: u64, wave: u64) -> At {
        let number = [epoch.to_be_bytes(), wave.to_be_bytes()].concat();
        At::new(self.table, [self.all(HISTORY), number].concat())
    }

    /// A message of a wave that has not reached its space.
    pub(super) fn post(&self, epoch: u64, wave: u64, index: usize) -> At {
        let number = [epoch, wave, index as u64].map(u64::to_be_bytes).concat();
        At::new(self.table, [self.all(POSTS), number].concat())
    }

    /// A message of a wave that is not to go on before `due`, in milliseconds since 1970.
    pub(super) fn delayed(&self, due: i64, post: &At) -> At {
        let number = &post.key[self.all(POSTS).len()..];
        let due = due.max(0).to_be_bytes();
        At::new(self.table, [&*self.all(DELAYED), &due, number].concat())
    }

    /// That the space needs a host though no event waits.
    pub(super) fn active(&self) -> At {
        At::new(self.table, self.all(ACTIVE))
    }

    /// The name of the space, by the worker that its events are sent to.
    pub(super) fn entry(&self) -> At {
        entry(self.table, self.worker)
    }

    /// The last wave that was saved.
    pub(super) fn wave(&self) -> At {
        At::new(self.table, self.all(WAVES))
    }
}
