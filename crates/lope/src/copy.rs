//! Copying a whole store into another one: definitions, runs that have ended and runs that live, mail, byte tables.
//!
//! Nobody may work on either store meanwhile. The target must be empty, or hold a part of the same copy that was interrupted:
//! then it goes on. The queue comes last and no schedule is due before the end, so that nobody claims or starts anything of a copy that is
//! not complete; at the end both stores are read again and compared.

use std::collections::BTreeMap;

use lope_model::Digest;
use lope_store::moving::{Cell, FILLING, MovedRow, MovedTable, TABLES};
use lope_store::{Moving, Store, StoreError};
use thiserror::Error;

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
    Changed { table: &'static str, from: u64, to: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copy everything. `told` hears, table by table, how many rows were copied so far.
pub async fn copy(from: &Store, to: &Store, mut told: impl FnMut(&'static str, u64)) -> Result<Copied, CopyError> {
    let (source, target) = (moving(from)?, moving(to)?);
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
    Ok(Copied { rows, resumed })
}

fn moving(store: &Store) -> Result<&dyn Moving, CopyError> {
    store.upkeep.moving().ok_or_else(|| CopyError::NotMoving(store.upkeep.describe()))
}

fn at_work(runners: usize) -> String {
    if runners == 1 { "a runner works".to_owned() } else { format!("{runners} runners work") }
}

async fn idle(store: &Store) -> Result<(), CopyError> {
    let runners = store.runs.runners(RUNNERS).await?;
    match runners.iter().filter(|runner| runner.live).count() {
        0 => Ok(()),
        count => Err(CopyError::Busy { store: store.upkeep.describe(), count }),
    }
}

/// Is the target one that this copy may fill? True: it goes on with an earlier one.
async fn ready(from: &Store, to: &Store, target: &dyn Moving) -> Result<bool, CopyError> {
    let (source, store) = (from.upkeep.describe(), to.upkeep.describe());
    match target.note(FILLING).await? {
        Some(earlier) if earlier == source => return Ok(true),
        Some(from) => return Err(CopyError::Another { store, from }),
        None => {}
    }
    for table in TABLES {
        if target.last(table).await?.is_some() {
            return Err(CopyError::NotEmpty { store, table: table.name });
        }
    }
    target.set_note(FILLING, Some(source)).await?;
    Ok(false)
}

/// A table, page by page; pages are about as large as they may be.
struct Pages {
    table: MovedTable,
    after: Option<Vec<Cell>>,
    limit: usize,
}

impl Pages {
    const fn behind(table: MovedTable, after: Option<Vec<Cell>>) -> Self {
        Self { table, after, limit: PAGE }
    }

    async fn next(&mut self, store: &dyn Moving) -> Result<Option<Vec<MovedRow>>, StoreError> {
        let mut rows = store.rows(self.table, self.after.clone(), self.limit).await?;
        let Some(last) = rows.last() else { return Ok(None) };
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

fn weight(cell: &Cell) -> usize {
    match cell {
        Cell::Null | Cell::Int(_) => 8,
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
    }
}

/// Owners are not copied: a run that had one is due again. JSON is written alike.
fn free(table: MovedTable, row: &mut MovedRow) {
    if let (Some(owner), Some(due), Some(created)) =
        (table.place("owner"), table.place("due"), table.place("created_at"))
        && row[owner] != Cell::Null
    {
        row[due] = row[created].clone();
        row[owner] = Cell::Null;
    }
    if let Some(Cell::Text(tags)) = table.place("tags").map(|place| &mut row[place])
        && let Ok(sorted) = serde_json::from_str::<BTreeMap<String, String>>(tags)
    {
        *tags = serde_json::to_string(&sorted).unwrap_or_default();
    }
}

async fn compare(source: &dyn Moving, target: &dyn Moving) -> Result<BTreeMap<&'static str, u64>, CopyError> {
    let mut counts = BTreeMap::new();
    for table in TABLES {
        let (one, other) = (fingerprint(source, table).await?, fingerprint(target, table).await?);
        if one != other {
            return Err(CopyError::Changed { table: table.name, from: one.0, to: other.0 });
        }
        counts.insert(table.name, one.0);
    }
    Ok(counts)
}

/// How many rows a table has, and what they hold.
async fn fingerprint(store: &dyn Moving, table: MovedTable) -> Result<(u64, Digest), CopyError> {
    let (mut count, mut digest, mut pages) = (0, Digest::of(&[]), Pages::behind(table, None));
    while let Some(page) = pages.next(store).await? {
        for row in page {
            let bytes = written(&row);
            digest = Digest::of_parts(&[digest.as_bytes(), &bytes]);
            count += 1;
        }
    }
    Ok((count, digest))
}

fn written(row: &[Cell]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for cell in row {
        let (kind, body): (u8, Vec<u8>) = match cell {
            Cell::Null => (0, Vec::new()),
            Cell::Int(number) => (1, number.to_le_bytes().to_vec()),
            Cell::Text(text) => (2, text.as_bytes().to_vec()),
            Cell::Bytes(body) => (3, body.clone()),
        };
        bytes.push(kind);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}
