//! The pages of spaces: all of them, and one with its values, its graph, its errors, what happened
//! in it, and a box to send it an event.

use std::sync::Arc;

use lope::reactive::wording::{error_text, failure_text};
use lope::reactive::{
    Arrival, CellAddress, HistoryEntry, HostError, Json as CellJson, NodeLine, ProcessReport,
    SpaceAction, SpaceEntry, SpaceName, StreamEvent, is_stream,
};
use lope::tokens::Right;
use lope::workflows::{Format, draw_boxes};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::commands::command;
use lope_http::context::ServerContext;
use lope_http::endpoint::ApiResult;
use lope_http::parts::{ago, brief, copy, cut, empty, note, state, svg, told};
use lope_http::reply::{Reply, encoded};
use lope_http::shell::{self, Page};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::drawing::failed_event;
use super::list::{self, ListedDocument};
use super::{address, asked, commanded, drawing, message_id, naming, recipes, stored};

const SPACES: usize = 500;
/// Documents with their values, entries of one of them, and changes that a page shows.
const VALUES: usize = 24;
const ENTRIES: usize = 40;
const CHANGES: usize = 40;
const OTHERS: usize = 100;
/// Recipes that are drawn, and nodes of one whose runs are explained.
const DRAWN: usize = 6;
const EXPLAINED: usize = 100;

fn reply(context: &ServerContext, call: &ApiCall, page: &Page<'_>, body: &Markup) -> Reply {
    shell::show(context, &call.caller, page, body)
}

pub(super) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (entries, more) = list::entries(&context, None, SPACES).await?;
    let hosted = entries.iter().filter(|entry| entry.host.is_some()).count();
    let waiting: u64 = entries.iter().map(|entry| entry.waiting).sum();
    let body = html! {
        div.head { h1 { "Spaces" } }
        p.sentence {
            @match entries.len() { 0 => "There are no spaces yet.", 1 => "1 space", count => { (count) @if more { "+" } " spaces" } }
            @if !entries.is_empty() { ", " (hosted) " in memory, " (counted(waiting, "event")) " waiting." }
        }
        div.card.flush {
            @if entries.is_empty() {
                (empty("A space holds cells and the recipes that keep them up to date. Run a recipe to begin:", "lope recipes run examples/reactive/counter.yaml --into home/counter"))
            } @else { table {
                thead { tr { th { "Space" } th { "State" } th.number { "Waiting" } th.less { "Host" } } }
                tbody { @for entry in &entries { tr {
                    td.wide { a href=(space_path(&context, &entry.space)) title=(entry.space) { (entry.space) } }
                    td { (state(standing(entry))) }
                    td.number data-th="waiting" { (entry.waiting) }
                    td.less.dim { @if let Some((owner, _)) = &entry.host { span title=(owner) { (host_name(owner)) } } }
                } } }
            } }
        }
    };
    let page = Page {
        title: "Spaces",
        section: "/spaces",
        events: None,
    };
    Ok(reply(&context, &call, &page, &body))
}

fn standing(entry: &SpaceEntry) -> &'static str {
    match (&entry.host, entry.waiting) {
        (Some(_), _) => "live",
        (None, 0) => "idle",
        (None, _) => "waiting",
    }
}

/// The number of the process that hosts a space; its whole identity says more than a person asks.
fn host_name(owner: &str) -> String {
    match owner.split('.').next() {
        Some(number) if number.parse::<u32>().is_ok() => format!("process {number}"),
        Some(_) | None => brief(owner, 60),
    }
}

fn counted(count: u64, word: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {word}{end}")
}

fn space_path(context: &ServerContext, space: &SpaceName) -> String {
    context.path(&format!("/spaces/{}", encoded(space.as_str())))
}

/// All that the page of a space shows.
struct SpacePageParts {
    entry: SpaceEntry,
    documents: Vec<ListedDocument>,
    /// What the named documents stand for, links followed; or why that cannot be told.
    values: Vec<(String, Result<CellJson, String>)>,
    reports: Vec<ProcessReport>,
    changes: Vec<HistoryEntry>,
    /// Whose inbox the events of the space wait in.
    worker: String,
}

