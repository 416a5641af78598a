//! Points what the checker says about a step as a whole at the key that it speaks of.
//!
//! The checker knows steps and expressions, not keys. Its messages quote the keys they are about;
//! the entries of every step are kept here by place, so that the quoted key can be found again.

use std::collections::HashMap;

use lope_expr::TextLocation;

use super::tree::YamlEntry;
use crate::definition::Problem;

/// What is written at a place.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    by_place: HashMap<(u32, u32), &'a [YamlEntry]>,
}

impl<'a> Written<'a> {
    pub(super) fn remember(&mut self, at: TextLocation, entries: &'a [YamlEntry]) {
        self.by_place.insert((at.line, at.column), entries);
    }

    /// The problem at the first key it quotes that is written in what it is about; else where it
    /// was.
    pub(super) fn refine(&self, mut problem: Problem) -> Problem {
        let Some(entries) = self.by_place.get(&(problem.at.line, problem.at.column)) else {
            return problem;
        };
        let quoted = problem.message.split('\'').skip(1).step_by(2);
        let mut words = quoted.map(|quoted| quoted.split(':').next().unwrap_or(quoted));
        let found = words.find_map(|word| entries.iter().find(|entry| &*entry.key == word));
        if let Some(entry) = found {
            problem.at = entry.at;
        }
        problem
    }
}
