//! Where everything of a diagram stands: panels inside items inside panels, laid out from the
//! inside out, and the wires between items. Units are whole: cells of a terminal or pixels.

use super::coordinates::{Room, coordinates};
use super::diagram::{Diagram, Item};
use super::layers::Layers;
use super::order::order;
use super::route::{Columns, Net, Ports, route};

/// How large things are in some medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutMetrics {
    pub(super) room: Room,
    pub(super) ports: Ports,
    pub(super) channel: Channel,
    /// Size of an item that holds nothing.
    pub(super) leaf: fn(&Item) -> Size,
    /// Room for the title of an item that holds panels.
    pub(super) header: fn(&Item) -> Size,
    /// Room for the title of a panel.
    pub(super) title: fn(&str) -> Size,
    /// Between the border of an item or panel and what it holds.
    pub(super) padding: Size,
    /// Between panels.
    pub(super) between: Size,
    /// Panels are put side by side up to this width.
    pub(super) width_max: i32,
}

/// The room between two layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Above the first track.
    pub(super) lead: i32,
    pub(super) track: i32,
    /// Below the last track, where the heads of arrows are.
    pub(super) tail: i32,
    pub(super) least: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Size {
    pub(super) width: i32,
    pub(super) height: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

/// A line through a channel, straight or with two corners.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wire {
    pub(super) points: Vec<(i32, i32)>,
    /// Does it start at an item, not on the way?
    pub(super) starts: bool,
    /// Does it end at an item, with a head?
    pub(super) ends: bool,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) size: Size,
    /// Panels by number; those without a title have no border.
    pub(super) panels: Vec<Placed>,
}

/// A panel with what it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    pub(super) rect: Rect,
    pub(super) items: Vec<Rect>,
    pub(super) wires: Vec<Wire>,
    /// Where the panels inside each item stand, from the item's corner.
    inside: Vec<Vec<(usize, i32, i32)>>,
    /// Where the items stand, from the panel's corner.
    origin: (i32, i32),
}

impl Layout {
    pub(super) fn of(diagram: &Diagram, metrics: &LayoutMetrics) -> Self {
        let mut layout = Self {
            panels: vec![Placed::default(); diagram.panels.len()],
            ..Self::default()
        };
        let order = diagram.outside_in();
        for panel in order.iter().rev() {
            layout.panels[*panel] = layout.panel(diagram, *panel, metrics);
        }
        for top in &diagram.tops {
            let y = if layout.size.height == 0 {
                0
            } else {
                layout.size.height + metrics.between.height
            };
            let rect = &mut layout.panels[*top].rect;
            (rect.x, rect.y) = (0, y);
            layout.size.height = y + rect.height;
            layout.size.width = layout.size.width.max(rect.width);
        }
        for panel in order {
            layout.settle(panel);
        }
        layout
    }

    /// One panel, its corner at 0; the panels inside it are done.
    fn panel(&self, diagram: &Diagram, number: usize, metrics: &LayoutMetrics) -> Placed {
        let panel = &diagram.panels[number];
        let mut sizes = Vec::with_capacity(panel.items.len());
        let mut inside = Vec::with_capacity(panel.items.len());
        for item in &panel.items {
            let (size, panels) = self.item(item, metrics);
            sizes.push(size);
            inside.push(panels);
        }
        let (content, items, wires) = arrange(&sizes, &panel.arrows, metrics);
        let title = panel.title.as_deref().map(metrics.title);
        let pad = if title.is_some() {
            metrics.padding
        } else {
            Size::default()
        };
        let title = title.unwrap_or_default();
        let width = content.width.max(title.width) + 2 * pad.width;
        let height = title.height + content.height + pad.height;
        let origin = ((width - content.width) / 2, title.height);
        Placed {
            rect: Rect {
                width,
                height,
                ..Rect::default()
            },
            items,
            wires,
            inside,
            origin,
        }
    }

    /// The size of an item, and where the panels inside it stand: in rows, as wide as allowed.
    fn item(&self, item: &Item, metrics: &LayoutMetrics) -> (Size, Vec<(usize, i32, i32)>) {
        if item.panels.is_empty() {
            return ((metrics.leaf)(item), Vec::new());
        }
        let header = (metrics.header)(item);
        let mut x = 0;
        let mut y = 0;
        let mut row = 0;
        let mut widest = 0;
        let mut panels = Vec::new();
        for panel in &item.panels {
            let size = self.panels[*panel].rect;
            if x > 0 && x + size.width > metrics.width_max {
                (x, y, row) = (0, y + row + metrics.between.height, 0);
            }
            panels.push((*panel, x, y));
            row = row.max(size.height);
            widest = widest.max(x + size.width);
            x += size.width + metrics.between.width;
        }
        let width = widest.max(header.width) + 2 * metrics.padding.width;
        let left = (width - widest) / 2;
        for (_, x, y) in &mut panels {
            (*x, *y) = (*x + left, *y + header.height);
        }
        (
            Size {
                width,
                height: header.height + y + row + metrics.padding.height,
            },
            panels,
        )
    }

