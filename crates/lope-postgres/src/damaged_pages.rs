//! Runs whose records are on pages that the server cannot read: found one by one, so that the others
//! do not notice. In: runs; out: those that nobody can read, each with what the server says.

use lope_store::StoreError;
use uuid::Uuid;

use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::statement::Statement;

/// Runs looked at together; of those that meet a damaged page, each is looked at alone.
const TOGETHER: usize = 1_000;

static RECORDS: Statement = Statement {
    name: "damaged_pages_records",
    text: "select count(version) from {schema}.runs where run_id = any($1)",
    types: "uuids",
};

static QUEUED: Statement = Statement {
    name: "damaged_pages_queued",
    text: "select run_id from {schema}.queue where run_id > $1 order by run_id limit $2",
    types: "uuid int",
};

impl PostgresInner {
    pub(crate) async fn on_damaged_pages(&self, runs: &[Uuid]) -> Worked<Vec<(Uuid, StoreError)>> {
        let mut found = Vec::new();
        for some in runs.chunks(TOGETHER) {
            if self.damage_of(some).await?.is_none() {
                continue;
            }
            for run in some {
                let damage = self.damage_of(std::slice::from_ref(run)).await?;
                found.extend(damage.map(|why| (*run, why)));
            }
        }
        Ok(found)
    }

    /// The same of all unfinished runs; at most so many.
    pub(crate) async fn queued_on_damaged_pages(
        &self,
        most: usize,
    ) -> Worked<Vec<(Uuid, StoreError)>> {
        let mut found = Vec::new();
        let mut after = Uuid::nil();
        while found.len() < most {
            let rows = self
                .reads
                .read(&QUEUED, vec![&after, &(TOGETHER as i64)])
                .await?;
            let runs: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
            let Some(last) = runs.last() else { break };
            after = *last;
            found.extend(self.on_damaged_pages(&runs).await?);
        }
        found.truncate(most);
        Ok(found)
    }

    async fn damage_of(&self, runs: &[Uuid]) -> Worked<Option<StoreError>> {
        match self.reads.read(&RECORDS, vec![&runs]).await {
            Err(fault) if fault.is_damage() => Ok(Some(fault.error)),
            read => read.map(|_| None),
        }
    }
}
