//! Problems for people: place, message, the line with a mark under it, and the hint. Plain text;
//! colours are the CLI's.

use std::fmt;

use crate::definition::Problem;

/// Longest part of a line that is shown.
const LINE_MAX: usize = 160;

/// Everything that is wrong with a file, as it is printed.
#[derive(Clone, Copy, Debug)]
pub struct ProblemReport<'a> {
    pub file_name: &'a str,
    pub text: &'a str,
    pub problems: &'a [Problem],
}

/// One problem, taken apart for printing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snippet {
    /// `file:line:column`.
    pub location: String,
    pub message: String,
    /// Number and text of the line, if there is one.
    pub line: Option<(u32, String)>,
    /// Blanks before the mark (tabs where the line has them), and its length.
    pub mark: (String, usize),
    pub hint: Option<String>,
}

impl ProblemReport<'_> {
    pub fn snippets(&self) -> impl Iterator<Item = Snippet> {
        self.problems
            .iter()
            .map(|problem| Snippet::of(problem, self.text, self.file_name))
    }
}

impl fmt::Display for ProblemReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, snippet) in self.snippets().enumerate() {
            write!(f, "{}{snippet}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Snippet {
    pub fn of(problem: &Problem, text: &str, file_name: &str) -> Self {
        let (line, column) = (problem.at.line, problem.at.column);
        let step = if problem.path.is_empty() {
            String::new()
        } else {
            format!("step '{}': ", problem.path)
        };
        let message = format!("{step}{}", problem.message);
        let found = text
            .lines()
            .nth(line.saturating_sub(1) as usize)
            .filter(|_| problem.at.is_known());
        let shown = found.map(|text| Shown::of(text, column.saturating_sub(1) as usize));
        let mark = shown.as_ref().map_or_else(
            || (String::new(), 0),
            |shown| (shown.blanks(), shown.mark_len()),
        );
        let location = if problem.at.is_known() {
            format!("{file_name}:{line}:{column}")
        } else {
            file_name.to_owned()
        };
        Self {
            location,
            message,
            line: shown.map(|shown| (line, shown.text)),
            mark,
            hint: problem.hint.clone(),
        }
    }
}

/// The part of a line that is shown, and where the mark starts in it, in characters.
struct Shown {
    text: String,
    start: usize,
}

impl Shown {
    fn of(line: &str, start: usize) -> Self {
        let from = if start < LINE_MAX * 3 / 4 {
            0
        } else {
            start - LINE_MAX / 2
        };
        let text: String = line.chars().skip(from).take(LINE_MAX).collect();
        let before = if from == 0 { "" } else { "…" };
        let after = if line.chars().count() > from + LINE_MAX {
            "…"
        } else {
            ""
        };
        Self {
            start: start - from + before.chars().count(),
            text: format!("{before}{text}{after}"),
        }
    }

    fn blanks(&self) -> String {
        let shown = self.text.chars().chain(std::iter::repeat(' '));
        shown
            .take(self.start)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect()
    }

    /// The word that starts at the mark, or one character.
    fn mark_len(&self) -> usize {
        let word = self
            .text
            .chars()
            .skip(self.start)
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        word.count().max(1)
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.location, self.message)?;
        if let Some((number, text)) = &self.line {
            let number = number.to_string();
            let margin = " ".repeat(number.len());
            writeln!(
                f,
                " {margin} |\n {number} | {text}\n {margin} | {}{}",
                self.mark.0,
                "^".repeat(self.mark.1)
            )?;
        }
        self.hint
            .as_ref()
            .map_or(Ok(()), |hint| writeln!(f, "  hint: {hint}"))
    }
}
