//! What `read` is asked for: rows of one table that match.

use lope_model::limit;

use super::tables::BoardTable;
use crate::row::{TransferRow, TransferValue};

/// In which order rows are given, and which are left out beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowOrder {
    #[default]
    ByKey,
    ByKeyBackwards,
}

/// Rows of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoardSelect {
    pub table: BoardTable,
    /// Text columns that have one of these values.
    pub among: Vec<(&'static str, Vec<String>)>,
    /// A text column that begins like this.
    pub prefix: Option<(&'static str, String)>,
    pub order: RowOrder,
    pub limit: usize,
}

impl BoardSelect {
    /// All rows of a table.
    pub const fn all(table: BoardTable) -> Self {
        Self {
            table,
            among: Vec::new(),
            prefix: None,
            order: RowOrder::ByKey,
            limit: limit::BOARD_ROWS_MAX,
        }
    }

    /// Only rows in which a column has one of these texts.
    #[must_use]
    pub fn among<T: Into<String>>(
        mut self,
        column: &'static str,
        texts: impl IntoIterator<Item = T>,
    ) -> Self {
        let texts = texts.into_iter().map(Into::into);
        self.among.push((column, texts.collect()));
        self
    }

    /// Only rows in which a text column begins like this.
    #[must_use]
    pub fn prefix(mut self, column: &'static str, beginning: impl Into<String>) -> Self {
        self.prefix = Some((column, beginning.into()));
        self
    }

    /// The last rows by key first, at most so many.
    #[must_use]
    pub const fn last(mut self, limit: usize) -> Self {
        self.order = RowOrder::ByKeyBackwards;
        self.limit = limit;
        self
    }

    /// Does a row match?
    pub fn matches(&self, row: &TransferRow) -> bool {
        let text = |column: &str| match &row[self.table.column_index(column)] {
            TransferValue::Text(text) => Some(text),
            TransferValue::Null | TransferValue::Int(_) | TransferValue::Bytes(_) => None,
        };
        let mut among = self.among.iter();
        let mut prefix = self.prefix.iter();
        among.all(|(column, texts)| text(column).is_some_and(|text| texts.contains(text)))
            && prefix.all(|(column, beginning)| {
                text(column).is_some_and(|text| text.starts_with(beginning.as_str()))
            })
    }
}
