//! What is wrong with a definition, where, and what to do about it.

use std::fmt;

use lope_expr::TextLocation;

use super::Step;

/// Something that keeps a definition from being run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it was written, if that is known.
    pub at: TextLocation,
    /// The path of the step, as in `mail/send`; empty: the workflow itself.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(at: TextLocation, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            at,
            path: path.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn of(step: &Step, path: &str, message: impl Into<String>) -> Self {
        Self::new(step.at, path, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint if one of `known` is close to `text`.
    #[must_use]
    pub fn did_you_mean<'a>(self, text: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(text, known) {
            Some(name) => self.hint(format!("did you mean '{name}'?")),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_known() {
            write!(f, "{}:{}: ", self.at.line, self.at.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "step '{}': ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.hint
            .as_ref()
            .map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// The known word that is closest to `text`, if any is close: a third of its letters may differ.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = text.chars().count().div_ceil(3);
    known
        .into_iter()
        .map(|word| (distance(text, word), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, word)| word)
}

/// Letters to change, add, drop or swap with their neighbour to make one word of another.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut next = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let change = row[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            next[j] = change.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_offered_and_far_ones_are_not() {
        assert_eq!(nearest("sned", ["send", "mail"]), Some("send"));
        assert_eq!(nearest("totl", ["total", "tax"]), Some("total"));
        assert_eq!(nearest("x", ["approval"]), None);
    }
}
