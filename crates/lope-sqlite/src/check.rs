//! Proving a store sound: the file, the schema, the marker of the byte tables, every journal, every
//! lease, and that nothing belongs to a run that is not there.
//!
//! Each rule is one query that finds what breaks it; a sound store gives no rows.

use lope_model::RunId;
use lope_store::StoreError;
use lope_store::store::Finding;
use lope_store::tables::{TableId, marker};
use rusqlite::{ErrorCode, OptionalExtension};

use crate::columns;
use crate::failure::Worked;
use crate::holder::LockHolder;
use crate::migrate;
use crate::query;
use crate::tx::Tx;

const RESTORE: &str = "restore a backup (`lope store backup` makes them)";
const TAKEN_OVER: &str =
    "start a runner: it takes over what nobody owns; if it stays, report a bug";
const REMOVE: &str = "restore a backup, or take it away: `lope store remove-run ID`";
const LEFT_BEHIND: &str =
    "take it away: `lope store remove-run ID`; if it comes back, report a bug";
const REPORT: &str = "report a bug, with this line";

/// A rule: what it is called, the query for what breaks it (one text a row), and what to do.
struct IntegrityRule {
    name: &'static str,
    broken: &'static str,
    hint: &'static str,
}

/// Every table that belongs to runs is named in one of these; a test compares them with the schema.
const RULES: [IntegrityRule; 22] = [
    IntegrityRule {
        name: "journal",
        broken: "SELECT 'the journal of run ' || lower(hex(run_id)) || ' has a gap' FROM journal
                 WHERE run_id IN (SELECT run_id FROM runs) GROUP BY run_id
                 HAVING max(seq) - min(seq) + 1 <> count(*)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT 'the journal of run ' || lower(hex(j.run_id)) || ' begins at ' || min(j.seq) FROM journal AS j
                 JOIN runs AS r ON r.run_id = j.run_id
                 LEFT JOIN snapshots AS s ON s.run_id = j.run_id GROUP BY j.run_id
                 HAVING min(j.seq) > coalesce(min(s.seq), 0) + 1",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT 'run ' || lower(hex(r.run_id)) || ' has its head at ' || coalesce(q.head, r.head) || ', its journal elsewhere'
                 FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id
                 WHERE coalesce(q.head, r.head) <> coalesce((SELECT max(seq) FROM journal WHERE run_id = r.run_id),
                     (SELECT seq FROM snapshots WHERE run_id = r.run_id), 0)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT 'the snapshot of run ' || lower(hex(s.run_id)) || ' lies beyond its journal' FROM snapshots AS s
                 JOIN runs AS r ON r.run_id = s.run_id LEFT JOIN queue AS q ON q.run_id = s.run_id
                 WHERE s.seq > coalesce(q.head, r.head)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is in the queue but not stored' FROM queue
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is live but not in the queue' FROM runs
                 WHERE status = 'live' AND run_id NOT IN (SELECT run_id FROM queue)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' has ended but is in the queue' FROM runs
                 WHERE status IN ('completed', 'failed', 'cancelled') AND run_id IN (SELECT run_id FROM queue)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' belongs to a runner that is not in the registry' FROM queue
                 WHERE length(owner) = 16 AND owner NOT IN (SELECT runner_id FROM sessions)",
        hint: TAKEN_OVER,
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'the owner of run ' || lower(hex(run_id)) || ' cannot be read' FROM queue
                 WHERE owner IS NOT NULL AND length(owner) <> 16",
        hint: "start a runner: it takes the run over; or take it away: `lope store remove-run ID`",
    },
    IntegrityRule {
        name: "lease",
        broken: "SELECT 'the session ' || lower(hex(runner_id)) || ' (' || name || ' on ' || host || ') is of a runner that cannot be read'
                 FROM sessions WHERE length(runner_id) <> 16",
        hint: "start a runner: it takes the session out of the registry",
    },
    IntegrityRule {
        name: "mail",
        broken: "SELECT 'run ' || lower(hex(q.run_id)) || ' counts its mail wrongly' FROM queue AS q
                 WHERE q.mail - q.taken <> (SELECT count(*) FROM mail WHERE run_id = q.run_id AND taken = 0)
                    OR q.mail <> coalesce((SELECT max(number) FROM mail WHERE run_id = q.run_id), 0)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT DISTINCT 'journal rows of run ' || lower(hex(run_id)) || ', which is not stored' FROM journal
                 WHERE run_id NOT IN (SELECT run_id FROM runs)
                     AND lower(hex(run_id)) NOT IN (SELECT replace(value, '-', '') FROM meta WHERE key LIKE 'pruning %')",
        hint: LEFT_BEHIND,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT 'a snapshot of run ' || lower(hex(run_id)) || ', which is not stored' FROM snapshots
                 WHERE run_id NOT IN (SELECT run_id FROM runs)
                     AND lower(hex(run_id)) NOT IN (SELECT replace(value, '-', '') FROM meta WHERE key LIKE 'pruning %')",
        hint: LEFT_BEHIND,
    },
    IntegrityRule {
        name: "journal",
        broken: "SELECT DISTINCT 'values of run ' || lower(hex(run_id)) || ', which is not stored' FROM blobs
                 WHERE run_id NOT IN (SELECT run_id FROM runs)
                     AND lower(hex(run_id)) NOT IN (SELECT replace(value, '-', '') FROM meta WHERE key LIKE 'pruning %')",
        hint: LEFT_BEHIND,
    },
    IntegrityRule {
        name: "mail",
        broken: "SELECT DISTINCT 'mail of run ' || lower(hex(run_id)) || ', which is not stored' FROM mail
                 WHERE run_id NOT IN (SELECT run_id FROM runs)
                     AND lower(hex(run_id)) NOT IN (SELECT replace(value, '-', '') FROM meta WHERE key LIKE 'pruning %')",
        hint: LEFT_BEHIND,
    },
    IntegrityRule {
        name: "runs",
        broken: "SELECT 'the tags of run ' || lower(hex(r.run_id)) || ' are not indexed' FROM runs AS r, json_each(CASE WHEN json_valid(r.tags) THEN r.tags ELSE '{}' END) AS t
                 WHERE NOT EXISTS (SELECT 1 FROM run_tags WHERE tag = t.key AND value = t.value
                     AND created_at = r.created_at AND run_id = r.run_id)",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "runs",
        broken: "SELECT DISTINCT 'a tag of run ' || lower(hex(run_id)) || ', which is not stored' FROM run_tags
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: LEFT_BEHIND,
    },
    IntegrityRule {
        name: "runs",
        broken: "SELECT 'run ' || lower(hex(r.run_id)) || ' is damaged: its ' || CASE
                     WHEN length(r.version) <> 32 THEN 'version'
                     WHEN r.priority NOT BETWEEN 0 AND 9 OR q.priority NOT BETWEEN 0 AND 9 THEN 'priority'
                     WHEN r.workflow = '' THEN 'workflow'
                     WHEN r.realm = '' OR q.realm = '' THEN 'realm'
                     WHEN r.queue = '' OR q.queue = '' THEN 'queue'
                     WHEN coalesce(q.epoch, r.epoch) < 0 THEN 'epoch'
                     WHEN coalesce(q.head, r.head) < 0 THEN 'head'
                     WHEN NOT json_valid(r.tags) OR json_type(r.tags) <> 'object' OR EXISTS (SELECT 1 FROM json_each(r.tags) WHERE type <> 'text') THEN 'tags'
                     ELSE 'status' END || ' cannot be read'
                 FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id
                 WHERE length(r.version) <> 32 OR r.priority NOT BETWEEN 0 AND 9 OR q.priority NOT BETWEEN 0 AND 9 OR NOT json_valid(r.tags)
                    OR json_type(r.tags) <> 'object'
                    OR EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(r.tags) THEN r.tags ELSE '{}' END) WHERE type <> 'text')
                    OR r.workflow = '' OR r.realm = '' OR r.queue = ''
                    OR q.realm = '' OR q.queue = '' OR coalesce(q.epoch, r.epoch) < 0 OR coalesce(q.head, r.head) < 0
                    OR q.status NOT IN ('queued', 'running', 'idle', 'sleeping', 'waiting', 'paused')
                    OR r.status NOT IN ('live', 'completed', 'failed', 'cancelled')",
        hint: REMOVE,
    },
    IntegrityRule {
        name: "runs",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is of a version that was never deployed' FROM runs
                 WHERE length(version) = 32 AND version NOT IN (SELECT version FROM workflows)",
        hint: RESTORE,
    },
    IntegrityRule {
        name: "schedules",
        broken: "SELECT 'schedule ' || name || ' waits for a run that it never started' FROM schedules
                 WHERE waits = 1 AND last_run IS NULL",
        hint: "remove the schedule and add it again; if it comes back, report a bug",
    },
    IntegrityRule {
        name: "tables",
        broken: "SELECT DISTINCT 'rows of table ' || tbl || ', which is not in the manifest' FROM
                     (SELECT DISTINCT tbl FROM table_rows UNION SELECT DISTINCT tbl FROM table_scopes)
                 WHERE tbl NOT IN (SELECT idx FROM table_manifest)",
        hint: REPORT,
    },
    IntegrityRule {
        name: "board",
        broken: "SELECT 'a row of ' || kind || ' has the revision ' || revision FROM (
                     SELECT 'projects' AS kind, revision FROM projects UNION ALL SELECT 'sections', revision FROM sections
                     UNION ALL SELECT 'tasks', revision FROM tasks UNION ALL SELECT 'task_locks', revision FROM task_locks
                     UNION ALL SELECT 'task_attempts', revision FROM task_attempts
                     UNION ALL SELECT 'task_events', revision FROM task_events
                     UNION ALL SELECT 'task_hooks', revision FROM task_hooks UNION ALL SELECT 'runners', revision FROM runners)
                 WHERE revision < 0",
        hint: RESTORE,
    },
];

