//! How arrows run between two layers: straight down where they can, else down, along a track, and
//! down again.
//!
//! All arrows of one node share its track and fork off it. Two nodes get different tracks where
//! their lines would lie on each other; among the free tracks those are taken that cross least.

use std::ops::RangeInclusive;

use super::coordinates::spread;
use super::layers::Layers;

/// Room for the ends of arrows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Between two ends at one item.
    pub(super) gap: i32,
    /// From the corner of an item.
    pub(super) margin: i32,
    /// Lines closer than this look like one.
    pub(super) clearance: i32,
}

/// Nodes with their places in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    pub(super) left: &'a [i32],
    pub(super) widths: &'a [i32],
}

/// The arrows of one node through the channel below its layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Net {
    pub(super) from: usize,
    /// Where it leaves its node.
    pub(super) top: i32,
    /// The nodes it goes to, and where it meets them.
    pub(super) ends: Vec<(usize, i32)>,
    /// The track that it runs along, from the top; none if it is straight.
    pub(super) track: Option<usize>,
    /// How far to either side it could leave its node instead.
    slack: i32,
}

/// The nets of every channel, and how many tracks each needs.
pub(super) fn route(layers: &Layers, columns: Columns<'_>, ports: Ports) -> Vec<(Vec<Net>, usize)> {
    let ends = ends(layers, columns, ports);
    let channels = layers.rows.iter().map(|row| {
        let nets = row
            .iter()
            .filter(|node| !layers.down[**node].is_empty())
            .map(|node| Net {
                from: *node,
                top: columns.centre(*node),
                ends: layers.down[*node]
                    .iter()
                    .map(|to| (*to, end_of(layers, &ends, *node, *to)))
                    .collect(),
                track: None,
                slack: if layers.is_point(*node) {
                    0
                } else {
                    (columns.widths[*node] / 2 - ports.margin).max(0)
                },
            });
        let mut nets: Vec<Net> = nets.collect();
        let tracks = assign(&mut nets, ports.clearance);
        (nets, tracks)
    });
    channels.collect()
}

impl Columns<'_> {
    pub(super) fn centre(self, node: usize) -> i32 {
        self.left[node] + self.widths[node] / 2
    }
}

fn end_of(layers: &Layers, ends: &[Vec<i32>], from: usize, to: usize) -> i32 {
    let index = layers.up[to]
        .iter()
        .position(|node| *node == from)
        .expect("every arrow is known at both ends");
    ends[to][index]
}

/// Where arrows end at each node, in the order of `up`: straight below their start if there is
/// room.
fn ends(layers: &Layers, columns: Columns<'_>, ports: Ports) -> Vec<Vec<i32>> {
    let starts: Vec<Vec<i32>> = layers
        .rows
        .iter()
        .map(|row| row_starts(layers, columns, row))
        .collect();
    let nodes = (0..layers.rank.len()).map(|node| {
        if layers.is_point(node) || layers.up[node].is_empty() {
            return vec![columns.centre(node); layers.up[node].len()];
        }
        let mut order: Vec<usize> = (0..layers.up[node].len()).collect();
        order.sort_by_key(|index| columns.centre(layers.up[node][*index]));
        let own: Vec<i32> = order
            .iter()
            .map(|index| columns.centre(layers.up[node][*index]))
            .collect();
        let first = columns.left[node] + ports.margin;
        let last = (columns.left[node] + columns.widths[node] - 1 - ports.margin).max(first);
        let bounds = first..=last;
        let mut placed = along(&own, &bounds, ports.gap);
        evade(
            &mut placed,
            &own,
            &starts[layers.rank[node] - 1],
            &bounds,
            ports.clearance,
        );
        let mut ends = vec![0; placed.len()];
        order
            .iter()
            .zip(placed)
            .for_each(|(index, x)| ends[*index] = x);
        ends
    });
    nodes.collect()
}

/// Where the arrows of a layer start.
fn row_starts(layers: &Layers, columns: Columns<'_>, row: &[usize]) -> Vec<i32> {
    row.iter()
        .filter(|node| !layers.down[**node].is_empty())
        .map(|node| columns.centre(*node))
        .collect()
}

