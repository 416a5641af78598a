//! The versions of a workflow that its runs went by, and what changed from one to the next.

use std::fmt::Write;
use std::sync::Arc;

use lope::describe;
use lope::runs::{RunFilter, RunRecord};
use lope::workflows::{self as drawings, Format, Plan};
use lope_model::VersionId;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::encoded;
use super::parts::{ago, cut};
use super::run::svg;
use super::shell::{self, Page};
use crate::api::find::no_workflow;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Runs whose versions are looked at.
const RUNS: usize = 200;
/// Lines that are compared one by one; where more changed, all of them are shown.
const COMPARED: usize = 1_500;
/// Lines around a change.
const AROUND: usize = 3;
/// Lines shown.
const LINES: usize = 2_000;

/// A version, youngest first, with the youngest of its runs that was looked at.
pub(crate) struct Version {
    pub(crate) id: VersionId,
    run: Option<RunRecord>,
    runs: usize,
}

/// The deployed version and those of the youngest runs.
pub(crate) async fn known(
    context: &ServerContext,
    name: &str,
    deployed: VersionId,
) -> Result<Vec<Version>, ApiError> {
    let filter = RunFilter {
        workflow: Some(name.to_owned()),
        limit: RUNS,
        ..RunFilter::default()
    };
    let mut all = vec![Version {
        id: deployed,
        run: None,
        runs: 0,
    }];
    for record in context.client.list(filter).await? {
        match all.iter_mut().find(|it| it.id == record.version) {
            Some(version) => {
                version.runs += 1;
                version.run.get_or_insert(record);
            }
            None => all.push(Version {
                id: record.version,
                run: Some(record),
                runs: 1,
            }),
        }
    }
    Ok(all)
}

fn path(context: &ServerContext, name: &str, version: VersionId) -> String {
    let name = encoded(name);
    context.path(&format!("/workflows/{name}/versions/{version}"))
}

fn short(version: VersionId) -> String {
    version.to_string().chars().take(12).collect()
}

pub(crate) fn card(context: &ServerContext, name: &str, all: &[Version]) -> Markup {
    html! {
        div.card.flush {
            div.title { strong { "Versions" } span.dim { "of the last " (RUNS) " runs" } }
            table {
                thead { tr { th { "Version" } th { "Last run" } th.number { "Runs" } } }
                tbody { @for (place, version) in all.iter().enumerate() { tr {
                    td.tight { a.mono href=(path(context, name, version.id)) { (short(version.id)) } @if place == 0 { " deployed" } }
                    td.tight { @if let Some(run) = &version.run { (ago(run.created_at)) } }
                    td.number data-th="runs" { (version.runs) }
                } } }
            }
        }
    }
}

async fn plan(
    context: &ServerContext,
    version: &Version,
    deployed: &Arc<Plan>,
) -> Result<Arc<Plan>, ApiError> {
    match &version.run {
        Some(run) => Ok(context.client.plan(run).await?),
        None => Ok(Arc::clone(deployed)),
    }
}

/// A definition in lines, without the places where it was written: those of all that follows move
/// when a line is put in.
fn text(plan: &Plan) -> String {
    let mut lines = String::new();
    write(&describe::definition(plan.definition()), 0, &mut lines);
    lines
}

