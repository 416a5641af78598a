//! `Tables::commit`: batches of many callers in one transaction. In: batches; out: an answer to
//! each.
//!
//! Two trips. The first locks what the batches touch, always in the same order (sequences, scopes,
//! then rows by table and key), and brings back what stands there: a row that was waited for comes
//! as it is after the wait, and only a row that is locked can satisfy a guard on its value. `BatchFold`
//! decides. The second trip writes: a key whose absence a batch relied on is inserted plainly, so
//! that if another process was faster the transaction fails and is done anew.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::Digest;
use lope_store::StoreError;
use lope_store::tables::{At, Batch, BatchReply, Guard, Manifest, Write, after_prefix};
use lope_store::verdict::{BatchChanges, BatchFold};
use tokio_postgres::Row;

use crate::columns::tbl;
use crate::connection::{DbConnection, Pipeline, Ready};
use crate::failure::Worked;
use crate::statement::Statement;

static MAKE_SCOPES: Statement = Statement {
    name: "make_scopes",
    text: include_str!("make_scopes.sql"),
    types: "shorts bytes",
};
static LOCK_SCOPES: Statement = Statement {
    name: "lock_scopes",
    text: include_str!("lock_scopes.sql"),
    types: "shorts bytes",
};
pub(crate) static MAKE_SEQUENCES: Statement = Statement {
    name: "make_sequences",
    text: include_str!("make_sequences.sql"),
    types: "bytes",
};
pub(crate) static LOCK_SEQUENCES: Statement = Statement {
    name: "lock_sequences",
    text: include_str!("lock_sequences.sql"),
    types: "bytes",
};
static LOCK_ROWS: Statement = Statement {
    name: "lock_rows",
    text: include_str!("lock_rows.sql"),
    types: "shorts bytes bools",
};
static OCCUPIED: Statement = Statement {
    name: "occupied",
    text: "select key from {schema}.table_rows where tbl = $1 and key >= $2 and key < $3 order by key limit $4",
    types: "short byte byte int",
};
static CREATE: Statement = Statement {
    name: "create_rows",
    text: "insert into {schema}.table_rows (tbl, key, value) select * from unnest($1, $2, $3)",
    types: "shorts bytes bytes",
};
static PUT: Statement = Statement {
    name: "put_rows",
    text: "insert into {schema}.table_rows (tbl, key, value) select * from unnest($1, $2, $3)
           on conflict (tbl, key) do update set value = excluded.value",
    types: "shorts bytes bytes",
};
static DELETE: Statement = Statement {
    name: "delete_rows",
    text: "delete from {schema}.table_rows r using unnest($1, $2) as i (tbl, key) where r.tbl = i.tbl and r.key = i.key",
    types: "shorts bytes",
};
static TOUCH: Statement = Statement {
    name: "touch_scopes",
    text: include_str!("touch_scopes.sql"),
    types: "shorts bytes ints",
};
static NUMBER: Statement = Statement {
    name: "number_sequences",
    text: "update {schema}.table_sequences s set next = i.next from unnest($1, $2) as i (name, next) where s.name = i.name",
    types: "bytes ints",
};

/// Most keys that appends look at to find those that are in their way.
const OCCUPIED_MAX: i64 = 100_000;

/// How carefully appends look for keys in their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Care {
    /// There are none, as a rule.
    Trusting,
    /// The last attempt met one.
    Careful,
}

/// Apply batches, each all or nothing, one after the other.
pub(crate) async fn perform(
    db: &DbConnection,
    batches: &[&Batch],
    manifest: &Manifest,
    care: Care,
) -> Worked<Vec<BatchReply>> {
    let touched = Touched::of(batches, manifest);
    let mut fold = touched.lock(db, manifest).await?;
    if care == Care::Careful {
        touched.look_ahead(db, &mut fold).await?;
    }
    let replies = batches.iter().map(|batch| fold.apply(batch)).collect();
    write(db, fold.changes()).await?;
    Ok(replies)
}