    /// Moves what a panel holds to where the panel stands.
    fn settle(&mut self, number: usize) {
        let placed = &mut self.panels[number];
        let (x, y) = (
            placed.rect.x + placed.origin.0,
            placed.rect.y + placed.origin.1,
        );
        for item in &mut placed.items {
            (item.x, item.y) = (item.x + x, item.y + y);
        }
        for point in placed.wires.iter_mut().flat_map(|wire| &mut wire.points) {
            *point = (point.0 + x, point.1 + y);
        }
        let corners: Vec<(i32, i32)> = placed.items.iter().map(|item| (item.x, item.y)).collect();
        let inside = std::mem::take(&mut placed.inside);
        for ((x, y), panels) in corners.into_iter().zip(inside) {
            for (panel, dx, dy) in panels {
                let rect = &mut self.panels[panel].rect;
                (rect.x, rect.y) = (x + dx, y + dy);
            }
        }
    }
}

/// Where each row begins and ends, with room for the tracks of wires below it.
fn row_bounds(
    layers: &Layers,
    sizes: &[Size],
    tracks: impl Iterator<Item = usize>,
    channel: Channel,
) -> Vec<(i32, i32)> {
    let mut y = 0;
    let mut rows = Vec::with_capacity(layers.rows.len());
    for (row, tracks) in layers.rows.iter().zip(tracks) {
        let height = row
            .iter()
            .filter_map(|node| sizes.get(*node))
            .map(|size| size.height)
            .max()
            .unwrap_or(0);
        rows.push((y, y + height));
        y += height + channel.height(tracks);
    }
    rows
}

/// Items in layers with the wires between them.
fn arrange(
    sizes: &[Size],
    arrows: &[(usize, usize)],
    metrics: &LayoutMetrics,
) -> (Size, Vec<Rect>, Vec<Wire>) {
    let mut layers = Layers::of(sizes.len(), arrows);
    order(&mut layers);
    let widths: Vec<i32> = (0..layers.rank.len())
        .map(|node| sizes.get(node).map_or(1, |size| size.width))
        .collect();
    let left = coordinates(&layers, &widths, metrics.room);
    let channels = route(
        &layers,
        Columns {
            left: &left,
            widths: &widths,
        },
        metrics.ports,
    );
    let tracks = channels.iter().map(|(_, tracks)| *tracks);
    let rows = row_bounds(&layers, sizes, tracks, metrics.channel);
    let rect = |(node, size): (usize, &Size)| Rect {
        x: left[node],
        y: rows[layers.rank[node]].0,
        width: size.width,
        height: size.height,
    };
    let items: Vec<Rect> = sizes.iter().enumerate().map(rect).collect();
    let wiring = Wiring {
        layers: &layers,
        items: &items,
        rows: &rows,
        channel: metrics.channel,
    };
    let wires = channels
        .iter()
        .flat_map(|(nets, _)| nets.iter().flat_map(|net| wiring.wires(net)))
        .collect();
    let width = (0..layers.rank.len())
        .map(|node| left[node] + widths[node])
        .max()
        .unwrap_or(0);
    (
        Size {
            width,
            height: rows.last().map_or(0, |row| row.1),
        },
        items,
        wires,
    )
}

impl Channel {
    fn height(self, tracks: usize) -> i32 {
        let tracks = i32::try_from(tracks).unwrap_or(i32::MAX / self.track.max(1));
        (self.lead + tracks * self.track + self.tail).max(self.least)
    }
}

/// What is known when wires are drawn.
struct Wiring<'a> {
    layers: &'a Layers,
    items: &'a [Rect],
    rows: &'a [(i32, i32)],
    channel: Channel,
}

impl Wiring<'_> {
    fn wires(&self, net: &Net) -> Vec<Wire> {
        let (top, bottom) = self.rows[self.layers.rank[net.from]];
        let start = self
            .items
            .get(net.from)
            .map_or(top, |item| item.y + item.height);
        let wire = |(to, x): &(usize, i32)| {
            let end = self.rows[self.layers.rank[*to]].0;
            let track = net
                .track
                .map(|track| bottom + self.channel.lead + track as i32 * self.channel.track);
            let points = match track.filter(|_| *x != net.top) {
                Some(track) => vec![(net.top, start), (net.top, track), (*x, track), (*x, end)],
                None => vec![(net.top, start), (*x, end)],
            };
            Wire {
                points,
                starts: !self.layers.is_point(net.from),
                ends: !self.layers.is_point(*to),
            }
        };
        net.ends.iter().map(wire).collect()
    }
}

#[cfg(test)]
mod tests;
