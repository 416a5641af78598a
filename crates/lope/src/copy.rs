//! Copying a whole store into another one: definitions, runs that have ended and runs that live,
//! mail, byte tables.
//!
//! Nobody may work on either store meanwhile. The target must be empty, or hold a part of the same
//! copy that was interrupted: then it goes on. The queue comes last and no schedule is due before
//! the end, so that nobody claims or starts anything of a copy that is not complete; at the end
//! both stores are read again and compared.

use std::collections::BTreeMap;

use lope_model::Digest;
use lope_store::transfer::{FILLING, TABLES, TransferRow, TransferTable, TransferValue};
use lope_store::{Store, StoreError, Transfer};
use thiserror::Error;

use crate::space_upkeep as spaces;

/// Rows read at a time, at first and at most.
const PAGE: usize = 64;
const PAGE_MAX: usize = 4_096;
/// Pages shrink when one weighs more than this, and grow when it weighs less than a quarter.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Most runners looked at.
const RUNNERS: usize = 10_000;

/// How many rows of each table there are now in both stores.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    pub rows: BTreeMap<&'static str, u64>,
    /// Was a copy that had been interrupted completed?
    pub resumed: bool,
}

/// Why a store was not copied.
#[derive(Debug, Error)]
pub enum CopyError {
    #[error("{0} lives no longer than its process and cannot be copied")]
    NotMoving(String),
    #[error("{} on {store}", at_work(*.count))]
    Busy { store: String, count: usize },
    #[error("{store} is not empty: its table '{table}' has rows")]
    NotEmpty { store: String, table: &'static str },
    #[error("{store} holds a part of a copy of {from}")]
    Another { store: String, from: String },
    #[error(
        "the stores differ in table '{table}': {from} rows in one, {to} in the other; one changed while it was copied"
    )]
    Changed {
        table: &'static str,
        from: u64,
        to: u64,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copy everything. `told` hears, table by table, how many rows were copied so far.
pub async fn copy(
    from: &Store,
    to: &Store,
    mut told: impl FnMut(&'static str, u64),
) -> Result<Copied, CopyError> {
    let (source, target) = (transfer(from)?, transfer(to)?);
    idle(from).await?;
    idle(to).await?;
    let resumed = ready(from, to, target).await?;
    to.tables.open(&from.tables.manifest().await?).await?;
    for table in TABLES {
        let mut rows = 0;
        let mut pages = Pages::behind(table, target.last(table).await?);
        while let Some(page) = pages.next(source).await? {
            rows += page.len() as u64;
            target.fill(table, page).await?;
            told(table.name, rows);
        }
    }
    target.settle().await?;
    let rows = compare(source, target).await?;
    target.set_note(FILLING, None).await?;
    // Leases on spaces end by themselves; nobody has to wait for those of a copy.
    spaces::free(to).await?;
    Ok(Copied { rows, resumed })
}

fn transfer(store: &Store) -> Result<&dyn Transfer, CopyError> {
    store
        .upkeep
        .transfer()
        .ok_or_else(|| CopyError::NotMoving(store.upkeep.describe()))
}

fn at_work(runners: usize) -> String {
    if runners == 1 {
        "a runner works".to_owned()
    } else {
        format!("{runners} runners work")
    }
}

async fn idle(store: &Store) -> Result<(), CopyError> {
    let runners = store.runs.runners(RUNNERS).await?;
    let runners = runners.iter().filter(|runner| runner.live).count();
    match runners.max(spaces::hosts(store).await?) {
        0 => Ok(()),
        count => Err(CopyError::Busy {
            store: store.upkeep.describe(),
            count,
        }),
    }
}

/// Is the target one that this copy may fill? True: it goes on with an earlier one.
async fn ready(from: &Store, to: &Store, target: &dyn Transfer) -> Result<bool, CopyError> {
    let (source, store) = (from.upkeep.describe(), to.upkeep.describe());
    match target.note(FILLING).await? {
        Some(earlier) if earlier == source => return Ok(true),
        Some(from) => return Err(CopyError::Another { store, from }),
        None => {}
    }
    for table in TABLES {
        if target.last(table).await?.is_some() {
            return Err(CopyError::NotEmpty {
                store,
                table: table.name,
            });
        }
    }
    target.set_note(FILLING, Some(source)).await?;
    Ok(false)
}

/// A table, page by page; pages are about as large as they may be.
struct Pages {
    table: TransferTable,
    after: Option<Vec<TransferValue>>,
    limit: usize,
}

impl Pages {
    const fn behind(table: TransferTable, after: Option<Vec<TransferValue>>) -> Self {
        Self {
            table,
            after,
            limit: PAGE,
        }
    }

    async fn next(&mut self, store: &dyn Transfer) -> Result<Option<Vec<TransferRow>>, StoreError> {
        let mut rows = store
            .rows(self.table, self.after.clone(), self.limit)
            .await?;
        let Some(last) = rows.last() else {
            return Ok(None);
        };
        self.after = Some(self.table.key_of(last).to_vec());
        match rows.iter().flatten().map(weight).sum::<usize>() {
            heavy if heavy > PAGE_BYTES => self.limit = (self.limit / 2).max(1),
            light if light < PAGE_BYTES / 4 => self.limit = (self.limit * 2).min(PAGE_MAX),
            _ => {}
        }
        rows.iter_mut().for_each(|row| free(self.table, row));
        Ok(Some(rows))
    }
}

fn weight(cell: &TransferValue) -> usize {
    match cell {
        TransferValue::Null | TransferValue::Int(_) => 8,
        TransferValue::Text(text) => text.len(),
        TransferValue::Bytes(bytes) => bytes.len(),
    }
}

/// Owners are not copied: a run that had one is due again. JSON is written alike.
fn free(table: TransferTable, row: &mut TransferRow) {
    if let (Some(owner), Some(due), Some(created)) = (
        table.column_index("owner"),
        table.column_index("due"),
        table.column_index("created_at"),
    ) && row[owner] != TransferValue::Null
    {
        row[due] = row[created].clone();
        row[owner] = TransferValue::Null;
    }
    if let Some(TransferValue::Text(tags)) = table
        .column_index("tags")
        .map(|column_index| &mut row[column_index])
        && let Ok(sorted) = serde_json::from_str::<BTreeMap<String, String>>(tags)
    {
        *tags = serde_json::to_string(&sorted).unwrap_or_default();
    }
}

async fn compare(
    source: &dyn Transfer,
    target: &dyn Transfer,
) -> Result<BTreeMap<&'static str, u64>, CopyError> {
    let mut counts = BTreeMap::new();
    for table in TABLES {
        let (one, other) = (
            fingerprint(source, table).await?,
            fingerprint(target, table).await?,
        );
        if one != other {
            return Err(CopyError::Changed {
                table: table.name,
                from: one.0,
                to: other.0,
            });
        }
        counts.insert(table.name, one.0);
    }
    Ok(counts)
}

/// How many rows a table has, and what they hold.
async fn fingerprint(
    store: &dyn Transfer,
    table: TransferTable,
) -> Result<(u64, Digest), CopyError> {
    let mut count = 0;
    let mut digest = Digest::of(&[]);
    let mut pages = Pages::behind(table, None);
    while let Some(page) = pages.next(store).await? {
        for row in page {
            let bytes = written(&row);
            digest = Digest::of_parts(&[digest.as_bytes(), &bytes]);
            count += 1;
        }
    }
    Ok((count, digest))
}

fn written(row: &[TransferValue]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for cell in row {
        let (kind, body): (u8, Vec<u8>) = match cell {
            TransferValue::Null => (0, Vec::new()),
            TransferValue::Int(number) => (1, number.to_le_bytes().to_vec()),
            TransferValue::Text(text) => (2, text.as_bytes().to_vec()),
            TransferValue::Bytes(body) => (3, body.clone()),
        };
        bytes.push(kind);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}
