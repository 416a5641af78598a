//! Where the nodes of a layer stand: as near as possible to where they want to be, in order, with
//! room between them.
//!
//! For one layer that is a problem with an exact answer: neighbours that want to be closer than
//! they may are pooled and moved together to the mean of their wishes.

use super::layers::Layers;

/// Odd, so that the last one goes down: what hangs below something then hangs straight.
const SWEEPS: usize = 17;
/// How much more than an item a point wants its way: long arrows should be straight.
const POINT_WEIGHT: f64 = 4.0;
/// How little a node insists that has no neighbour on the side that was placed before: others
/// should not drift with it.
const LOOSE: f64 = 0.02;

/// How wide things are and how much room is between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) between_items: i32,
    pub(super) beside_points: i32,
}

/// The left edge of every node; the leftmost is at 0.
pub(super) fn coordinates(layers: &Layers, widths: &[i32], room: Room) -> Vec<i32> {
    let mut centre = packed(layers, widths, room);
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let rows: Vec<&Vec<usize>> = if down {
            layers.rows.iter().collect()
        } else {
            layers.rows.iter().rev().collect()
        };
        for row in rows {
            let wishes: Vec<(f64, f64)> = row
                .iter()
                .map(|node| wish(layers, *node, &centre, down))
                .collect();
            let gaps: Vec<f64> = row
                .windows(2)
                .map(|pair| gap(layers, pair[0], pair[1], widths, room))
                .collect();
            let placed = spread(&wishes, &gaps);
            row.iter()
                .zip(placed)
                .for_each(|(node, x)| centre[*node] = x);
        }
    }
    whole(layers, widths, room, &centre)
}

fn packed(layers: &Layers, widths: &[i32], room: Room) -> Vec<f64> {
    let mut centre = vec![0.0; layers.rank.len()];
    for row in &layers.rows {
        let mut x = 0.0;
        for (index, node) in row.iter().enumerate() {
            x += if index == 0 {
                0.0
            } else {
                gap(layers, row[index - 1], *node, widths, room)
            };
            centre[*node] = x;
        }
    }
    centre
}

/// Where a node wants its centre to be, and how much: the mean of its neighbours on the side that
/// was placed before.
fn wish(layers: &Layers, node: usize, centre: &[f64], down: bool) -> (f64, f64) {
    let (before, behind) = if down {
        (&layers.up, &layers.down)
    } else {
        (&layers.down, &layers.up)
    };
    let loose = before[node].is_empty();
    let neighbours = if loose { &behind[node] } else { &before[node] };
    let weight = if layers.is_point(node) {
        POINT_WEIGHT
    } else {
        1.0
    } * if loose { LOOSE } else { 1.0 };
    if neighbours.is_empty() {
        return (centre[node], weight);
    }
    (
        neighbours.iter().map(|other| centre[*other]).sum::<f64>() / neighbours.len() as f64,
        weight,
    )
}

/// Least distance between the centres of two neighbours.
fn gap(layers: &Layers, left: usize, right: usize, widths: &[i32], room: Room) -> f64 {
    let beside_point = layers.is_point(left) || layers.is_point(right);
    let between = if beside_point {
        room.beside_points
    } else {
        room.between_items
    };
    f64::from(widths[left] + widths[right]) / 2.0 + f64::from(between)
}

/// Positions in order, `gaps` apart at least, that are nearest to the wishes (each with its
/// weight).
pub(super) fn spread(wishes: &[(f64, f64)], gaps: &[f64]) -> Vec<f64> {
    // Without the gaps in front of it every position only has to be no smaller than the one before.
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(wishes.len());
    // A pool of neighbours that stand together: mean, weight, how many.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (index, (wish, weight)) in wishes.iter().enumerate() {
        offset += if index == 0 { 0.0 } else { gaps[index - 1] };
        offsets.push(offset);
        let mut pool = (wish - offset, *weight, 1);
        while let Some(before) = pools.pop_if(|before| before.0 > pool.0) {
            let weight = before.1 + pool.1;
            pool = (
                (before.0 * before.1 + pool.0 * pool.1) / weight,
                weight,
                before.2 + pool.2,
            );
        }
        pools.push(pool);
    }
    let means = pools
        .into_iter()
        .flat_map(|(mean, _, count)| std::iter::repeat_n(mean, count));
    means
        .zip(offsets)
        .map(|(mean, offset)| mean + offset)
        .collect()
}

