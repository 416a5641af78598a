//! Layers of a graph: every arrow goes down, long ones through a point in each layer between.
//!
//! Whoever has several long arrows sends them through the same points, so that they read as one
//! line that forks.

use std::collections::HashMap;

/// A graph in layers. Nodes from `items` on are points on long arrows.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) items: usize,
    /// The layer of each node.
    pub(super) rank: Vec<usize>,
    /// The nodes of each layer; `order` puts them in order.
    pub(super) rows: Vec<Vec<usize>>,
    /// Arrows from each node to nodes of the next layer.
    pub(super) down: Vec<Vec<usize>>,
    /// The same arrows from their ends.
    pub(super) up: Vec<Vec<usize>>,
}

/// Most items without arrows side by side.
const ROW_MAX: usize = 6;

impl Layers {
    /// Items `0..items` with arrows that form no cycle.
    pub(super) fn of(items: usize, arrows: &[(usize, usize)]) -> Self {
        let mut layers = Self {
            items,
            rank: ranks(items, arrows),
            ..Self::default()
        };
        layers.down = vec![Vec::new(); items];
        layers.up = vec![Vec::new(); items];
        let mut points = HashMap::new();
        for (from, to) in arrows {
            layers.connect(*from, *to, &mut points);
        }
        let height = layers.rank.iter().max().map_or(0, |last| last + 1);
        layers.rows = vec![Vec::new(); height];
        for (node, rank) in layers.rank.iter().enumerate() {
            layers.rows[*rank].push(node);
        }
        layers
    }

    fn connect(&mut self, from: usize, to: usize, points: &mut HashMap<(usize, usize), usize>) {
        let mut last = from;
        for rank in self.rank[from] + 1..self.rank[to] {
            last = if let Some(point) = points.get(&(from, rank)) {
                *point
            } else {
                let point = self.point(rank);
                points.insert((from, rank), point);
                self.link(last, point);
                point
            };
        }
        self.link(last, to);
    }

    fn point(&mut self, rank: usize) -> usize {
        self.rank.push(rank);
        self.down.push(Vec::new());
        self.up.push(Vec::new());
        self.rank.len() - 1
    }

    fn link(&mut self, from: usize, to: usize) {
        self.down[from].push(to);
        self.up[to].push(from);
    }

    pub(super) fn is_point(&self, node: usize) -> bool {
        node >= self.items
    }
}

/// Each item one below the lowest that it needs; what nobody leads to stands right above what needs
/// it, and what stands alone is spread over the layers.
fn ranks(items: usize, arrows: &[(usize, usize)]) -> Vec<usize> {
    let mut rank = vec![0; items];
    let mut next = vec![Vec::new(); items];
    for (from, to) in arrows {
        next[*from].push(*to);
    }
    for item in downwards(items, arrows) {
        for to in &next[item] {
            rank[*to] = rank[*to].max(rank[item] + 1);
        }
    }
    let mut led_to = vec![false; items];
    for (_, to) in arrows {
        led_to[*to] = true;
    }
    for item in (0..items).filter(|item| !led_to[*item]) {
        if let Some(first) = next[item].iter().map(|to| rank[*to]).min() {
            rank[item] = first - 1;
        }
    }
    let alone = (0..items).filter(|item| !led_to[*item] && next[*item].is_empty());
    alone
        .enumerate()
        .for_each(|(index, item)| rank[item] = index / ROW_MAX);
    rank
}

/// The items, each after all that lead to it. Items in a cycle are left out.
fn downwards(items: usize, arrows: &[(usize, usize)]) -> Vec<usize> {
    let mut waiting = vec![0; items];
    let mut next = vec![Vec::new(); items];
    for (from, to) in arrows {
        waiting[*to] += 1;
        next[*from].push(*to);
    }
    let mut order: Vec<usize> = (0..items).filter(|item| waiting[*item] == 0).collect();
    let mut done = 0;
    while done < order.len() {
        for to in &next[order[done]] {
            waiting[*to] -= 1;
            if waiting[*to] == 0 {
                order.push(*to);
            }
        }
        done += 1;
    }
    order
}

/// The arrows without those that follow from others.
pub(super) fn reduce(items: usize, arrows: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let order = downwards(items, arrows);
    let mut position = vec![usize::MAX; items];
    order
        .iter()
        .enumerate()
        .for_each(|(index, item)| position[*item] = index);
    let mut next = vec![Vec::new(); items];
    for (from, to) in arrows {
        next[*from].push(*to);
    }
    let words = items.div_ceil(64);
    let mut below = vec![Vec::new(); items];
    let mut kept = Vec::new();
    for item in order.iter().rev() {
        let mut seen = vec![0_u64; words];
        let mut targets: Vec<usize> = next[*item].clone();
        targets.sort_by_key(|to| position[*to]);
        targets.dedup();
        for to in targets {
            if seen[to / 64] & (1 << (to % 64)) == 0 {
                kept.push((*item, to));
                seen.iter_mut()
                    .zip(&below[to])
                    .for_each(|(mine, theirs)| *mine |= *theirs);
                seen[to / 64] |= 1 << (to % 64);
            }
        }
        below[*item] = seen;
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_follow_from_others_are_left_out() {
        assert_eq!(reduce(3, &[(0, 1), (1, 2), (0, 2)]), [(0, 1), (1, 2)]);
        assert_eq!(
            reduce(4, &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (0, 3)]),
            [(0, 1), (0, 2), (1, 3), (2, 3)]
        );
    }

    #[test]
    fn every_arrow_goes_down_one_layer_at_a_time() {
        let layers = Layers::of(5, &[(0, 1), (1, 2), (2, 3), (0, 3), (4, 3)]);
        assert_eq!(layers.rank[..5], [0, 1, 2, 3, 2]);
        for (from, down) in layers.down.iter().enumerate() {
            assert!(
                down.iter()
                    .all(|to| layers.rank[*to] == layers.rank[from] + 1)
            );
        }
        assert_eq!(layers.rank.len(), 7, "the long arrow has two points");
    }

    #[test]
    fn long_arrows_of_one_item_share_their_points() {
        let layers = Layers::of(5, &[(0, 1), (1, 2), (2, 3), (2, 4), (0, 3), (0, 4)]);
        assert_eq!(layers.rank.len(), 7);
    }
}
