//! Generated graphs and edits against an oracle that computes everything anew and shares no code
//! with the scheduler.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use lope_reactive::machine::SpaceOutput;
use lope_reactive::scheduler::NodeRole;
use lope_reactive::{Json, Transaction};
use proptest::prelude::*;

use crate::fixture::{cell, json};
use crate::sheet::Sheet;

const INPUTS: usize = 4;

/// A node computes from cells before it: the inputs are cells 0 to 3, then one cell per node.
#[derive(Clone, Debug)]
struct Formula {
    operator: Operator,
    from: [usize; 3],
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Sum,
    Parity,
    Largest,
    /// The second if the first is even, else the third: reads only what it chooses.
    Choose,
}

/// Where the cells stand in the sheet: some at its top, some in objects that are not there before
/// the first of their entries is.
#[derive(Clone, Debug)]
struct Layout(Vec<usize>);

impl Layout {
    fn flat() -> Self {
        Self(vec![0])
    }

    fn place(&self, number: usize) -> String {
        let parent = ["", "p/", "p/q/", "r/s/t/"][self.0[number % self.0.len()]];
        format!("{parent}c{number}")
    }
}

fn any_layout() -> impl Strategy<Value = Layout> {
    prop::collection::vec(0..4_usize, 1..18).prop_map(Layout)
}

fn any_formulas() -> impl Strategy<Value = Vec<Formula>> {
    let operator = prop_oneof![
        Just(Operator::Sum),
        Just(Operator::Parity),
        Just(Operator::Largest),
        Just(Operator::Choose),
    ];
    let formula = (
        operator,
        [
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
        ],
    );
    prop::collection::vec(formula, 1..14).prop_map(|formulas| {
        let place =
            |(number, (operator, from)): (usize, (Operator, [prop::sample::Index; 3]))| Formula {
                operator,
                from: from.map(|index| index.index(INPUTS + number)),
            };
        formulas.into_iter().enumerate().map(place).collect()
    })
}

fn apply(operator: Operator, mut read: impl FnMut(usize) -> i64) -> i64 {
    match operator {
        Operator::Sum => read(0) + read(1) + read(2),
        Operator::Parity => (read(0) + read(1)).rem_euclid(2),
        Operator::Largest => read(0).max(read(1)).max(read(2)),
        Operator::Choose if read(0) % 2 == 0 => read(1),
        Operator::Choose => read(2),
    }
}

/// All cells, computed from the inputs alone.
fn oracle(inputs: [i64; INPUTS], formulas: &[Formula]) -> Vec<i64> {
    let mut cells = inputs.to_vec();
    for formula in formulas {
        let value = apply(formula.operator, |place| cells[formula.from[place]]);
        cells.push(value);
    }
    cells
}

/// Which cells somebody wants, directly or through what is read at the moment.
fn wanted(cells: &[i64], formulas: &[Formula], observed: &[bool]) -> Vec<bool> {
    let mut wanted = vec![false; cells.len()];
    for (number, formula) in formulas.iter().enumerate().rev() {
        let here = INPUTS + number;
        wanted[here] |= observed[number % observed.len()];
        if wanted[here] {
            apply(formula.operator, |place| {
                wanted[formula.from[place]] = true;
                cells[formula.from[place]]
            });
        }
    }
    wanted
}

/// What is absent counts as 0; seeing it is not the same as seeing a 0.
fn run_formula(
    transaction: &mut Transaction,
    formula: &Formula,
    layout: &Layout,
    to: usize,
) -> Vec<Option<Json>> {
    let mut seen = Vec::new();
    let value = apply(formula.operator, |place| {
        let from = layout.place(formula.from[place]);
        let value = transaction.get(&cell(&format!("sheet/{from}")));
        seen.push(value.clone());
        value.and_then(|value| value.as_int()).unwrap_or(0)
    });
    let to = layout.place(to);
    transaction
        .set(&cell(&format!("sheet/{to}")), &value.into())
        .unwrap();
    seen
}

/// What each node saw in its last run, and whether a run was for nothing.
#[derive(Debug, Default)]
struct Watch {
    last: BTreeMap<usize, Vec<Option<Json>>>,
    for_nothing: usize,
}