async fn gather(context: &ServerContext, space: &SpaceName) -> Result<SpacePageParts, ApiError> {
    let entry = list::found(context, space).await?;
    let store = context.spaces().await?.space(space);
    let documents = list::documents(context, space).await?;
    let mut values = Vec::new();
    let named = documents
        .iter()
        .filter_map(|it| Some((it, it.name.clone()?)));
    for (it, name) in named.take(VALUES) {
        let at = CellAddress::document(space.clone(), it.id.clone());
        let value = match store.read(&at).await {
            Ok(value) => Ok(value.unwrap_or_default()),
            Err(error @ HostError::Store(_)) => return Err(error.into()),
            Err(error) => Err(error.to_string()),
        };
        values.push((name, value));
    }
    let mut changes = store.history().await?;
    changes.retain(|change| is_news(change, &documents));
    changes.reverse();
    changes.truncate(CHANGES);
    Ok(SpacePageParts {
        entry,
        documents,
        values,
        reports: recipes::reports(context, space).await?,
        changes,
        worker: store.worker().to_string(),
    })
}

/// Is it a change of what people named or of what a process works with? The rest is bookkeeping.
fn is_news(change: &HistoryEntry, documents: &[ListedDocument]) -> bool {
    let mut known = documents.iter();
    let Some(document) = known.find(|it| it.id == change.at.id) else {
        return false;
    };
    let first = change.at.path.keys().first().map(|key| &**key);
    match document.kind {
        "process" => matches!(first, Some("internal" | "argument")),
        _ => document.name.is_some(),
    }
}

pub(super) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let space = super::space(&call)?;
    // Whatever happens after this number is told by events.
    let last = context.spaces().await?.space(&space).last_wave().await?;
    let parts = gather(&context, &space).await?;
    let acts = call.caller.right >= Right::Act;
    let body = html! {
        div.head { h1 { "Space " (brief(space.as_str(), 120)) } (copy("as command", &command("lope recipes list", space.as_str()))) span.grow {} span.dim #live {} }
        (note(&context, &call))
        p.sentence data-part="sentence" { (sentence(&context, &parts)) }
        div data-part="errors" { (errors(&parts.reports)) }
        div.split {
            div data-part="values" { @for (name, value) in &parts.values { (document(&context, &space, name, value.as_ref())) } (untold(&parts)) }
            div {
                @if acts { (send_form(&context, &call, &space)) }
                div.card.flush data-part="changes" { (changes(&parts)) }
            }
        }
        div data-part="graphs" { (graphs(&parts)) }
        div data-part="others" { (others(&space, &parts.documents)) }
    };
    let events = format!(
        "/api/spaces/{}/events?after={last}",
        encoded(space.as_str())
    );
    let page = Page {
        title: &format!("Space {}", brief(space.as_str(), 60)),
        section: "/spaces",
        events: Some(context.path(&events)),
    };
    Ok(reply(&context, &call, &page, &body))
}

fn sentence(context: &ServerContext, parts: &SpacePageParts) -> Markup {
    let running = parts
        .reports
        .iter()
        .filter(|it| it.parent.is_none())
        .count();
    let failing = failing(&parts.reports).count() as u64;
    html! {
        @if running == 0 { "No recipe runs here. " } @else { (counted(running as u64, "recipe")) @if running == 1 { " runs. " } @else { " run. " } }
        @if failing > 0 { (counted(failing, "node")) @if failing == 1 { " fails. " } @else { " fail. " } }
        @if parts.entry.waiting > 0 { (counted(parts.entry.waiting, "event")) @if parts.entry.waiting == 1 { " waits. " } @else { " wait. " } }
        @if parts.entry.dead > 0 { a href=(context.path(&format!("/mailboxes/{}", parts.worker))) { (counted(parts.entry.dead, "dead letter")) } ". " }
        @if parts.entry.host.is_some() { "A runner has it in memory." } @else { "It is at rest: the next event wakes it." }
    }
}

