//! What an agent tells a verb over the Model Context Protocol, as texts; which verbs there are is not known here.

use std::collections::BTreeMap;

/// What a verb was told, by the names of its arguments.
#[derive(Default)]
pub(crate) struct ToolWords(BTreeMap<&'static str, Vec<String>>);

impl ToolWords {
    pub(crate) fn tell(&mut self, name: &'static str, words: Vec<String>) {
        self.0.insert(name, words);
    }

    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        self.0.remove(name).unwrap_or_default()
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.texts(name).into_iter().next()
    }
}