pub(crate) fn check(tx: &Tx<'_>) -> Worked<Vec<Finding>> {
    let mut findings = file(tx)?;
    if !findings.is_empty() {
        findings.extend(on_damaged_pages(tx)?);
        return Ok(findings);
    }
    findings.extend(schema(tx)?);
    findings.extend(marker(tx)?);
    findings.extend(LockHolder::of(&tx.inner.files).and_then(|holder| holder.finding()));
    for rule in RULES {
        findings.extend(broken(tx, &rule)?);
    }
    findings.extend(unreadable(tx, &findings)?);
    findings.extend(unnamed(tx)?);
    Ok(findings)
}

/// The unfinished runs whose records are on damaged pages, as far as the queue can be read.
fn on_damaged_pages(tx: &Tx<'_>) -> Worked<Vec<Finding>> {
    let mut queued = tx.db.prepare("SELECT run_id FROM queue")?;
    let mut rows = queued.query([])?;
    let mut findings = Vec::new();
    while let Ok(Some(row)) = rows.next() {
        let Ok(run) = columns::run(row, 0) else {
            continue;
        };
        let read = query::listed(tx, run).map_err(StoreError::from);
        if let Err(StoreError::Corrupt { message }) = read {
            findings.push(Finding {
                rule: "runs",
                message: format!("run {run} is damaged: its record cannot be read: {message}"),
                hint: REMOVE.to_owned(),
            });
        }
    }
    Ok(Finding::told(findings))
}