fn failing(reports: &[ProcessReport]) -> impl Iterator<Item = (&ProcessReport, &NodeLine)> {
    let nodes = reports
        .iter()
        .flat_map(|report| report.nodes.iter().map(move |node| (report, node)));
    nodes.filter(|(_, node)| {
        node.error.is_some() || node.unsettled.is_some() || failed_event(node).is_some()
    })
}

fn errors(reports: &[ProcessReport]) -> Markup {
    let warned = reports.iter().filter_map(|report| {
        let warnings = report.warnings.as_object()?;
        Some((report, warnings))
    });
    html! {
        @for (report, node) in failing(reports).take(10) {
            div.card.bad {
                strong { "Node " (node.node) " (" (node.module) ") of " (report.result) }
                @if let Some(error) = &node.error { pre { (cut(&error_text(error), 4_000)) } }
                @if let Some(error) = failed_event(node) { p { "Its last event, " code { (brief(node.event.as_deref().unwrap_or_default(), 60)) } ", had no effect:" } pre { (cut(&error_text(error), 4_000)) } }
                @if let Some(unsettled) = &node.unsettled { p { "It does not settle: " @if unsettled.messages > 0 { (unsettled.messages) " messages, effects and reads of other spaces that follow from each other, around " } @else { (unsettled.runs) " runs in one pass, around " } (unsettled.cycle.iter().map(|it| &**it).collect::<Vec<_>>().join(" → ")) ". It waits a little and tries again; the rest goes on." } }
            }
        }
        @for (report, warnings) in warned.take(10) { @for (node, text) in warnings.iter() {
            div.note.bad { (report.result) ", node " (node) ": " (text.as_str().unwrap_or_default()) }
        } }
    }
}

/// A named document: its entries, each with an address of its own.
fn document(
    context: &ServerContext,
    space: &SpaceName,
    name: &str,
    value: Result<&CellJson, &String>,
) -> Markup {
    let cell = format!("{space}/{name}");
    html! {
        div.card.flush {
            div.title { strong { (brief(name, 80)) } span.grow {} (copy("as command", &command("lope cells get", &cell))) }
            @match value {
                Err(error) => div.empty { "It cannot be shown whole: " (error) },
                Ok(CellJson::Object(object)) if object.is_empty() => div.empty { "It holds nothing yet." },
                Ok(CellJson::Object(object)) => table.cells { tbody {
                    @for (key, entry) in object.iter().take(ENTRIES) { tr {
                        th { (brief(key, 60)) }
                        td { (entry_value(context, space, &format!("{name}/{key}"), entry)) }
                    } }
                    @if object.len() > ENTRIES { tr { td.dim colspan="2" { "and " (object.len() - ENTRIES) " more" } } }
                } },
                Ok(other) => div.single { (cell_value(&cell, other)) },
            }
        }
    }
}

fn entry_value(context: &ServerContext, space: &SpaceName, cell: &str, value: &CellJson) -> Markup {
    if is_stream(value) {
        let target = format!(
            "{}?stream={}#send",
            space_path(context, space),
            encoded(cell)
        );
        return html! { a href=(target) { "stream · send…" } };
    }
    cell_value(&format!("{space}/{cell}"), value)
}

