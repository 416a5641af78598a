//! Drawings of workflows: boxes for a terminal, Mermaid, DOT and SVG.
//!
//! A definition (and, for a run, how far each step is) flows in, text flows out. A `Diagram` is
//! what there is to draw; boxes and SVG are drawn from one layered layout, computed here in whole
//! units: cells for the one, pixels for the other. Nothing here knows how a run proceeds or where a
//! drawing goes.

mod boxes;
mod canvas;
mod coordinates;
mod diagram;
mod dot;
mod label;
mod layers;
mod layout;
mod mermaid;
mod order;
mod route;
mod standing;
mod svg;
mod text;
mod timeline;
mod tree;

use std::str::FromStr;

use std::collections::BTreeSet;

use lope_definition::Definition;
use thiserror::Error;

use diagram::Diagram;

pub use boxes::{BoxGraph, GraphBox};
pub use standing::{StepProgress, StepStanding, StepStandings, standings};
pub use timeline::{BarKind, Spread, Timeline, TimelineBar, TimelineRow, Zoom};

/// Most steps of a drawing with boxes.
pub const DRAWN_MAX: usize = 5_000;
/// Widest drawing with boxes for a terminal, in columns; a wider one becomes a tree.
pub const TEXT_WIDTH: usize = 120;

/// How a drawing is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Text,
    Mermaid,
    Dot,
    Svg,
}

/// A workflow with more steps than a drawing can show.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the workflow has {steps} steps; a drawing shows at most {DRAWN_MAX}")]
pub struct TooLarge {
    steps: usize,
}

/// A word that is no format.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("'{0}' is not a format: text, mermaid, dot or svg")]
pub struct BadFormat(String);

/// Draws a workflow; with `standing`, each step shows how far it is.
pub fn draw(
    definition: &Definition,
    standing: Option<&StepStandings>,
    format: Format,
) -> Result<String, TooLarge> {
    draw_folded(definition, standing, &BTreeSet::new(), format)
}

/// As `draw`; what the steps of these paths hold is left out.
pub fn draw_folded(
    definition: &Definition,
    standing: Option<&StepStandings>,
    folded: &BTreeSet<String>,
    format: Format,
) -> Result<String, TooLarge> {
    draw_diagram(&Diagram::of(definition, standing, folded), format)
}

/// The steps that can be folded, by path.
pub fn holders(definition: &Definition) -> BTreeSet<String> {
    diagram::holders(definition)
}

/// Draws any graph.
pub fn draw_boxes(graph: &BoxGraph, format: Format) -> Result<String, TooLarge> {
    draw_diagram(&graph.diagram(), format)
}

fn draw_diagram(diagram: &Diagram, format: Format) -> Result<String, TooLarge> {
    let steps = diagram.items();
    if format == Format::Text {
        return Ok(if steps > DRAWN_MAX {
            tree::draw(diagram)
        } else {
            text::draw(diagram, TEXT_WIDTH)
        });
    }
    if steps > DRAWN_MAX {
        return Err(TooLarge { steps });
    }
    Ok(match format {
        Format::Text => tree::draw(diagram),
        Format::Mermaid => mermaid::draw(diagram),
        Format::Dot => dot::draw(diagram),
        Format::Svg => svg::draw(diagram),
    })
}

impl Format {
    pub const ALL: [(&'static str, Self); 4] = [
        ("text", Self::Text),
        ("mermaid", Self::Mermaid),
        ("dot", Self::Dot),
        ("svg", Self::Svg),
    ];
}

impl FromStr for Format {
    type Err = BadFormat;

    fn from_str(text: &str) -> Result<Self, BadFormat> {
        let found = Self::ALL.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| BadFormat(text.to_owned()))
    }
}
