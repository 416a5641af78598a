//! The page of a task: why it stands where it stands, what it asks, its attempts with what they
//! cost, its log while it is written, what was said about it; buttons to decide.

use std::sync::Arc;

use lope::agents::law::decide::Decision;
use lope::agents::law::lock::LockStanding;
use lope::agents::records::{ReviewBy, TaskAttemptRecord, TaskRecord, TaskStatus};
use lope::agents::{TaskDetail, describe};
use lope::tokens::Right;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::ApiResult;
use lope_http::log_file::read_from;
use lope_http::parts::{ago, ahead, brief, copy, cut, exact, lasted, note, pill, state, told};
use lope_http::shell::{self, Page};
use lope_model::Span;
use maud::{Markup, html};

use super::decide::{decided, meant};
use super::watch::told_task;
use super::words::{dollars, status_word};
use super::{diff, log};

/// Bytes of a log that a page begins with.
const LOG: u64 = 48 * 1024;
const EVENTS: usize = 50;

pub(super) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let board = context.board();
    let detail = board.task_detail(call.param("id")).await?;
    let needed = board.tasks_of(&detail.task.dependencies).await?;
    let task = &detail.task;
    let id = task.id.to_string();
    let wanted: Option<i64> = call.number("attempt")?;
    let shown = match wanted {
        Some(number) => detail.attempts.iter().find(|it| it.number == number),
        None => detail.attempts.last(),
    };
    let changes = diff::card(&context, &detail, shown).await;
    let acts = call.caller.right >= Right::Act;
    let (_, told) = told_task(&detail);
    let body = html! {
        div.head {
            span data-part="pill" { (pill(status_word(task))) } h1 { (brief(&task.title, 300)) }
            span.mono.dim { (&id[..8]) } (copy("copy id", &id)) (copy("as command", &format!("lope tasks show {id}")))
            span.grow {} span.dim #live {}
        }
        (note(&context, &call))
        p.sentence data-part="sentence" { (sentence(&detail, &needed)) }
        @if acts { div data-part="actions" { (actions(&context, &detail)) } }
        div.split {
            div {
                @if !task.description.is_empty() { div.card { pre { (cut(&task.description, 32 * 1024)) } } }
                @if let Some(result) = &task.result { div.card data-part="result" { h2 { "Result" } pre { (cut(result, 32 * 1024)) } } } @else { div data-part="result" {} }
                div.card.flush data-part="log" data-keep=[shown.map(log_mark)] { (log_card(&context, &id, shown)) }
                div data-part="changes" { (changes) }
                div.card.flush data-part="attempts" { (attempts(&context, &detail)) }
            }
            div {
                div.card data-part="facts" { (facts(&detail)) }
                div.card.flush data-part="events" { (events(&detail)) }
            }
        }
        p { a href=(context.path("/agents")) { "The board" } }
    };
    let page = Page {
        title: &brief(&task.title, 60),
        section: "/agents",
        events: Some(context.path(&format!("/api/tasks/{id}/events?after={told}"))),
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

fn sentence(detail: &TaskDetail, needed: &[TaskRecord]) -> Markup {
    let task = &detail.task;
    let open: Vec<&TaskRecord> = needed
        .iter()
        .filter(|it| it.status != TaskStatus::Completed)
        .collect();
    let working = detail
        .attempts
        .iter()
        .rev()
        .find(|it| it.ended_at.is_none());
    html! {
        @match task.status {
            TaskStatus::Pending => {
                @if !open.is_empty() { "Waits for " @for (place, other) in open.iter().enumerate() { @if place > 0 { ", " } "“" (brief(&other.title, 60)) "”" } "." }
                @else if let Some(at) = task.not_before { "Starts again " (ahead(at)) @if let Some(reason) = &task.reason { ": " (cut(reason, 300)) } "." }
                @else { "Waits for a runner: " code { "lope runners start" } " in " code { (task.project_path) } "." }
            }
            TaskStatus::InProgress => {
                @match working {
                    Some(attempt) => { @if task.question.is_some() { "It has asked a question; its agent is still at work." } @else { (attempt.agent) " has been at work since " (exact(attempt.started_at)) ", attempt " (attempt.number) "." } }
                    None => "A runner has it.",
                }
            }
            TaskStatus::Review => { @if task.review == ReviewBy::Person { "The work is done and waits for your review." } @else { "The work is done; an agent reviews it next." } }
            TaskStatus::Blocked => { @match &task.question { Some(question) => { "It asks: " strong { (cut(question, 1_000)) } } None => { "Blocked" @if let Some(reason) = &task.reason { ": " (cut(reason, 300)) } "." } } }
            TaskStatus::Completed => { "Completed" @if let Some(at) = task.completed_at { " " (ago(at)) } " after " (counted(task.attempts.max(detail.attempts.len() as i64), "attempt")) "." }
            TaskStatus::Failed => { "Failed" @if let Some(reason) = &task.reason { ": " (cut(reason, 600)) } "." }
            TaskStatus::Skipped => { "Skipped" @if let Some(reason) = &task.reason { ": " (cut(reason, 300)) } "." }
        }
    }
}

fn counted(count: i64, word: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {word}{end}")
}

/// The buttons that make sense now.
fn actions(context: &ServerContext, detail: &TaskDetail) -> Markup {
    let task = &detail.task;
    let path = |verb: &str| context.path(&format!("/agents/tasks/{}/{verb}", task.id));
    let can = |states: &[TaskStatus]| states.contains(&task.status);
    use TaskStatus::{Blocked, Completed, Failed, InProgress, Pending, Review};
    html! {
        @if task.question.is_some() && task.answer.is_none() && can(&[Pending, InProgress, Review, Blocked, Failed]) {
            form.card.answer method="post" action=(path("answer")) {
                label.field { span { (task.question.as_deref().unwrap_or_default()) } input name="text" required placeholder="Your answer"; }
                button.main { "Answer" }
            }
        }
        div.row {
            @if can(&[Review, Blocked, Failed, InProgress]) { form.inline method="post" action=(path("approve")) { button.main[task.status == Review] { "Approve" } } }
            @if can(&[Review, Blocked, Completed]) { details.menu.left { summary.button { "Reject…" } div.panel { form method="post" action=(path("reject")) {
                label.field { span { "Notes for whoever works on it next" } textarea.short name="text" {} }
                button.danger { "Send it back" }
            } } } }
            @if can(&[Pending, InProgress, Review, Failed, Blocked]) { form.inline method="post" action=(path("skip")) data-ask="Never start this task?" { button { "Skip" } } }
            @if can(&[Failed, Completed, TaskStatus::Skipped, Blocked]) { form.inline method="post" action=(path("reset")) data-ask="Have this task worked on from the beginning?" { button { "Work on it again" } } }
        }
    }
}

/// A log that is followed stays as it is until this changes.
fn log_mark(attempt: &TaskAttemptRecord) -> String {
    let is_live = attempt.ended_at.is_none();
    format!(
        "{} {}",
        attempt.number,
        if is_live { "live" } else { "over" }
    )
}

/// The log of an attempt: what there is, and then what comes.
fn log_card(context: &ServerContext, id: &str, shown: Option<&TaskAttemptRecord>) -> Markup {
    let Some(attempt) = shown else {
        return html! { div.title { strong { "Log" } } div.empty { "No agent was started for it yet." } };
    };
    let path = log::path(context, attempt);
    let size = path.as_ref().and_then(|path| path.metadata().ok());
    let size = size.map_or(0, |it| it.len());
    let from = size.saturating_sub(LOG);
    let bytes = path.and_then(|path| read_from(&path, from, size - from).ok());
    let bytes = bytes.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let after = from + bytes.len() as u64;
    let events = format!(
        "/api/tasks/{id}/log/events?attempt={}&after={after}",
        attempt.number
    );
    let is_live = attempt.ended_at.is_none();
    html! {
        div.title {
            strong { "Log of attempt " (attempt.number) } span.grow {}
            @if from > 0 { a href=(context.path(&format!("/api/tasks/{id}/log?attempt={}&from=0&limit=1048576", attempt.number))) { "from the beginning" } }
        }
        pre.log data-log=[is_live.then(|| context.path(&events))] { (text) }
        @if bytes.is_empty() && !is_live { div.empty { "It said nothing, or its log is on another machine or gone." } }
    }
}

fn attempts(context: &ServerContext, detail: &TaskDetail) -> Markup {
    let cost: i64 = detail
        .attempts
        .iter()
        .map(|it| it.cost_micros)
        .fold(0, i64::saturating_add);
    let tokens: i64 = detail
        .attempts
        .iter()
        .map(|it| it.tokens)
        .fold(0, i64::saturating_add);
    html! {
        div.title { strong { "Attempts" } span.grow {} @if cost > 0 { span { (dollars(cost)) } } @if tokens > 0 { span.dim { (tokens) " tokens" } } }
        @if detail.attempts.is_empty() { div.empty { "None yet." } } @else { table.attempts {
            thead { tr { th.number { "No" } th { "For" } th { "End" } th.less { "Agent" } th.number.less { "Took" } th.number { "Cost" } th.less { "Said" } } }
            tbody { @for attempt in detail.attempts.iter().rev() { tr {
                td.number { a href=(context.path(&format!("/agents/tasks/{}?attempt={}", attempt.task_id, attempt.number))) { (attempt.number) } }
                td.tight { (attempt.role) }
                td.tight { (state(end_word(attempt))) @if !attempt.counted && attempt.ended_at.is_some() { span.dim { " not counted" } } }
                td.less.tight { (brief(&attempt.agent, 40)) }
                td.number.less.tight { @if attempt.ended_at.is_some() { (lasted(Span::from_millis(attempt.wall_ms.max(0).cast_unsigned()))) } @else { (ago(attempt.started_at)) } }
                td.number { @if attempt.cost_micros > 0 { (dollars(attempt.cost_micros)) } @else { "–" } }
                td.wide.less title=[attempt.summary.as_ref()] { (brief(attempt.summary.as_deref().unwrap_or_default(), 120)) }
            } } }
        } }
    }
}

fn end_word(attempt: &TaskAttemptRecord) -> &'static str {
    match (attempt.stop_reason, attempt.ended_at.is_some()) {
        (Some(reason), _) => match reason.as_str() {
            "success" => "done",
            "exit" => "failed",
            word => word,
        },
        (None, false) => "running",
        (None, true) => "ended",
    }
}

