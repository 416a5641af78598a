//! The nodes of a process and who reads what whom wrote, as text, Mermaid or DOT.

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
    let after: Vec<String> = node.after.iter().map(ToString::to_string).collect();
    let from = if after.is_empty() {
        String::new()
    } else {
        format!(" ← {}", after.join(", "))
    };
    let outputs = node.writes.join(", ");
    format!("{} {}{from} → {outputs}", node.node, node.module)
}

fn arrows(node: &NodeLine, indent: &str, open: &str, close: &str, arrow: &str) -> Vec<String> {
    let end = if arrow == "->" { ";" } else { "" };
    let name = format!(
        "{indent}n{}{open}\"{} {}\"{close}",
        node.node, node.node, node.module
    );
    let edges = node.after.iter();
    let edges = edges.map(|from| format!("{indent}n{from} {arrow} n{}{end}", node.node));
    std::iter::once(name).chain(edges).collect()
}