/// A damaged file may break any query, so it is looked at first and alone.
fn file(tx: &Tx<'_>) -> Worked<Vec<Finding>> {
    let mut statement = tx.db.prepare(
        "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
    )?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut findings = Vec::new();
    for message in rows.take(Finding::TOLD_MAX) {
        let (message, is_readable) = match message {
            Ok(message) => (message, true),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                (error.to_string(), false)
            }
            Err(error) => return Err(error.into()),
        };
        findings.push(Finding {
            rule: "file",
            message,
            hint: RESTORE.to_owned(),
        });
        if !is_readable {
            break;
        }
    }
    Ok(findings)
}

fn schema(tx: &Tx<'_>) -> Worked<Option<Finding>> {
    if migrate::schema_text(tx.db)? == migrate::GOLDEN_SCHEMA {
        return Ok(None);
    }
    let message = "tables, indexes or views differ from those of this version".to_owned();
    let hint =
        "compare `lope store schema` with that of a fresh store; somebody changed it by hand"
            .to_owned();
    Ok(Some(Finding {
        rule: "schema",
        message,
        hint,
    }))
}

fn marker(tx: &Tx<'_>) -> Worked<Option<Finding>> {
    let value = "SELECT value FROM table_rows WHERE tbl = ?1 AND key = ?2";
    let found: Option<Vec<u8>> = tx
        .statement(value)?
        .query_row((TableId::APP_STATE.0, marker::KEY), |row| row.get(0))
        .optional()?;
    let expected = marker::SchemaVersion::CURRENT.encode();
    Ok(found
        .filter(|found| *found != expected)
        .map(|found| Finding {
            rule: "marker",
            message: format!(
                "the schema marker of the byte tables is {found:02x?}, expected {expected:02x?}"
            ),
            hint: RESTORE.to_owned(),
        }))
}

