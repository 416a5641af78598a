//! `prune`: ended runs leave with all that belongs to them, and partitions that they leave behind.
//!
//! No index knows when a run ended: it would cost every run, not only those that are pruned. So a
//! prune walks over runs in the order of their creation, from where the last one stopped, once
//! around at most.

use lope_model::{RunId, RunnerId, limit};
use lope_store::runs::{Prune, Pruned};
use lope_store::verdict::{self, RemoveFacts};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::DbConnection;
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::partition;
use crate::prune_cursor::{Position, START};
use crate::statement::{Params, Statement};

static PRUNE: Statement = Statement {
    name: "prune",
    text: include_str!("prune.sql"),
    types: "int texts int int uuid int",
};

/// The same walk over the runs of one workflow.
static PRUNE_WORKFLOW: Statement = Statement {
    name: "prune_workflow",
    text: include_str!("prune_workflow.sql"),
    types: "int texts int int uuid int text",
};

/// Most runs that one statement looks at, so that no transaction is long.
const SEEN_MAX: i64 = 10_000;
/// Most statements of one prune: beyond, the caller is told that there may be more.
const PARTS_MAX: usize = 100;

/// What one statement did.
struct PrunePart {
    deleted: Vec<Uuid>,
    /// More were found than might be deleted.
    overfull: bool,
    /// The walk came to its end.
    ended: bool,
    last: Option<Position>,
}

impl PostgresInner {
    pub(crate) async fn prune(&self, prune: &Prune) -> Worked<Pruned> {
        let db = self.reads.get().await?;
        let begin = self.prune_cursor().position(prune.workflow.as_deref());
        let mut at = begin;
        let mut left = prune.limit.min(limit::PAGE_MAX) as i64;
        let mut around = begin == START;
        let mut pruned = Pruned {
            runs: Vec::new(),
            more: true,
        };
        for _ in 0..PARTS_MAX {
            let part = prune_part(&db, prune, at, left).await?;
            left -= part.deleted.len() as i64;
            let gone = part.deleted.into_iter().map(RunId::from_uuid);
            pruned.runs.extend(gone);
            at = part.last.unwrap_or(at);
            if part.overfull {
                break;
            }
            if around && (part.ended || at >= begin && begin != START) {
                pruned.more = false;
                break;
            }
            if part.ended {
                (at, around) = (START, true);
            }
        }
        self.prune_cursor().go_on(
            prune.workflow.as_deref(),
            if pruned.more { at } else { START },
        );
        if !pruned.runs.is_empty() && !pruned.more {
            partition::retire_one(&db).await;
        }
        Ok(pruned)
    }
}

/// One run, whatever it is, by its id alone: what it holds may be damaged.
static REMOVE: Statement = Statement {
    name: "remove_run",
    text: include_str!("remove_run.sql"),
    types: "uuid int",
};

/// The same without what belongs to it.
static REMOVE_RECORD: Statement = Statement {
    name: "remove_record",
    text: include_str!("remove_record.sql"),
    types: "uuid int",
};

/// The same of a run whose record cannot be read: nobody lists or claims it any more.
static REMOVE_QUEUED: Statement = Statement {
    name: "remove_queued",
    text: include_str!("remove_queued.sql"),
    types: "uuid int",
};

/// What belongs to a run that nobody owns, table by table.
static REMOVE_BELONGINGS: [Statement; 5] = [
    Statement {
        name: "remove_rows",
        text: "delete from {schema}.journal d where d.run_id = $1 and not exists
                   (select from {schema}.queue q where q.run_id = $1 and q.owner is not null)",
        types: "uuid",
    },
    Statement {
        name: "remove_snapshots",
        text: "delete from {schema}.snapshots d where d.run_id = $1 and not exists
                   (select from {schema}.queue q where q.run_id = $1 and q.owner is not null)",
        types: "uuid",
    },
    Statement {
        name: "remove_blobs",
        text: "delete from {schema}.blobs d where d.run_id = $1 and not exists
                   (select from {schema}.queue q where q.run_id = $1 and q.owner is not null)",
        types: "uuid",
    },
    Statement {
        name: "remove_mail",
        text: "delete from {schema}.mail d where d.run_id = $1 and not exists
                   (select from {schema}.queue q where q.run_id = $1 and q.owner is not null)",
        types: "uuid",
    },
    Statement {
        name: "remove_tags",
        text: "delete from {schema}.run_tags d where d.run_id = $1 and not exists
                   (select from {schema}.queue q where q.run_id = $1 and q.owner is not null)",
        types: "uuid",
    },
];

impl PostgresInner {
    pub(crate) async fn remove_run(&self, run: RunId) -> Worked<bool> {
        let id = run.uuid();
        let latest = self.clock.latest();
        let rows = match self.reads.write_surely(&REMOVE, vec![&id, &latest]).await {
            Err(fault) if fault.is_damage() => self.remove_around_damage(run).await?,
            rows => rows?,
        };
        let Some(row) = rows.first() else {
            return Ok(false);
        };
        let owner: Option<Uuid> = row.get(0);
        let facts = RemoveFacts {
            owner: owner.map(RunnerId::from_uuid),
            owner_lives: row.get(1),
        };
        verdict::remove(run, &facts)?;
        Ok(row.get::<_, i64>(2) > 0)
    }

    /// Rows on a page that cannot be read stay there; the run leaves all the same. The record goes
    /// first: once it is gone nobody claims the run.
    async fn remove_around_damage(&self, run: RunId) -> Worked<Vec<Row>> {
        let id = run.uuid();
        let latest = self.clock.latest();
        let removed = self.reads.write_surely(&REMOVE_RECORD, vec![&id, &latest]);
        let rows = match removed.await {
            Err(fault) if fault.is_damage() => {
                tracing::warn!(%run, error = %fault.error, "the record is on a damaged page and stays there");
                let given: Params<'_> = vec![&id, &latest];
                self.reads.write_surely(&REMOVE_QUEUED, given).await?
            }
            rows => rows?,
        };
        for statement in &REMOVE_BELONGINGS {
            match self.reads.write_surely(statement, vec![&id]).await {
                Err(fault) if fault.is_damage() => {
                    tracing::warn!(%run, error = %fault.error, "rows on a damaged page stay there");
                }
                removed => drop(removed?),
            }
        }
        Ok(rows)
    }
}

async fn prune_part(
    db: &DbConnection,
    prune: &Prune,
    at: Position,
    most: i64,
) -> Worked<PrunePart> {
    let statuses: Vec<&str> = prune
        .statuses
        .iter()
        .map(|status| status.as_str())
        .collect();
    let before = prune.before.millis();
    let mut params: crate::statement::Params<'_> =
        vec![&before, &statuses, &most, &at.0, &at.1, &SEEN_MAX];
    let statement = match &prune.workflow {
        None => &PRUNE,
        Some(workflow) => {
            params.push(workflow);
            &PRUNE_WORKFLOW
        }
    };
    let rows = db.write(statement, params).await?;
    let Some(row) = rows.first() else {
        return Ok(PrunePart {
            deleted: Vec::new(),
            overfull: false,
            ended: true,
            last: None,
        });
    };
    let (found, seen): (i64, i64) = (row.get(1), row.get(2));
    let last = row.get::<_, Option<i64>>(3).zip(row.get(4));
    Ok(PrunePart {
        deleted: row.get(0),
        overfull: found > most,
        ended: seen < SEEN_MAX,
        last,
    })
}
