//! Rule `sql-names`: both SQL stores keep the same numbered migrations and end with the same tables
//! and columns, so that what a person learns about one is true of the other. In: the migrations of
//! both; out: a finding per difference.

use std::collections::BTreeMap;

use super::report::TidyReport;
use super::sql_schema::Schema;
use crate::tree::{SourceTree, TextFile, has_extension};

const STORES: [&str; 2] = [
    "crates/lope-sqlite/migrations/",
    "crates/lope-postgres/migrations/",
];

/// Differences that are meant: the store that has the name, `table` or `table.column`, and why the
/// other lacks it.
const MEANT: &[(&str, &str, &str)] = &[
    (
        STORES[0],
        "sessions.boot_id",
        "the processes of a SQLite store share one machine, whose boot time judges leases; Postgres has a clock for all",
    ),
    (
        STORES[1],
        "timer_workers",
        "SQLite has an index on a part of the rows, which on Postgres would make every write of every table one of an index",
    ),
];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let [first, second] = STORES.map(|folder| migrations(tree, folder));
    for (folder, found) in STORES.iter().zip([&first, &second]) {
        check_numbers(folder, found, report);
    }
    if first.is_empty() || second.is_empty() {
        let missing = STORES
            .iter()
            .zip([&first, &second])
            .find(|(_, found)| found.is_empty());
        report.note(format!(
            "sql-names: no migrations in {} yet, nothing to compare",
            missing.map_or("", |(at, _)| at)
        ));
        return;
    }
    check_files(&first, STORES[1], &second, report);
    check_files(&second, STORES[0], &first, report);
    let [first, second] = [schema(&first), schema(&second)];
    check_schema(&first, STORES[0], &second, report);
    check_schema(&second, STORES[1], &first, report);
}

/// The migrations of a store by file name.
fn migrations<'tree>(
    tree: &'tree SourceTree,
    folder: &str,
) -> BTreeMap<&'tree str, &'tree TextFile> {
    let files = tree
        .files
        .iter()
        .filter(|file| has_extension(&file.path, "sql"));
    files
        .filter_map(|file| Some((file.path.strip_prefix(folder)?, file)))
        .collect()
}

/// Numbers are `NNNN`, start at 0001 and leave none out.
fn check_numbers(folder: &str, found: &BTreeMap<&str, &TextFile>, report: &mut TidyReport) {
    for (index, name) in found.keys().enumerate() {
        let expected = format!("{:04}_", index + 1);
        if !name.starts_with(&expected) {
            report.find(
                &format!("{folder}{name}"),
                1,
                format!("this migration should start with `{expected}`"),
            );
        }
    }
}

fn check_files(
    ours: &BTreeMap<&str, &TextFile>,
    folder: &str,
    theirs: &BTreeMap<&str, &TextFile>,
    report: &mut TidyReport,
) {
    for (name, file) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
        report.find(&file.path, 1, format!("{folder} has no migration `{name}`"));
    }
}

fn schema(migrations: &BTreeMap<&str, &TextFile>) -> Schema {
    let mut schema = Schema::default();
    for file in migrations.values() {
        schema.apply(&file.path, &file.text);
    }
    schema
}

fn check_schema(ours: &Schema, store: &str, theirs: &Schema, report: &mut TidyReport) {
    for (name, table) in &ours.tables {
        let Some(other) = theirs.tables.get(name) else {
            if !is_meant(store, name) {
                report.find(
                    &table.path,
                    table.line,
                    format!("the other SQL store has no table `{name}`"),
                );
            }
            continue;
        };
        for column in table.columns.difference(&other.columns) {
            let column = format!("{name}.{column}");
            if !is_meant(store, &column) {
                report.find(
                    &table.path,
                    table.line,
                    format!("the other SQL store has no column `{column}`"),
                );
            }
        }
    }
}

fn is_meant(store: &str, name: &str) -> bool {
    MEANT
        .iter()
        .any(|(at, meant, _)| *at == store && *meant == name)
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn tree(sqlite: &[(&str, &str)], postgres: &[(&str, &str)]) -> SourceTree {
        let placed = |folder: &'static str, files: &[(&str, &str)]| {
            files
                .iter()
                .map(|(name, sql)| (format!("{folder}{name}"), (*sql).to_owned()))
                .collect::<Vec<_>>()
        };
        let files = [placed(STORES[0], sqlite), placed(STORES[1], postgres)].concat();
        SourceTree::made_of(
            &files
                .iter()
                .map(|(path, sql)| (path.as_str(), sql.as_str()))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn equal_stores_pass_whatever_their_types() {
        let sqlite = [(
            "0001_runs.sql",
            "create table runs (id blob primary key, wake integer) strict;",
        )];
        let postgres = [(
            "0001_runs.sql",
            "create table {schema}.runs (id uuid, wake bigint, primary key (id));",
        )];
        assert_eq!(lines(check, &tree(&sqlite, &postgres)), [""; 0]);
    }

    #[test]
    fn a_store_without_migrations_is_a_note() {
        let mut report = TidyReport::default();
        check(
            &tree(&[("0001_runs.sql", "create table runs (id blob);")], &[]),
            &mut report,
        );
        assert!(report.findings.is_empty());
        assert_eq!(report.notes.len(), 1);
        assert!(report.notes[0].contains(STORES[1]), "{:?}", report.notes);
    }

    #[test]
    fn missing_files_and_wrong_numbers_are_found() {
        let sqlite = [
            ("0001_runs.sql", ""),
            ("0002_board.sql", ""),
            ("0004_late.sql", ""),
        ];
        let postgres = [("0001_runs.sql", ""), ("0002_boards.sql", "")];
        let found = lines(check, &tree(&sqlite, &postgres));
        let expected = [
            "crates/lope-sqlite/migrations/0004_late.sql:1: rule: this migration should start with `0003_`",
            "crates/lope-sqlite/migrations/0002_board.sql:1: rule: crates/lope-postgres/migrations/ has no migration `0002_board.sql`",
            "crates/lope-sqlite/migrations/0004_late.sql:1: rule: crates/lope-postgres/migrations/ has no migration `0004_late.sql`",
            "crates/lope-postgres/migrations/0002_boards.sql:1: rule: crates/lope-sqlite/migrations/ has no migration `0002_boards.sql`",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn differences_that_are_meant_pass_in_their_store_alone() {
        let with = [(
            "0001_runs.sql",
            "create table sessions (id int, boot_id text);",
        )];
        let without = [("0001_runs.sql", "create table sessions (id int);")];
        assert_eq!(lines(check, &tree(&with, &without)), [""; 0]);
        assert_eq!(lines(check, &tree(&without, &with)).len(), 1);
    }

    #[test]
    fn tables_and_columns_of_one_store_alone_are_found() {
        let sqlite = [(
            "0001_runs.sql",
            "-- runs\ncreate table runs (id blob, wake integer);\ncreate table extra (a int);",
        )];
        let postgres = [(
            "0001_runs.sql",
            "create table runs (id uuid, wake_at bigint);",
        )];
        let found = lines(check, &tree(&sqlite, &postgres));
        let expected = [
            "crates/lope-sqlite/migrations/0001_runs.sql:3: rule: the other SQL store has no table `extra`",
            "crates/lope-sqlite/migrations/0001_runs.sql:2: rule: the other SQL store has no column `runs.wake`",
            "crates/lope-postgres/migrations/0001_runs.sql:1: rule: the other SQL store has no column `runs.wake_at`",
        ];
        assert_eq!(found, expected);
    }
}
