//! Tables for people: columns as wide as their cells, cut where the terminal ends.

use terminal_size::{Width, terminal_size_of};

/// Narrowest that a cut column becomes.
const NARROW: usize = 8;

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    title: &'static str,
    cut: bool,
}

impl Column {
    /// Never cut.
    pub const fn whole(title: &'static str) -> Self {
        Self { title, cut: false }
    }

    /// Cut where the terminal is too narrow.
    pub const fn cut(title: &'static str) -> Self {
        Self { title, cut: true }
    }
}

/// Rows of cells under titles. Cells may hold colours.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// A column that is there only if somebody has something to say in it.
    pub fn also(&mut self, wanted: bool, column: Column) {
        self.columns.extend(wanted.then_some(column));
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// As wide as the terminal; instead of a table without rows, these words.
    pub fn text_or(&self, none: &str) -> String {
        if self.rows.is_empty() {
            return none.to_owned();
        }
        self.lines(width()).join("\n")
    }

    /// The table, at most so many columns wide.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let bold = anstyle::Style::new().bold();
        let titles = self
            .columns
            .iter()
            .map(|column| format!("{bold}{}{bold:#}", column.title))
            .collect();
        std::iter::once(&titles)
            .chain(&self.rows)
            .map(|row| line(row, &widths))
            .collect()
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let widest = |index: usize, title: &str| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(index))
                .map(|cell| columns(cell));
            cells.max().unwrap_or(0).max(title.len())
        };
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| widest(index, column.title))
            .collect();
        loop {
            let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            let mut soft = self
                .columns
                .iter()
                .zip(&mut widths)
                .filter(|(column, _)| column.cut)
                .map(|(_, width)| width);
            let Some(widest) = soft
                .by_ref()
                .max()
                .filter(|widest| **widest > NARROW && total > width)
            else {
                return widths;
            };
            *widest -= (total - width).min(*widest - NARROW).div_ceil(2);
        }
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| {
        let cell = shorten(cell, *width);
        let blanks = " ".repeat(width.saturating_sub(columns(&cell)));
        format!("{cell}{blanks}")
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// How many columns a text takes, without its colours.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text)
        .to_string()
        .chars()
        .count()
}

/// A text of at most so many columns; what is cut off shows as an ellipsis, and loses its colours.
pub fn shorten(text: &str, width: usize) -> String {
    let plain = anstream::adapter::strip_str(text)
        .to_string()
        .replace(['\n', '\r', '\t'], " ");
    match plain.chars().count() {
        count if count > width => plain
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        _ if text.contains(['\n', '\r', '\t']) => plain,
        _ => text.to_owned(),
    }
}

/// How wide stdout is; very wide where it is no terminal.
pub fn width() -> usize {
    if let Some(call) = lope_remote::CommandCall::current() {
        return call.order.width.unwrap_or(usize::MAX);
    }
    terminal_size_of(std::io::stdout()).map_or(usize::MAX, |(Width(width), _)| usize::from(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_and_only_soft_columns_are_cut() {
        let mut table = Table::new([Column::whole("ID"), Column::cut("NAME")]);
        table.row(vec![
            "12345678".to_owned(),
            "a very long name indeed".to_owned(),
        ]);
        table.row(vec!["1".to_owned(), "\u{1b}[31mred\u{1b}[0m".to_owned()]);
        let plain = |width| -> Vec<String> {
            table
                .lines(width)
                .iter()
                .map(|line| anstream::adapter::strip_str(line).to_string())
                .collect()
        };
        assert_eq!(plain(80)[1], "12345678  a very long name indeed");
        let narrow = plain(25);
        assert!(
            narrow.iter().all(|line| line.chars().count() <= 25),
            "{narrow:?}"
        );
        assert!(
            narrow[1].starts_with("12345678  a very") && narrow[1].ends_with('…'),
            "{narrow:?}"
        );
        assert_eq!(plain(5)[2], "1         red");
    }
}