/// Moves ends a little that stand right below the start of somebody else's arrow: the two lines
/// could not be told apart.
fn evade(
    placed: &mut [i32],
    own: &[i32],
    starts: &[i32],
    bounds: &RangeInclusive<i32>,
    clearance: i32,
) {
    for index in 0..placed.len() {
        if placed[index] == own[index] {
            continue;
        }
        let is_clear = |x: i32| {
            let others = placed
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index)
                .map(|(_, x)| *x);
            let others = others.chain(starts.iter().copied().filter(|start| *start != own[index]));
            bounds.contains(&x)
                && others
                    .into_iter()
                    .all(|other| (other - x).abs() >= clearance)
        };
        let wanted = placed[index];
        let near =
            (0..=bounds.end() - bounds.start()).flat_map(|away| [wanted - away, wanted + away]);
        if let Some(x) = near.into_iter().find(|x| is_clear(*x)) {
            placed[index] = x;
        }
    }
}

/// Where an arrow from `x` wants to end: straight below, or at a quarter of the item if it comes
/// from beside it.
fn wish(x: i32, bounds: &RangeInclusive<i32>) -> i32 {
    let (first, last) = bounds.clone().into_inner();
    if bounds.contains(&x) {
        return x;
    }
    let quarter = (last - first) / 4;
    x.clamp(first + quarter, last - quarter)
}

/// Places in order between two bounds, near where they are wanted and `gap` apart if there is room.
fn along(wanted: &[i32], bounds: &RangeInclusive<i32>, gap: i32) -> Vec<i32> {
    let (first, last) = bounds.clone().into_inner();
    let count = wanted.len();
    let fits = if count > 1 {
        f64::from(last - first) / (count - 1) as f64
    } else {
        0.0
    };
    let gap = f64::from(gap).min(fits);
    let wishes: Vec<(f64, f64)> = wanted
        .iter()
        .map(|x| (f64::from(wish(*x, bounds)), 1.0))
        .collect();
    let placed = spread(&wishes, &vec![gap; count.saturating_sub(1)]);
    let bounded = placed.into_iter().enumerate().map(|(index, x)| {
        let least = f64::from(first) + gap * index as f64;
        let most = f64::from(last) - gap * (count - 1 - index) as f64;
        x.clamp(least, most.max(least)).round() as i32
    });
    bounded.collect()
}

impl Net {
    fn is_straight(&self) -> bool {
        self.ends.iter().all(|(_, x)| *x == self.top)
    }

    fn reach(&self) -> (i32, i32) {
        let xs = self.ends.iter().map(|(_, x)| *x).chain([self.top]);
        xs.fold((self.top, self.top), |(least, most), x| {
            (least.min(x), most.max(x))
        })
    }

    /// Nets that go right are laid from right to left, those that go left the other way: so they do
    /// not cross.
    fn bend(&self) -> (bool, i32) {
        let (least, most) = self.reach();
        let right = most - self.top >= self.top - least;
        (!right, if right { -self.top } else { self.top })
    }
}

/// Gives every net that is not straight a track; answers how many there are.
fn assign(nets: &mut [Net], clearance: i32) -> usize {
    let mut left: Vec<usize> = (0..nets.len())
        .filter(|net| !nets[*net].is_straight())
        .collect();
    left.sort_by_key(|net| nets[*net].bend());
    let mut tracks: Vec<Vec<(i32, i32)>> = Vec::new();
    while !left.is_empty() {
        let waits = |net: &usize| {
            left.iter()
                .any(|other| must_precede(&nets[*other], &nets[*net], clearance))
        };
        let free = left.iter().position(|net| !waits(net));
        // A ring of lines that each should lie above the next: one of them has to give way.
        if free.is_none() && left.iter().any(|net| step_aside(nets, *net, clearance)) {
            continue;
        }
        let net = left.remove(free.unwrap_or(0));
        let above = nets
            .iter()
            .filter(|other| must_precede(other, &nets[net], clearance));
        let first = above
            .filter_map(|other| other.track)
            .max()
            .map_or(0, |track| track + 1);
        nets[net].track = Some(take(&mut tracks, first, nets[net].reach(), clearance));
    }
    tracks.len()
}