fn write(value: &Json, depth: usize, lines: &mut String) {
    let indent = "  ".repeat(depth);
    let is_flat = |value: &Json| match value {
        Json::Array(all) => all.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => true,
    };
    match value {
        Json::Object(fields) => {
            let told = fields.iter();
            for (name, value) in told.filter(|(name, _)| *name != "at" && *name != "file") {
                if is_flat(value) {
                    let _ = writeln!(lines, "{indent}{name}: {value}");
                } else {
                    let _ = writeln!(lines, "{indent}{name}:");
                    write(value, depth + 1, lines);
                }
            }
        }
        Json::Array(all) => {
            for value in all {
                if value.is_object() {
                    let _ = writeln!(lines, "{indent}-");
                    write(value, depth + 1, lines);
                } else {
                    let _ = writeln!(lines, "{indent}- {value}");
                }
            }
        }
        other => {
            let _ = writeln!(lines, "{indent}{other}");
        }
    }
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (name, asked) = (call.param("name"), call.param("version"));
    let deployed = context.client.latest_plan(name).await?;
    let deployed = deployed.ok_or_else(|| no_workflow(name))?;
    let all = known(&context, name, deployed.version()).await?;
    let place = all.iter().position(|it| it.id.to_string() == asked);
    let place = place.ok_or_else(|| {
        ApiError::missing(format!("no version '{asked}' of '{name}' is known"))
            .hint("its page lists those of its last runs")
    })?;
    let this = plan(&context, &all[place], &deployed).await?;
    let before = match all.get(place + 1) {
        Some(older) => Some((older.id, plan(&context, older, &deployed).await?)),
        None => None,
    };
    let workflow = context.path(&format!("/workflows/{}", encoded(name)));
    let body = html! {
        div.head { h1 { a href=(workflow) { (cut(name, 200)) } } span.mono.dim { (asked) } }
        p.sentence {
            @if place == 0 { "This is the version that is deployed. " }
            @match &before { Some((id, _)) => { "The version before it is " a.mono href=(path(&context, name, *id)) { (short(*id)) } "." } None => "No version before it is known." }
        }
        @if let Some((_, before)) = &before { div.card { h2 { "What changed" } (changes(&text(before), &text(&this))) } }
        div.card { h2 { "Graph" } div.graph { (svg(drawings::draw(this.definition(), None, Format::Svg).ok())) } }
        details.card { summary { "The whole definition" } pre { (cut(&text(&this), 64 * 1024)) } }
    };
    let page = Page {
        title: name,
        section: "/workflows",
        events: None,
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

/// A line of two texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

fn changes(before: &str, after: &str) -> Markup {
    let lines = compared(before, after);
    let near = |place: usize| {
        let around = &lines[place.saturating_sub(AROUND)..(place + AROUND + 1).min(lines.len())];
        around.iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let shown = (0..lines.len()).filter(|place| near(*place)).take(LINES);
    html! {
        pre.changes { @for place in shown { @match lines[place] {
            Line::Same(text) => { "  " (text) "\n" }
            Line::Removed(text) => del { "- " (text) "\n" }
            Line::Added(text) => ins { "+ " (text) "\n" }
        } } }
    }
}

/// The lines of both texts in one order: the fewest that were removed and added.
fn compared<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let pairs = || old.iter().zip(&new);
    let begin = pairs().take_while(|(old, new)| old == new).count();
    let ends = old[begin..].iter().rev().zip(new[begin..].iter().rev());
    let end = ends.take_while(|(old, new)| old == new).count();
    let (left, right) = (&old[begin..old.len() - end], &new[begin..new.len() - end]);
    let mut lines: Vec<Line<'_>> = old[..begin].iter().map(|line| Line::Same(line)).collect();
    if left.len() > COMPARED || right.len() > COMPARED {
        lines.extend(left.iter().map(|line| Line::Removed(line)));
        lines.extend(right.iter().map(|line| Line::Added(line)));
    } else {
        between(left, right, &mut lines);
    }
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    lines
}

/// The same for lines that begin and end differently.
fn between<'a>(left: &[&'a str], right: &[&'a str], lines: &mut Vec<Line<'a>>) {
    let width = right.len() + 1;
    // How many lines the rests of both have in common.
    let mut common = vec![0_u32; (left.len() + 1) * width];
    for (row, old) in left.iter().enumerate().rev() {
        for (column, new) in right.iter().enumerate().rev() {
            let at = row * width + column;
            common[at] = if old == new {
                common[at + width + 1] + 1
            } else {
                common[at + width].max(common[at + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < left.len() || column < right.len() {
        let at = row * width + column;
        let ends = (row == left.len(), column == right.len());
        if ends == (false, false) && left[row] == right[column] {
            lines.push(Line::Same(left[row]));
            (row, column) = (row + 1, column + 1);
        } else if ends.1 || (!ends.0 && common[at + width] >= common[at + 1]) {
            lines.push(Line::Removed(left[row]));
            row += 1;
        } else {
            lines.push(Line::Added(right[column]));
            column += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_written_without_its_places() {
        let value = serde_json::json!({
            "name": "n", "file": "n.yaml", "blocks": [{ "steps": [{ "name": "a", "at": [3, 3] }], "code": ["x", ["lit", 1]] }],
        });
        let mut lines = String::new();
        write(&value, 0, &mut lines);
        let wanted = "name: \"n\"\nblocks:\n  -\n    steps:\n      -\n        name: \"a\"\n    code:\n      - \"x\"\n      - [\"lit\",1]\n";
        assert_eq!(lines, wanted);
    }

    #[test]
    fn lines_that_stayed_are_told_from_those_that_did_not() {
        use Line::{Added, Removed, Same};
        for (before, after, wanted) in [
            ("a\nb", "a\nb", vec![Same("a"), Same("b")]),
            ("", "a", vec![Added("a")]),
            ("a", "", vec![Removed("a")]),
            (
                "a\nb\nc\nd",
                "a\nx\nc\ny\nd",
                vec![
                    Same("a"),
                    Removed("b"),
                    Added("x"),
                    Same("c"),
                    Added("y"),
                    Same("d"),
                ],
            ),
        ] {
            assert_eq!(compared(before, after), wanted, "{before} {after}");
        }
    }
}
