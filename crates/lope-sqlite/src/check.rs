//! Proving a store sound: the file, the schema, the marker of the byte tables, every journal, every lease, and that nothing
//! belongs to a run that is not there.
//!
//! Each rule is one query that finds what breaks it; a sound store gives no rows.

use lope_store::store::Finding;
use lope_store::tables::{TableId, marker};
use rusqlite::{ErrorCode, OptionalExtension};

use crate::desk::Desk;
use crate::failure::Worked;
use crate::migrate;

/// So many examples of one broken rule are shown.
const EXAMPLES: i64 = 20;

const RESTORE: &str = "restore a backup (`lope store backup` makes them)";
const TAKEN_OVER: &str = "start a runner: it takes over what nobody owns; if it stays, report a bug";
const REPORT: &str = "report a bug, with this line";

/// A rule: what it is called, the query for what breaks it (one text a row), and what to do.
struct Rule {
    name: &'static str,
    broken: &'static str,
    hint: &'static str,
}

/// Every table that belongs to runs is named in one of these; a test compares them with the schema.
const RULES: [Rule; 17] = [
    Rule {
        name: "journal",
        broken: "SELECT 'the journal of run ' || lower(hex(run_id)) || ' has a gap' FROM journal GROUP BY run_id
                 HAVING max(seq) - min(seq) + 1 <> count(*)",
        hint: RESTORE,
    },
    Rule {
        name: "journal",
        broken: "SELECT 'the journal of run ' || lower(hex(j.run_id)) || ' begins at ' || min(j.seq) FROM journal AS j
                 LEFT JOIN snapshots AS s ON s.run_id = j.run_id GROUP BY j.run_id
                 HAVING min(j.seq) > coalesce(min(s.seq), 0) + 1",
        hint: RESTORE,
    },
    Rule {
        name: "journal",
        broken: "SELECT 'run ' || lower(hex(r.run_id)) || ' has its head at ' || coalesce(q.head, r.head) || ', its journal elsewhere'
                 FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id
                 WHERE coalesce(q.head, r.head) <> coalesce((SELECT max(seq) FROM journal WHERE run_id = r.run_id),
                     (SELECT seq FROM snapshots WHERE run_id = r.run_id), 0)",
        hint: RESTORE,
    },
    Rule {
        name: "journal",
        broken: "SELECT 'the snapshot of run ' || lower(hex(s.run_id)) || ' lies beyond its journal' FROM snapshots AS s
                 JOIN runs AS r ON r.run_id = s.run_id LEFT JOIN queue AS q ON q.run_id = s.run_id
                 WHERE s.seq > coalesce(q.head, r.head)",
        hint: RESTORE,
    },
    Rule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is in the queue but not stored' FROM queue
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is live but not in the queue' FROM runs
                 WHERE status = 'live' AND run_id NOT IN (SELECT run_id FROM queue)",
        hint: REPORT,
    },
    Rule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' has ended but is in the queue' FROM runs
                 WHERE status <> 'live' AND run_id IN (SELECT run_id FROM queue)",
        hint: REPORT,
    },
    Rule {
        name: "lease",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' belongs to a runner that is not in the registry' FROM queue
                 WHERE owner IS NOT NULL AND owner NOT IN (SELECT runner_id FROM runners)",
        hint: TAKEN_OVER,
    },
    Rule {
        name: "mail",
        broken: "SELECT 'run ' || lower(hex(q.run_id)) || ' counts its mail wrongly' FROM queue AS q
                 WHERE q.mail - q.taken <> (SELECT count(*) FROM mail WHERE run_id = q.run_id AND taken = 0)
                    OR q.mail <> coalesce((SELECT max(number) FROM mail WHERE run_id = q.run_id), 0)",
        hint: REPORT,
    },
    Rule {
        name: "journal",
        broken: "SELECT DISTINCT 'journal rows of run ' || lower(hex(run_id)) || ', which is not stored' FROM journal
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "journal",
        broken: "SELECT 'a snapshot of run ' || lower(hex(run_id)) || ', which is not stored' FROM snapshots
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "journal",
        broken: "SELECT DISTINCT 'values of run ' || lower(hex(run_id)) || ', which is not stored' FROM blobs
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "mail",
        broken: "SELECT DISTINCT 'mail of run ' || lower(hex(run_id)) || ', which is not stored' FROM mail
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "runs",
        broken: "SELECT 'the tags of run ' || lower(hex(r.run_id)) || ' are not indexed' FROM runs AS r, json_each(r.tags) AS t
                 WHERE NOT EXISTS (SELECT 1 FROM run_tags WHERE tag = t.key AND value = t.value
                     AND created_at = r.created_at AND run_id = r.run_id)
                 UNION ALL
                 SELECT 'a tag of run ' || lower(hex(run_id)) || ', which is not stored' FROM run_tags
                 WHERE run_id NOT IN (SELECT run_id FROM runs)",
        hint: REPORT,
    },
    Rule {
        name: "runs",
        broken: "SELECT 'run ' || lower(hex(run_id)) || ' is of a version that was never deployed' FROM runs
                 WHERE version NOT IN (SELECT version FROM workflows)",
        hint: RESTORE,
    },
    Rule {
        name: "schedules",
        broken: "SELECT 'schedule ' || name || ' waits for a run that it never started' FROM schedules
                 WHERE waits = 1 AND last_run IS NULL",
        hint: "remove the schedule and add it again; if it comes back, report a bug",
    },
    Rule {
        name: "tables",
        broken: "SELECT DISTINCT 'rows of table ' || tbl || ', which is not in the manifest' FROM
                     (SELECT DISTINCT tbl FROM table_rows UNION SELECT DISTINCT tbl FROM table_scopes)
                 WHERE tbl NOT IN (SELECT idx FROM table_manifest)",
        hint: REPORT,
    },
];

