//! Drawings of any graph: boxes with arrows between them. Arrows that would close a cycle are left
//! out, since a drawing in layers has no place for them.

use super::diagram::{Diagram, Item, Panel};
use super::label::Label;
use super::layers::reduce;
use super::standing::StepStanding;

/// A box of a graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphBox {
    pub name: String,
    /// A word for what it is, and what matters of the rest.
    pub kind: String,
    pub detail: String,
    pub standing: Option<StepStanding>,
}

/// Boxes and arrows between them, by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoxGraph {
    pub name: String,
    pub boxes: Vec<GraphBox>,
    pub arrows: Vec<(usize, usize)>,
}

impl BoxGraph {
    pub(super) fn diagram(&self) -> Diagram {
        let items = self.boxes.iter().map(|it| Item {
            path: String::new(),
            is_folded: false,
            label: Label {
                name: super::label::cut(&it.name),
                kind: it.kind.clone(),
                detail: super::label::cut(&it.detail),
                when: None,
            },
            standing: it.standing,
            executions: 0,
            panels: Vec::new(),
        });
        let panel = Panel {
            title: None,
            items: items.collect(),
            arrows: reduce(self.boxes.len(), &self.forward()),
        };
        Diagram {
            name: self.name.clone(),
            panels: vec![panel],
            tops: vec![0],
        }
    }

    /// The arrows without those that lead back.
    fn forward(&self) -> Vec<(usize, usize)> {
        let mut down: Vec<Vec<usize>> = vec![Vec::new(); self.boxes.len()];
        let known = |(from, to): &&(usize, usize)| from.max(to) < &self.boxes.len();
        for (from, to) in self.arrows.iter().filter(known) {
            if from != to && !down[*from].contains(to) && !reaches(&down, *to, *from) {
                down[*from].push(*to);
            }
        }
        let arrows = down.iter().enumerate();
        arrows
            .flat_map(|(from, all)| all.iter().map(move |to| (from, *to)))
            .collect()
    }
}

/// Whether arrows lead from one box to another.
fn reaches(down: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; down.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&down[at]);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, draw_boxes};

    fn graph(names: &[&str], arrows: &[(usize, usize)]) -> BoxGraph {
        let boxes = names.iter().map(|name| GraphBox {
            name: (*name).to_owned(),
            kind: "cell".to_owned(),
            detail: String::new(),
            standing: None,
        });
        BoxGraph {
            name: "g".to_owned(),
            boxes: boxes.collect(),
            arrows: arrows.to_vec(),
        }
    }

    #[test]
    fn arrows_that_lead_back_are_left_out() {
        let made = graph(&["a", "b", "c"], &[(0, 1), (1, 2), (2, 0), (1, 1), (0, 9)]);
        assert_eq!(made.forward(), [(0, 1), (1, 2)]);
        let svg = draw_boxes(&made, Format::Svg).unwrap();
        assert_eq!(svg.matches("class=\"box\"").count(), 3);
        assert_eq!(svg.matches("class=\"wire\"").count(), 2);
    }

    #[test]
    fn names_are_text() {
        let made = graph(&["<script>"], &[]);
        let svg = draw_boxes(&made, Format::Svg).unwrap();
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
    }
}