fn facts(detail: &TaskDetail) -> Markup {
    let task = &detail.task;
    html! {
        dl.facts {
            dt { "Project" } dd { (task.project_path) }
            @if let Some(section) = &task.section_id { dt { "Section" } dd { (section) } }
            dt { "Priority" } dd { (task.priority) }
            dt { "Review" } dd { (task.review) }
            @if task.rejections > 0 { dt { "Rejections" } dd { (task.rejections) } }
            @if let Some(source) = &task.source_file { dt { "Source" } dd.mono { (source) } }
            @if let Some(answer) = &task.answer { dt { "Answer" } dd { (cut(answer, 600)) } }
            @if let Some((lock, stands)) = &detail.lock { dt { "Lock" } dd { (describe::lock_word(*stands)) @if matches!(stands, LockStanding::Held | LockStanding::Own) { " by runner " span.mono { (&lock.runner_id.to_string()[..8]) } } } }
            dt { "Added" } dd { (exact(task.created_at)) }
        }
    }
}

fn events(detail: &TaskDetail) -> Markup {
    html! {
        div.title { strong { "What was said" } }
        @if detail.events.is_empty() { div.empty { "Nothing yet." } } @else { table { tbody {
            @for event in detail.events.iter().rev().take(EVENTS) { tr {
                td.tight { (event.kind) } td { (cut(&event.message, 600)) @if event.message.is_empty() { span.dim { "–" } } }
                td.number.tight.dim { (event.author) " " (ago(event.at)) }
            } }
        } } }
    }
}

pub(super) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let is_form = call.expect_type(&["application/x-www-form-urlencoded"]);
    is_form.or_else(|error| call.body.is_empty().then_some(()).ok_or(error))?;
    let decision = meant(call.param("verb"), call.field("text"))?;
    let task = decided(&context, call.param("id"), &decision).await?;
    let path = context.path(&format!("/agents/tasks/{}", task.id));
    Ok(told(&context, &path, in_words(&decision)))
}

fn in_words(decision: &Decision) -> &'static str {
    match decision {
        Decision::Approve { .. } => "The task is approved.",
        Decision::Reject { .. } => "The task is sent back.",
        Decision::Skip { .. } => "The task will not be started.",
        Decision::Reset => "The task will be worked on from the beginning.",
        Decision::Answer { .. } => "The answer is with the task; it goes on.",
        Decision::Done { .. } => "The task is done.",
        Decision::Fail { .. } => "The task is given up.",
        Decision::Ask { .. } => "The task waits for an answer.",
    }
}
