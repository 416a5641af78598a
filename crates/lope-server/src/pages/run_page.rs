//! What the pages of a run have in common: its head, its tabs, its facts.

use lope::runs::{RunRecord, RunStatus};
use maud::{Markup, html};

use super::parts::{ago, copy, cut, exact, lasted, pill};
use super::shell::{self, Page};
use super::{encoded, runs};
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;

/// What the pages of a run have in common.
pub(crate) struct RunPage<'a> {
    pub(crate) context: &'a ServerContext,
    pub(crate) call: &'a ApiCall,
    pub(crate) record: &'a RunRecord,
}

impl RunPage<'_> {
    pub(crate) fn path(&self, tab: &str) -> String {
        let tab = if tab.is_empty() {
            String::new()
        } else {
            format!("/{tab}")
        };
        self.context
            .path(&format!("/runs/{}{tab}", self.record.run))
    }

    /// The first page of the run, with what is asked of it by these names.
    pub(crate) fn with(&self, names: &[&str]) -> String {
        let asked = names
            .iter()
            .filter_map(|name| Some((name, self.call.query(name)?)));
        let asked: Vec<String> = asked
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        if asked.is_empty() {
            return self.path("");
        }
        format!("{}?{}", self.path(""), asked.join("&"))
    }

    /// Does it show the run as it was? Then nothing of it moves.
    fn is_past(&self) -> bool {
        self.call.query("at").is_some()
    }

    pub(crate) fn reply(&self, body: &Markup) -> crate::reply::Reply {
        let live = matches!(self.record.status, RunStatus::Live(_)) && !self.is_past();
        let events = format!(
            "/api/runs/{}/events?after={}",
            self.record.run, self.record.head
        );
        let shown = Page {
            title: &format!(
                "{} {}",
                cut(&self.record.workflow, 60),
                runs::short(self.record)
            ),
            section: "/",
            events: live.then(|| self.context.path(&events)),
        };
        shell::show(self.context, &self.call.caller, &shown, body)
    }

    pub(crate) fn head(&self) -> Markup {
        let record = self.record;
        let run = self.record.run.to_string();
        let workflow = format!("/workflows/{}", encoded(&record.workflow));
        html! {
            div.head data-part="head" {
                (pill(record.status.as_str()))
                h1 { a href=(self.context.path(&workflow)) { (cut(&record.workflow, 200)) } }
                span.mono.dim { (run) } (copy("copy", &run))
                (copy("as command", &format!("lope runs show {run}")))
                span.grow {} span.dim #live {}
            }
        }
    }

    pub(crate) fn tabs(&self, current: &str) -> Markup {
        let tabs = [
            ("", "Overview"),
            ("steps", "Steps"),
            ("logs", "Logs"),
            ("journal", "Journal"),
            ("compare", "Compare"),
        ];
        html! {
            nav.tabs aria-label="Run" {
                @for (tab, word) in tabs {
                    a href=(self.path(tab)) aria-current=[(tab == current).then_some("page")] { (word) }
                }
            }
        }
    }

    pub(crate) fn facts(&self) -> Markup {
        let record = self.record;
        let version = record.version.to_string();
        let end = record.finished_at.unwrap_or_else(clock::now);
        let so_far = lasted(end.since(record.begun_at()));
        html! {
            div.card { h2 { "Facts" } dl.facts {
                @if let Some(key) = &record.key { dt { "Key" } dd.mono { (key) } }
                dt { "Admitted" } dd { (exact(record.created_at)) " · " (ago(record.created_at)) }
                @if let Some(at) = record.started_at { dt { "Started" } dd { (exact(at)) } }
                @if let Some(at) = record.finished_at { dt { "Finished" } dd { (exact(at)) } }
                @if record.finished_at.is_some() { dt { "Took" } dd { (so_far) } } @else if runs::has_begun(record) && !self.is_past() { dt { "So far" } dd { (so_far) } }
                dt { "Queue" } dd { a href=(self.context.path(&format!("/queues/{}", encoded(record.queue.as_str())))) { (record.queue) } ", priority " (record.priority.level()) }
                dt { "Version" } dd.mono { (version.get(..12).unwrap_or(&version)) }
                @if !record.tags.is_empty() { dt { "Tags" } dd { @for (name, value) in &record.tags { span.tag { (name) "=" (value) } } } }
                @if let Some(parent) = &record.parent {
                    dt { "Parent" } dd { a.mono href=(self.context.path(&format!("/runs/{}", parent.run))) { (parent.run) } " at " (parent.execution) }
                }
                @if let Some(owner) = &record.owner { dt { "Runner" } dd.mono { a href=(self.context.path(&format!("/runners/{owner}"))) { (owner) } } }
                dt { "Journal" } dd { (record.head) @if record.head == 1 { " row" } @else { " rows" } }
            } }
        }
    }
}
