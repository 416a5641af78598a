//! Queries: one run, the run with a key, how many there are.

use std::collections::BTreeMap;

use lope_model::{RunId, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{FinalStatus, QueueCount, ResultHead, RunCounts, RunRecord, RunStatus};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::{ReadStatement, View};
use crate::definition::is_text;
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::list;
use crate::record;
use crate::statement::Statement;

static FIND_KEY: Statement = Statement {
    name: "find_key",
    text: "select run_id from {schema}.runs where key = $1 and key is not null",
    types: "text",
};

static RUN: Statement = Statement {
    name: "run",
    text: "select {record}, r.result, r.error, q.queue <> r.queue or q.realm <> r.realm or q.priority <> r.priority
           from {schema}.runs r left join {schema}.queue q on q.run_id = r.run_id where r.run_id = $1",
    types: "uuid",
};
static LISTED: Statement = Statement {
    name: "listed",
    text: include_str!("listed.sql"),
    types: "uuids",
};
static RESULT: Statement = Statement {
    name: "result",
    text:
        "select substring(result from 1 for $2::int4), octet_length(result)::int8 from {schema}.runs
           where run_id = $1 and result is not null",
    types: "uuid int",
};

/// Both walk over live runs along an index: the table may have much room in it that a longer queue
/// left.
pub(crate) static COUNT_RUNS: Statement = Statement {
    name: "count_runs",
    text: include_str!("count_runs.sql"),
    types: "",
};
static COUNT_COMPLETED: Statement = Statement {
    name: "count_completed",
    text: "select count(*) from (select from {schema}.runs where status = 'completed' limit 100000) r",
    types: "",
};
pub(crate) static COUNT_QUEUES: Statement = Statement {
    name: "count_queues",
    text: include_str!("count_queues.sql"),
    types: "",
};

impl PostgresInner {
    pub(crate) async fn run(&self, run: RunId) -> Worked<Option<RunRecord>> {
        let run = run.uuid();
        let rows = self.reads.read(&RUN, vec![&run]).await?;
        rows.first().map(record::placed).transpose()
    }

    pub(crate) async fn listed(&self, runs: &[RunId]) -> Worked<Vec<RunRecord>> {
        let mut runs: Vec<Uuid> = runs.iter().map(|run| run.uuid()).collect();
        runs.sort_unstable();
        runs.dedup();
        match self.reads.read(&LISTED, vec![&runs]).await {
            Err(fault) if fault.is_damage() => self.listed_around_damage(&runs).await,
            rows => list::readable(&rows?),
        }
    }

    /// A page of records cannot be read: each is asked for alone.
    async fn listed_around_damage(&self, runs: &[Uuid]) -> Worked<Vec<RunRecord>> {
        let mut records = Vec::new();
        for run in runs {
            match self
                .reads
                .read(&LISTED, vec![&std::slice::from_ref(run)])
                .await
            {
                Err(fault) if fault.is_damage() => {
                    tracing::warn!(%run, error = %fault.error, "a run of a damaged page is left out");
                }
                rows => records.extend(list::readable(&rows?)?),
            }
        }
        Ok(records)
    }

    pub(crate) async fn result(&self, run: RunId, most: usize) -> Worked<Option<ResultHead>> {
        let most = i64::try_from(most.min(limit::PAYLOAD_MAX)).unwrap_or(i64::MAX);
        let run = run.uuid();
        let rows = self.reads.read(&RESULT, vec![&run, &most]).await?;
        Ok(rows.first().map(|row| ResultHead {
            bytes: row.get(0),
            total: row.get::<_, i64>(1) as u64,
        }))
    }

    pub(crate) async fn find_key(&self, key: &str) -> Worked<Option<RunId>> {
        if !is_text(key) {
            return Ok(None);
        }
        let rows = self.reads.read(&FIND_KEY, vec![&key]).await?;
        Ok(rows
            .first()
            .map(|row| RunId::from_uuid(row.get::<_, Uuid>(0))))
    }

    pub(crate) async fn counts(&self) -> Worked<RunCounts> {
        let asked = [&COUNT_RUNS, &COUNT_QUEUES].map(|it| (ReadStatement::Kept(it), Vec::new()));
        let answers = self.reads.read_together(View::Rows, &asked);
        let (answers, completed) = tokio::try_join!(answers, self.completed())?;
        let mut answers = answers.into_iter();
        let [by_status, queues] = [(); 2].map(|()| answers.next().unwrap_or_default());
        // Damage is not counted, and keeps nobody from counting the rest.
        let mut by_status: BTreeMap<&'static str, u64> =
            by_status.iter().flat_map(status_count).collect();
        if completed > 0 {
            by_status.insert(FinalStatus::Completed.as_str(), completed);
        }
        let queues: Vec<QueueCount> = queues.iter().flat_map(queue_count).collect();
        Ok(RunCounts { by_status, queues })
    }

    async fn completed(&self) -> Worked<u64> {
        let counted = match self.reads.read(&COUNT_COMPLETED, Vec::new()).await {
            Err(fault) if fault.is_damage() => {
                let parts = self.readable_pages().await?;
                parts.iter().map(|part| part.completed).sum()
            }
            rows => rows?.first().map_or(0, |row| row.get::<_, i64>(0)),
        };
        Ok((counted as u64).min(limit::ENDED_COUNTED_MAX))
    }

    pub(crate) async fn queues(&self) -> Worked<Vec<QueueCount>> {
        let queues = self.reads.read(&COUNT_QUEUES, Vec::new()).await?;
        Ok(queues.iter().flat_map(queue_count).collect())
    }
}

fn status_count(row: &Row) -> Worked<(&'static str, u64)> {
    let text: &str = row.get(0);
    let status = RunStatus::parse(text)
        .ok_or_else(|| StoreError::corrupt(format!("a status is '{text}'")))?;
    Ok((status.as_str(), row.get::<_, i64>(1) as u64))
}

fn queue_count(row: &Row) -> Worked<QueueCount> {
    let number = |index| row.get::<_, i64>(index) as u64;
    let queue = record::queue_name(row.get(0))?;
    Ok(QueueCount {
        queue,
        due: number(1),
        later: number(2),
        owned: number(3),
        parked: number(4),
        oldest: row.get::<_, Option<i64>>(5).map(Timestamp::from_millis),
    })
}
