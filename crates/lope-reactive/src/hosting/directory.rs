//! The spaces of a store: which there are, who hosts them, which of them need a host.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_cells::id::SpaceName;
use lope_mailbox::key::{WorkerId, read_inbox};
use lope_model::{Timestamp, limit::PAGE_MAX};
use lope_store::Tables;
use lope_store::tables::{At, Batch, Range, Row, TableId, Write, after_prefix};

use super::HostError;
use super::codec::encode;
use super::keys::{self, ACTIVE, DELAYED, ENTRIES, HOSTS, POSTS};
use super::lease::HostIdentity;
use super::space_store::{SpaceStore, find_table, make_table};

/// The spaces of one store. Cheap to clone.
#[derive(Clone)]
pub struct Directory {
    tables: Arc<dyn Tables>,
    table: TableId,
}

/// A space as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceEntry {
    pub space: SpaceName,
    /// Who hosts it, and until when at least.
    pub host: Option<(String, Timestamp)>,
    /// Events and commands that wait.
    pub waiting: u64,
    /// Events that nobody handled.
    pub dead: u64,
    /// Whether it needs a host though nothing waits: an effect is under way, a node waits, or a
    /// node looks at another space.
    pub is_active: bool,
    /// Whether nothing is in it and nothing waits: something was asked of it and not done, no more.
    pub is_empty: bool,
}

impl Directory {
    /// Opens the table that spaces live in, and makes it if it is not there.
    pub async fn open(tables: Arc<dyn Tables>) -> Result<Self, HostError> {
        let table = make_table(&*tables).await?;
        Ok(Self { tables, table })
    }

    /// The spaces of a store that may have none.
    pub async fn find(tables: Arc<dyn Tables>) -> Result<Option<Self>, HostError> {
        let table = find_table(&*tables).await?;
        Ok(table.map(|table| Self { tables, table }))
    }

    /// One space.
    pub fn space(&self, space: SpaceName) -> SpaceStore {
        SpaceStore::on(Arc::clone(&self.tables), self.table, space)
    }

    /// The names of all spaces.
    pub async fn spaces(&self) -> Result<BTreeSet<SpaceName>, HostError> {
        let rows = self.rows(&[ENTRIES]).await?.into_iter();
        let names = rows.map(|row| read_name(&row.value));
        names.collect()
    }

    /// A space as a list shows it.
    pub async fn entry(&self, space: &SpaceName, now: Timestamp) -> Result<SpaceEntry, HostError> {
        let store = self.space(space.clone());
        let worker = store.worker().to_bytes();
        let waiting = Range::prefix(TableId::INBOX, &worker, PAGE_MAX);
        let dead = Range::prefix(TableId::DEAD_LETTER, &worker, PAGE_MAX);
        let active = self.tables.get(&[store.keys.active()]).await?;
        let documents = Range::prefix(self.table, &store.keys.documents(), 1);
        let (dead, waiting) = (
            self.tables.count(dead).await?,
            self.tables.count(waiting).await?,
        );
        Ok(SpaceEntry {
            is_empty: dead + waiting + self.tables.count(documents).await? == 0,
            dead,
            host: store.held(now).await?,
            waiting,
            is_active: active.into_iter().next().flatten().is_some(),
            space: space.clone(),
        })
    }

    /// The spaces that something waits for, or that need a host by themselves.
    pub async fn needing_hosts(&self) -> Result<BTreeSet<SpaceName>, HostError> {
        let active = self.rows(&[ACTIVE]).await?.into_iter();
        let mut needing: BTreeSet<SpaceName> =
            active.filter_map(|row| keys::space_of(&row.key)).collect();
        for kind in [POSTS, DELAYED] {
            needing.extend(self.posting_spaces(kind).await?);
        }
        let workers = self.waiting_workers().await?;
        let entries: Vec<At> = workers
            .iter()
            .map(|worker| keys::entry(self.table, *worker))
            .collect();
        if !entries.is_empty() {
            // A worker without an entry is no space's.
            let names = self.tables.get(&entries).await?.into_iter().flatten();
            for name in names {
                needing.insert(read_name(&name)?);
            }
        }
        Ok(needing)
    }