/// Everything that batches touch, in the order in which it is locked.
#[derive(Default)]
struct Touched<'a> {
    sequences: BTreeSet<&'a [u8]>,
    /// Where appends go: the prefixes of each sequence.
    prefixes: BTreeSet<(&'a [u8], At)>,
    scopes: BTreeSet<At>,
    /// Keys, and whether a guard wants to know their value.
    rows: BTreeMap<&'a At, bool>,
}

impl<'a> Touched<'a> {
    fn of(batches: &[&'a Batch], manifest: &Manifest) -> Self {
        let mut touched = Self::default();
        for batch in batches {
            batch
                .guards
                .iter()
                .for_each(|guard| touched.guard(guard, manifest));
            batch
                .writes
                .iter()
                .for_each(|write| touched.write(write, manifest));
        }
        touched
    }

    fn guard(&mut self, guard: &'a Guard, manifest: &Manifest) {
        match guard {
            Guard::ScopeUnchanged(scope, _) => self.scopes.extend(manifest.scope_of(scope)),
            Guard::Absent(at) => {
                self.scopes.extend(manifest.scope_of(at));
                self.rows.entry(at).or_default();
            }
            Guard::Equals(at, _) | Guard::Unchanged(at, _) => {
                self.rows.insert(at, true);
            }
        }
    }

    fn write(&mut self, write: &'a Write, manifest: &Manifest) {
        match write {
            Write::Put(at, _) | Write::Create(at, _) | Write::Delete(at) => {
                self.scopes.extend(manifest.scope_of(at));
                self.rows.entry(at).or_default();
            }
            Write::Append {
                table,
                prefix,
                sequence,
                ..
            } => {
                // A scope that reaches into the number is not known yet; it is touched without
                // having been locked, which is enough for whoever guards it.
                let at = At::new(*table, prefix.clone());
                self.scopes.extend(manifest.scope_of(&at));
                self.prefixes.insert((sequence, at));
                self.sequences.insert(sequence);
            }
        }
    }

    async fn lock<'b>(&self, db: &DbConnection, manifest: &'b Manifest) -> Worked<BatchFold<'b>>
    where
        'a: 'b,
    {
        let names: Vec<&[u8]> = self.sequences.iter().copied().collect();
        let (scope_tables, scope_keys) = columns(self.scopes.iter());
        let (tables, keys) = columns(self.rows.keys().copied());
        let wanted: Vec<bool> = self.rows.values().copied().collect();
        let statements = [
            db.ready(&MAKE_SEQUENCES).await?,
            db.ready(&LOCK_SEQUENCES).await?,
            db.ready(&MAKE_SCOPES).await?,
            db.ready(&LOCK_SCOPES).await?,
            db.ready(&LOCK_ROWS).await?,
        ];
        let [
            make_sequences,
            lock_sequences,
            make_scopes,
            lock_scopes,
            lock_rows,
        ] = statements;
        let mut pipeline = Pipeline::begin(db);
        pipeline.query_unless(names.is_empty(), make_sequences, vec![&names]);
        pipeline.query_unless(names.is_empty(), lock_sequences, vec![&names]);
        pipeline.query_unless(
            scope_keys.is_empty(),
            make_scopes,
            vec![&scope_tables, &scope_keys],
        );
        pipeline.query_unless(
            scope_keys.is_empty(),
            lock_scopes,
            vec![&scope_tables, &scope_keys],
        );
        pipeline.query_unless(keys.is_empty(), lock_rows, vec![&tables, &keys, &wanted]);
        let answers = pipeline.run().await?;
        let [_, _, numbers, _, versions, rows] =
            <[Vec<Row>; 6]>::try_from(answers).unwrap_or_default();
        self.standing(manifest, &numbers, &versions, &rows)
    }

