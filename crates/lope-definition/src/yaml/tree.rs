//! A YAML document as a flat tree: every key and every value knows where it was written.
//!
//! `parse` builds it, the readers beside it make a definition of it. Nodes refer to each other by
//! number, so that deep documents are walked and dropped without recursion; an alias is the node it
//! refers to. Nothing here knows what a workflow is.

use std::sync::Arc;

use lope_expr::TextLocation;
use lope_model::Value;

/// A document.
#[derive(Debug)]
pub(super) struct YamlTree {
    pub(super) nodes: Vec<YamlNode>,
    pub(super) root: NodeId,
}

/// The place of a node in its tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct NodeId(pub(super) u32);

#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) at: TextLocation,
    pub(super) shape: Shape,
    /// Nodes below and including this one, aliases counted each time.
    pub(super) weight: u64,
    /// Longest way down.
    pub(super) depth: u32,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// Null, a bool or a number.
    Plain(Value),
    Text(Text),
    List(Vec<NodeId>),
    Map(Vec<YamlEntry>),
}

/// An entry of a map, with the place of its key.
#[derive(Clone, Debug)]
pub(super) struct YamlEntry {
    pub(super) key: Arc<str>,
    pub(super) at: TextLocation,
    pub(super) value: NodeId,
}

/// A text, and the bytes of the file that it was read from.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) content: Arc<str>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) style: Style,
}

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

impl YamlTree {
    pub(super) fn node(&self, id: NodeId) -> &YamlNode {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn at(&self, id: NodeId) -> TextLocation {
        self.node(id).at
    }

    pub(super) fn shape(&self, id: NodeId) -> &Shape {
        &self.node(id).shape
    }

    /// The value as it is written, templates unread. Documents are shallow enough for this where
    /// values are wanted.
    pub(super) fn value(&self, id: NodeId) -> Value {
        match self.shape(id) {
            Shape::Plain(value) => value.clone(),
            Shape::Text(text) => Value::Str(Arc::clone(&text.content)),
            Shape::List(items) => Value::list(items.iter().map(|item| self.value(*item)).collect()),
            Shape::Map(entries) => Value::map(
                entries
                    .iter()
                    .map(|entry| (Arc::clone(&entry.key), self.value(entry.value))),
            ),
        }
    }
}

impl Shape {
    /// What it is, in the words of messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Plain(Value::Null) => "nothing".into(),
            Self::Plain(value) => format!(
                "the {} {value}",
                if value.kind() == "bool" {
                    "bool"
                } else {
                    "number"
                }
            ),
            Self::Text(text)
                if text.content.chars().count() <= 40 && !text.content.contains('\n') =>
            {
                format!("the text '{}'", text.content)
            }
            Self::Text(_) => "a text".into(),
            Self::List(_) => "a list".into(),
            Self::Map(_) => "a map".into(),
        }
    }
}
