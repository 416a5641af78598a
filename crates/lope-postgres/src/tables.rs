//! The door *Tables*: which tables there are, keys and ranges. Batches are in `batch` and what it
//! uses.

use lope_model::limit;
use lope_store::tables::{
    At, Batch, BatchReply, Direction, Manifest, Range, Row, ScopeRule, TableId, TableSpec,
    TablesVerbs,
};
use lope_store::{StoreError, StoreResult, Watch};
use tokio_postgres::types::ToSql;

use crate::columns::tbl;
use crate::connection::Pipeline;
use crate::failure::Worked;
use crate::inner::{Handle, PostgresInner};
use crate::statement::{Params, Statement};

static MANIFEST: Statement = Statement {
    name: "manifest",
    text: "select idx, name, scope from {schema}.table_manifest order by idx",
    types: "",
};
static ONE_AT_A_TIME: Statement = Statement {
    name: "manifest_lock",
    text: "lock table {schema}.table_manifest in share row exclusive mode",
    types: "",
};
static ADD: Statement = Statement {
    name: "manifest_add",
    text: "insert into {schema}.table_manifest (idx, name, scope) select * from unnest($1, $2, $3)",
    types: "shorts texts texts",
};
static GET: Statement = Statement {
    name: "get",
    text: "select r.value from unnest($1, $2) with ordinality as i (tbl, key, ordinal)
           left join {schema}.table_rows r on r.tbl = i.tbl and r.key = i.key order by i.ordinal",
    types: "shorts bytes",
};
/// In the order of keys, so that the index is walked only as far as is counted: without it a
/// planner may gather every row first.
static COUNT: Statement = Statement {
    name: "count",
    text: "select count(*) from (
               select from {schema}.table_rows where tbl = $1 and key >= $2 order by key limit $3
           ) as counted",
    types: "short byte int",
};
static COUNT_TO: Statement = Statement {
    name: "count_to",
    text: "select count(*) from (
               select from {schema}.table_rows where tbl = $1 and key >= $2 and key < $4 order by key limit $3
           ) as counted",
    types: "short byte int byte",
};
static SCOPE: Statement = Statement {
    name: "scope",
    text: "select version from {schema}.table_scopes where tbl = $1 and scope = $2",
    types: "short byte",
};

/// Ranges have a statement for each direction and end, so that none reads beyond what it was asked
/// for.
static FORWARD: Statement = Statement {
    name: "range_forward",
    text: "select key, value from {schema}.table_rows where tbl = $1 and key >= $2 order by key limit $3",
    types: "short byte int",
};
static FORWARD_TO: Statement = Statement {
    name: "range_forward_to",
    text: "select key, value from {schema}.table_rows where tbl = $1 and key >= $2 and key < $4 order by key limit $3",
    types: "short byte int byte",
};
static BACKWARD: Statement = Statement {
    name: "range_backward",
    text: "select key, value from {schema}.table_rows where tbl = $1 and key >= $2 order by key desc limit $3",
    types: "short byte int",
};
static BACKWARD_TO: Statement = Statement {
    name: "range_backward_to",
    text: "select key, value from {schema}.table_rows where tbl = $1 and key >= $2 and key < $4
           order by key desc limit $3",
    types: "short byte int byte",
};

/// The timers of a worker: which they are is read in a table of their own.
static TIMERS_FORWARD: Statement = Statement {
    name: "timers_forward",
    text: "select r.key, r.value
           from {schema}.timer_workers w join {schema}.table_rows r on r.tbl = 4 and r.key = w.key
           where w.worker = $1 and w.key >= $2 and ($4 is null or w.key < $4) order by w.key limit $3",
    types: "byte byte int byte",
};
static TIMERS_BACKWARD: Statement = Statement {
    name: "timers_backward",
    text: "select r.key, r.value
           from {schema}.timer_workers w join {schema}.table_rows r on r.tbl = 4 and r.key = w.key
           where w.worker = $1 and w.key >= $2 and ($4 is null or w.key < $4) order by w.key desc limit $3",
    types: "byte byte int byte",
};