fn broken(tx: &Tx<'_>, rule: &IntegrityRule) -> Worked<Vec<Finding>> {
    let mut statement = tx.db.prepare(rule.broken)?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    let mut more = 0;
    while let Some(row) = rows.next()? {
        if findings.len() == Finding::TOLD_MAX {
            more += 1;
            continue;
        }
        findings.push(Finding {
            rule: rule.name,
            message: with_dashes(&columns::text_lossy(row, 0)?),
            hint: rule.hint.to_owned(),
        });
    }
    findings.extend(Finding::more(rule.name, more));
    Ok(findings)
}

/// Runs that cannot be read, beside those that a rule has named: what no query can tell, such as a
/// text that is not UTF-8.
fn unreadable(tx: &Tx<'_>, found: &[Finding]) -> Worked<Vec<Finding>> {
    let is_named = |run: &str| {
        let names = |finding: &Finding| finding.hint == REMOVE && finding.message.contains(run);
        found.iter().any(names)
    };
    let mut runs = query::unreadable(tx)?;
    runs.retain(|run, _| !is_named(run));
    let finding = |(run, why): (String, StoreError)| Finding {
        rule: "runs",
        message: match why {
            StoreError::Corrupt { message } => format!("run {run} is damaged: {message}"),
            other => format!("run {run} is damaged: {other}"),
        },
        hint: REMOVE.to_owned(),
    };
    Ok(Finding::told(runs.into_iter().map(finding).collect()))
}

/// Workflows under a name that is not UTF-8. Runs find them by their version.
fn unnamed(tx: &Tx<'_>) -> Worked<Vec<Finding>> {
    let mut statement = tx.db.prepare("SELECT version, name FROM workflows")?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        if std::str::from_utf8(columns::text_bytes(row, 1)?).is_ok() {
            continue;
        }
        let version = columns::hex(columns::text_bytes(row, 0)?);
        let name = columns::text_lossy(row, 1)?;
        findings.push(Finding {
            rule: "definitions",
            message: format!("the name '{name}' of the workflow of version {version} is damaged"),
            hint: "deploy the workflow again: `lope workflows deploy FILE`".to_owned(),
        });
    }
    Ok(Finding::told(findings))
}

/// Ids as they are written everywhere else: SQL knows them as bytes.
fn with_dashes(message: &str) -> String {
    let is_id = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut written = String::with_capacity(message.len() + 4);
    for part in message.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match word.parse::<RunId>() {
            Ok(id) if is_id(word) => {
                written.push_str(&id.to_string());
                written.push_str(&part[word.len()..]);
            }
            _ => written.push_str(part),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::migrate::GOLDEN_SCHEMA;

    /// Tables that no rule of their own looks at: one row each, or numbers that only ever rise.
    const ALONE: [&str; 2] = ["meta", "table_sequences"];

    /// Enumerates the schema: a table that checking forgets is named.
    #[test]
    fn every_table_is_looked_at() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(GOLDEN_SCHEMA).unwrap();
        let mut statement = db
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .unwrap();
        let tables = statement
            .query_map([], |row| row.get::<_, String>(0))
            .unwrap()
            .map(Result::unwrap);
        for table in tables.filter(|table| !ALONE.contains(&table.as_str())) {
            let is_named = |rule: &IntegrityRule| {
                rule.broken
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|word| word == table)
            };
            assert!(RULES.iter().any(is_named), "no rule looks at {table}");
        }
    }
}
