//! Definitions by version. The latest of a name is the one deployed last; times of deployment
//! differ within a name.

use lope_model::{VersionId, limit};
use lope_store::runs::{Deploy, StoredDefinition};
use rusqlite::{OptionalExtension, Row, params};

use crate::columns;
use crate::failure::Worked;
use crate::tx::Tx;

const NAME_OF: &str = "SELECT name FROM workflows WHERE version = ?1";
const LATEST: &str = "SELECT version, name, body, deployed_at FROM workflows WHERE name = ?1 ORDER BY deployed_at DESC LIMIT 1";
const LATEST_ID: &str =
    "SELECT version, deployed_at FROM workflows WHERE name = ?1 ORDER BY deployed_at DESC LIMIT 1";
const PUT: &str = "INSERT INTO workflows (version, name, body, deployed_at) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (version) DO UPDATE SET deployed_at = excluded.deployed_at";
const MEND: &str = "UPDATE workflows SET body = ?2 WHERE version = ?1 AND body <> ?2";
const BY_VERSION: &str =
    "SELECT version, name, body, deployed_at FROM workflows WHERE version = ?1";
const NEXT_NAME: &str = "SELECT min(name) FROM workflows WHERE name > ?1";

pub(crate) fn deploy(tx: &Tx<'_>, deploy: &Deploy) -> Worked<()> {
    let version = deploy.version.0;
    let known: Option<String> = tx
        .statement(NAME_OF)?
        .query_row([version.as_bytes()], |row| row.get(0))
        .optional()?;
    if known.is_some() {
        // A version is made of its body: where another one stands, that was damaged.
        tx.statement(MEND)?
            .execute(params![version.as_bytes(), deploy.body])?;
    }
    let name = known.as_ref().unwrap_or(&deploy.name);
    let latest: Option<([u8; 32], i64)> = tx
        .statement(LATEST_ID)?
        .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if latest.is_some_and(|(latest, _)| latest == *version.as_bytes()) {
        return Ok(());
    }
    let at = latest.map_or(tx.now.millis(), |(_, before)| {
        tx.now.millis().max(before + 1)
    });
    tx.statement(PUT)?
        .execute(params![version.as_bytes(), name, deploy.body, at])?;
    Ok(())
}

pub(crate) fn definition(tx: &Tx<'_>, version: VersionId) -> Worked<Option<StoredDefinition>> {
    first(&mut tx.statement(BY_VERSION)?.query([version.0.as_bytes()])?)
}

pub(crate) fn latest(tx: &Tx<'_>, name: &str) -> Worked<Option<StoredDefinition>> {
    first(&mut tx.statement(LATEST)?.query([name])?)
}

/// One seek for each name, however many versions it has.
pub(crate) fn definitions(
    tx: &Tx<'_>,
    after: Option<&str>,
    limit: usize,
) -> Worked<Vec<StoredDefinition>> {
    let mut next = tx.statement(NEXT_NAME)?;
    let mut found: Vec<StoredDefinition> = Vec::new();
    let mut after = after.unwrap_or_default().to_owned();
    while found.len() < limit.min(limit::PAGE_MAX) {
        let Some(name) = next.query_row([&after], |row| row.get::<_, Option<String>>(0))? else {
            break;
        };
        found.extend(latest(tx, &name)?);
        after = name;
    }
    Ok(found)
}

fn first(rows: &mut rusqlite::Rows<'_>) -> Worked<Option<StoredDefinition>> {
    rows.next()?.map(stored).transpose()
}

fn stored(row: &Row<'_>) -> Worked<StoredDefinition> {
    Ok(StoredDefinition {
        version: columns::version(row, 0)?,
        name: row.get(1)?,
        body: row.get(2)?,
        deployed_at: columns::time(row, 3)?,
    })
}