fn cell_value(cell: &str, value: &CellJson) -> Markup {
    let text = match value {
        CellJson::Array(_) | CellJson::Object(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        other => other.to_string(),
    };
    let is_long = text.len() > 80 || text.contains('\n');
    html! {
        @if is_long { pre.moves data-cell=(cell) { (cut(&text, 8 * 1024)) } }
        @else { code.moves data-cell=(cell) { (text) } }
    }
}

fn untold(parts: &SpacePageParts) -> Markup {
    let named = parts
        .documents
        .iter()
        .filter(|it| it.name.is_some())
        .count();
    html! {
        @if named == 0 { div.card { (empty("No document of this space has a name. A cell that is set under a name gets one:", &format!("{} '{{\"tea\": 3}}'", command("lope cells set", &format!("{}/prices", parts.entry.space))))) } }
        @if named > parts.values.len() { p.dim { "and " (named - parts.values.len()) " more documents" } }
    }
}

fn send_form(context: &ServerContext, call: &ApiCall, space: &SpaceName) -> Markup {
    let path = |verb: &str| format!("{}/{verb}", space_path(context, space));
    html! {
        div.card #send {
            h2 { "Send an event" }
            form method="post" action=(path("send")) {
                label.field { span { "Stream" } input.mono name="stream" required placeholder="counter/add" value=[call.query("stream")]; }
                label.field { span { "Event, as JSON" } textarea.short name="event" { "null" } }
                button.main { "Send" }
            }
            details { summary.dim { "Set a cell instead" }
                form method="post" action=(path("set")) {
                    label.field { span { "Cell" } input.mono name="cell" required placeholder="prices/tea"; }
                    label.field { span { "Value, as JSON" } textarea.short name="value" { "null" } }
                    button { "Set" }
                }
            }
        }
    }
}

fn changes(parts: &SpacePageParts) -> Markup {
    let names: Vec<(&str, &str)> = parts
        .documents
        .iter()
        .filter_map(|it| Some((it.id.as_str(), it.name.as_deref()?)))
        .collect();
    let named = |text: &str| {
        let named = names.iter();
        named.fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    };
    html! {
        div.title { strong { "What happened" } }
        @if parts.changes.is_empty() { div.empty { "Nothing has changed yet." } }
        @else { table.changes { tbody { @for change in &parts.changes { tr {
            td.wide title=(change.at) { (cell_label(&named(&format!("{}{}", change.at.id, change.at.path)))) }
            td.wide.mono { @match &change.value { Some(value) => (brief(&value.to_string(), 120)), None if change.is_left_out => "(long)", None => "–" } }
            td.number.tight title=(named(&change.by)) { (ago(change.time)) }
        } } } } }
    }
}

/// The path inside a process says enough; elsewhere the document too.
fn cell_label(text: &str) -> String {
    match text.split_once('/') {
        Some((document, path)) if document.starts_with("of:") => path.to_owned(),
        _ => drawing::short(text),
    }
}

fn graphs(parts: &SpacePageParts) -> Markup {
    let links = drawing::of_links(&parts.entry.space, &parts.documents);
    let drawn = |graph: &lope::workflows::BoxGraph| {
        svg(
            draw_boxes(graph, Format::Svg).ok(),
            "There is too much for a drawing.",
        )
    };
    let (children, own): (Vec<&ProcessReport>, Vec<&ProcessReport>) = parts
        .reports
        .iter()
        .partition(|report| report.parent.is_some());
    let children = children.len();
    html! {
        @for report in own.iter().take(DRAWN) {
            div.card {
                h2 { (report.name.as_deref().unwrap_or("recipe")) span.dim { " → " (brief(&report.result, 120)) } }
                div.graph { (drawn(&drawing::of_process(report))) }
                details { summary.dim { "Why did it run?" } (why(report)) }
            }
        }
        @if own.len() > DRAWN { p.dim { "and " (own.len() - DRAWN) " more recipes" } }
        @if children > 0 { p.dim { (children) @if children == 1 { " process" } @else { " processes" } " that these started, drawn by " code { "lope recipes graph" } } }
        @if !links.arrows.is_empty() { div.card { h2 { "Links between documents" } div.graph { (drawn(&links)) } } }
    }
}