/// The inputs are absent at first.
fn build(
    formulas: &[Formula],
    layout: &Layout,
    order: &[usize],
    observed: &[bool],
) -> (Sheet, Rc<RefCell<Watch>>) {
    let watch = Rc::new(RefCell::new(Watch::default()));
    let mut sheet = Sheet::new(json!({}));
    let mut places: Vec<usize> = (0..formulas.len()).collect();
    places.sort_by_key(|number| order[number % order.len()]);
    for place in places {
        let formula = formulas[place].clone();
        let watch = watch.clone();
        let layout = layout.clone();
        let to = INPUTS + place;
        let output = layout.place(to);
        let inputs = formula.from.map(|from| layout.place(from));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        sheet.node(
            NodeRole::Computation,
            &inputs,
            &output,
            move |transaction| {
                let seen = run_formula(transaction, &formula, &layout, to);
                let mut watch = watch.borrow_mut();
                if watch.last.insert(to, seen.clone()) == Some(seen) {
                    watch.for_nothing += 1;
                }
                Ok(())
            },
        );
        if observed[place % observed.len()] {
            sheet.observe(&output);
        }
    }
    (sheet, watch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn final_cells_equal_those_computed_anew(
        formulas in any_formulas(),
        layout in any_layout(),
        order in prop::collection::vec(0..100_usize, 14),
        observed in prop::collection::vec(any::<bool>(), 1..14),
        edits in prop::collection::vec((0..INPUTS, -3..4_i64), 0..12),
        twice in any::<bool>(),
    ) {
        let (mut sheet, _) = build(&formulas, &layout, &order, &observed);
        if twice {
            sheet.machine.check_twice();
        }
        sheet.turn(Vec::new());
        let mut inputs = [0; INPUTS];
        for (place, value) in [(0, 0)].into_iter().chain(edits) {
            inputs[place] = value;
            sheet.ran();
            sheet.set(&layout.place(place), value);
            let cells = oracle(inputs, &formulas);
            let wanted = wanted(&cells, &formulas, &observed);
            for number in INPUTS..cells.len() {
                if wanted[number] {
                    prop_assert_eq!(sheet.int(&layout.place(number)), Some(cells[number]), "c{}", number);
                }
            }
            prop_assert!(sheet.machine.is_idle(sheet.now));
        }
        let failed = sheet.outputs.iter().any(|output| matches!(output, SpaceOutput::Failed { .. }));
        prop_assert!(!failed);
    }

    /// While everything is wanted, a node that runs again sees something else than the last time.
    /// (What nobody wanted for a while may find its inputs changed and changed back.) A value that
    /// first appears under a parent that was not there is no change to its siblings' readers.
    #[test]
    fn no_node_runs_without_a_changed_input(
        formulas in any_formulas(),
        layout in any_layout(),
        order in prop::collection::vec(0..100_usize, 14),
        edits in prop::collection::vec((0..INPUTS, -3..4_i64), 0..12),
    ) {
        let (mut sheet, watch) = build(&formulas, &layout, &order, &[true]);
        sheet.turn(Vec::new());
        for (place, value) in edits {
            sheet.set(&layout.place(place), value);
        }
        prop_assert_eq!(watch.borrow().for_nothing, 0);
    }

    /// Without a choice in it every node runs at most once after an edit, after all it reads from.
    #[test]
    fn order_is_respected(
        formulas in any_formulas(),
        order in prop::collection::vec(0..100_usize, 14),
        edits in prop::collection::vec((0..INPUTS, -3..4_i64), 0..8),
    ) {
        let plain: Vec<Formula> = formulas.into_iter().map(|formula| match formula.operator {
            Operator::Choose => Formula { operator: Operator::Sum, ..formula },
            _ => formula,
        }).collect();
        let (mut sheet, _) = build(&plain, &Layout::flat(), &order, &[true]);
        sheet.turn(Vec::new());
        for (place, value) in edits {
            sheet.ran();
            sheet.set(&format!("c{place}"), value);
            let ran = sheet.ran();
            let once: BTreeSet<_> = ran.iter().collect();
            prop_assert_eq!(once.len(), ran.len(), "a node ran twice");
            for (index, node) in ran.iter().enumerate() {
                let before = sheet.why(*node).reads_from;
                prop_assert!(ran[index + 1..].iter().all(|later| !before.contains(later)));
            }
        }
    }

    /// Edits of different cells, begun together, never conflict.
    #[test]
    fn unrelated_writes_do_not_conflict(values in prop::collection::vec(any::<i32>(), 2..10)) {
        let mut sheet = Sheet::new(json!({}));
        let edits: Vec<_> = values.iter().enumerate()
            .map(|(place, value)| sheet.edit(&format!("k{place}"), i64::from(*value)))
            .collect();
        sheet.turn(edits);
        for (place, value) in values.into_iter().enumerate() {
            prop_assert_eq!(sheet.int(&format!("k{place}")), Some(i64::from(value)));
        }
    }
}
