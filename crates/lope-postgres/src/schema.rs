//! The schema as SQL text, read from the server's catalogue: tables with columns, keys, settings
//! and comments, indexes, views. Partitions of weeks come and go and are left out. The same schema
//! always gives the same text.

use crate::connection::{ReadStatement, View};
use crate::failure::Worked;
use crate::pool::ConnectionPool;

/// What the text begins with; it is a comment to the first statement.
const HEADER: &str =
    "-- The schema of a store in Postgres, as all migrations together give it.\n\n";

const STATEMENTS: &str = include_str!("schema_statements.sql");

/// The schema as it is in the store now.
pub(crate) async fn text(reads: &ConnectionPool) -> Worked<String> {
    let asked = [(
        ReadStatement::Once {
            text: STATEMENTS,
            types: "",
        },
        Vec::new(),
    )];
    let rows = reads
        .read_together(View::Whole, &asked)
        .await?
        .into_iter()
        .next()
        .unwrap_or_default();
    let statements: Vec<String> = rows
        .iter()
        .map(|row| format!("{};\n", row.get::<_, &str>(0)))
        .collect();
    Ok(HEADER.to_owned() + &statements.join("\n"))
}

/// The same schema under another name.
pub(crate) fn renamed(text: &str, from: &str, to: &str) -> String {
    text.replace(&format!("{from}."), &format!("{to}."))
}

/// What one schema has and the other has not, statement by statement.
pub(crate) fn differences(golden: &str, found: &str) -> Vec<String> {
    let (golden, found) = (statements(golden), statements(found));
    let missing = golden
        .iter()
        .filter(|one| !found.contains(one))
        .map(|one| format!("missing or changed: {}", title(one)));
    let extra = found
        .iter()
        .filter(|one| !golden.contains(one))
        .map(|one| format!("unknown or changed: {}", title(one)));
    missing.chain(extra).collect()
}

fn statements(text: &str) -> Vec<&str> {
    let text = text.strip_prefix(HEADER).unwrap_or(text);
    text.split(";\n")
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
        .collect()
}

fn title(statement: &str) -> &str {
    statement.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_first_line() {
        let golden = "create table lope.a (\n  x int\n);\n\ncreate index i on lope.a (x);\n";
        assert_eq!(differences(golden, golden), [""; 0]);
        let found = "create table lope.a (\n  x text\n);\n";
        let expected = [
            "missing or changed: create table lope.a (",
            "missing or changed: create index i on lope.a (x)",
            "unknown or changed: create table lope.a (",
        ];
        assert_eq!(differences(golden, found), expected);
        assert_eq!(
            renamed("create table lope.a", "lope", "b"),
            "create table b.a"
        );
    }
}