    /// Forgets what is older than it is kept, in all spaces: receipts that were written before
    /// `before`, changes beyond the history's length. Gives how many rows went, or would go.
    pub async fn prune(&self, before: Timestamp, is_rehearsal: bool) -> Result<u64, HostError> {
        let mut count = 0;
        for space in self.spaces().await? {
            count += self.space(space).prune(before, is_rehearsal).await?;
        }
        Ok(count)
    }

    /// How many hosts have spaces at this moment, those not counted that `identity` knows to be
    /// dead.
    pub async fn hosts(&self, identity: &HostIdentity, now: Timestamp) -> Result<usize, HostError> {
        let mut owners = BTreeSet::new();
        for space in self.spaces().await? {
            let held = self.space(space).held(now).await?;
            let held = held.filter(|(owner, _)| !identity.knows_gone(owner));
            owners.extend(held.map(|(owner, _)| owner));
        }
        Ok(owners.len())
    }

    /// Takes all spaces away from whoever has them: of a copy of a store nobody is the host.
    pub async fn free(&self) -> Result<(), HostError> {
        for row in self.rows(&[HOSTS]).await? {
            self.write(Write::Delete(At::new(self.table, row.key)))
                .await?;
        }
        for space in self.spaces().await? {
            self.space(space).free().await?;
        }
        Ok(())
    }

    pub(super) fn tables(&self) -> &Arc<dyn Tables> {
        &self.tables
    }

    pub(super) const fn table(&self) -> TableId {
        self.table
    }

    /// Keeps all spaces of a host for longer.
    pub(super) async fn renew_host(&self, owner: &str, until: Timestamp) -> Result<(), HostError> {
        let at = keys::host(self.table, owner);
        let row = encode(&until.millis())?;
        self.write(Write::Put(at, row)).await
    }

    /// A host has no spaces any more.
    pub(super) async fn end_host(&self, owner: &str) -> Result<(), HostError> {
        self.write(Write::Delete(keys::host(self.table, owner)))
            .await
    }

    async fn write(&self, write: Write) -> Result<(), HostError> {
        let batch = Batch {
            guards: Vec::new(),
            writes: vec![write],
        };
        self.tables.commit(vec![batch]).await?;
        Ok(())
    }

    /// Whose inboxes hold something; one look for each of them.
    async fn waiting_workers(&self) -> Result<Vec<WorkerId>, HostError> {
        let mut found = Vec::new();
        let mut range = Range::prefix(TableId::INBOX, b"", 1);
        loop {
            let rows = self.tables.range(range.clone()).await?;
            let Some((worker, _)) = rows.first().and_then(|row| read_inbox(&row.key)) else {
                return Ok(found);
            };
            found.push(worker);
            match after_prefix(&worker.to_bytes()) {
                Some(next) => range.from = next,
                None => return Ok(found),
            }
        }
    }

    /// The spaces with messages that have not reached others; one look for each of them.
    async fn posting_spaces(&self, kind: u8) -> Result<Vec<SpaceName>, HostError> {
        let mut found = Vec::new();
        let mut range = Range::prefix(self.table, &[kind], 1);
        loop {
            let rows = self.tables.range(range.clone()).await?;
            let Some(space) = rows.first().and_then(|row| keys::space_of(&row.key)) else {
                return Ok(found);
            };
            let posts = self.space(space.clone()).keys.all(kind);
            found.push(space);
            match after_prefix(&posts) {
                Some(next) => range.from = next,
                None => return Ok(found),
            }
        }
    }

    async fn rows(&self, prefix: &[u8]) -> Result<Vec<Row>, HostError> {
        let any = self.space("-".parse().map_err(damaged)?);
        any.rows(prefix).await
    }
}

fn read_name(row: &[u8]) -> Result<SpaceName, HostError> {
    let text = std::str::from_utf8(row).map_err(damaged)?;
    text.parse().map_err(damaged)
}

fn damaged(error: impl std::fmt::Display) -> HostError {
    HostError::Damaged(format!("the name of a space: {error}"))
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Directory").field(&self.table).finish()
    }
}