fn why(report: &ProcessReport) -> Markup {
    html! {
        table {
            thead { tr { th.number { "Node" } th { "Module" } th.number { "Runs" } th { "Ran last because" } th.less { "Reads" } th.less { "Writes" } } }
            tbody { @for node in report.nodes.iter().take(EXPLAINED) { tr {
                td.number data-th="node" { (node.node) } td { (node.module) } td.number data-th="runs" { (node.runs) }
                td.wide { @if let Some(reason) = &node.reason { (brief(reason, 200)) } @else if node.role == "handler" && node.live { span.dim { @if let Some(event) = &node.event { "event " (brief(event, 60)) " came" } @else { "no event has come" } } } @else if node.role == "handler" { span.dim { "another handler has its stream" } } @else if !node.live { span.dim { "nobody wants what it writes" } } @else { span.dim { "it has not run" } } }
                td.wide.less.mono { (listed(&node.reads)) } td.wide.less.mono { (listed(&node.writes)) }
            } }
            @if report.nodes.len() > EXPLAINED { tr { td.dim colspan="6" { "and " (report.nodes.len() - EXPLAINED) " more nodes" } } } }
        }
    }
}

fn listed(cells: &[String]) -> String {
    brief(&cells.join(", "), 200)
}

fn others(space: &SpaceName, documents: &[ListedDocument]) -> Markup {
    let unnamed: Vec<&ListedDocument> = documents.iter().filter(|it| it.name.is_none()).collect();
    html! {
        @if !unnamed.is_empty() { details.card {
            summary { (counted(unnamed.len() as u64, "document")) " without a name" }
            table { tbody { @for it in unnamed.iter().take(OTHERS) { tr {
                td { (it.kind) } td.wide.mono { (it.id.as_str()) }
                td.wide.mono.less { (brief(&it.value.to_string(), 160)) }
                td.tight { (copy("as command", &command("lope cells get --raw", &format!("{space}/{}", it.id.as_str())))) }
            } } } }
        } }
    }
}

pub(super) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])?;
    let space = super::space(&call)?;
    let said = match call.param("verb") {
        "send" => send(&context, &call, &space).await?,
        "set" => set(&context, &call, &space).await?,
        _ => return Err(ApiError::missing("a space cannot be asked that")),
    };
    let path = space_path(&context, &space);
    Ok(told(&context, &path, &said))
}

/// A field that holds JSON.
fn json_field(call: &ApiCall, name: &str) -> Result<CellJson, ApiError> {
    let text = call.field(name).unwrap_or_else(|| "null".to_owned());
    let value: Json = serde_json::from_str(&text).map_err(|error| {
        ApiError::bad(format!("{name}: {error}")).hint("texts are written \"so\"")
    })?;
    Ok(stored(value))
}

async fn send(
    context: &ServerContext,
    call: &ApiCall,
    space: &SpaceName,
) -> Result<String, ApiError> {
    let named = call.field("stream").unwrap_or_default();
    let event = StreamEvent {
        id: message_id(call, None),
        stream: address(&format!("{space}/{}", named.trim_matches('/')))?,
        payload: json_field(call, "event")?,
    };
    let receipt = asked(context, space, &Arrival::Event(event)).await?;
    Ok(match receipt {
        None => "The event is on disk; whoever hosts the space has not come to it yet.".to_owned(),
        Some(receipt) => match (&*receipt.outcome, &receipt.failure) {
            ("handled", _) => format!("The event to {named} has taken effect."),
            (_, Some(failure)) => {
                let why = failure_text(&failure.kind, &failure.message);
                format!("The handler of {named} failed: {why}")
            }
            _ => format!("Nobody handles {named}: the event is with the dead letters."),
        },
    })
}

async fn set(
    context: &ServerContext,
    call: &ApiCall,
    space: &SpaceName,
) -> Result<String, ApiError> {
    let named = call.field("cell").unwrap_or_default();
    let text = format!("{space}/{}", named.trim_matches('/'));
    let at = address(&text)?;
    let set = SpaceAction::Set {
        at: at.clone(),
        value: Some(json_field(call, "value")?),
    };
    let actions = naming(&text, &at).into_iter().chain([set]).collect();
    let id = message_id(call, None);
    commanded(context, space, id, SpaceAction::All(actions)).await?;
    Ok(format!("{named} is set."))
}
