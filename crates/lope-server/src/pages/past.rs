//! A run as it was after a row of its journal: everything that the page says of it is of that time.

use lope::Redaction;
use lope::describe;
use lope::runs::{
    Execution, ExecutionStatus, FinalStatus, Historian, JournalEntry, RunRecord, RunStatus,
};
use lope_model::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::parts::exact;
use super::run_page::RunPage;
use crate::api::find;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;

/// Executions at work that are named.
const NAMED: usize = 3;

/// A run as it was.
pub(crate) struct PastRun {
    pub(crate) record: RunRecord,
    pub(crate) at: Timestamp,
    /// Paths of what was at work.
    working: Vec<String>,
    /// What had failed last, as it may be shown.
    failed: Option<Execution>,
}

/// The row that a page is asked for; nothing: it is about now.
pub(crate) async fn asked(
    context: &ServerContext,
    call: &ApiCall,
    record: &RunRecord,
) -> Result<Option<JournalEntry>, ApiError> {
    let Some(at) = find::row(call, record)? else {
        return Ok(None);
    };
    let rows = context.client.journal_outline(record.run, at - 1, 1);
    let row = rows.await?.into_iter().next();
    row.map(Some)
        .ok_or_else(|| ApiError::bad(format!("at: there is no row {at}")))
}

impl PastRun {
    pub(crate) fn of(
        now: &RunRecord,
        row: &JournalEntry,
        history: &Historian<'_>,
        redaction: Option<&Redaction>,
    ) -> Self {
        let status = RunStatus::parse(history.status().as_str()).unwrap_or(now.status);
        let is_last = row.seq == now.head;
        let over = matches!(status, RunStatus::Final(_));
        let of = |status| history.executions().filter(move |it| it.status == status);
        let working = of(ExecutionStatus::Running).map(|it| it.id.to_string());
        let failed = of(ExecutionStatus::Failed).filter(|it| it.failure.is_some());
        let failed = failed.max_by_key(|it| it.finished_at);
        Self {
            record: RunRecord {
                status,
                started_at: now.started_at.filter(|started| *started <= row.at),
                finished_at: over.then_some(row.at),
                owner: None,
                head: row.seq,
                result: now.result.clone().filter(|_| is_last),
                error: now.error.clone().filter(|_| is_last),
                ..now.clone()
            },
            at: row.at,
            working: working.collect(),
            failed: failed.map(|it| match redaction {
                Some(redaction) => redaction.execution(it),
                None => it.clone(),
            }),
        }
    }

    /// How it was, in a sentence; the failure that it had ended with is put into what is known of it.
    pub(crate) fn tell(&self, value: &mut Json) -> String {
        let RunStatus::Final(status) = self.record.status else {
            return self.live();
        };
        let failed = self.failed.as_ref();
        if status == FinalStatus::Failed && value["error"].is_null() {
            let failure = failed.and_then(|it| it.failure.as_ref());
            value["error"] = failure.map_or(Json::Null, |it| describe::failure(it, None));
        }
        match (status, failed) {
            (FinalStatus::Completed, _) => "It had completed.".to_owned(),
            (FinalStatus::Cancelled, _) => "It had been cancelled.".to_owned(),
            (FinalStatus::Failed, Some(it)) => format!("It had failed at {}.", it.id),
            (FinalStatus::Failed, None) => "It had failed.".to_owned(),
        }
    }

    fn live(&self) -> String {
        let status = self.record.status.as_str();
        let named = self.working.iter().take(NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        match self.working.len() {
            0 => format!("It was {status}."),
            count if count > NAMED => {
                format!("It was {status}; open: {named} and {} more.", count - NAMED)
            }
            _ => format!("It was {status}; open: {named}."),
        }
    }

    pub(crate) fn banner(&self, page: &RunPage<'_>) -> Markup {
        html! {
            div.note { "As it was after row " (self.record.head) ", at " (exact(self.at)) ". " a href=(page.path("")) { "Back to now" } }
        }
    }
}
