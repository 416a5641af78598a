//! DOT, for Graphviz: blocks are clusters. Arrows to and from a cluster are tied to a point inside
//! it and cut at its border.

use std::fmt::Write;

use super::diagram::{Diagram, Item};
use super::standing::StepStanding;

/// What is still to be written.
enum DotPart {
    Panel(usize, usize),
    Item(usize, usize, usize),
    End(usize),
}

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&diagram.name));
    line(
        &mut text,
        1,
        "graph [compound=true, rankdir=TB, fontname=\"Helvetica,Arial,sans-serif\", fontsize=11]",
    );
    line(
        &mut text,
        1,
        "node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica,Arial,sans-serif\", fontsize=11]",
    );
    line(&mut text, 1, "edge [color=\"#64748b\", arrowsize=0.7]");
    let mut open: Vec<DotPart> = diagram
        .tops
        .iter()
        .rev()
        .map(|top| DotPart::Panel(*top, 1))
        .collect();
    while let Some(part) = open.pop() {
        let mut inside = write(diagram, &part, &mut text);
        inside.reverse();
        open.extend(inside);
    }
    for (number, panel) in diagram.panels.iter().enumerate() {
        for (from, to) in &panel.arrows {
            line(
                &mut text,
                1,
                &arrow(
                    (number, *from, &panel.items[*from]),
                    (number, *to, &panel.items[*to]),
                ),
            );
        }
    }
    text.push_str("}\n");
    text
}

fn write(diagram: &Diagram, part: &DotPart, text: &mut String) -> Vec<DotPart> {
    match *part {
        DotPart::Panel(number, depth) => write_panel(diagram, number, depth, text),
        DotPart::Item(number, index, depth) => {
            let item = &diagram.panels[number].items[index];
            write_item(item, &id(number, index), depth, text)
        }
        DotPart::End(depth) => {
            line(text, depth, "}");
            Vec::new()
        }
    }
}

fn write_panel(diagram: &Diagram, number: usize, depth: usize, text: &mut String) -> Vec<DotPart> {
    let panel = &diagram.panels[number];
    let inner = depth + usize::from(panel.title.is_some());
    let mut parts: Vec<DotPart> = (0..panel.items.len())
        .map(|item| DotPart::Item(number, item, inner))
        .collect();
    if let Some(title) = &panel.title {
        let title = quoted(title);
        line(text, depth, &format!("subgraph cluster_p{number} {{"));
        line(
            text,
            depth + 1,
            &format!("label={title}; style=\"rounded,dashed\"; color=\"#94a3b8\""),
        );
        parts.push(DotPart::End(depth));
    }
    parts
}

fn write_item(item: &Item, id: &str, depth: usize, text: &mut String) -> Vec<DotPart> {
    if item.panels.is_empty() {
        let label = label(item);
        let colours = colours(item);
        line(text, depth, &format!("{id} [label={label}{colours}]"));
        return Vec::new();
    }
    let title = quoted(&item.title());
    line(text, depth, &format!("subgraph cluster_{id} {{"));
    line(
        text,
        depth + 1,
        &format!("label={title}; style=rounded; color=\"#475569\""),
    );
    line(
        text,
        depth + 1,
        &format!("{id} [shape=point, style=invis, width=0, height=0]"),
    );
    item.panels
        .iter()
        .map(|panel| DotPart::Panel(*panel, depth + 1))
        .chain([DotPart::End(depth)])
        .collect()
}

fn arrow(from: (usize, usize, &Item), to: (usize, usize, &Item)) -> String {
    let (start, end) = (id(from.0, from.1), id(to.0, to.1));
    let tail = (!from.2.panels.is_empty()).then(|| format!("ltail=cluster_{start}"));
    let head = (!to.2.panels.is_empty()).then(|| format!("lhead=cluster_{end}"));
    let cut: Vec<String> = [tail, head].into_iter().flatten().collect();
    if cut.is_empty() {
        format!("{start} -> {end}")
    } else {
        format!("{start} -> {end} [{}]", cut.join(", "))
    }
}

fn id(panel: usize, item: usize) -> String {
    format!("s{panel}_{item}")
}

fn label(item: &Item) -> String {
    let when = item
        .label
        .when
        .as_ref()
        .map(|when| format!("\n{when}"))
        .unwrap_or_default();
    quoted(&format!("{}\n{}{when}", item.name(), item.label.line()))
}

fn colours(item: &Item) -> &'static str {
    match item.standing {
        None => "",
        Some(StepStanding::Pending) => ", fillcolor=\"#f1f5f9\", color=\"#94a3b8\"",
        Some(StepStanding::Running) => ", fillcolor=\"#dbeafe\", color=\"#2563eb\"",
        Some(StepStanding::Done) => ", fillcolor=\"#dcfce7\", color=\"#16a34a\"",
        Some(StepStanding::Failed) => ", fillcolor=\"#fee2e2\", color=\"#dc2626\"",
        Some(StepStanding::Skipped) => {
            ", fillcolor=\"#f8fafc\", color=\"#cbd5e1\", fontcolor=\"#94a3b8\""
        }
    }
}

fn line(text: &mut String, depth: usize, content: &str) {
    let _ = writeln!(text, "{}{content}", "  ".repeat(depth.min(20)));
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
