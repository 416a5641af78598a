//! SVG: one self-contained document, for light and dark pages. Colours are classes, so that a page
//! may restyle them.

use std::fmt::Write;

use super::coordinates::Room;
use super::diagram::{Diagram, Item};
use super::layout::{Channel, Layout, LayoutMetrics, Rect, Size, Wire};
use super::route::Ports;

pub(super) const METRICS: LayoutMetrics = LayoutMetrics {
    room: Room {
        between_items: 24,
        beside_points: 18,
    },
    ports: Ports {
        gap: 14,
        margin: 14,
        clearance: 8,
    },
    channel: Channel {
        lead: 14,
        track: 12,
        tail: 16,
        least: 36,
    },
    leaf: |item| {
        let when = item.label.when.as_ref().map_or(0, |when| mono(when));
        let lines = 2 + i32::from(item.label.when.is_some());
        let width = bold(&item.name()).max(mono(&item.label.line())).max(when);
        Size {
            width: (width + 32).max(96),
            height: 20 + 17 * lines,
        }
    },
    header: |item| Size {
        width: header_width(item),
        height: 38,
    },
    title: |text| Size {
        width: mono(text) + 8,
        height: 30,
    },
    padding: Size {
        width: 16,
        height: 16,
    },
    between: Size {
        width: 14,
        height: 14,
    },
    width_max: 1100,
};

/// Room around the drawing, and for its heading.
const MARGIN: i32 = 20;
const HEADING: i32 = 44;
/// How round the corners of wires are.
const CORNER: i32 = 6;

const STYLE: &str = include_str!("svg.css");

pub(super) fn draw(diagram: &Diagram) -> String {
    let layout = Layout::of(diagram, &METRICS);
    let width = (layout.size.width + 2 * MARGIN).max(bold(&diagram.name) * 5 / 4 + 2 * MARGIN);
    let height = layout.size.height + MARGIN + HEADING;
    let name = escaped(&diagram.name);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" class=\"lope-graph\">\n<title>{name}</title>\n<style>\n{STYLE}</style>\n\
         <defs><marker id=\"lope-head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path class=\"head\" d=\"M0.5 0.5 L7.5 4 L0.5 7.5 Z\"/></marker></defs>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"heading\" x=\"{MARGIN}\" y=\"27\">{name}</text>\n<g transform=\"translate({MARGIN} {HEADING})\">\n"
    );
    for panel in diagram.outside_in() {
        draw_panel(&mut svg, diagram, &layout, panel);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, diagram: &Diagram, layout: &Layout, number: usize) {
    let (panel, placed) = (&diagram.panels[number], &layout.panels[number]);
    if let Some(title) = &panel.title {
        rect(svg, "panel", placed.rect, 8);
        text(
            svg,
            "panel-title",
            placed.rect.x + 12,
            placed.rect.y + 19,
            title,
        );
    }
    placed.wires.iter().for_each(|wire| draw_wire(svg, wire));
    for (item, rect) in panel.items.iter().zip(&placed.items) {
        draw_item(svg, item, *rect);
    }
}

/// Name, kind and condition below each other, beside a bar.
fn draw_step(svg: &mut String, item: &Item, at: Rect) {
    let _ = writeln!(
        svg,
        "<path class=\"bar\" d=\"M{} {} v{}\"/>",
        at.x + 7,
        at.y + 10,
        at.height - 20
    );
    let left = at.x + 16;
    text(svg, "name", left, at.y + 22, &item.name());
    draw_line(svg, left, at.y + 40, &item.label.kind, &item.label.line());
    if let Some(when) = &item.label.when {
        text(svg, "when", left, at.y + 57, when);
    }
}

/// Name, kind and condition in one line above what it holds.
fn draw_holder(svg: &mut String, item: &Item, at: Rect) {
    let y = at.y + 24;
    text(svg, "name", at.x + 14, y, &item.name());
    let right = at.x + 14 + bold(&item.name()) + 10;
    let line = item.label.line();
    draw_line(svg, right, y, &item.label.kind, &line);
    if let Some(when) = &item.label.when {
        text(svg, "when", right + mono(&line) + 10, y, when);
    }
}

fn draw_item(svg: &mut String, item: &Item, at: Rect) {
    let family = family(&item.label.kind);
    let standing = item
        .standing
        .map(|standing| format!(" {}", standing.word()))
        .unwrap_or_default();
    let shape = if item.panels.is_empty() {
        "step"
    } else {
        "holder"
    };
    let conditional = if item.label.when.is_some() {
        " conditional"
    } else {
        ""
    };
    let folded = if item.is_folded { " folded" } else { "" };
    let path = if item.is_folded || !item.panels.is_empty() {
        format!(" data-step=\"{}\"", escaped(&item.path))
    } else {
        String::new()
    };
    let _ = writeln!(
        svg,
        "<g class=\"{shape} {family}{conditional}{folded}{standing}\"{path}>"
    );
    let _ = writeln!(svg, "<title>{}</title>", escaped(&item.label.title()));
    rect(svg, "box", at, 8);
    if item.panels.is_empty() {
        draw_step(svg, item, at);
    } else {
        draw_holder(svg, item, at);
    }
    svg.push_str("</g>\n");
}

