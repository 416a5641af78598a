//! A document of plain values, JSON or YAML, in which every value knows where it was written: for
//! files that are no workflows.

use lope_expr::TextLocation;
use lope_model::Value;

use super::tree::{NodeId, Shape, YamlTree};
use super::{FILE_MAX, in_order, parse};
use crate::definition::Problem;

/// A document with its places.
#[derive(Debug)]
pub struct LocatedDocument {
    tree: YamlTree,
}

impl LocatedDocument {
    /// Reads JSON or YAML text.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        if text.len() > FILE_MAX {
            let message = format!(
                "a file has at most {FILE_MAX} bytes; this has {}",
                text.len()
            );
            return Err(vec![Problem::new(TextLocation::new(1, 1), "", message)]);
        }
        let parsed = parse::parse(text);
        match parsed.tree {
            Some(tree) if parsed.problems.is_empty() => Ok(Self { tree }),
            _ => Err(in_order(parsed.problems)),
        }
    }

    /// The values as they are written.
    pub fn value(&self) -> Value {
        self.tree.value(self.tree.root)
    }

    /// Where the value that `path` leads to was written; for one that is missing, the last on the
    /// way to it. An entry of a map stands where its key does.
    pub fn location<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> TextLocation {
        let mut at = self.tree.at(self.tree.root);
        let mut node = self.tree.root;
        for key in path {
            match self.child(node, key) {
                Some((next, location)) => (node, at) = (next, location),
                None => break,
            }
        }
        at
    }

    fn child(&self, node: NodeId, key: &str) -> Option<(NodeId, TextLocation)> {
        match self.tree.shape(node) {
            Shape::Map(entries) => {
                let entry = entries.iter().find(|entry| *entry.key == *key)?;
                Some((entry.value, entry.at))
            }
            Shape::List(items) => {
                let item = *items.get(key.parse::<usize>().ok()?)?;
                Some((item, self.tree.at(item)))
            }
            Shape::Plain(_) | Shape::Text(_) => None,
        }
    }
}