impl PostgresInner {
    /// The manifest as this process last saw it; tables are only ever added.
    pub(crate) fn known_manifest(&self) -> Manifest {
        self.manifest
            .lock()
            .expect("nobody panics while holding it")
            .clone()
    }

    pub(crate) async fn stored_manifest(&self) -> Worked<Manifest> {
        let rows = self.reads.read(&MANIFEST, vec![]).await?;
        let manifest = manifest(&rows)?;
        self.remember(&manifest);
        Ok(manifest)
    }

    fn remember(&self, manifest: &Manifest) {
        *self
            .manifest
            .lock()
            .expect("nobody panics while holding it") = manifest.clone();
    }

    /// Do these commands fit the manifest, if need be as the store has it by now?
    pub(crate) async fn fitting(
        &self,
        validate: impl Fn(&Manifest) -> StoreResult<()>,
    ) -> StoreResult<Manifest> {
        let known = self.known_manifest();
        if validate(&known).is_ok() {
            return Ok(known);
        }
        let stored = self.stored_manifest().await?;
        validate(&stored)?;
        Ok(stored)
    }

    async fn open_tables(&self, wanted: &Manifest) -> Worked<()> {
        if self
            .known_manifest()
            .missing_from(wanted)
            .is_ok_and(|missing| missing.is_empty())
        {
            return Ok(());
        }
        let db = self.control.get().await?;
        let lock = db.ready(&ONE_AT_A_TIME).await?;
        let read = db.ready(&MANIFEST).await?;
        let add = db.ready(&ADD).await?;
        let mut pipeline = Pipeline::begin(&db);
        pipeline.query(lock, vec![]);
        pipeline.query(read, vec![]);
        let answers = pipeline.run().await?;
        let stored = manifest(&answers[2])?;
        let missing = stored.missing_from(wanted).unwrap_or_default();
        let index: Vec<i16> = missing
            .iter()
            .map(|spec| tbl(TableId(spec.index)))
            .collect();
        let name: Vec<&str> = missing.iter().map(|spec| spec.name.as_str()).collect();
        let scope: Vec<Option<String>> = missing
            .iter()
            .map(|spec| spec.scope.map(scope_text))
            .collect();
        let mut pipeline = Pipeline::within(&db);
        pipeline.query(add, vec![&index, &name, &scope]);
        pipeline.commit();
        pipeline.run().await?;
        stored.missing_from(wanted)?;
        self.remember(if missing.is_empty() { &stored } else { wanted });
        Ok(())
    }

