//! Upkeep with a hook before it.

use std::path::PathBuf;

use async_trait::async_trait;

use super::{Door, Faulty};
use crate::clock::Reading;
use crate::error::StoreResult;
use crate::moving::Moving;
use crate::store::{Finding, Upkeep};

const DOOR: Door = Door::Upkeep;

#[async_trait]
impl Upkeep for Faulty {
    fn describe(&self) -> String {
        self.store.upkeep.describe()
    }

    async fn reading(&self) -> StoreResult<Reading> {
        self.through(DOOR, "reading", self.store.upkeep.reading()).await
    }

    async fn check(&self) -> StoreResult<Vec<Finding>> {
        self.through(DOOR, "check", self.store.upkeep.check()).await
    }

    async fn schema(&self) -> StoreResult<String> {
        self.through(DOOR, "schema", self.store.upkeep.schema()).await
    }

    async fn backup(&self, to: PathBuf) -> StoreResult<()> {
        self.through(DOOR, "backup", self.store.upkeep.backup(to)).await
    }

    fn moving(&self) -> Option<&dyn Moving> {
        self.store.upkeep.moving()
    }

    async fn close(&self) -> StoreResult<()> {
        self.through(DOOR, "close", self.store.upkeep.close()).await
    }
}