pub(crate) fn check(desk: &Desk<'_>) -> Worked<Vec<Finding>> {
    let mut findings = file(desk)?;
    if !findings.is_empty() {
        return Ok(findings);
    }
    findings.extend(schema(desk)?);
    findings.extend(marker(desk)?);
    for rule in RULES {
        findings.extend(broken(desk, &rule)?);
    }
    Ok(findings)
}

/// A damaged file may break any query, so it is looked at first and alone.
fn file(desk: &Desk<'_>) -> Worked<Vec<Finding>> {
    let mut statement =
        desk.db.prepare("SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut findings = Vec::new();
    for message in rows.take(EXAMPLES as usize) {
        let (message, is_readable) = match message {
            Ok(message) => (message, true),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => (error.to_string(), false),
            Err(error) => return Err(error.into()),
        };
        findings.push(Finding { rule: "file", message, hint: RESTORE.to_owned() });
        if !is_readable {
            break;
        }
    }
    Ok(findings)
}

fn schema(desk: &Desk<'_>) -> Worked<Option<Finding>> {
    if migrate::schema_text(desk.db)? == migrate::GOLDEN_SCHEMA {
        return Ok(None);
    }
    let message = "tables, indexes or views differ from those of this version".to_owned();
    let hint = "compare `lope store schema` with that of a fresh store; somebody changed it by hand".to_owned();
    Ok(Some(Finding { rule: "schema", message, hint }))
}

fn marker(desk: &Desk<'_>) -> Worked<Option<Finding>> {
    let value = "SELECT value FROM table_rows WHERE tbl = ?1 AND key = ?2";
    let found: Option<Vec<u8>> =
        desk.statement(value)?.query_row((TableId::APP_STATE.0, marker::KEY), |row| row.get(0)).optional()?;
    let expected = marker::SchemaVersion::CURRENT.encode();
    Ok(found.filter(|found| *found != expected).map(|found| Finding {
        rule: "marker",
        message: format!("the schema marker of the byte tables is {found:02x?}, expected {expected:02x?}"),
        hint: RESTORE.to_owned(),
    }))
}

fn broken(desk: &Desk<'_>, rule: &Rule) -> Worked<Vec<Finding>> {
    let mut statement = desk.db.prepare(&format!("SELECT * FROM ({}) LIMIT {EXAMPLES}", rule.broken))?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut findings = Vec::new();
    for message in rows {
        findings.push(Finding { rule: rule.name, message: message?, hint: rule.hint.to_owned() });
    }
    Ok(findings)
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
        let mut statement = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let tables = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
        for table in tables.filter(|table| !ALONE.contains(&table.as_str())) {
            let is_named =
                |rule: &Rule| rule.broken.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == table);
            assert!(RULES.iter().any(is_named), "no rule looks at {table}");
        }
    }
}