    async fn get(&self, keys: &[At]) -> Worked<Vec<Option<Vec<u8>>>> {
        let tables: Vec<i16> = keys.iter().map(|at| tbl(at.table)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|at| at.key.as_slice()).collect();
        let rows = self.reads.read(&GET, vec![&tables, &keys]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn range(&self, range: &Range) -> Worked<Vec<Row>> {
        let most = range.limit.min(limit::PAGE_MAX) as i64;
        let statement = match (range.direction, &range.to) {
            (Direction::Forward, None) => &FORWARD,
            (Direction::Forward, Some(_)) => &FORWARD_TO,
            (Direction::Backward, None) => &BACKWARD,
            (Direction::Backward, Some(_)) => &BACKWARD_TO,
        };
        let rows = self.read_range(statement, range, most).await?;
        Ok(rows
            .iter()
            .map(|row| Row {
                key: row.get(0),
                value: row.get(1),
            })
            .collect())
    }

    async fn timers_of(&self, worker: &[u8], range: &Range) -> Worked<Vec<Row>> {
        let most = range.limit.min(limit::PAGE_MAX) as i64;
        let statement = match range.direction {
            Direction::Forward => &TIMERS_FORWARD,
            Direction::Backward => &TIMERS_BACKWARD,
        };
        let params: Params<'_> = vec![&worker, &range.from, &most, &range.to];
        let rows = self.reads.read(statement, params).await?;
        Ok(rows
            .iter()
            .map(|row| Row {
                key: row.get(0),
                value: row.get(1),
            })
            .collect())
    }

    async fn count(&self, range: &Range) -> Worked<u64> {
        let statement = if range.to.is_some() {
            &COUNT_TO
        } else {
            &COUNT
        };
        let most = i64::try_from(range.limit).unwrap_or(i64::MAX);
        let rows = self.read_range(statement, range, most).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }

    async fn read_range(
        &self,
        statement: &'static Statement,
        range: &Range,
        most: i64,
    ) -> Worked<Vec<tokio_postgres::Row>> {
        let table = tbl(range.table);
        let mut params: Params<'_> = vec![&table, &range.from, &most];
        params.extend(range.to.as_ref().map(|to| to as &(dyn ToSql + Sync)));
        self.reads.read(statement, params).await
    }

    async fn scope_version(&self, scope: &At) -> Worked<u64> {
        let table = tbl(scope.table);
        let rows = self.reads.read(&SCOPE, vec![&table, &scope.key]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }
}

fn manifest(rows: &[tokio_postgres::Row]) -> Worked<Manifest> {
    let specs: Worked<Vec<TableSpec>> = rows.iter().map(table_spec).collect();
    Manifest::new(specs?).map_err(|bad| StoreError::corrupt(bad).into())
}

fn table_spec(row: &tokio_postgres::Row) -> Worked<TableSpec> {
    let scope: Option<&str> = row.get(2);
    let scope = scope.map(|text| {
        parse_scope(text).ok_or_else(|| StoreError::corrupt(format!("a scope is '{text}'")))
    });
    Ok(TableSpec {
        index: row.get::<_, i16>(0).cast_unsigned(),
        name: row.get(1),
        scope: scope.transpose()?,
    })
}

fn scope_text(scope: ScopeRule) -> String {
    match scope {
        ScopeRule::Table => "table".to_owned(),
        ScopeRule::Prefix(length) => format!("prefix:{length}"),
    }
}

fn parse_scope(text: &str) -> Option<ScopeRule> {
    match text.split_once(':') {
        None if text == "table" => Some(ScopeRule::Table),
        Some(("prefix", length)) => Some(ScopeRule::Prefix(length.parse().ok()?)),
        _ => None,
    }
}

impl TablesVerbs for Handle {
    async fn open(&self, manifest: Manifest) -> StoreResult<()> {
        Ok(self.0.open_tables(&manifest).await?)
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        Ok(self.0.stored_manifest().await?)
    }

    async fn get(&self, keys: Vec<At>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.0
            .fitting(|manifest| {
                keys.iter()
                    .try_for_each(|at| manifest.table(at.table).map(drop))
            })
            .await?;
        Ok(self.0.get(&keys).await?)
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.0
            .fitting(|manifest| manifest.table(range.table).map(drop))
            .await?;
        Ok(self.0.range(&range).await?)
    }

    async fn timers_of(&self, worker: Vec<u8>, range: Range) -> StoreResult<Vec<Row>> {
        range.of_timers()?;
        Ok(self.0.timers_of(&worker, &range).await?)
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.0
            .fitting(|manifest| manifest.table(range.table).map(drop))
            .await?;
        Ok(self.0.count(&range).await?)
    }

    async fn scope_version(&self, scope: At) -> StoreResult<u64> {
        let manifest = self
            .0
            .fitting(|manifest| manifest.table(scope.table).map(drop))
            .await?;
        let undeclared = || StoreError::refused(format!("table {} declares no scope", scope.table));
        let scope = manifest.scope_of(&scope).ok_or_else(undeclared)?;
        Ok(self.0.scope_version(&scope).await?)
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let manifest = self
            .0
            .fitting(|known| batches.iter().try_for_each(|batch| batch.validate(known)))
            .await?;
        self.0.batches.ask(batches, manifest).await
    }

    async fn commit_unflushed(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        self.commit(batches).await
    }

    fn watch(&self) -> Watch {
        self.0.notifiers.watch_tables()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_round_trip_as_text() {
        for scope in [
            ScopeRule::Table,
            ScopeRule::Prefix(0),
            ScopeRule::Prefix(u16::MAX),
        ] {
            assert_eq!(parse_scope(&scope_text(scope)), Some(scope));
        }
        for text in ["", "prefix", "prefix:", "prefix:x", "row"] {
            assert_eq!(parse_scope(text), None, "{text}");
        }
    }
}
