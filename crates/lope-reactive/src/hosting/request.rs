//! Asking a space for something from outside: the request goes into the space's inbox, and its
//! receipt tells what became of it. If nobody hosts the space, this process does for as long as it
//! takes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lope_cells::id::SpaceName;
use lope_model::Clock;
use lope_store::{Tables, Watch};

use super::HostError;
use super::directory::Directory;
use super::effects::EffectPerformer;
use super::lease::LeaseView;
use super::pool::{PoolOptions, SpacePool};
use super::space_store::{SpaceStore, StoredReceipt};
use crate::limit;
use crate::machine::{Arrival, SpaceAction, SpaceCommand, SpaceMachine};
use crate::runner::{ProcessReport, RecipeRunner};
use lope_cells::javascript::JavaScript;

/// Longest time between two looks for a receipt; a change of the store is told at once.
const POLL: Duration = Duration::from_millis(250);

/// Sends requests to spaces and waits for their receipts.
#[derive(Clone)]
pub struct SpaceClient {
    tables: Arc<dyn Tables>,
    directory: Directory,
    clock: Arc<dyn Clock>,
    performer: Arc<dyn EffectPerformer>,
    options: PoolOptions,
}

impl SpaceClient {
    /// A client; `performer` and `options` are for spaces that it has to host itself.
    pub async fn open(
        tables: Arc<dyn Tables>,
        clock: Arc<dyn Clock>,
        performer: Arc<dyn EffectPerformer>,
        options: PoolOptions,
    ) -> Result<Self, HostError> {
        Ok(Self {
            directory: Directory::open(Arc::clone(&tables)).await?,
            tables,
            clock,
            performer,
            options: PoolOptions {
                threads: 1,
                ..options
            },
        })
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn space(&self, space: &SpaceName) -> SpaceStore {
        self.directory.space(space.clone())
    }

    /// Wakes when something may have changed in a space.
    pub fn watch(&self) -> Watch {
        self.tables.watch()
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What runs in a space, as its documents and records say. Nothing is run.
    pub async fn report(&self, space: &SpaceName) -> Result<Vec<ProcessReport>, HostError> {
        let store = self.space(space);
        let taken = store.take_up().await?;
        let scripts = Box::new(JavaScript::new(self.options.scripts));
        let runner = RecipeRunner::new(space.clone(), self.options.modules.clone(), scripts);
        let mut machine = SpaceMachine::new(space.clone(), taken.spaces, runner);
        machine.resume(taken.nodes);
        Ok(machine.with_program(|runner, spaces, nodes| runner.report(spaces, nodes)))
    }

    /// Sends something to a space and waits until it is done: its writes, and all that follows from
    /// them, are on disk.
    pub async fn request(
        &self,
        space: &SpaceName,
        arrival: &Arrival,
    ) -> Result<StoredReceipt, HostError> {
        let store = self.space(space);
        // What nobody handled before gets another try: the receipt of that time is not the answer.
        let before = store.receipt(arrival.id()).await?;
        let before = before.filter(StoredReceipt::is_dead);
        let mut pool = None;
        let receipt = match self.deliver(&store, arrival, &mut pool).await {
            Ok(()) => {
                self.look_for_receipt(&store, arrival.id(), before, &mut pool)
                    .await
            }
            Err(error) => Err(error),
        };
        if let Some(pool) = pool {
            pool.finish().await;
        }
        let receipt = receipt?;
        // Somebody else's may have come first.
        receipt.validate(arrival)?;
        Ok(receipt)
    }

    /// Waits for the receipt of something that was sent.
    pub async fn await_receipt(
        &self,
        store: &SpaceStore,
        id: &str,
    ) -> Result<StoredReceipt, HostError> {
        let mut pool = None;
        let receipt = self.look_for_receipt(store, id, None, &mut pool).await;
        if let Some(pool) = pool {
            pool.finish().await;
        }
        receipt
    }

    /// Returns when nothing waits for a space, nothing that it sent waits for others, and nothing can run
    /// in it: everything that was sent before has taken effect and is on disk. Effects under way are
    /// not waited for, nor is a node that does not settle while it has to wait. If nobody hosts the
    /// space, this process does for as long as it takes.
    ///
    /// ```no_run
    /// # async fn example(spaces: lope_reactive::hosting::SpaceClient) -> Result<(), lope_reactive::hosting::HostError> {
    /// let home = "home".parse().expect("a name");
    /// spaces.idle(&home).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn idle(&self, space: &SpaceName) -> Result<(), HostError> {
        let store = self.space(space);
        let mut pool = None;
        let idle = self.come_to_rest(&store, &mut pool).await;
        if let Some(pool) = pool {
            pool.finish().await;
        }
        idle
    }

    async fn come_to_rest(
        &self,
        store: &SpaceStore,
        pool: &mut Option<SpacePool>,
    ) -> Result<(), HostError> {
        loop {
            self.empty_queues(store, pool).await?;
            let now = self.clock.now();
            if !self.directory.entry(store.space(), now).await?.is_active {
                return Ok(());
            }
            // What it looks at elsewhere may have changed: a command comes behind all that follows.
            let nothing = SpaceCommand {
                id: format!("idle:{}:{}", self.options.identity.owner, now.millis()).into(),
                action: SpaceAction::All(Vec::new()),
            };
            store.ask(&nothing).await?;
            if let Some(pool) = pool {
                pool.wake(store.space());
            }
            self.look_for_receipt(store, &nothing.id, None, pool)
                .await?;
            if store.has_empty_queues().await? {
                return Ok(());
            }
        }
    }

    async fn empty_queues(
        &self,
        store: &SpaceStore,
        pool: &mut Option<SpacePool>,
    ) -> Result<(), HostError> {
        let mut changes = self.tables.watch();
        while !store.has_empty_queues().await? {
            if let Some(why) = why_broken(store, pool.as_ref()) {
                return Err(HostError::Broken(why));
            }
            self.host_if_free(store, pool).await?;
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
        Ok(())
    }

    /// Delivers something. If too many events wait and nobody hosts the space, they are handled here
    /// first; if somebody does, the sender is told.
    async fn deliver(
        &self,
        store: &SpaceStore,
        arrival: &Arrival,
        pool: &mut Option<SpacePool>,
    ) -> Result<(), HostError> {
        let mut changes = self.tables.watch();
        let until = tokio::time::Instant::now() + limit::HANDLER_WAIT.to_duration() * 2;
        loop {
            let refused = match store.deliver(arrival).await {
                Ok(_) => return Ok(()),
                Err(refused @ HostError::Backlog { .. }) => refused,
                Err(error) => return Err(error),
            };
            self.host_if_free(store, pool).await?;
            if pool.is_none() || tokio::time::Instant::now() > until {
                return Err(refused);
            }
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Looks for a receipt that is another one than `before` until it is there.
    async fn look_for_receipt(
        &self,
        store: &SpaceStore,
        id: &str,
        before: Option<StoredReceipt>,
        pool: &mut Option<SpacePool>,
    ) -> Result<StoredReceipt, HostError> {
        let mut changes = self.tables.watch();
        loop {
            match store.receipt(id).await {
                Ok(Some(receipt)) if before.as_ref() != Some(&receipt) => return Ok(receipt),
                Ok(_) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error),
            }
            if let Some(why) = why_broken(store, pool.as_ref()) {
                return Err(HostError::Broken(why));
            }
            self.host_if_free(store, pool).await?;
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    async fn host_if_free(
        &self,
        store: &SpaceStore,
        pool: &mut Option<SpacePool>,
    ) -> Result<(), HostError> {
        let now = self.clock.moment();
        match store.view_lease(&self.options.identity, now).await {
            Err(error) if error.is_passing() => return Ok(()),
            Ok(LeaseView::Held { .. }) => return Ok(()),
            Ok(LeaseView::Free | LeaseView::Over { .. }) => {}
            Err(error) => return Err(error),
        }
        if pool.is_none() {
            let (tables, clock) = (Arc::clone(&self.tables), Arc::clone(&self.clock));
            let performer = Arc::clone(&self.performer);
            let options = self.options.clone();
            *pool = Some(SpacePool::start_quiet(tables, clock, performer, options).await?);
        }
        if let Some(pool) = pool {
            pool.wake(store.space());
        }
        Ok(())
    }
}

fn why_broken(store: &SpaceStore, pool: Option<&SpacePool>) -> Option<String> {
    pool?.why_broken(store.space())
}

impl fmt::Debug for SpaceClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceClient").finish_non_exhaustive()
    }
}
