//! A run: its state and why, what failed, its graph, its timeline, what went in and came out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use lope::Redaction;
use lope::describe;
use lope::runs::{
    Execution, ExecutionStatus, FinalStatus, Historian, RecentHistory, RunFilter, RunRecord,
    RunStatus, as_told,
};
use lope::tokens::Right;
use lope::workflows::{self, Format, Plan, Timeline, Zoom};
use lope_model::{Timestamp, Value};
use maud::{Markup, html};
use serde_json::{Value as Json, json};

use super::parts::{cut, json as shown_json, lasted, note};
use super::past::{self, PastRun};
use super::run_actions::Known;
use super::run_page::RunPage;
use super::run_result::RunResult;
use super::timeline;
use super::{parts, run_actions, runs};
use crate::api::find;
use crate::api::views::shown_tail;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Lines of a log beside a failure.
const LAST_LINES: usize = 5;
/// Children shown.
const CHILDREN: usize = 20;

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (now, redaction) = find::on_page(&context, &call).await?;
    let now = find::with_error(&context, now).await?;
    let plan = context.client.plan(&now).await?;
    let row = past::asked(&context, &call, &now).await?;
    let recent = match &row {
        None => context.client.recent_history(&now, &plan).await?,
        Some(row) => {
            let history = context
                .client
                .history(now.run, &plan, Some(row.seq))
                .await?;
            Some(RecentHistory { history, from: 0 })
        }
    };
    let history = recent.as_ref().map(|recent| &recent.history);
    let past = row.as_ref().zip(history);
    let past = past.map(|(row, history)| PastRun::of(&now, row, history, redaction.as_ref()));
    let record = past.as_ref().map_or(&now, |past| &past.record);
    let mut value = described(record, &plan);
    let told = match &past {
        Some(past) => vec![past.tell(&mut value)],
        None => sentence(&context, record, history, &value).await?,
    };
    let input = context.client.input(record).await?;
    let input = input.map(|input| match &redaction {
        Some(redaction) => redaction.input(&input),
        None => input,
    });
    let result = if record.head == now.head {
        RunResult::of(&context, record, redaction.as_ref()).await?
    } else {
        None
    };
    let children = children(&context, record).await?;
    let page = RunPage {
        context: &context,
        call: &call,
        record,
    };
    let until = past
        .as_ref()
        .map_or(record.finished_at, |past| Some(past.at))
        .unwrap_or_else(clock::now);
    let executions = history.map(|history| executions(record, history, past.is_some()));
    let zoom = zoom(&call)?;
    let folding = Folding::read(&call, &plan);
    let body = html! {
        (page.head())
        @if past.is_none() { (run_actions::bar(&page, known(&page, &plan, input.as_ref()).await?)) }
        (note(&context, &call))
        div data-part="why" { (why(&told, redaction.as_ref())) (failure(&page, history, &value, redaction.as_ref())) }
        (page.tabs(""))
        @if let Some(past) = &past { (past.banner(&page)) }
        (cut_off(&page, recent.as_ref().map(|recent| recent.from)))
        @if let Some(executions) = &executions {
            div.card { h2 { "Timeline" } div data-part="timeline" { (timeline::draw(&Timeline::of(executions, until, zoom), &page.with(&["at", "fold"]))) } }
        }
        div.split {
            div.card { h2 { "Graph" } (folds(&page, &folding)) div.graph data-part="graph" data-fold=(folding.text()) { (graph(record, &folding, history, past.as_ref())) } }
            div data-part="facts" { (page.facts()) }
        }
        div.columns data-part="values" {
            div.card { h2 { "Input" } @match &input { Some(input) => (shown_json(&json!(input))), None => p.dim { "none" } } }
            @if let Some(result) = &result { div.card { h2 { "Result" } (result.markup(&context, &now)) } }
        }
        (children)
    };
    Ok(page.reply(&body))
}

/// A sentence, and what else there is to say.
fn why(told: &[String], redaction: Option<&Redaction>) -> Markup {
    let shown = |text: &String| match redaction {
        Some(redaction) => with_times(&redaction.words(text)),
        None => with_times(text),
    };
    let (first, others) = told.split_at(told.len().min(1));
    html! {
        @for sentence in first { p.sentence { (shown(sentence)) } }
        @if !others.is_empty() {
            details { summary { "and " (others.len()) " more" } ul { @for other in others { li { (shown(other)) } } } }
        }
    }
}

