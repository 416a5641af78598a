//! The order inside each layer: few crossings. Sweeps down and up put every node near the middle of
//! its neighbours; the best order that was met is kept.

use super::layers::Layers;

const SWEEPS: usize = 12;

pub(super) fn order(layers: &mut Layers) {
    let mut best = layers.rows.clone();
    let mut fewest = crossings(layers);
    for sweep in 0..SWEEPS {
        if fewest == 0 {
            break;
        }
        pass(layers, sweep % 2 == 0);
        let count = crossings(layers);
        if count < fewest {
            fewest = count;
            best.clone_from(&layers.rows);
        }
    }
    layers.rows = best;
}

/// Sorts every row by its neighbours in the row before it (`down`) or behind it.
fn pass(layers: &mut Layers, down: bool) {
    let mut position = positions(layers);
    let count = layers.rows.len();
    let rows: Vec<usize> = if down {
        (1..count).collect()
    } else {
        (0..count.saturating_sub(1)).rev().collect()
    };
    for row in rows {
        let neighbours = if down { &layers.up } else { &layers.down };
        let mut keyed: Vec<(f64, usize)> = layers.rows[row]
            .iter()
            .map(|node| {
                (
                    middle(&neighbours[*node], &position).unwrap_or(position[*node]),
                    *node,
                )
            })
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (index, (_, node)) in keyed.iter().enumerate() {
            position[*node] = index as f64;
        }
        layers.rows[row] = keyed.into_iter().map(|(_, node)| node).collect();
    }
}

fn positions(layers: &Layers) -> Vec<f64> {
    let mut position = vec![0.0; layers.rank.len()];
    for row in &layers.rows {
        row.iter()
            .enumerate()
            .for_each(|(index, node)| position[*node] = index as f64);
    }
    position
}

fn middle(neighbours: &[usize], position: &[f64]) -> Option<f64> {
    let sum: f64 = neighbours.iter().map(|node| position[*node]).sum();
    (!neighbours.is_empty()).then(|| sum / neighbours.len() as f64)
}

/// How often arrows cross.
fn crossings(layers: &Layers) -> u64 {
    let position = positions(layers);
    layers
        .rows
        .iter()
        .map(|row| crossings_below(row, layers, &position))
        .sum()
}

/// Counts inversions with a tree of sums: arrows sorted by where they start, each crosses those
/// that end further right.
fn crossings_below(row: &[usize], layers: &Layers, position: &[f64]) -> u64 {
    let mut ends = Vec::new();
    for node in row {
        let mut below: Vec<usize> = layers.down[*node]
            .iter()
            .map(|to| position[*to] as usize)
            .collect();
        below.sort_unstable();
        ends.extend(below);
    }
    let width = ends.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![0_u64; width + 1];
    let mut crossed = 0;
    for (seen, end) in ends.iter().enumerate() {
        let mut left = 0;
        let mut index = end + 1;
        while index > 0 {
            left += sums[index];
            index &= index - 1;
        }
        crossed += seen as u64 - left;
        let mut index = end + 1;
        while index <= width {
            sums[index] += 1;
            index += index & index.wrapping_neg();
        }
    }
    crossed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_are_counted_and_removed() {
        let mut layers = Layers::of(4, &[(0, 3), (1, 2)]);
        assert_eq!(crossings(&layers), 1);
        order(&mut layers);
        assert_eq!(crossings(&layers), 0);
    }

    #[test]
    fn what_cannot_be_drawn_without_a_crossing_keeps_one() {
        let arrows: Vec<(usize, usize)> = (0..3)
            .flat_map(|from| (3..6).map(move |to| (from, to)))
            .collect();
        let mut layers = Layers::of(6, &arrows);
        order(&mut layers);
        assert_eq!(crossings(&layers), 9);
    }
}
