//! YAML text into a tree, and everything that keeps it from being one.
//!
//! The scanner gives events with places; here they become nodes. Repeated keys, unknown anchors and
//! tags are noted and reading goes on; broken syntax and broken limits end it. Nothing here knows
//! what a workflow is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag, options};
use lope_expr::TextLocation;
use lope_model::Value;

use super::scalar::{Scalar, resolve};
use super::tree::{NodeId, Shape, Style, Text, YamlEntry, YamlNode, YamlTree};
use super::{DEPTH_MAX, NODES_MAX};
use crate::definition::Problem;

/// What became of a text: a tree unless it was broken beyond reading, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) tree: Option<YamlTree>,
    pub(super) problems: Vec<Problem>,
}

/// Why reading cannot go on; the problem is noted already.
struct ParseStop;

pub(super) fn parse(source: &str) -> Parsed {
    let mut builder = Builder::default();
    let root = builder.document(source).unwrap_or(None);
    let tree = root.map(|root| YamlTree {
        nodes: builder.nodes,
        root,
    });
    if tree.is_none() && builder.problems.is_empty() {
        builder.problems.push(Problem::new(
            TextLocation::new(1, 1),
            "",
            "the file is empty",
        ));
    }
    Parsed {
        tree,
        problems: builder.problems,
    }
}

#[derive(Default)]
struct Builder {
    nodes: Vec<YamlNode>,
    open: Vec<Open>,
    root: Option<NodeId>,
    /// Finished nodes by the number of their anchor.
    anchors: HashMap<usize, NodeId>,
    names: Vec<String>,
    problems: Vec<Problem>,
}

/// A list or map whose end has not come yet.
struct Open {
    at: TextLocation,
    anchor: usize,
    holds: Holds,
}

enum Holds {
    Items(Vec<NodeId>),
    Entries(Entries),
}

/// The entries of an open map.
#[derive(Default)]
struct Entries {
    read: Vec<YamlEntry>,
    seen: HashMap<Arc<str>, TextLocation>,
    /// Maps to be laid below this one (`<<`).
    below: Vec<(NodeId, TextLocation)>,
    key: Option<PendingKey>,
}

/// A key that waits for its value.
struct PendingKey {
    text: Arc<str>,
    at: TextLocation,
    /// `<<`, which lays other maps below this one.
    merges: bool,
}