/// The executions of a run; those of its past as its journal tells them.
fn executions<'a>(
    record: &RunRecord,
    history: &'a Historian<'_>,
    is_past: bool,
) -> Vec<Cow<'a, Execution>> {
    let all = history.executions();
    if is_past {
        return all.map(Cow::Borrowed).collect();
    }
    all.filter_map(|it| as_told(record, it)).collect()
}

/// What the buttons of a run's first page are made from.
async fn known<'a>(
    page: &RunPage<'_>,
    plan: &'a Plan,
    input: Option<&Value>,
) -> Result<Known<'a>, ApiError> {
    let live = matches!(page.record.status, RunStatus::Live(_));
    let asks = live && page.call.caller.right >= Right::Act;
    Ok(Known {
        plan: Some(plan),
        input: Some(json!(input)),
        is_open: asks && page.context.client.is_open(page.record.run).await?,
    })
}

/// A sentence whose times move with the clock: "since TIME (2m ago)" and "until TIME (in 2h)" are times
/// that the page counts on.
fn with_times(sentence: &str) -> Markup {
    let moment = || {
        let (before, rest) = sentence.split_once(" (")?;
        let (before, time) = before.rsplit_once(' ')?;
        let (shown, after) = rest.split_once(')')?;
        let at: Timestamp = time.parse().ok()?;
        let is_ahead = shown.starts_with("in ");
        let moving = if is_ahead { parts::ahead } else { parts::ago };
        (is_ahead || shown.ends_with(" ago")).then(|| (before, at, moving(at), after))
    };
    match moment() {
        Some((before, at, moving, after)) => {
            html! { (before) " " (parts::exact(at)) " (" (moving) ")" (with_times(after)) }
        }
        None => html! { (sentence) },
    }
}

fn described(record: &RunRecord, plan: &Plan) -> Json {
    let mut value = describe::run(record);
    describe::add_sources(&mut value, plan.definition());
    value
}

/// What a tired person wants to know, the most telling first.
async fn sentence(
    context: &ServerContext,
    record: &RunRecord,
    history: Option<&Historian<'_>>,
    value: &Json,
) -> Result<Vec<String>, ApiError> {
    let took = record
        .finished_at
        .map(|at| lasted(at.since(record.begun_at())));
    let took = took.unwrap_or_default();
    if let RunStatus::Final(status) = record.status {
        let step = value["error"]["step"].as_str().unwrap_or("a step");
        return Ok(vec![match status {
            FinalStatus::Completed => format!("Completed in {took}."),
            FinalStatus::Failed => format!("Failed at {step} after {took}."),
            FinalStatus::Cancelled => format!("Cancelled after {took}."),
        }]);
    }
    let Some(history) = history else {
        return Ok(vec![format!("It is {}.", record.status.as_str())]);
    };
    let reasons = context.client.why_of(record, history).await?;
    if reasons.is_empty() {
        return Ok(vec!["It is being worked on.".to_owned()]);
    }
    let now = clock::now();
    let reasons = reasons.iter().map(|reason| reason.message(now));
    Ok(reasons.map(|text| begun(text, history)).collect())
}

/// A reason as a sentence; the name of a step that it begins with is written as it is.
fn begun(mut text: String, history: &Historian<'_>) -> String {
    let begins_with = text.split(' ').next().unwrap_or_default();
    if history.execution(begins_with).is_some() {
        text.insert_str(0, "Step ");
    } else if let Some(letter) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &letter);
    }
    format!("{text}.")
}

/// The failing step, its error and the last lines of its log, without a click.
fn failure(
    page: &RunPage<'_>,
    history: Option<&Historian<'_>>,
    value: &Json,
    redaction: Option<&Redaction>,
) -> Markup {
    let error = &value["error"];
    if error.is_null() {
        return html! {};
    }
    let said = |name: &str| error[name].as_str();
    let all = history
        .into_iter()
        .flat_map(lope::runs::Historian::executions);
    let failed = all.filter(|it| it.status == ExecutionStatus::Failed && !it.attempts.is_empty());
    // Others may have failed before it, and the run went on.
    let lines = failed
        .filter(|it| is_of(it, said("step")))
        .max_by_key(|it| it.finished_at)
        .and_then(|it| last_lines(page, &it.id, redaction));
    html! {
        div.card.bad role="alert" {
            h2 { (said("type").unwrap_or("Failure")) @if let Some(step) = said("step") { " in " code { (step) } } }
            pre { (cut(said("message").unwrap_or_default(), 8_000)) }
            @if let Some(source) = said("source") { p.dim { (source) } }
            @if let Some(traceback) = said("traceback") { details { summary { "Traceback" } pre { (cut(traceback, 16_000)) } } }
            @if let Some(lines) = lines { p.dim { "Last lines of its log" } pre { (lines) } }
        }
    }
}