    /// What the server brought back, as the fold wants it.
    fn standing<'b>(
        &self,
        manifest: &'b Manifest,
        numbers: &[Row],
        versions: &[Row],
        rows: &[Row],
    ) -> Worked<BatchFold<'b>>
    where
        'a: 'b,
    {
        let mut fold = BatchFold::new(manifest);
        for (name, row) in self.sequences.iter().zip(numbers) {
            fold.sequence(name, row.get::<_, i64>(0) as u64);
        }
        for (scope, row) in self.scopes.iter().zip(versions) {
            fold.scope(scope.clone(), row.get::<_, i64>(0) as u64);
        }
        for row in rows {
            let at = At::new(
                lope_store::tables::TableId(row.get::<_, i16>(0).cast_unsigned()),
                row.get::<_, Vec<u8>>(1),
            );
            fold.stored(at, row.get::<_, Option<&[u8]>>(2).map(digest).transpose()?);
        }
        Ok(fold)
    }

    /// Keys behind the last number of each sequence that appends must pass over.
    async fn look_ahead(&self, db: &DbConnection, fold: &mut BatchFold<'_>) -> Worked<()> {
        for (sequence, at) in &self.prefixes {
            let last = fold.last(sequence);
            let from = [at.key.as_slice(), &last.to_be_bytes()].concat();
            let to = after_prefix(&[at.key.as_slice(), &[u8::MAX; 8]].concat())
                .unwrap_or_else(|| vec![u8::MAX; 2_000]);
            let rows = db
                .read(&OCCUPIED, vec![&tbl(at.table), &from, &to, &OCCUPIED_MAX])
                .await?;
            rows.iter()
                .for_each(|row| fold.occupied(At::new(at.table, row.get::<_, Vec<u8>>(0))));
        }
        Ok(())
    }
}

fn digest(bytes: &[u8]) -> Worked<Digest> {
    let bytes = bytes
        .try_into()
        .map_err(|_| StoreError::corrupt("a digest does not have 32 bytes"))?;
    Ok(Digest::from_bytes(bytes))
}

fn columns<'k>(keys: impl Iterator<Item = &'k At>) -> (Vec<i16>, Vec<&'k [u8]>) {
    keys.map(|at| (tbl(at.table), at.key.as_slice())).unzip()
}

type RowColumns<'c> = (Vec<i16>, Vec<&'c [u8]>, Vec<&'c [u8]>);

fn row_columns<'c>(rows: &'c [(At, &'c [u8])]) -> RowColumns<'c> {
    let (tables, keys) = columns(rows.iter().map(|(at, _)| at));
    (tables, keys, rows.iter().map(|(_, value)| *value).collect())
}

async fn write(db: &DbConnection, changes: BatchChanges<'_>) -> Worked<()> {
    let statements: [Ready; 5] = [
        db.ready(&CREATE).await?,
        db.ready(&PUT).await?,
        db.ready(&DELETE).await?,
        db.ready(&TOUCH).await?,
        db.ready(&NUMBER).await?,
    ];
    let [create, put, delete, touch, number] = statements;
    let (created, written) = (row_columns(&changes.created), row_columns(&changes.put));
    let deleted = columns(changes.deleted.iter());
    let (scope_tables, scope_keys) = columns(changes.touched.keys());
    let touches: Vec<i64> = changes
        .touched
        .values()
        .map(|count| *count as i64)
        .collect();
    let names: Vec<&[u8]> = changes.numbered.keys().copied().collect();
    let numbers: Vec<i64> = changes.numbered.values().map(|last| *last as i64).collect();
    let mut pipeline = Pipeline::within(db);
    pipeline.query_unless(
        created.1.is_empty(),
        create,
        vec![&created.0, &created.1, &created.2],
    );
    pipeline.query_unless(
        written.1.is_empty(),
        put,
        vec![&written.0, &written.1, &written.2],
    );
    pipeline.query_unless(deleted.1.is_empty(), delete, vec![&deleted.0, &deleted.1]);
    pipeline.query_unless(
        scope_keys.is_empty(),
        touch,
        vec![&scope_tables, &scope_keys, &touches],
    );
    pipeline.query_unless(names.is_empty(), number, vec![&names, &numbers]);
    pipeline.commit();
    pipeline.run().await?;
    Ok(())
}
