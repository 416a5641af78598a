//! Graphs of spaces: the nodes of a process with the cells between them, and documents with the
//! links between them.

use std::collections::BTreeMap;

use lope::reactive::link::links_of;
use lope::reactive::{CellAddress, Json as CellJson, NodeLine, ProcessReport, SpaceName};
use lope::workflows::{BoxGraph, GraphBox, StepStanding};
use lope_http::parts::brief;

use super::list::ListedDocument;

/// With more boxes a drawing says nothing.
const BOXES: usize = 120;
/// Letters of a name in a box.
const NAME: usize = 40;

/// The nodes of a process, the cells that they read and write.
pub(crate) fn of_process(report: &ProcessReport) -> BoxGraph {
    let mut graph = BoxGraph {
        name: report.result.clone(),
        ..BoxGraph::default()
    };
    let mut cells: BTreeMap<String, usize> = BTreeMap::new();
    for node in &report.nodes {
        graph.boxes.push(node_box(node));
    }
    for written in report.nodes.iter().flat_map(|node| &node.writes) {
        cell_box(&mut graph, &mut cells, written);
    }
    for (place, node) in report.nodes.iter().enumerate() {
        let reads = node.reads.iter().filter(|read| is_input(node, read));
        for read in reads.chain(&node.stream) {
            let from =
                overlapping(&cells, read).unwrap_or_else(|| cell_box(&mut graph, &mut cells, read));
            graph.arrows.push((from, place));
        }
        for written in &node.writes {
            let to = cell_box(&mut graph, &mut cells, written);
            graph.arrows.push((place, to));
        }
    }
    if graph.boxes.len() > BOXES {
        return nodes_alone(report);
    }
    graph
}

/// The nodes, and who reads what whom wrote.
fn nodes_alone(report: &ProcessReport) -> BoxGraph {
    let place = |number: usize| report.nodes.iter().position(|node| node.node == number);
    let arrows = report.nodes.iter().enumerate().flat_map(|(to, node)| {
        let after = node.after.iter();
        after.filter_map(move |from| Some((place(*from)?, to)))
    });
    BoxGraph {
        name: report.result.clone(),
        boxes: report.nodes.iter().map(node_box).collect(),
        arrows: arrows.collect(),
    }
}

fn node_box(node: &NodeLine) -> GraphBox {
    let standing = if node.error.is_some() || failed_event(node).is_some() {
        StepStanding::Failed
    } else if node.unsettled.is_some() || node.pending.is_some() {
        StepStanding::Running
    } else if !node.live {
        StepStanding::Skipped
    } else if node.runs > 0 {
        StepStanding::Done
    } else {
        StepStanding::Pending
    };
    GraphBox {
        name: format!("{} {}", node.node, node.module),
        kind: node.role.to_owned(),
        detail: match node.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        },
        standing: Some(standing),
    }
}

/// Why a handler failed, if it did with the last event it had.
pub(crate) fn failed_event(node: &NodeLine) -> Option<&CellJson> {
    let failure = node.last_failure.as_ref()?;
    let event = failure.child("event").and_then(CellJson::as_str);
    let is_last = event.is_some() && event == node.event.as_deref();
    failure.child("error").filter(|_| is_last)
}

/// The box of a cell; it is made if it is not there.
fn cell_box(graph: &mut BoxGraph, cells: &mut BTreeMap<String, usize>, cell: &str) -> usize {
    if let Some(known) = cells.get(cell) {
        return *known;
    }
    let place = graph.boxes.len();
    let mut parts = cell.splitn(3, '/').skip(1);
    let document = parts.next().unwrap_or_default();
    let path = parts.next().unwrap_or_default();
    graph.boxes.push(GraphBox {
        name: brief(if path.is_empty() { document } else { path }, NAME),
        kind: "cell".to_owned(),
        detail: short(document),
        standing: None,
    });
    cells.insert(cell.to_owned(), place);
    place
}

/// Is a cell another one, or a part of it?
fn within(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Does a node go by what it reads there? What it writes it looks at too, to leave alone what has not
/// changed, and on the way to a cell it passes those that hold it.
fn is_input(node: &NodeLine, read: &str) -> bool {
    let mut touched = node.reads.iter().chain(&node.writes);
    let is_passed = touched.any(|other| other != read && within(read, other));
    !is_passed && !node.writes.iter().any(|written| within(written, read))
}

/// The box of a cell that is this one, holds it or is part of it.
fn overlapping(cells: &BTreeMap<String, usize>, cell: &str) -> Option<usize> {
    let mut known = cells.iter();
    let found = known.find(|(known, _)| within(known, cell) || within(cell, known));
    found.map(|(_, place)| *place)
}

/// An id that nobody needs to read whole.
pub(crate) fn short(id: &str) -> String {
    match id.strip_prefix("of:") {
        Some(digest) => digest.chars().take(10).collect(),
        None => id.to_owned(),
    }
}

/// Documents, and the links from one to another.
pub(crate) fn of_links(space: &SpaceName, documents: &[ListedDocument]) -> BoxGraph {
    let shown: Vec<&ListedDocument> = documents
        .iter()
        .filter(|it| it.kind != "kept by the runner")
        .take(BOXES)
        .collect();
    let boxes = shown.iter().map(|it| {
        let name = it.name.clone().unwrap_or_else(|| short(it.id.as_str()));
        document_box(&name, it.kind)
    });
    let mut graph = BoxGraph {
        name: format!("Links of {space}"),
        boxes: boxes.collect(),
        arrows: Vec::new(),
    };
    let mut elsewhere: BTreeMap<String, usize> = BTreeMap::new();
    for (from, it) in shown.iter().enumerate() {
        let at = CellAddress::document(space.clone(), it.id.clone());
        for (_, _, target) in links_of(&it.value, &at) {
            let to = if target.space == *space {
                shown.iter().position(|other| other.id == target.id)
            } else {
                let name = format!("{}/{}", target.space, short(target.id.as_str()));
                let place = elsewhere.entry(name).or_insert_with_key(|name| {
                    graph.boxes.push(document_box(name, "another space"));
                    graph.boxes.len() - 1
                });
                Some(*place)
            };
            let arrow = to.filter(|to| *to != from).map(|to| (from, to));
            let arrow = arrow.filter(|arrow| !graph.arrows.contains(arrow));
            graph.arrows.extend(arrow);
        }
    }
    graph
}

fn document_box(name: &str, kind: &str) -> GraphBox {
    GraphBox {
        name: brief(name, NAME),
        kind: kind.to_owned(),
        detail: String::new(),
        standing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A computation looks at what it writes, and at what holds what it reads.
    #[test]
    fn what_a_node_writes_is_drawn_as_written() {
        let node = NodeLine {
            node: 1,
            reads: ["s/p/internal", "s/p/internal/count", "s/p/internal/double"]
                .map(str::to_owned)
                .to_vec(),
            writes: vec!["s/p/internal/double".to_owned()],
            ..NodeLine::default()
        };
        let inputs: Vec<&str> = node.reads.iter().map(String::as_str).collect();
        let inputs: Vec<&str> = inputs
            .into_iter()
            .filter(|read| is_input(&node, read))
            .collect();
        assert_eq!(inputs, ["s/p/internal/count"]);
    }
}
