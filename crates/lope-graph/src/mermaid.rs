//! Mermaid: a flowchart whose blocks are subgraphs.

use std::fmt::Write;

use super::diagram::{Diagram, Item};
use super::standing::StepStanding;

/// What is still to be written.
enum MermaidPart {
    Panel(usize, usize),
    Item(usize, usize, usize),
    End(usize),
}

const STYLES: [(StepStanding, &str); 5] = [
    (
        StepStanding::Pending,
        "fill:#f1f5f9,stroke:#94a3b8,color:#334155",
    ),
    (
        StepStanding::Running,
        "fill:#dbeafe,stroke:#2563eb,color:#1e3a8a",
    ),
    (
        StepStanding::Done,
        "fill:#dcfce7,stroke:#16a34a,color:#14532d",
    ),
    (
        StepStanding::Failed,
        "fill:#fee2e2,stroke:#dc2626,color:#7f1d1d",
    ),
    (
        StepStanding::Skipped,
        "fill:#f8fafc,stroke:#cbd5e1,color:#94a3b8,stroke-dasharray:4 3",
    ),
];

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut text = format!("---\ntitle: {}\n---\nflowchart TD\n", quoted(&diagram.name));
    let mut open: Vec<MermaidPart> = diagram
        .tops
        .iter()
        .rev()
        .map(|top| MermaidPart::Panel(*top, 1))
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
                &format!("{} --> {}", id(number, *from), id(number, *to)),
            );
        }
    }
    classes(diagram, &mut text);
    text
}

fn write(diagram: &Diagram, part: &MermaidPart, text: &mut String) -> Vec<MermaidPart> {
    match *part {
        MermaidPart::Panel(number, depth) => {
            let panel = &diagram.panels[number];
            let inner = depth + usize::from(panel.title.is_some());
            let mut parts: Vec<MermaidPart> = (0..panel.items.len())
                .map(|item| MermaidPart::Item(number, item, inner))
                .collect();
            if let Some(title) = &panel.title {
                line(
                    text,
                    depth,
                    &format!("subgraph p{number}[{}]", quoted(title)),
                );
                parts.push(MermaidPart::End(depth));
            }
            parts
        }
        MermaidPart::Item(number, index, depth) => {
            let item = &diagram.panels[number].items[index];
            if item.panels.is_empty() {
                line(text, depth, &format!("{}{}", id(number, index), leaf(item)));
                return Vec::new();
            }
            line(
                text,
                depth,
                &format!("subgraph {}[{}]", id(number, index), quoted(&item.title())),
            );
            item.panels
                .iter()
                .map(|panel| MermaidPart::Panel(*panel, depth + 1))
                .chain([MermaidPart::End(depth)])
                .collect()
        }
        MermaidPart::End(depth) => {
            line(text, depth, "end");
            Vec::new()
        }
    }
}

fn id(panel: usize, item: usize) -> String {
    format!("s{panel}_{item}")
}

fn leaf(item: &Item) -> String {
    let when = item
        .label
        .when
        .as_ref()
        .map(|when| format!("<br/>{}", escaped(when)))
        .unwrap_or_default();
    let text = format!(
        "\"<b>{}</b><br/>{}{when}\"",
        escaped(&item.name()),
        escaped(&item.label.line())
    );
    match &*item.label.kind {
        "sleep" | "until" | "wait" => format!("([{text}])"),
        "return" | "raise" | "break" | "continue" => format!("[/{text}/]"),
        _ => format!("[{text}]"),
    }
}

fn classes(diagram: &Diagram, text: &mut String) {
    for (standing, style) in STYLES {
        let with = diagram
            .panels
            .iter()
            .enumerate()
            .flat_map(|(number, panel)| {
                let items = panel.items.iter().enumerate();
                items
                    .filter(move |(_, item)| item.standing == Some(standing))
                    .map(move |(index, _)| id(number, index))
            });
        let ids: Vec<String> = with.collect();
        if !ids.is_empty() {
            line(text, 1, &format!("classDef {} {style}", standing.word()));
            line(
                text,
                1,
                &format!("class {} {}", ids.join(","), standing.word()),
            );
        }
    }
}

fn line(text: &mut String, depth: usize, content: &str) {
    let _ = writeln!(text, "{}{content}", "    ".repeat(depth.min(20)));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Mermaid reads entities with `#`; everything that could end a label or start markup becomes one.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '<' | '>' | '&' | '#' | '`' | '\\' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            _ => escaped.push(c),
        }
    }
    escaped
}