/// Whole left edges: rounding must not eat the room.
fn whole(layers: &Layers, widths: &[i32], room: Room, centre: &[f64]) -> Vec<i32> {
    let mut left = vec![0; centre.len()];
    for row in &layers.rows {
        for (index, node) in row.iter().enumerate() {
            let wanted = (centre[*node] - f64::from(widths[*node]) / 2.0).round() as i32;
            let least = row[..index].last().map(|before| {
                let beside_point = layers.is_point(*before) || layers.is_point(*node);
                left[*before]
                    + widths[*before]
                    + if beside_point {
                        room.beside_points
                    } else {
                        room.between_items
                    }
            });
            left[*node] = least.map_or(wanted, |least| wanted.max(least));
        }
    }
    straighten(layers, widths, room, &mut left);
    let first = left.iter().copied().min().unwrap_or(0);
    for x in &mut left {
        *x -= first;
    }
    left
}

/// Puts the points of each long arrow below each other, if there is a place that is free in all
/// their rows.
fn straighten(layers: &Layers, widths: &[i32], room: Room, left: &mut [i32]) {
    let mut position = vec![(0, 0); layers.rank.len()];
    for (row, nodes) in layers.rows.iter().enumerate() {
        nodes
            .iter()
            .enumerate()
            .for_each(|(index, node)| position[*node] = (row, index));
    }
    for first in (layers.items..layers.rank.len())
        .filter(|node| !layers.up[*node].iter().any(|up| layers.is_point(*up)))
    {
        let chain = chain(layers, first);
        let free: Vec<(i32, i32)> = chain
            .iter()
            .map(|point| {
                let (row, index) = position[*point];
                let nodes = &layers.rows[row];
                let before = nodes[..index]
                    .last()
                    .map(|node| left[*node] + widths[*node] + room.beside_points);
                let behind = nodes
                    .get(index + 1)
                    .map(|node| left[*node] - room.beside_points - widths[*point]);
                (before.unwrap_or(i32::MIN), behind.unwrap_or(i32::MAX))
            })
            .collect();
        let fits = |x: &i32| free.iter().all(|(least, most)| least <= x && x <= most);
        let mut wanted: Vec<i32> = chain.iter().map(|point| left[*point]).collect();
        wanted.extend(free.iter().map(|(least, _)| *least).max());
        if let Some(x) = wanted.into_iter().find(fits) {
            for point in chain {
                left[point] = x;
            }
        }
    }
}

/// The points that follow each other from this one on.
fn chain(layers: &Layers, first: usize) -> Vec<usize> {
    let next = |node: &usize| {
        layers.down[*node]
            .iter()
            .copied()
            .find(|to| layers.is_point(*to))
    };
    std::iter::successors(Some(first), next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_that_fit_are_granted_and_others_shared() {
        assert_eq!(spread(&[(0.0, 1.0), (10.0, 1.0)], &[5.0]), [0.0, 10.0]);
        assert_eq!(spread(&[(10.0, 1.0), (10.0, 1.0)], &[4.0]), [8.0, 12.0]);
        assert_eq!(spread(&[(10.0, 3.0), (10.0, 1.0)], &[4.0]), [9.0, 13.0]);
    }

    #[test]
    fn a_join_stands_in_the_middle_and_nothing_touches() {
        let layers = Layers::of(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let widths = [20, 20, 20, 20];
        let left = coordinates(
            &layers,
            &widths,
            Room {
                between_items: 4,
                beside_points: 2,
            },
        );
        assert_eq!(left, [12, 0, 24, 12]);
    }
}
