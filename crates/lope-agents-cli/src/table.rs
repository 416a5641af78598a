//! Tables as the seed prints them: a title, a rule, columns, a rule, rows.

/// Width of a rule, at least.
const RULE: usize = 80;

/// Rows under a title and columns.
#[derive(Debug)]
pub(crate) struct RuledTable {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl RuledTable {
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        Self {
            title,
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|place| {
                let cells = self.rows.iter().map(|row| row[place].chars().count());
                cells.max().unwrap_or(0).max(self.columns[place].len())
            })
            .collect();
        let line = |cells: Vec<&str>| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| {
                let blanks = width.saturating_sub(cell.chars().count());
                format!("{cell}{}", " ".repeat(blanks))
            });
            let line = padded.collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        };
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let rule = "─".repeat(total.max(RULE));
        let mut lines = vec![
            self.title.to_owned(),
            rule.clone(),
            line(self.columns.clone()),
            rule,
        ];
        let rows = self.rows.iter();
        lines.extend(rows.map(|row| line(row.iter().map(String::as_str).collect())));
        lines.join("\n")
    }
}

/// The beginning of an id: enough for people.
pub(crate) fn short(id: &impl ToString) -> String {
    id.to_string().chars().take(8).collect()
}

pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// One line of at most so many characters.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > width {
        line.chars().take(width - 1).chain(['…']).collect()
    } else {
        line
    }
}