/// The kind in its colour, then the rest.
fn draw_line(svg: &mut String, x: i32, y: i32, kind: &str, line: &str) {
    let rest = line.strip_prefix(kind).unwrap_or_default();
    let _ = writeln!(
        svg,
        "<text class=\"line\" x=\"{x}\" y=\"{y}\"><tspan class=\"kind\">{}</tspan>{}</text>",
        escaped(kind),
        escaped(rest)
    );
}

fn draw_wire(svg: &mut String, wire: &Wire) {
    let head = if wire.ends {
        " marker-end=\"url(#lope-head)\""
    } else {
        ""
    };
    let _ = writeln!(
        svg,
        "<path class=\"wire\" d=\"{}\"{head}/>",
        rounded(&wire.points)
    );
}

/// A path through the points with rounded corners.
fn rounded(points: &[(i32, i32)]) -> String {
    let (first, last) = (points[0], points[points.len() - 1]);
    let mut path = format!("M{} {}", first.0, first.1);
    for three in points.windows(3) {
        let (before, corner, after) = (three[0], three[1], three[2]);
        let (from, to) = (toward(corner, before), toward(corner, after));
        let _ = write!(
            path,
            " L{} {} Q{} {} {} {}",
            from.0, from.1, corner.0, corner.1, to.0, to.1
        );
    }
    let _ = write!(path, " L{} {}", last.0, last.1);
    path
}

/// A little way from one point to another, at most half of it.
fn toward(from: (i32, i32), to: (i32, i32)) -> (i32, i32) {
    let step =
        |from: i32, to: i32| from + (to - from).signum() * ((to - from).abs() / 2).min(CORNER);
    (step(from.0, to.0), step(from.1, to.1))
}

fn rect(svg: &mut String, class: &str, at: Rect, round: i32) {
    let Rect {
        x,
        y,
        width,
        height,
    } = at;
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
    );
}

fn text(svg: &mut String, class: &str, x: i32, y: i32, content: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
        escaped(content)
    );
}

/// Kinds that do similar things share a colour.
fn family(kind: &str) -> &'static str {
    match kind {
        "let" | "state" => "value",
        "if" | "switch" | "each" | "while" | "try" | "race" | "all" | "call" => "control",
        "sleep" | "until" | "wait" => "time",
        "workflow" | "send" => "others",
        "return" | "break" | "continue" => "leave",
        "raise" => "fail",
        _ => "work",
    }
}

fn header_width(item: &Item) -> i32 {
    let when = item.label.when.as_ref().map_or(0, |when| mono(when) + 10);
    bold(&item.name()) + 10 + mono(&item.label.line()) + when
}

/// Width of a text in the font of code, at 11 pixels.
fn mono(text: &str) -> i32 {
    (text
        .chars()
        .map(|c| if c.is_ascii() { 6.7 } else { 9.0 })
        .sum::<f64>())
    .ceil() as i32
}

/// Width of a text in the font of names, bold, at 13 pixels; a little more than it will need.
fn bold(text: &str) -> i32 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | '\'' | '|' | '!' | ':' | ';' => 4.2,
        'f' | 't' | 'r' | '-' | ' ' | '(' | ')' | '/' => 5.4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 12.0,
        c if c.is_ascii_uppercase() => 9.4,
        c if c.is_ascii() => 8.0,
        _ => 13.0,
    };
    text.chars().map(width).sum::<f64>().ceil() as i32
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_rounded_only_as_far_as_there_is_room() {
        let path = rounded(&[(0, 0), (0, 20), (4, 20), (4, 40)]);
        assert_eq!(path, "M0 0 L0 14 Q0 20 2 20 L2 20 Q4 20 4 26 L4 40");
    }

    #[test]
    fn texts_cannot_break_out() {
        assert_eq!(
            escaped("<a href=\"x\">&\u{1}"),
            "&lt;a href=&quot;x&quot;&gt;&amp; "
        );
    }

    #[test]
    fn every_progress_has_a_style() {
        use crate::standing::StepStanding::{Done, Failed, Pending, Running, Skipped};
        for standing in [Pending, Running, Done, Failed, Skipped] {
            assert!(
                STYLE.contains(&format!(".{} ", standing.word())),
                "{}",
                standing.word()
            );
        }
    }
}