impl Builder {
    fn document(&mut self, source: &str) -> Result<Option<NodeId>, ParseStop> {
        let options = options! {
            emit_unresolved_aliases: true,
            emit_anchor_events: true,
            emit_comments: false,
            block_nesting_limit: DEPTH_MAX,
            // The scanner reads ahead of what is opened here, where the limit is held.
            flow_nesting_limit: 2 * DEPTH_MAX,
        };
        for next in Parser::new_from_str_with_options(source, options) {
            let (event, span) = next.map_err(|error| self.broken(&error, source))?;
            self.event(event, span)?;
        }
        Ok(self.root)
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseStop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let shape = self.scalar(text, style, tag.as_deref(), span);
                self.leaf(shape, location(span), anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.expect_tag(tag.as_deref(), "seq", span);
                self.open(location(span), anchor, Holds::Items(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.expect_tag(tag.as_deref(), "map", span);
                self.open(location(span), anchor, Holds::Entries(Entries::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, location(span)),
            Event::UnresolvedAlias(name) => self.unknown_alias(&name, location(span)),
            Event::Anchor(_, name) => {
                self.names.push(name.into_owned());
                Ok(())
            }
            Event::DocumentStart(..) if self.root.is_some() => Err(self.stop(Problem::new(
                location(span),
                "",
                "a file holds one document; a second one starts here",
            ))),
            // Nothing else carries content; comments are switched off.
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Shape {
        let at = location(span);
        let (start, end) = span
            .byte_range()
            .map_or((0, 0), |range| (range.start, range.end));
        let as_text = Shape::Text(Text {
            content: text.as_ref().into(),
            start,
            end,
            style: written(style),
        });
        let tag = tag.and_then(|tag| self.core_tag(tag, span));
        let resolved = match (tag.as_deref(), style) {
            (None, ScalarStyle::Plain) => resolve(&text),
            (Some("str") | None, _) => return as_text,
            (Some(_), _) => resolve(&text),
        };
        match resolved {
            Scalar::Plain(value) if tag.as_deref().is_none_or(|tag| tag_matches(tag, &value)) => {
                Shape::Plain(value)
            }
            Scalar::Text if tag.is_none() => as_text,
            Scalar::TooLarge => {
                let problem = Problem::new(
                    at,
                    "",
                    format!("the integer {text} does not fit into 64 bits"),
                );
                self.problems
                    .push(problem.hint("put it in quotes to make it a text"));
                as_text
            }
            Scalar::Plain(_) | Scalar::Text => {
                let tag = tag.unwrap_or_default();
                self.problems.push(Problem::new(
                    at,
                    "",
                    format!("'{text}' is not what its tag !!{tag} says"),
                ));
                as_text
            }
        }
    }

    /// The name of a tag of the core schema; others mean nothing here.
    fn core_tag(&mut self, tag: &Tag, span: Span) -> Option<String> {
        let known = tag.core_suffix().map(str::to_owned);
        if known.is_none() {
            let at = span.tag_start().map_or(location(span), |mark| {
                TextLocation::new(mark.line() as u32, mark.col() as u32 + 1)
            });
            self.problems.push(Problem::new(
                at,
                "",
                format!("the tag {tag} means nothing in a workflow file"),
            ));
        }
        known
    }

    fn expect_tag(&mut self, tag: Option<&Tag>, expected: &str, span: Span) {
        if let Some(name) = tag.and_then(|tag| self.core_tag(tag, span))
            && name != expected
        {
            self.problems.push(Problem::new(
                location(span),
                "",
                format!("this is not what its tag !!{name} says"),
            ));
        }
    }

    fn leaf(&mut self, shape: Shape, at: TextLocation, anchor: usize) -> Result<(), ParseStop> {
        let id = self.add(YamlNode {
            at,
            shape,
            weight: 1,
            depth: 1,
        })?;
        self.finish(id, anchor, at)
    }

    fn open(&mut self, at: TextLocation, anchor: usize, holds: Holds) -> Result<(), ParseStop> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.stop(Problem::new(
                at,
                "",
                format!("nested deeper than {DEPTH_MAX} levels"),
            )));
        }
        self.open.push(Open { at, anchor, holds });
        Ok(())
    }

    fn close(&mut self) -> Result<(), ParseStop> {
        let Some(Open { at, anchor, holds }) = self.open.pop() else {
            return Ok(());
        };
        let shape = match holds {
            Holds::Items(items) => Shape::List(items),
            Holds::Entries(map) => Shape::Map(self.merged(map)),
        };
        let (weight, depth) = self.measure(&shape);
        if depth as usize > DEPTH_MAX {
            return Err(self.stop(Problem::new(
                at,
                "",
                format!("nested deeper than {DEPTH_MAX} levels"),
            )));
        }
        let id = self.add(YamlNode {
            at,
            shape,
            weight,
            depth,
        })?;
        self.finish(id, anchor, at)
    }

    /// The entries of a map, with those of the maps below it that it does not have itself.
    fn merged(&mut self, mut map: Entries) -> Vec<YamlEntry> {
        for (id, at) in std::mem::take(&mut map.below) {
            let several = match &self.nodes[id.0 as usize].shape {
                Shape::List(items) => items.clone(),
                Shape::Map(_) | Shape::Plain(_) | Shape::Text(_) => vec![id],
            };
            let below: Option<Vec<&Vec<YamlEntry>>> =
                several.iter().map(|id| self.entries_of(*id)).collect();
            match below {
                Some(below) => below.into_iter().for_each(|entries| map.lay_below(entries)),
                None => {
                    self.problems
                        .push(Problem::new(at, "", "'<<' takes a map or a list of maps"));
                }
            }
        }
        map.read
    }

    fn entries_of(&self, id: NodeId) -> Option<&Vec<YamlEntry>> {
        match &self.nodes[id.0 as usize].shape {
            Shape::Map(entries) => Some(entries),
            Shape::List(_) | Shape::Plain(_) | Shape::Text(_) => None,
        }
    }

    fn alias(&mut self, anchor: usize, at: TextLocation) -> Result<(), ParseStop> {
        if let Some(id) = self.anchors.get(&anchor) {
            return self.finish(*id, 0, at);
        }
        self.problems.push(Problem::new(
            at,
            "",
            "an alias may not stand inside what it refers to",
        ));
        self.leaf(Shape::Plain(Value::Null), at, 0)
    }

    fn unknown_alias(&mut self, name: &str, at: TextLocation) -> Result<(), ParseStop> {
        let problem = Problem::new(at, "", format!("there is no anchor '&{name}' before this"));
        self.problems
            .push(problem.did_you_mean(name, self.names.iter().map(String::as_str)));
        self.leaf(Shape::Map(Vec::new()), at, 0)
    }

    /// Gives a node to what is open around it: as an item, a key, a value, or as the document.
    fn finish(&mut self, id: NodeId, anchor: usize, at: TextLocation) -> Result<(), ParseStop> {
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        let Some(Open { holds, .. }) = self.open.last_mut() else {
            self.root = Some(id);
            return self.bounded(id, at);
        };
        match holds {
            Holds::Items(items) => items.push(id),
            Holds::Entries(map) => match map.key.take() {
                None => map.key = Some(key_of(&self.nodes, id, at, &mut self.problems)),
                Some(key) if key.merges => map.below.push((id, at)),
                Some(key) => self.problems.extend(map.enter(YamlEntry {
                    key: key.text,
                    at: key.at,
                    value: id,
                })),
            },
        }
        self.bounded(id, at)
    }

    /// Aliases make small files large: what a node stands for is bounded, not what is written.
    fn bounded(&mut self, id: NodeId, at: TextLocation) -> Result<(), ParseStop> {
        if self.nodes[id.0 as usize].weight <= NODES_MAX {
            return Ok(());
        }
        Err(self.stop(Problem::new(
            at,
            "",
            format!("more than {NODES_MAX} values, aliases counted each time"),
        )))
    }

    fn add(&mut self, node: YamlNode) -> Result<NodeId, ParseStop> {
        if self.nodes.len() as u64 >= NODES_MAX {
            return Err(self.stop(Problem::new(
                node.at,
                "",
                format!("more than {NODES_MAX} values"),
            )));
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        Ok(id)
    }

    fn measure(&self, shape: &Shape) -> (u64, u32) {
        let children: Vec<NodeId> = match shape {
            Shape::List(items) => items.clone(),
            Shape::Map(entries) => entries.iter().map(|entry| entry.value).collect(),
            Shape::Plain(_) | Shape::Text(_) => Vec::new(),
        };
        let nodes = children.iter().map(|id| &self.nodes[id.0 as usize]);
        nodes.fold((1, 1), |(weight, depth), node| {
            (
                weight.saturating_add(node.weight),
                depth.max(node.depth + 1),
            )
        })
    }

    fn broken(&mut self, error: &ScanError, source: &str) -> ParseStop {
        let mark = error.marker();
        let at = TextLocation::new(mark.line() as u32, mark.col() as u32 + 1);
        let problem = Problem::new(at, "", format!("not YAML: {}", error.info()));
        let line = source
            .lines()
            .nth(mark.line().saturating_sub(1))
            .unwrap_or_default();
        let before: String = line.chars().take(mark.col()).collect();
        self.stop(if before.contains("${{") {
            problem.hint("put a text with an expression in quotes")
        } else {
            problem
        })
    }

    fn stop(&mut self, problem: Problem) -> ParseStop {
        self.problems.push(problem);
        ParseStop
    }
}

fn location(span: Span) -> TextLocation {
    TextLocation::new(span.start.line() as u32, span.start.col() as u32 + 1)
}

const fn written(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal => Style::Literal,
        ScalarStyle::Folded => Style::Folded,
    }
}

fn tag_matches(tag: &str, value: &Value) -> bool {
    matches!(
        (tag, value.kind()),
        ("null", "null") | ("bool", "bool") | ("int", "int") | ("float", "float" | "int")
    )
}

/// The key that a node is: a text, or a scalar taken as it is written.
fn key_of(
    nodes: &[YamlNode],
    id: NodeId,
    at: TextLocation,
    problems: &mut Vec<Problem>,
) -> PendingKey {
    let text: Arc<str> = match &nodes[id.0 as usize].shape {
        Shape::Text(text) => {
            let merges = text.style == Style::Plain && &*text.content == "<<";
            return PendingKey {
                text: Arc::clone(&text.content),
                at,
                merges,
            };
        }
        Shape::Plain(value) if !value.is_null() => value.to_string().into(),
        Shape::Plain(_) => {
            problems.push(Problem::new(at, "", "a key is missing before this ':'"));
            "".into()
        }
        Shape::List(_) | Shape::Map(_) => {
            problems.push(Problem::new(
                at,
                "",
                "a key must be a text, not a list or a map",
            ));
            "".into()
        }
    };
    PendingKey {
        text,
        at,
        merges: false,
    }
}

impl Entries {
    /// Adds an entry unless its key is there already.
    fn enter(&mut self, entry: YamlEntry) -> Option<Problem> {
        if let Some(first) = self.seen.get(&entry.key) {
            let message = format!("the key '{}' stands here a second time", entry.key);
            return Some(
                Problem::new(entry.at, "", message)
                    .hint(format!("the first is in line {}", first.line)),
            );
        }
        self.seen.insert(Arc::clone(&entry.key), entry.at);
        self.read.push(entry);
        None
    }

    /// Adds the entries whose keys are not there yet.
    fn lay_below(&mut self, entries: &[YamlEntry]) {
        for entry in entries
            .iter()
            .filter(|entry| !self.seen.contains_key(&entry.key))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.enter(entry);
        }
    }
}