/// Lets a net that stands above the end of another leave its node beside that; says whether it
/// could.
fn step_aside(nets: &mut [Net], number: usize, clearance: i32) -> bool {
    let net = &nets[number];
    let others = || nets.iter().filter(|other| other.from != net.from);
    let is_clear = |x: i32| {
        let ends = others().flat_map(|other| other.ends.iter().map(|(_, end)| *end));
        ends.chain(others().map(|other| other.top))
            .all(|taken| (taken - x).abs() >= clearance)
    };
    if is_clear(net.top) {
        return false;
    }
    let near = (1..=net.slack).flat_map(|away| [net.top - away, net.top + away]);
    let Some(x) = near.into_iter().find(|x| is_clear(*x)) else {
        return false;
    };
    nets[number].top = x;
    true
}

/// Does `above` leave its node where `below` ends, so that its track must be the higher one?
fn must_precede(above: &Net, below: &Net, clearance: i32) -> bool {
    above.from != below.from
        && below
            .ends
            .iter()
            .any(|(_, x)| *x != below.top && (*x - above.top).abs() < clearance)
}

/// The first track from `first` on where nothing lies in the way.
fn take(
    tracks: &mut Vec<Vec<(i32, i32)>>,
    first: usize,
    reach: (i32, i32),
    clearance: i32,
) -> usize {
    let is_free = |taken: &Vec<(i32, i32)>| {
        taken
            .iter()
            .all(|other| reach.1 + clearance <= other.0 || other.1 + clearance <= reach.0)
    };
    let found = tracks
        .iter()
        .skip(first)
        .position(is_free)
        .map(|index| index + first);
    let track = found.unwrap_or_else(|| tracks.len().max(first));
    tracks.resize_with(tracks.len().max(track + 1), Vec::new);
    tracks[track].push(reach);
    track
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports {
        gap: 2,
        margin: 1,
        clearance: 1,
    };

    fn net(from: usize, top: i32, end: i32) -> Net {
        Net {
            from,
            top,
            ends: vec![(9, end)],
            track: None,
            slack: 4,
        }
    }

    #[test]
    fn an_arrow_to_an_item_below_is_straight() {
        let layers = Layers::of(2, &[(0, 1)]);
        let columns = Columns {
            left: &[4, 0],
            widths: &[10, 20],
        };
        let channels = route(&layers, columns, PORTS);
        assert_eq!(
            (channels[0].0[0].top, &channels[0].0[0].ends, channels[0].1),
            (9, &vec![(1, 9)], 0)
        );
    }

    #[test]
    fn ends_at_one_item_keep_apart_and_inside() {
        assert_eq!(along(&[50, 50, 50], &(0..=20), 4), [11, 15, 19]);
        assert_eq!(along(&[20, 20, 20], &(0..=20), 4), [12, 16, 20]);
        assert_eq!(along(&[5, 15], &(0..=20), 4), [5, 15]);
        assert_eq!(along(&[1, 2, 3, 4], &(0..=2), 4), [0, 1, 1, 2]);
    }

    #[test]
    fn lines_that_would_lie_on_each_other_get_tracks_of_their_own() {
        let mut nets = [net(0, 0, 10), net(1, 10, 20)];
        assert_eq!(assign(&mut nets, 1), 2);
        assert_eq!((nets[0].track, nets[1].track), (Some(1), Some(0)));
        let mut apart = [net(0, 0, 10), net(1, 20, 30)];
        assert_eq!(assign(&mut apart, 1), 1);
        let mut ring = [net(0, 0, 10), net(1, 10, 0)];
        assert_eq!(
            (assign(&mut ring, 1), ring[0].top, ring[1].top),
            (2, -1, 10),
            "one leaves its node a little beside"
        );
    }
}
