//! Upkeep from the command line: prove the store sound, show its schema, copy it, close it.
//!
//! Long looks at the store work on a connection and a thread of their own, so that no reader is
//! held up.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use lope_model::RunId;
use lope_store::store::Finding;
use lope_store::{Reading, StoreError, StoreResult, Transfer, UpkeepVerbs};
use tokio::sync::oneshot;

use crate::doors::Doors;
use crate::failure::{self, Worked};
use crate::holder::LockHolder;
use crate::inner::SqliteInner;
use crate::locks::WriterLock;
use crate::tx::Tx;
use crate::{backup, check, connection, migrate, prune};

impl UpkeepVerbs for Doors {
    fn describe(&self) -> String {
        format!("sqlite:{}", self.inner.files.database().display())
    }

    fn stopped_writer(&self) -> Option<Finding> {
        LockHolder::of(&self.inner.files).and_then(|holder| holder.finding())
    }

    async fn reading(&self) -> StoreResult<Reading> {
        // Closed stores stay closed.
        self.readers.call(|_| Ok(())).await?;
        Ok(Reading::of(&*self.inner.options.clock))
    }

    async fn check(&self) -> StoreResult<Vec<Finding>> {
        self.aside(check::check).await
    }

    async fn schema(&self) -> StoreResult<String> {
        self.aside(|tx| migrate::schema_text(tx.db)).await
    }

    async fn backup(&self, to: PathBuf) -> StoreResult<()> {
        self.aside(move |tx| backup::backup(tx, &to)).await
    }

    async fn remove_run(&self, run: RunId) -> StoreResult<bool> {
        let mut rows = 0;
        for delete in prune::ROWS_OF_RUN {
            let removed = self.write(1, move |tx| prune::remove_rows(tx, run, delete));
            match removed.await {
                Ok(removed) => rows += removed,
                Err(StoreError::Corrupt { message }) => {
                    tracing::warn!(%run, message, delete, "rows on a damaged page stay there");
                }
                Err(error) => return Err(error),
            }
        }
        let removed = match self.write(1, move |tx| prune::remove(tx, run)).await {
            Err(StoreError::Corrupt { message }) => {
                tracing::warn!(%run, message, "the record is on a damaged page and stays there");
                self.write(1, move |tx| prune::remove_from_queue(tx, run))
                    .await
            }
            removed => removed,
        };
        // Rows without a record may be all that is left of it.
        Ok(rows + removed? > 0)
    }

    async fn compact(&self) -> StoreResult<u64> {
        self.on_thread(compact).await
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    async fn close(&self) -> StoreResult<()> {
        self.listener.stop();
        if let Some(writer) = &self.writer {
            writer.stop().await;
        }
        self.readers.stop().await;
        self.inner.runner_locks.leave_all();
        Ok(())
    }
}

impl Doors {
    /// Do something on a connection and a thread made for it; the thread ends with it.
    async fn aside<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        self.on_thread(|inner| on_own_connection(inner, work)).await
    }

    async fn on_thread<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&SqliteInner) -> StoreResult<T> + Send + 'static,
    {
        // Closed stores stay closed, even for those who would open a connection of their own.
        self.readers.call(|_| Ok(())).await?;
        let inner = Arc::clone(&self.inner);
        let (answer, reply) = oneshot::channel();
        let named = thread::Builder::new().name("lope-sqlite-upkeep".to_owned());
        let spawned = named.spawn(move || answer.send(work(&inner)));
        drop(spawned.map_err(StoreError::unavailable)?);
        reply.await.unwrap_or_else(|_| {
            Err(StoreError::unavailable(
                "the thread that looked after the store panicked",
            ))
        })
    }
}

fn on_own_connection<T>(
    inner: &SqliteInner,
    work: impl FnOnce(&Tx<'_>) -> Worked<T>,
) -> StoreResult<T> {
    let db = connection::read_only(&inner.files, inner.options.patience)?;
    work(&Tx::new(&db, inner)).map_err(StoreError::from)
}

/// Write the whole file anew, without what was deleted. Others cannot write meanwhile, so runners
/// must not be there: they would lose their leases.
fn compact(inner: &SqliteInner) -> StoreResult<u64> {
    if inner.runner_locks.any() || inner.runner_locks.any_elsewhere() {
        return Err(StoreError::refused(
            "runners work on the store: stop them first",
        ));
    }
    let patience = inner.options.patience;
    let writers = WriterLock::open(&inner.files, patience)?;
    let _turn = writers.enter_alone()?;
    let db = connection::writer(&inner.files, patience)?;
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    let size = || std::fs::metadata(inner.files.database()).map_or(0, |file| file.len());
    db.query_row(truncate, [], |_| Ok(()))
        .map_err(failure::sqlite)?;
    let before = size();
    db.execute_batch("VACUUM").map_err(failure::sqlite)?;
    db.query_row(truncate, [], |_| Ok(()))
        .map_err(failure::sqlite)?;
    Ok(before.saturating_sub(size()))
}
