//! Definitions by version. The latest of a name is the one deployed last; times of deployment
//! differ within a name.

use std::string::FromUtf8Error;

use lope_model::{VersionId, limit};
use lope_store::StoreError;
use lope_store::runs::{Deploy, StoredDefinition};
use rusqlite::{OptionalExtension, Row, params};

use crate::columns;
use crate::failure::Worked;
use crate::named_page::NamedPage;
use crate::tx::Tx;

const NAME_OF: &str = "SELECT name FROM workflows WHERE version = ?1";
const LATEST: &str = "SELECT version, name, body, deployed_at FROM workflows WHERE name = CAST(?1 AS TEXT) ORDER BY deployed_at DESC LIMIT 1";
const LATEST_ID: &str =
    "SELECT version, deployed_at FROM workflows WHERE name = ?1 ORDER BY deployed_at DESC LIMIT 1";
const PUT: &str = "INSERT INTO workflows (version, name, body, deployed_at) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (version) DO UPDATE SET deployed_at = excluded.deployed_at";
const MEND: &str = "UPDATE workflows SET body = ?2 WHERE version = ?1 AND body <> ?2";
/// A version is made of its body, and so is its name.
const MEND_NAME: &str = "UPDATE workflows SET name = ?2 WHERE version = ?1";
const BY_VERSION: &str =
    "SELECT version, name, body, deployed_at FROM workflows WHERE version = ?1";
const NEXT_NAME: &str = "SELECT min(name) FROM workflows WHERE name > CAST(?1 AS TEXT)";

pub(crate) fn deploy(tx: &Tx<'_>, deploy: &Deploy) -> Worked<()> {
    let version = deploy.version.0;
    let known = known_name(tx, &deploy.version)?;
    if known.is_some() {
        // A version is made of its body: where another one stands, that was damaged.
        tx.statement(MEND)?
            .execute(params![version.as_bytes(), deploy.body])?;
    }
    let name = match known {
        Some(Err(_)) => {
            tx.statement(MEND_NAME)?
                .execute(params![version.as_bytes(), deploy.name])?;
            deploy.name.clone()
        }
        Some(Ok(known)) => known,
        None => deploy.name.clone(),
    };
    let latest: Option<([u8; 32], i64)> = tx
        .statement(LATEST_ID)?
        .query_row([&name], |row| Ok((row.get(0)?, row.get(1)?)))
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

/// The name under which a version stands, unless it is damaged.
fn known_name(tx: &Tx<'_>, version: &VersionId) -> Worked<Option<Result<String, FromUtf8Error>>> {
    let mut statement = tx.statement(NAME_OF)?;
    let mut rows = statement.query([version.0.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let name = columns::text_bytes(row, 0)?.to_vec();
    Ok(Some(String::from_utf8(name)))
}

pub(crate) fn definition(tx: &Tx<'_>, version: VersionId) -> Worked<Option<StoredDefinition>> {
    first(&mut tx.statement(BY_VERSION)?.query([version.0.as_bytes()])?)
}

pub(crate) fn latest(tx: &Tx<'_>, name: &str) -> Worked<Option<StoredDefinition>> {
    first(&mut tx.statement(LATEST)?.query([name.as_bytes()])?)
}

/// One seek for each name, however many versions it has.
pub(crate) fn definitions(
    tx: &Tx<'_>,
    after: Option<&str>,
    limit: usize,
) -> Worked<Vec<StoredDefinition>> {
    let mut page = NamedPage::new(after, limit.min(limit::PAGE_MAX));
    let mut after = after.unwrap_or_default().as_bytes().to_vec();
    while let Some(name) = next_name(tx, &after)? {
        let latest = first(&mut tx.statement(LATEST)?.query([&name])?)?;
        if latest.is_some_and(|latest| !page.put(&name, latest)) {
            break;
        }
        after = name;
    }
    Ok(page.rows())
}

fn next_name(tx: &Tx<'_>, after: &[u8]) -> Worked<Option<Vec<u8>>> {
    let mut statement = tx.statement(NEXT_NAME)?;
    let mut rows = statement.query([after])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let name = row.get_ref(0)?.as_bytes_or_null();
    Ok(name.map_err(StoreError::corrupt)?.map(<[u8]>::to_vec))
}

fn first(rows: &mut rusqlite::Rows<'_>) -> Worked<Option<StoredDefinition>> {
    rows.next()?.map(stored).transpose()
}

fn stored(row: &Row<'_>) -> Worked<StoredDefinition> {
    Ok(StoredDefinition {
        version: columns::version(row, 0)?,
        name: columns::text_lossy(row, 1)?,
        body: row.get(2)?,
        deployed_at: columns::time(row, 3)?,
    })
}
