//! Stores that stand still: what a store holds at each of its writes, put back later, so that what
//! follows a kill is lived through without what came before it. A kill leaves nothing of a process
//! but what is in the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lope_store::MemoryStore;
use lope_store::door::DoorCall;
use lope_store::tables::{
    Applied, At, Batch, Range, TableId, Tables, TablesAnswer, TablesRequest, Write,
};
use lope_store::watch::Watch;

/// Rows of one page.
const PAGE: usize = 1_000;

/// Everything that spaces have in a store.
pub(crate) type StoredRows = BTreeMap<(TableId, Vec<u8>), Vec<u8>>;

/// What is in the tables that spaces use.
pub(crate) async fn stored_rows(tables: &dyn Tables) -> StoredRows {
    let manifest = tables.manifest().await.unwrap();
    let cells = manifest.id_of("cells");
    let mut all = StoredRows::new();
    for table in [Some(TableId::INBOX), Some(TableId::DEAD_LETTER), cells] {
        let Some(table) = table else { continue };
        let mut range = Range::prefix(table, b"", PAGE);
        loop {
            let rows = tables.range(range.clone()).await.unwrap();
            let is_last = rows.len() < PAGE;
            if let Some(last) = rows.last() {
                range.from = [&*last.key, &[0]].concat();
            }
            all.extend(rows.into_iter().map(|row| ((table, row.key), row.value)));
            if is_last {
                break;
            }
        }
    }
    all
}

/// Makes the tables hold `wanted` and nothing else.
pub(crate) async fn put_back(tables: &dyn Tables, wanted: &StoredRows) {
    let there = stored_rows(tables).await;
    let gone = there.keys().filter(|at| !wanted.contains_key(at));
    let gone = gone.map(|(table, key)| Write::Delete(At::new(*table, key.clone())));
    let changed = wanted
        .iter()
        .filter(|(at, value)| there.get(at) != Some(value));
    let changed = changed
        .map(|((table, key), value)| Write::Put(At::new(*table, key.clone()), value.clone()));
    commit(tables, gone.chain(changed).collect()).await;
}

/// What is in the tables now, in memory: to be read again and again.
pub(crate) async fn copied(tables: &dyn Tables) -> Arc<dyn Tables> {
    let copy = MemoryStore::open().tables;
    let manifest = tables.manifest().await.unwrap();
    copy.open(&manifest).await.unwrap();
    put_back(&*copy, &stored_rows(tables).await).await;
    copy
}

async fn commit(tables: &dyn Tables, writes: Vec<Write>) {
    let guards = Vec::new();
    let replies = tables.commit(vec![Batch { guards, writes }]).await.unwrap();
    assert!(replies.into_iter().all(|reply| reply.is_ok()));
}

/// What a store held before and behind one of its writes, and how far whoever wrote had come.
pub(crate) struct Moment<P> {
    pub(crate) progress: P,
    pub(crate) before: StoredRows,
    pub(crate) behind: StoredRows,
}

/// A store of which every write is a moment.
pub(crate) struct Recorder<P> {
    tables: Arc<dyn Tables>,
    progress: Arc<Mutex<P>>,
    moments: Mutex<Vec<Moment<P>>>,
}

impl<P: Clone + Send + 'static> Recorder<P> {
    pub(crate) fn new(tables: &Arc<dyn Tables>, progress: &Arc<Mutex<P>>) -> Arc<Self> {
        Arc::new(Self {
            tables: Arc::clone(tables),
            progress: Arc::clone(progress),
            moments: Mutex::default(),
        })
    }

    pub(crate) fn take(&self) -> Vec<Moment<P>> {
        std::mem::take(&mut self.moments.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<P: Clone + Send + 'static> Tables for Recorder<P> {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        if !request.verb().starts_with("commit") {
            return self.tables.call(request);
        }
        Box::pin(async move {
            let progress = self.progress.lock().unwrap().clone();
            let before = stored_rows(&*self.tables).await;
            let answer = self.tables.call(request).await;
            let behind = stored_rows(&*self.tables).await;
            self.moments.lock().unwrap().push(Moment {
                progress,
                before,
                behind,
            });
            answer
        })
    }

    fn watch(&self) -> Watch {
        self.tables.watch()
    }
}

/// A store whose writes reach the one behind it together, in order, when they are flushed.
pub(crate) struct Together {
    tables: Arc<dyn Tables>,
    writes: Mutex<Vec<Write>>,
}

impl Together {
    pub(crate) fn new(tables: &Arc<dyn Tables>) -> Arc<Self> {
        Arc::new(Self {
            tables: Arc::clone(tables),
            writes: Mutex::default(),
        })
    }

    pub(crate) async fn flush(&self) {
        let writes = std::mem::take(&mut *self.writes.lock().unwrap());
        commit(&*self.tables, writes).await;
    }
}

impl Tables for Together {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        let TablesRequest::Commit { batches } = request else {
            return self.tables.call(request);
        };
        let mut writes = self.writes.lock().unwrap();
        let mut replies = Vec::new();
        for batch in batches {
            assert!(batch.guards.is_empty(), "nothing is read in between");
            writes.extend(batch.writes);
            replies.push(Ok(Applied { appended: vec![0] }));
        }
        Box::pin(async move { Ok(TablesAnswer::Commit(replies)) })
    }

    fn watch(&self) -> Watch {
        self.tables.watch()
    }
}
