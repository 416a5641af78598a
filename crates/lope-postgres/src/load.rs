//! `load`: what is needed to go on with runs, all from one moment: records, snapshots, the journal
//! behind them, mail.

use std::collections::HashMap;

use lope_model::{Digest, RunId};
use lope_store::runs::{JournalRow, Loaded, Snapshot};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::{ReadStatement, View};
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::record;
use crate::session::page;
use crate::statement::{Params, Statement};

pub(crate) static RECORDS: Statement = Statement {
    name: "load_records",
    text: include_str!("load_records.sql"),
    types: "uuids",
};
static SNAPSHOTS: Statement = Statement {
    name: "load_snapshots",
    text: include_str!("load_snapshots.sql"),
    types: "uuids",
};
static ROWS: Statement = Statement {
    name: "load_rows",
    text: include_str!("load_rows.sql"),
    types: "uuids",
};
static MAIL: Statement = Statement {
    name: "load_mail",
    text: include_str!("load_mail.sql"),
    types: "uuids",
};
static JOURNAL: Statement = Statement {
    name: "journal",
    text: "select seq, at, event, body from {schema}.journal where run_id = $1 and seq > $2 order by seq limit $3",
    types: "uuid int int",
};
static BLOBS: Statement = Statement {
    name: "blobs",
    text: "select b.bytes from unnest($2) with ordinality as d (digest, ordinal)
           left join {schema}.blobs b on b.run_id = $1 and b.digest = d.digest order by d.ordinal",
    types: "uuid bytes",
};

impl PostgresInner {
    pub(crate) async fn load(&self, runs: &[RunId]) -> Worked<Vec<Option<Loaded>>> {
        let mut ids: Vec<Uuid> = runs.iter().map(|run| run.uuid()).collect();
        ids.sort_unstable();
        ids.dedup();
        let asked = [&RECORDS, &SNAPSHOTS, &ROWS, &MAIL].map(
            |statement| -> (ReadStatement<'_>, Params<'_>) {
                (ReadStatement::Kept(statement), vec![&ids])
            },
        );
        let mut answers = self
            .reads
            .read_together(View::Rows, &asked)
            .await?
            .into_iter();
        let [records, snapshots, rows, mail] =
            std::array::from_fn(|_| answers.next().unwrap_or_default());
        let mut loaded: HashMap<RunId, Loaded> = HashMap::with_capacity(records.len());
        for row in &records {
            let record = record::shown(row)?;
            loaded.insert(
                record.run,
                Loaded {
                    record,
                    snapshot: None,
                    rows: Vec::new(),
                    mail: Vec::new(),
                },
            );
        }
        attach(&mut loaded, &snapshots, |loaded, row| {
            loaded.snapshot = Some(snapshot(row));
        });
        attach(&mut loaded, &rows, |loaded, row| {
            loaded.rows.push(record::journal_row(row, 1));
        });
        attach(&mut loaded, &mail, |loaded, row| {
            loaded.mail.push(record::mail(row, 1));
        });
        Ok(runs.iter().map(|run| loaded.get(run).cloned()).collect())
    }

    pub(crate) async fn journal(
        &self,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> Worked<Vec<JournalRow>> {
        let run = run.uuid();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let most = page(limit);
        let rows = self.reads.read(&JOURNAL, vec![&run, &after, &most]).await?;
        Ok(rows.iter().map(|row| record::journal_row(row, 0)).collect())
    }

    pub(crate) async fn blobs(
        &self,
        run: RunId,
        digests: &[Digest],
    ) -> Worked<Vec<Option<Vec<u8>>>> {
        let run = run.uuid();
        let digests: Vec<&[u8]> = digests
            .iter()
            .map(|digest| &digest.as_bytes()[..])
            .collect();
        let rows = self.reads.read(&BLOBS, vec![&run, &digests]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// Add rows, whose first column is the run, to what they belong to.
fn attach(
    loaded: &mut HashMap<RunId, Loaded>,
    rows: &[Row],
    mut add: impl FnMut(&mut Loaded, &Row),
) {
    for row in rows {
        if let Some(loaded) = loaded.get_mut(&RunId::from_uuid(row.get(0))) {
            add(loaded, row);
        }
    }
}

fn snapshot(row: &Row) -> Snapshot {
    Snapshot {
        seq: row.get::<_, i64>(1) as u64,
        law: row.get::<_, i64>(2) as u32,
        body: row.get(3),
    }
}
