//! What there is to draw: panels of items with arrows between them; an item may hold panels.
//!
//! A panel is a block of the definition, an item a step. Arrows that follow from others are left
//! out.

use std::collections::{BTreeSet, HashMap};

use lope_definition::{BlockId, Definition, Role, Site, Step};

use super::label::{self, Label};
use super::layers::reduce;
use super::standing::{StepStanding, StepStandings};

/// A workflow as panels and items.
#[derive(Debug)]
pub(super) struct Diagram {
    pub(super) name: String,
    /// One for each block, by its number.
    pub(super) panels: Vec<Panel>,
    /// The panels that no item holds: the body, then functions.
    pub(super) tops: Vec<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Panel {
    pub(super) title: Option<String>,
    pub(super) items: Vec<Item>,
    /// From item to item, by number.
    pub(super) arrows: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct Item {
    /// The path of the step.
    pub(super) path: String,
    /// It holds panels that are not drawn.
    pub(super) is_folded: bool,
    pub(super) label: Label,
    pub(super) standing: Option<StepStanding>,
    /// How often the step was executed.
    pub(super) executions: usize,
    pub(super) panels: Vec<usize>,
}

impl Diagram {
    pub(super) fn of(
        definition: &Definition,
        standing: Option<&StepStandings>,
        folded: &BTreeSet<String>,
    ) -> Self {
        let sites = definition.sites();
        let prefixes = definition.prefixes();
        let ids = (0..definition.blocks.len()).map(|index| BlockId(index as u32));
        let panels = ids.map(|id| {
            let title = title(definition, id, sites[id.index()]);
            let steps = &definition.block(id).steps;
            let items = steps.iter().map(|step| {
                let path = format!("{}{}", prefixes[id.index()], step.name);
                let held = held(step);
                let is_folded = !held.is_empty() && folded.contains(&path);
                let progress = standing.and_then(|known| known.get(&path));
                let pending = standing.map(|_| StepStanding::Pending);
                Item {
                    label: label::of(step),
                    standing: progress.map(|progress| progress.standing).or(pending),
                    executions: progress.map_or(0, |progress| progress.executions),
                    panels: if is_folded { Vec::new() } else { held },
                    path,
                    is_folded,
                }
            });
            Panel {
                title,
                items: items.collect(),
                arrows: arrows(definition, id),
            }
        });
        let panels: Vec<Panel> = panels.collect();
        let tops = (0..panels.len())
            .filter(|index| sites[*index].is_none())
            .collect();
        Self {
            name: definition.name.to_string(),
            panels,
            tops,
        }
    }

    /// How many items are drawn.
    pub(super) fn items(&self) -> usize {
        let drawn = self.outside_in().into_iter();
        drawn.map(|panel| self.panels[panel].items.len()).sum()
    }

    /// The panels, each after the one that holds it.
    pub(super) fn outside_in(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut open = self.tops.clone();
        open.reverse();
        while let Some(panel) = open.pop() {
            order.push(panel);
            open.extend(
                self.panels[panel]
                    .items
                    .iter()
                    .flat_map(|item| &item.panels)
                    .rev(),
            );
        }
        order
    }
}

impl Item {
    /// The name, with the mark of its standing before it, and how often it was executed.
    pub(super) fn name(&self) -> String {
        self.marked(&self.label.name)
    }

    /// The title of an item that holds panels.
    pub(super) fn title(&self) -> String {
        self.marked(&self.label.title())
    }

    fn marked(&self, text: &str) -> String {
        let count = match self.executions {
            0 | 1 => String::new(),
            many => format!(" ×{many}"),
        };
        self.standing.map_or_else(
            || text.to_owned(),
            |standing| format!("{} {text}{count}", standing.mark()),
        )
    }
}

/// The steps that hold blocks, by path.
pub(super) fn holders(definition: &Definition) -> BTreeSet<String> {
    let prefixes = definition.prefixes();
    let blocks = definition.blocks.iter().zip(prefixes.iter());
    let steps = blocks.flat_map(|(block, prefix)| block.steps.iter().map(move |it| (prefix, it)));
    let holders = steps.filter(|(_, step)| !held(step).is_empty());
    holders
        .map(|(prefix, step)| format!("{prefix}{}", step.name))
        .collect()
}

/// The panels of a step.
fn held(step: &Step) -> Vec<usize> {
    let blocks = step.kind.blocks().into_iter();
    let blocks = blocks.filter(|(role, _)| *role != Role::Function);
    blocks.map(|(_, child)| child.index()).collect()
}

fn arrows(definition: &Definition, id: BlockId) -> Vec<(usize, usize)> {
    let steps = &definition.block(id).steps;
    let by_name: HashMap<&str, usize> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| (&*step.name, index))
        .collect();
    let mut arrows = Vec::new();
    for (to, step) in steps.iter().enumerate() {
        arrows.extend(
            step.needs
                .iter()
                .chain(&step.follows)
                .filter_map(|need| by_name.get(&**need))
                .map(|from| (*from, to)),
        );
    }
    reduce(steps.len(), &arrows)
}

/// What a block is to the step that holds it, where that is not plain.
fn title(definition: &Definition, id: BlockId, site: Option<Site>) -> Option<String> {
    let Some(site) = site else {
        return (id != BlockId::ROOT).then(|| label::function(definition.block(id), id));
    };
    label::role(
        &definition.block(site.block).steps[site.step].kind,
        site.role,
    )
}
