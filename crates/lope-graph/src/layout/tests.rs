//! Whatever the graph: items do not touch, wires do not run through items, and lines of different
//! items do not lie on each other.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use crate::diagram::Panel;
use crate::label::Label;
use crate::layers::reduce;

const CELLS: LayoutMetrics = crate::text::METRICS;
const PIXELS: LayoutMetrics = crate::svg::METRICS;

fn item(number: usize, panels: Vec<usize>) -> Item {
    let label = Label {
        name: "n".repeat(number % 13 + 1),
        kind: "let".into(),
        detail: "d".repeat(number * 7 % 31),
        when: number.is_multiple_of(5).then(|| "when x".into()),
    };
    Item {
        path: String::new(),
        is_folded: false,
        label,
        standing: None,
        executions: 0,
        panels,
    }
}

fn diagram(arrows: &[(usize, usize)], items: usize) -> Diagram {
    let arrows = reduce(items, arrows);
    // Every seventh item holds a panel with a few items in a row, every other of those with a
    // title.
    let mut panels = vec![Panel::default()];
    let outer = (0..items).map(|number| {
        if !number.is_multiple_of(7) {
            return item(number, Vec::new());
        }
        let held = (0..=number % 3)
            .map(|inner| item(number + inner, Vec::new()))
            .collect::<Vec<_>>();
        let arrows = (1..held.len()).map(|to| (to - 1, to)).collect();
        panels.push(Panel {
            title: number.is_multiple_of(2).then(|| "then".into()),
            items: held,
            arrows,
        });
        item(number, vec![panels.len() - 1])
    });
    let outer: Vec<Item> = outer.collect();
    panels[0] = Panel {
        title: None,
        items: outer,
        arrows,
    };
    Diagram {
        name: "p".into(),
        panels,
        tops: vec![0],
    }
}

fn overlap(a: Rect, b: Rect) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

fn inside(inner: Rect, outer: Rect) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.width <= outer.x + outer.width
        && inner.y + inner.height <= outer.y + outer.height
}

/// The parts of a wire as thin rectangles, without the ends that touch items.
fn parts(wire: &Wire) -> Vec<Rect> {
    let part = |pair: &[(i32, i32)]| {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        Rect {
            x: x1.min(x2),
            y: y1.min(y2),
            width: (x1 - x2).abs().max(1),
            height: (y1 - y2).abs().max(1),
        }
    };
    wire.points.windows(2).map(part).collect()
}

fn check(diagram: &Diagram, metrics: &LayoutMetrics) {
    let layout = Layout::of(diagram, metrics);
    let whole = Rect {
        x: 0,
        y: 0,
        width: layout.size.width,
        height: layout.size.height,
    };
    for (panel, placed) in diagram.panels.iter().zip(&layout.panels) {
        assert!(inside(placed.rect, whole), "a panel sticks out");
        for (index, rect) in placed.items.iter().enumerate() {
            assert!(
                inside(*rect, placed.rect),
                "an item sticks out of its panel"
            );
            assert!(
                placed.items[..index]
                    .iter()
                    .all(|other| !overlap(*rect, *other)),
                "two items touch"
            );
            for held in &panel.items[index].panels {
                assert!(
                    inside(layout.panels[*held].rect, *rect),
                    "a panel sticks out of its item"
                );
            }
        }
        for part in placed.wires.iter().flat_map(parts) {
            assert!(
                placed.items.iter().all(|item| !overlap(part, *item)),
                "a wire runs through an item"
            );
        }
        distinct_tracks(&placed.wires);
    }
}

/// Horizontal parts of wires that start at different points do not lie on each other.
fn distinct_tracks(wires: &[Wire]) {
    let mut tracks: Vec<(i32, i32, i32, (i32, i32))> = wires
        .iter()
        .filter(|wire| wire.points.len() == 4)
        .map(|wire| {
            let ((x1, y), (x2, _)) = (wire.points[1], wire.points[2]);
            (y, x1.min(x2), x1.max(x2), wire.points[0])
        })
        .collect();
    tracks.sort_unstable();
    for (index, (y, start, end, from)) in tracks.iter().enumerate() {
        for (other_y, other_start, other_end, other_from) in &tracks[..index] {
            let apart = y != other_y || end < other_start || other_end < start;
            assert!(apart || from == other_from, "two wires share a track");
        }
    }
}

/// Vertical parts of wires that start at different points do not lie on each other, unless they end
/// together.
fn distinct_columns(wires: &[Wire]) {
    let verticals = |wire: &Wire| {
        let points = wire.points.clone();
        let pairs = points
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| (pair[0].0, pair[0].1, pair[1].1));
        pairs
            .map(|part| (part, points[0], points[points.len() - 1]))
            .collect::<Vec<_>>()
    };
    let parts: Vec<_> = wires.iter().flat_map(verticals).collect();
    for (index, ((x, start, end), from, to)) in parts.iter().enumerate() {
        for ((other_x, other_start, other_end), other_from, other_to) in &parts[..index] {
            let apart = x != other_x || end <= other_start || other_end <= start;
            assert!(
                apart || from == other_from || to == other_to,
                "two wires share a column"
            );
        }
    }
}

/// Arrows from lower to higher numbers.
fn graphs() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (1_usize..30).prop_flat_map(|items| {
        let arrow = (0..items, 0..items).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let arrows = prop::collection::vec(arrow, 0..items * 2);
        arrows.prop_map(move |arrows| {
            (
                items,
                arrows.into_iter().filter(|(from, to)| from != to).collect(),
            )
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_touches((items, arrows) in graphs()) {
        let diagram = diagram(&arrows, items);
        check(&diagram, &CELLS);
        check(&diagram, &PIXELS);
    }
}

/// Rings of points that trade places in one step are the only lines that may share a column; usual
/// graphs have none. The graphs are the same each time.
#[test]
fn lines_of_different_items_can_be_told_apart() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..300 {
        let (items, arrows) = graphs().new_tree(&mut runner).unwrap().current();
        let diagram = diagram(&arrows, items);
        for metrics in [&CELLS, &PIXELS] {
            Layout::of(&diagram, metrics)
                .panels
                .iter()
                .for_each(|placed| distinct_columns(&placed.wires));
        }
    }
}

#[test]
fn a_chain_is_one_straight_line() {
    let arrows: Vec<(usize, usize)> = (1..6).map(|to| (to - 1, to)).collect();
    let layout = Layout::of(&diagram(&arrows, 6), &PIXELS);
    assert!(
        layout.panels[0]
            .wires
            .iter()
            .all(|wire| wire.points.len() == 2)
    );
}
