//! The tables and columns that a list of migrations ends with. In: SQL texts in order; out: names,
//! with the place where each table was made. Reads just enough SQL for that: it knows no types, no
//! constraints, no indexes, no functions.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) tables: BTreeMap<String, SqlTable>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SqlTable {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) columns: BTreeSet<String>,
}

#[derive(Debug)]
struct SqlToken {
    /// A word in lower case without its quotes, or one sign.
    text: String,
    line: usize,
}

impl Schema {
    pub(super) fn apply(&mut self, path: &str, sql: &str) {
        let tokens = tokens(sql);
        for statement in tokens.split(|token| token.text == ";") {
            let mut reader = SchemaReader { rest: statement };
            match reader.next() {
                "create" => self.create(path, &mut reader),
                "alter" if reader.take("table") => self.alter(&mut reader),
                "drop" if reader.take("table") => self.drop(&mut reader),
                _ => {}
            }
        }
    }

    fn create(&mut self, path: &str, reader: &mut SchemaReader<'_>) {
        let mut modifiers = Vec::new();
        while !matches!(reader.peek(), "table" | "view") {
            match reader.next() {
                word @ ("or" | "replace" | "unlogged" | "recursive" | "temp" | "temporary") => {
                    modifiers.push(word);
                }
                _ => return,
            }
        }
        reader.next();
        reader.take_all(&["if", "not", "exists"]);
        let line = reader.line();
        let name = reader.name();
        // What lives for one session, or is a piece of another table, is no name that a person
        // meets.
        if modifiers.iter().any(|word| word.starts_with("temp"))
            || reader.take_all(&["partition", "of"])
        {
            return;
        }
        let columns = if reader.take("(") {
            column_names(reader.rest)
        } else {
            BTreeSet::new()
        };
        self.tables.insert(
            name,
            SqlTable {
                path: path.to_owned(),
                line,
                columns,
            },
        );
    }

    fn alter(&mut self, reader: &mut SchemaReader<'_>) {
        reader.take_all(&["if", "exists"]);
        reader.take("only");
        let name = reader.name();
        for action in parts(reader.rest) {
            self.act(&name, &mut SchemaReader { rest: action });
        }
    }

    fn act(&mut self, name: &str, reader: &mut SchemaReader<'_>) {
        match reader.next() {
            "rename" if reader.take("to") => {
                if let Some(table) = self.tables.remove(name) {
                    self.tables.insert(reader.name(), table);
                }
            }
            "rename" if !matches!(reader.peek(), "constraint") => {
                reader.take("column");
                let before = reader.name();
                reader.take("to");
                let after = reader.name();
                if let Some(columns) = self.columns(name) {
                    columns.remove(&before);
                    columns.insert(after);
                }
            }
            "add" if !is_constraint(reader.peek()) => {
                reader.take("column");
                reader.take_all(&["if", "not", "exists"]);
                let column = reader.name();
                self.columns(name).map(|columns| columns.insert(column));
            }
            "drop" if !matches!(reader.peek(), "constraint") => {
                reader.take("column");
                reader.take_all(&["if", "exists"]);
                let column = reader.name();
                self.columns(name).map(|columns| columns.remove(&column));
            }
            _ => {}
        }
    }

    fn columns(&mut self, table: &str) -> Option<&mut BTreeSet<String>> {
        self.tables.get_mut(table).map(|table| &mut table.columns)
    }

    fn drop(&mut self, reader: &mut SchemaReader<'_>) {
        reader.take_all(&["if", "exists"]);
        for part in parts(reader.rest) {
            self.tables.remove(&SchemaReader { rest: part }.name());
        }
    }
}

/// The columns of a table from what follows its opening bracket.
fn column_names(tokens: &[SqlToken]) -> BTreeSet<String> {
    let first_words = parts(inside(tokens))
        .into_iter()
        .filter_map(|part| part.first());
    first_words
        .map(|token| token.text.clone())
        .filter(|word| !is_constraint(word))
        .collect()
}

fn is_constraint(word: &str) -> bool {
    matches!(
        word,
        "primary" | "unique" | "check" | "foreign" | "constraint" | "exclude" | "like"
    )
}

/// The tokens up to the bracket that closes an open one.
fn inside(tokens: &[SqlToken]) -> &[SqlToken] {
    let mut depth = 1;
    for (index, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[..index];
        }
    }
    tokens
}

