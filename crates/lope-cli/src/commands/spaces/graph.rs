//! The nodes of a process, the streams that they handle and who reads what whom wrote, as text, Mermaid or
//! DOT.

use clap::ValueEnum;
use lope::reactive::{NodeLine, ProcessReport};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Text,
    Mermaid,
    Dot,
}

pub(super) fn draw(report: &ProcessReport, format: GraphFormat) -> String {
    let lines = report.nodes.iter().flat_map(|node| match format {
        GraphFormat::Text => vec![text(node)],
        GraphFormat::Mermaid => arrows(node, "  ", "[", "]", "-->"),
        GraphFormat::Dot => arrows(node, "  ", " [label=", "];", "->"),
    });
    let lines: Vec<String> = lines.collect();
    let body = lines.join("\n");
    match format {
        GraphFormat::Text => body,
        GraphFormat::Mermaid => format!("flowchart TD\n{body}"),
        GraphFormat::Dot => format!("digraph recipe {{\n{body}\n}}"),
    }
}

fn text(node: &NodeLine) -> String {
    let after = node.after.iter().map(ToString::to_string);
    let before: Vec<String> = node.stream.iter().cloned().chain(after).collect();
    let arrow = if before.is_empty() { "" } else { " ← " };
    let from = before.join(", ");
    let outputs = node.writes.join(", ");
    format!("{} {}{arrow}{from} → {outputs}", node.node, node.module)
}

fn arrows(node: &NodeLine, indent: &str, open: &str, close: &str, arrow: &str) -> Vec<String> {
    let end = if arrow == "->" { ";" } else { "" };
    let number = node.node;
    let name = format!("{indent}n{number}{open}\"{number} {}\"{close}", node.module);
    let from = |from: String| format!("{indent}{from} {arrow} n{number}{end}");
    let box_of = |stream: &String| format!("{indent}s{number}{open}\"{stream}\"{close}");
    let streams = node.stream.iter();
    let streams = streams.flat_map(|stream| [box_of(stream), from(format!("s{number}"))]);
    let edges = node.after.iter().map(|before| from(format!("n{before}")));
    std::iter::once(name).chain(streams).chain(edges).collect()
}
