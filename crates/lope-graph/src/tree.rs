//! A tree for a terminal: one line a step, blocks indented, with what each step comes after. It
//! fits any workflow.

use std::fmt::Write;

use super::diagram::{Diagram, Item, Panel};

/// Deepest level that is still indented further.
const INDENTED: usize = 40;

/// A line that is still to be written.
enum TreeLine<'a> {
    Item {
        panel: &'a Panel,
        number: usize,
        lead: String,
        last: bool,
    },
    Title {
        panel: &'a Panel,
        title: &'a str,
        lead: String,
        last: bool,
    },
}

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut text = format!("{}\n", diagram.name);
    for top in &diagram.tops {
        let panel = &diagram.panels[*top];
        if let Some(title) = &panel.title {
            let _ = writeln!(text, "{title}");
        }
        let mut open = items(panel, "");
        open.reverse();
        while let Some(line) = open.pop() {
            let mut below = write(diagram, &line, &mut text);
            below.reverse();
            open.extend(below);
        }
    }
    text
}

/// Writes a line; answers those right below it.
fn write<'a>(diagram: &'a Diagram, line: &TreeLine<'a>, text: &mut String) -> Vec<TreeLine<'a>> {
    match line {
        TreeLine::Item {
            panel,
            number,
            lead,
            last,
        } => {
            let item = &panel.items[*number];
            let _ = writeln!(
                text,
                "{lead}{}{}",
                branch(*last),
                describe(panel, *number, item)
            );
            let lead = deeper(lead, *last);
            let held: Vec<&Panel> = item
                .panels
                .iter()
                .map(|panel| &diagram.panels[*panel])
                .collect();
            let count = held.len();
            held.into_iter()
                .enumerate()
                .flat_map(|(index, panel)| inside(panel, &lead, index + 1 == count))
                .collect()
        }
        TreeLine::Title {
            panel,
            title,
            lead,
            last,
        } => {
            let _ = writeln!(text, "{lead}{}{title}:", branch(*last));
            items(panel, &deeper(lead, *last))
        }
    }
}

fn inside<'a>(panel: &'a Panel, lead: &str, last: bool) -> Vec<TreeLine<'a>> {
    match &panel.title {
        Some(title) => vec![TreeLine::Title {
            panel,
            title,
            lead: lead.to_owned(),
            last,
        }],
        None => items(panel, lead),
    }
}

fn items<'a>(panel: &'a Panel, lead: &str) -> Vec<TreeLine<'a>> {
    let count = panel.items.len();
    let line = |number| TreeLine::Item {
        panel,
        number,
        lead: lead.to_owned(),
        last: number + 1 == count,
    };
    (0..count).map(line).collect()
}

const fn branch(last: bool) -> &'static str {
    if last { "└─ " } else { "├─ " }
}

fn deeper(lead: &str, last: bool) -> String {
    if lead.chars().count() > 3 * INDENTED {
        return lead.to_owned();
    }
    format!("{lead}{}", if last { "   " } else { "│  " })
}

fn describe(panel: &Panel, number: usize, item: &Item) -> String {
    let before = panel
        .arrows
        .iter()
        .filter(|(_, to)| *to == number)
        .map(|(from, _)| &*panel.items[*from].label.name);
    let before: Vec<&str> = before.collect();
    let after = if before.is_empty() {
        String::new()
    } else {
        format!("  ← {}", before.join(", "))
    };
    format!("{}{after}", item.title())
}
