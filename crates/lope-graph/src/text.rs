//! Boxes for a terminal; what would be too wide becomes a tree.

use super::canvas::{Border, Canvas, columns};
use super::coordinates::Room;
use super::diagram::{Diagram, Item};
use super::layout::{Channel, Layout, LayoutMetrics, Rect, Size, Wire};
use super::route::Ports;
use super::tree;

pub(super) const METRICS: LayoutMetrics = LayoutMetrics {
    room: Room {
        between_items: 2,
        beside_points: 2,
    },
    ports: Ports {
        gap: 2,
        margin: 2,
        clearance: 2,
    },
    channel: Channel {
        lead: 0,
        track: 1,
        tail: 1,
        least: 2,
    },
    leaf: |item| {
        let lines = lines(item);
        let width = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
        Size {
            width: width + 4,
            height: lines.len() as i32 + 2,
        }
    },
    header: |item| Size {
        width: columns(&item.title()) + 4,
        height: 1,
    },
    title: |text| Size {
        width: columns(text) + 2,
        height: 1,
    },
    padding: Size {
        width: 2,
        height: 1,
    },
    between: Size {
        width: 1,
        height: 0,
    },
    width_max: 110,
};

pub(super) fn draw(diagram: &Diagram, width: usize) -> String {
    let layout = Layout::of(diagram, &METRICS);
    if layout.size.width as usize > width {
        return tree::draw(diagram);
    }
    let mut canvas = Canvas::new(layout.size.width, layout.size.height);
    for panel in diagram.outside_in() {
        let placed = &layout.panels[panel];
        let contents = &diagram.panels[panel];
        if let Some(title) = &contents.title {
            canvas.border(placed.rect, Border::PANEL);
            canvas.write(placed.rect.x + 2, placed.rect.y, &format!(" {title} "));
        }
        for (item, rect) in contents.items.iter().zip(&placed.items) {
            draw_item(&mut canvas, item, *rect);
        }
        for wire in &placed.wires {
            draw_wire(&mut canvas, wire);
        }
    }
    format!("{}\n\n{}\n", diagram.name, canvas.lines().join("\n"))
}

fn draw_item(canvas: &mut Canvas, item: &Item, rect: Rect) {
    if item.panels.is_empty() {
        canvas.border(rect, Border::ITEM);
        for (index, line) in lines(item).iter().enumerate() {
            canvas.write(rect.x + 2, rect.y + 1 + index as i32, line);
        }
    } else {
        canvas.border(rect, Border::HOLDER);
        canvas.write(rect.x + 2, rect.y, &format!(" {} ", item.title()));
    }
}

/// A head takes the cell above the item, a start is a notch in its border.
fn draw_wire(canvas: &mut Canvas, wire: &Wire) {
    let mut corners = wire.points.clone();
    if let Some((x, y)) = corners.last_mut().filter(|_| wire.ends) {
        *y -= 1;
        canvas.put(*x, *y, '▼');
    }
    canvas.line(&corners);
    if let Some((x, y)) = wire.points.first().filter(|_| wire.starts) {
        canvas.put(*x, y - 1, '┬');
    }
}

fn lines(item: &Item) -> Vec<String> {
    let first = item.name();
    [
        Some(first),
        Some(item.label.line()),
        item.label.when.clone(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
