//! A page of rows in the order of their names, of which some may be damaged: SQLite keeps any bytes
//! as text.
//!
//! A name that is not UTF-8 is no cursor. Rows with such a name stand before the others of their page,
//! and those behind the last of a page are on it too: so every page but one of damaged rows alone
//! ends with a name, and what follows a cursor at once and is damaged was there already.

pub(crate) struct NamedPage<T> {
    limit: usize,
    follows: bool,
    damaged: Vec<T>,
    named: Vec<T>,
}

impl<T> NamedPage<T> {
    pub(crate) fn new(after: Option<&str>, limit: usize) -> Self {
        Self {
            limit,
            follows: after.is_some(),
            damaged: Vec::new(),
            named: Vec::new(),
        }
    }

    /// The next row. Is there room for more?
    pub(crate) fn put(&mut self, name: &[u8], row: T) -> bool {
        if std::str::from_utf8(name).is_err() {
            if !self.follows || !self.named.is_empty() {
                self.damaged.push(row);
            }
            return true;
        }
        let has_room = self.named.len() < self.limit;
        if has_room {
            self.named.push(row);
        }
        has_room
    }

    pub(crate) fn rows(mut self) -> Vec<T> {
        self.damaged.append(&mut self.named);
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages by cursor, as callers read them, until one is empty.
    fn paged(table: &[&[u8]], limit: usize) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned();
            let mut page = NamedPage::new(after.as_deref(), limit);
            let start = after.unwrap_or_default().into_bytes();
            for name in table.iter().filter(|name| **name > start.as_slice()) {
                if !page.put(name, String::from_utf8_lossy(name).into_owned()) {
                    break;
                }
            }
            let rows = page.rows();
            if rows.is_empty() {
                return all;
            }
            all.extend(rows);
            assert!(all.len() <= table.len(), "{all:?}");
        }
    }

    #[test]
    fn every_row_is_on_one_page_whatever_its_name() {
        let tables: [&[&[u8]]; 5] = [
            &[b"\xffA"],
            &[b"a", b"\xff", b"\xffA"],
            &[b"a", b"a\xff", b"b", b"\x80", b"\xff"],
            &[b"a\x80", b"a\xff", b"b", "ü".as_bytes(), b"\xff"],
            &[b"a", b"b", b"c"],
        ];
        for table in tables {
            for limit in 1..=4 {
                let mut found = paged(table, limit);
                found.sort();
                let names = table.iter().map(|name| String::from_utf8_lossy(name));
                let mut expected: Vec<String> = names.map(String::from).collect();
                expected.sort();
                assert_eq!(found, expected, "{limit}");
            }
        }
    }
}