/// The pieces between the commas that stand in no bracket.
fn parts(tokens: &[SqlToken]) -> Vec<&[SqlToken]> {
    let mut depth = 0;
    let outer_comma = |token: &SqlToken| {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    };
    tokens.split(outer_comma).collect()
}

struct SchemaReader<'tokens> {
    rest: &'tokens [SqlToken],
}

impl<'tokens> SchemaReader<'tokens> {
    fn peek(&self) -> &'tokens str {
        self.rest.first().map_or("", |token| token.text.as_str())
    }

    fn next(&mut self) -> &'tokens str {
        let word = self.peek();
        self.rest = self.rest.get(1..).unwrap_or_default();
        word
    }

    fn line(&self) -> usize {
        self.rest.first().map_or(1, |token| token.line)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        if found {
            self.next();
        }
        found
    }

    fn take_all(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(index, word)| self.rest.get(index).is_some_and(|at| at.text == *word));
        if found {
            self.rest = &self.rest[words.len()..];
        }
        found
    }

    /// A name without the schema before it.
    fn name(&mut self) -> String {
        let mut name = self.next();
        while self.take(".") {
            name = self.next();
        }
        name.to_owned()
    }
}

fn tokens(sql: &str) -> Vec<SqlToken> {
    let mut found = Vec::new();
    let mut rest = sql;
    let mut line = 1;
    while let Some(letter) = rest.chars().next() {
        let length = token_length(rest, letter);
        let text = &rest[..length];
        let is_word = letter.is_alphanumeric() || "_{\"`".contains(letter);
        if is_word {
            found.push(SqlToken {
                text: text.trim_matches(['"', '`']).to_lowercase(),
                line,
            });
        } else if ".,();".contains(letter) {
            found.push(SqlToken {
                text: text.to_owned(),
                line,
            });
        }
        line += text.matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// How far the token at the start reaches: a comment, a quoted text, a word, or one letter.
fn token_length(rest: &str, letter: char) -> usize {
    let until = |from: usize, end: &str| {
        rest.get(from..)
            .and_then(|tail| tail.find(end))
            .map_or(rest.len(), |at| from + at + end.len())
    };
    match letter {
        '-' if rest.starts_with("--") => until(2, "\n"),
        '/' if rest.starts_with("/*") => until(2, "*/"),
        '\'' => until(1, "'"),
        '"' => until(1, "\""),
        '`' => until(1, "`"),
        '$' => match rest[1..].find(|inner: char| !inner.is_alphanumeric() && inner != '_') {
            Some(at) if rest[1 + at..].starts_with('$') => until(at + 2, &rest[..at + 2]),
            _ => 1,
        },
        _ => match rest.find(|inner: char| !inner.is_alphanumeric() && !"_{}".contains(inner)) {
            Some(0) => letter.len_utf8(),
            Some(at) => at,
            None => rest.len(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(sql: &str) -> Vec<String> {
        let mut schema = Schema::default();
        schema.apply("m.sql", sql);
        let names = |table: &SqlTable| table.columns.iter().cloned().collect::<Vec<_>>().join(" ");
        schema
            .tables
            .iter()
            .map(|(name, table)| format!("{name}@{}: {}", table.line, names(table)))
            .collect()
    }

    #[test]
    fn tables_and_columns_are_read() {
        let sql = "-- create table ghost (x);\n\nCREATE TABLE IF NOT EXISTS {schema}.runs (\n  id BLOB PRIMARY KEY, -- a, b\n\
                   \"State\" TEXT DEFAULT 'a, (b' CHECK (length(state) > 0),\n  PRIMARY KEY (id, state)\n) WITHOUT ROWID;\n\
                   /* create table ghost (x); */ create index i on runs (id);";
        assert_eq!(schema(sql), ["runs@3: id state"]);
    }

    #[test]
    fn later_statements_change_them() {
        let sql = "create table a (x int, y int); alter table a add column z numeric(4, 2), drop column y;\
                   alter table a rename x to w; alter table a rename to b; create table c (q int);\
                   drop table if exists c, d; alter table b add constraint k unique (w);";
        assert_eq!(schema(sql), ["b@1: w z"]);
    }

    #[test]
    fn pieces_bodies_and_passing_tables_are_left_out() {
        let sql = "create temp table t (a int); create table p partition of q for values in (1);\
                   create function f() returns void as $body$ begin; create table ghost (x int); end $body$;\
                   create unlogged table u (a int); create view v as select 1; create unique index i on u (a);";
        assert_eq!(schema(sql), ["u@1: a", "v@1: "]);
    }
}
