//! What there is to draw: panels of items with arrows between them; an item may hold panels.
//!
//! A panel is a block of the definition, an item a step. Arrows that follow from others are left
//! out.

use std::collections::HashMap;

use lope_definition::{BlockId, Definition, Role, Site};

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
    pub(super) label: Label,
    pub(super) standing: Option<StepStanding>,
    pub(super) panels: Vec<usize>,
}

impl Diagram {
    pub(super) fn of(definition: &Definition, standing: Option<&StepStandings>) -> Self {
        let sites = definition.sites();
        let prefixes = definition.prefixes();
        let ids = (0..definition.blocks.len()).map(|index| BlockId(index as u32));
        let panels = ids.map(|id| {
            let title = title(definition, id, sites[id.index()]);
            let steps = &definition.block(id).steps;
            let items = steps.iter().map(|step| {
                let path = format!("{}{}", prefixes[id.index()], step.name);
                let held = step
                    .kind
                    .blocks()
                    .into_iter()
                    .filter(|(role, _)| *role != Role::Function);
                Item {
                    label: label::of(step),
                    standing: standing
                        .map(|known| known.get(&path).copied().unwrap_or(StepStanding::Pending)),
                    panels: held.map(|(_, child)| child.index()).collect(),
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

    /// How many items there are.
    pub(super) fn items(&self) -> usize {
        self.panels.iter().map(|panel| panel.items.len()).sum()
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
    /// The name, with the mark of its standing before it.
    pub(super) fn name(&self) -> String {
        self.marked(&self.label.name)
    }

    /// The title of an item that holds panels.
    pub(super) fn title(&self) -> String {
        self.marked(&self.label.title())
    }

    fn marked(&self, text: &str) -> String {
        self.standing.map_or_else(
            || text.to_owned(),
            |standing| format!("{} {text}", standing.mark()),
        )
    }
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
