//! Bars as SVG: a row for each peer, a panel for each quantity. Light and dark come from one file, by
//! what the reader's system prefers. In: names and numbers; out: the text of a file.

use std::fmt::Write;

/// One quantity of several peers.
#[derive(Debug)]
pub(super) struct PlotPanel {
    pub(super) heading: String,
    pub(super) is_more_better: bool,
    /// For each row: the number and how it is written. None: the peer has none.
    pub(super) bars: Vec<Option<(f64, String)>>,
}

const STYLE: &str = include_str!("plot.css");

/// In pixels: names, then the panels beside each other.
const NAMES: f64 = 160.0;
const PANEL: f64 = 330.0;
/// What a panel leaves for the number behind its longest bar.
const NUMBER: f64 = 92.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const TOP: f64 = 52.0;
const EDGE: f64 = 8.0;

/// Draws the panels; rows whose name begins with ours have our colour.
pub(super) fn draw(title: &str, ours: &str, rows: &[&str], panels: &[PlotPanel]) -> String {
    let width = NAMES + PANEL * panels.len() as f64 + EDGE;
    let height = TOP + ROW * rows.len() as f64 + EDGE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n",
        escaped(title)
    );
    for (index, name) in rows.iter().enumerate() {
        let y = baseline(index);
        let name = escaped(name);
        let right = NAMES - EDGE;
        line(
            &mut svg,
            &format!("<text x=\"{right}\" y=\"{y}\" text-anchor=\"end\">{name}</text>"),
        );
    }
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, NAMES + PANEL * index as f64, panel, |row| {
            rows[row].starts_with(ours)
        });
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, x: f64, panel: &PlotPanel, is_ours: impl Fn(usize) -> bool) {
    let better = if panel.is_more_better {
        "more is better"
    } else {
        "less is better"
    };
    let heading = escaped(&panel.heading);
    line(
        svg,
        &format!("<text x=\"{x}\" y=\"18\" class=\"heading\">{heading}</text>"),
    );
    line(
        svg,
        &format!("<text x=\"{x}\" y=\"36\" class=\"remark\">{better}</text>"),
    );
    let bottom = TOP + ROW * panel.bars.len() as f64;
    line(
        svg,
        &format!("<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" class=\"axis\"/>"),
    );
    let values = panel.bars.iter().flatten().map(|(value, _)| *value);
    let most = values.fold(0.0, f64::max).max(1e-12);
    let best = best(panel);
    for (row, bar) in panel.bars.iter().enumerate() {
        let y = baseline(row);
        let Some((value, label)) = bar else {
            line(
                svg,
                &format!(
                    "<text x=\"{:.1}\" y=\"{y}\" class=\"remark\">–</text>",
                    x + 4.0
                ),
            );
            continue;
        };
        let length = (value / most * (PANEL - NUMBER)).max(1.0);
        let top = y - BAR + 3.0;
        let colour = if is_ours(row) { "bar ours" } else { "bar" };
        line(
            svg,
            &format!(
                "<rect x=\"{x}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" class=\"{colour}\"/>"
            ),
        );
        let weight = if Some(row) == best {
            "value best"
        } else {
            "value"
        };
        let behind = x + length + 6.0;
        let label = escaped(label);
        line(
            svg,
            &format!("<text x=\"{behind:.1}\" y=\"{y}\" class=\"{weight}\">{label}</text>"),
        );
    }
}

/// The row that wins a panel.
pub(super) fn best(panel: &PlotPanel) -> Option<usize> {
    let rows = panel.bars.iter().enumerate();
    let known = rows.filter_map(|(row, bar)| Some((row, bar.as_ref()?.0)));
    let order = |one: &(usize, f64), other: &(usize, f64)| one.1.total_cmp(&other.1);
    let won = if panel.is_more_better {
        known.max_by(order)
    } else {
        known.min_by(order)
    };
    won.map(|(row, _)| row)
}

fn baseline(row: usize) -> f64 {
    TOP + ROW * row as f64 + 18.0
}

fn line(svg: &mut String, text: &str) {
    let _ = writeln!(svg, "{text}");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(is_more_better: bool) -> PlotPanel {
        PlotPanel {
            heading: "steps a second".into(),
            is_more_better,
            bars: vec![Some((1.0, "1".into())), None, Some((3.0, "3 <".into()))],
        }
    }

    #[test]
    fn the_best_row_is_named_whoever_it_is() {
        assert_eq!(best(&panel(true)), Some(2));
        assert_eq!(best(&panel(false)), Some(0));
    }

    #[test]
    fn rows_and_numbers_are_drawn() {
        let svg = draw("Steps", "Lope", &["Lope", "b", "c"], &[panel(true)]);
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(svg.contains("bar ours") && svg.contains("3 &lt;"), "{svg}");
    }
}