/// Is it the execution, or one of the step, that an error names? One that names none is of any.
fn is_of(execution: &Execution, named: Option<&str>) -> bool {
    named.is_none_or(|named| *named == *execution.id || *named == *execution.step)
}

fn last_lines(
    page: &RunPage<'_>,
    execution: &str,
    redaction: Option<&Redaction>,
) -> Option<String> {
    let logs = page.context.logs.of_run(page.record.run).ok()?;
    let mut of_it = logs.into_iter().rev();
    let log = of_it.find(|entry| entry.execution == execution)?;
    let (text, _) = shown_tail(&log, 8 * 1024, redaction).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    Some(lines[from..].join("\n")).filter(|text| !text.is_empty())
}

fn graph(
    record: &RunRecord,
    folding: &Folding<'_>,
    history: Option<&Historian<'_>>,
    past: Option<&PastRun>,
) -> Markup {
    let at = past.map(|past| past.record.head);
    let standings = history.map(|history| workflows::standings(record, history, at));
    let definition = folding.plan.definition();
    let drawn =
        workflows::draw_folded(definition, standings.as_ref(), &folding.folded, Format::Svg);
    svg(drawn.ok())
}

/// The part of a run's time that is asked for.
fn zoom(call: &ApiCall) -> Result<Option<Zoom>, ApiError> {
    let read = |text: &str| {
        let problem = || format!("zoom: '{text}' is no stretch of time, as in zoom=0-1500");
        Zoom::read(text).ok_or_else(|| ApiError::bad(problem()))
    };
    call.query("zoom").map(read).transpose()
}

/// Which of the blocks of a graph are folded.
struct Folding<'a> {
    plan: &'a Plan,
    folded: BTreeSet<String>,
    holders: BTreeSet<String>,
}

/// Stands for all of them.
const ALL: &str = "*";

impl<'a> Folding<'a> {
    fn read(call: &ApiCall, plan: &'a Plan) -> Self {
        let holders = workflows::holders(plan.definition());
        let asked = call.query("fold").unwrap_or_default();
        let folded = match asked {
            ALL => holders.clone(),
            paths => paths.split(',').map(str::to_owned).collect(),
        };
        Self {
            plan,
            folded: folded.intersection(&holders).cloned().collect(),
            holders,
        }
    }

    fn text(&self) -> String {
        let folded: Vec<&str> = self.folded.iter().map(String::as_str).collect();
        folded.join(",")
    }
}

/// The ways to fold everything and nothing; single blocks are folded by a click on them.
fn folds(page: &RunPage<'_>, folding: &Folding<'_>) -> Markup {
    let kept = page.with(&["at", "zoom"]);
    let joint = if kept.contains('?') { '&' } else { '?' };
    let is_all = folding.folded.len() == folding.holders.len();
    html! {
        @if !folding.holders.is_empty() {
            nav.presets data-part="folds" aria-label="Blocks of the graph" {
                a href=(format!("{kept}{joint}fold={ALL}")) aria-current=[is_all.then_some("true")] { "Fold blocks" }
                a href=(kept) aria-current=[folding.folded.is_empty().then_some("true")] { "Open blocks" }
            }
        }
    }
}

/// What is said where only the last part of a long run is shown.
pub(crate) fn cut_off(page: &RunPage<'_>, from: Option<u64>) -> Markup {
    let journal = page.path("journal");
    html! {
        @match from {
            Some(0) => {}
            Some(from) => p.dim { "It is a long run: what was over at row " (from) " is not drawn here. The " a href=(journal) { "journal" } " has every row." }
            None => p.dim { "It is a long run, and too much is at work to be drawn. The " a href=(journal) { "journal" } " has every row." }
        }
    }
}

/// A drawing inside a page.
pub(crate) fn svg(drawing: Option<String>) -> Markup {
    parts::svg(drawing, "The workflow is too large for a drawing.")
}

async fn children(context: &ServerContext, record: &RunRecord) -> Result<Markup, ApiError> {
    let filter = RunFilter {
        parent: Some(record.run),
        limit: CHILDREN,
        ..RunFilter::default()
    };
    let records = context.client.list(filter).await?;
    Ok(html! {
        @if !records.is_empty() {
            div.card.flush data-part="children" { table {
                thead { tr { th { "Status" } th { "Child run" } th { "Workflow" } th.less { "Key and tags" } th.less { "Queue" } th.number { "Started" } th.number.less { "Took" } } }
                tbody { @for record in &records { (runs::row(context, record)) } }
            } }
        }
    })
}
