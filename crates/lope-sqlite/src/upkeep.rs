//! Upkeep from the command line: prove the store sound, show its schema, copy it, close it.
//!
//! Long looks at the store work on a connection and a thread of their own, so that no reader is held up.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use lope_store::store::Finding;
use lope_store::{Moving, Reading, StoreError, StoreResult, Upkeep};
use tokio::sync::oneshot;

use crate::desk::Desk;
use crate::doors::Doors;
use crate::failure::Worked;
use crate::house::House;
use crate::{backup, check, connection, migrate};

#[async_trait]
impl Upkeep for Doors {
    fn describe(&self) -> String {
        format!("sqlite:{}", self.house.place.database().display())
    }

    async fn reading(&self) -> StoreResult<Reading> {
        // Closed stores stay closed.
        self.readers.call(|_| Ok(())).await?;
        Ok(Reading::of(&*self.house.options.clock))
    }

    async fn check(&self) -> StoreResult<Vec<Finding>> {
        self.aside(check::check).await
    }

    async fn schema(&self) -> StoreResult<String> {
        self.aside(|desk| migrate::schema_text(desk.db)).await
    }

    async fn backup(&self, to: PathBuf) -> StoreResult<()> {
        self.aside(move |desk| backup::backup(desk, &to)).await
    }

    fn moving(&self) -> Option<&dyn Moving> {
        Some(self)
    }

    async fn close(&self) -> StoreResult<()> {
        self.listener.stop();
        if let Some(writer) = &self.writer {
            writer.stop().await;
        }
        self.readers.stop().await;
        self.house.seats.leave_all();
        Ok(())
    }
}

impl Doors {
    /// Do something on a connection and a thread made for it; the thread ends with it.
    async fn aside<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Desk<'_>) -> Worked<T> + Send + 'static,
    {
        // Closed stores stay closed, even for those who would open a connection of their own.
        self.readers.call(|_| Ok(())).await?;
        let house = Arc::clone(&self.house);
        let (answer, reply) = oneshot::channel();
        let named = thread::Builder::new().name("lope-sqlite-upkeep".to_owned());
        let spawned = named.spawn(move || answer.send(on_own_connection(&house, work)));
        drop(spawned.map_err(StoreError::unavailable)?);
        reply.await.unwrap_or_else(|_| Err(StoreError::unavailable("the thread that looked after the store panicked")))
    }
}

fn on_own_connection<T>(house: &House, work: impl FnOnce(&Desk<'_>) -> Worked<T>) -> StoreResult<T> {
    let db = connection::looker(&house.place, house.options.patience)?;
    work(&Desk::new(&db, house)).map_err(StoreError::from)
}
