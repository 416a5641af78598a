//! An attempt that had ended before its runner died: its end is on the board, and the journal of its
//! run has not heard of it. Whoever goes on with the run tells it that end and starts no second agent.

use lope_agents::board::{BoardError, TaskDetail};
use lope_agents::law::settle::{AttemptEnd, run_at_work};
use lope_agents::records::{StopReason, TaskAttemptRecord, TaskEventKind, TaskEventRecord};
use lope_engine::executor::Token;
use lope_engine::query;
use lope_flow::history::ExecutionStatus;
use lope_model::Span;

use super::TaskRunner;
use super::attempt::conclude;
use super::round_state::Round;
use crate::adapter::AgentReport;
use crate::process::AgentEnd;

impl TaskRunner {
    /// The end of an attempt of this step that a runner before this one wrote down, and died before
    /// its journal heard of it.
    pub(super) async fn known_end(
        &self,
        round: &Round,
        token: &Token,
        detail: &TaskDetail,
    ) -> Result<Option<AttemptEnd>, BoardError> {
        if run_at_work(&round.held.task) != Some(token.run) {
            return Ok(None);
        }
        let mut own = detail.attempts.iter().rev().filter(|attempt| {
            attempt.run_id == Some(token.run)
                && attempt.execution.as_deref() == Some(&token.execution)
        });
        let is_done = |it: &&TaskAttemptRecord| it.stop_reason == Some(StopReason::Success);
        if let Some(done) = own.clone().find(is_done) {
            return Ok(end_of(done, detail));
        }
        let last = own.next().filter(|attempt| {
            attempt.epoch < round.held.lock.epoch && attempt.stop_reason.is_some_and(is_failure)
        });
        match last {
            Some(last) if self.is_unheard(last, token).await? => Ok(end_of(last, detail)),
            Some(_) | None => Ok(None),
        }
    }

    /// Does the journal hold the try that this attempt was for lost?
    async fn is_unheard(
        &self,
        attempt: &TaskAttemptRecord,
        token: &Token,
    ) -> Result<bool, BoardError> {
        let store = &self.equipment.engine.store;
        let Some(record) = store.runs.run(token.run).await? else {
            return Ok(false);
        };
        let plan = query::plan(store, &record).await?;
        let history = query::history(store, token.run, &plan, None).await?;
        let tries = history.execution(&token.execution);
        let mut tries = tries.iter().flat_map(|it| it.attempts.iter().rev());
        let before = tries.find(|it| it.number < token.attempt);
        Ok(before.is_some_and(|it| {
            it.status == ExecutionStatus::Lost && it.dispatched_at <= attempt.started_at
        }))
    }
}

/// A failure that counts and that its runner saw. After the others the agent is started again.
const fn is_failure(reason: StopReason) -> bool {
    match reason {
        StopReason::Exit | StopReason::Timeout | StopReason::Hang => true,
        StopReason::Success
        | StopReason::Startup
        | StopReason::UsageLimit
        | StopReason::Budget
        | StopReason::Cancel
        | StopReason::Drain
        | StopReason::LostLock
        | StopReason::RunnerDeath => false,
    }
}

/// What an attempt came to, as it was written down.
fn end_of(attempt: &TaskAttemptRecord, detail: &TaskDetail) -> Option<AttemptEnd> {
    let ended_at = attempt.ended_at?;
    let said = detail
        .events
        .iter()
        .filter(|event| event.at >= attempt.started_at && event.at <= ended_at);
    let said: Vec<&TaskEventRecord> = said.collect();
    // Whoever asked something is started again, with the answer.
    if said.iter().any(|it| it.kind == TaskEventKind::Question) {
        return None;
    }
    let end = AgentEnd {
        reason: attempt.stop_reason?,
        exit_code: None,
        report: AgentReport::default(),
        message: attempt.summary.clone(),
        wall: Span::ZERO,
    };
    Some(conclude(attempt.role, &end, &said).end)
}
