//! Tasks, projects, locks and runners as JSON, in the words of the seed's schema.

use serde_json::{Map, Value as Json, json};

use crate::law::lock::LockStanding;
use crate::law::seen::SeenRunner;
use crate::law::unstarted::UnstartedRunner;
use crate::records::{
    ProjectRecord, TaskAttemptRecord, TaskEventRecord, TaskLockRecord, TaskRecord,
};

/// An object without what is null.
fn present(value: Json) -> Json {
    match value {
        Json::Object(object) => {
            let kept = object.into_iter().filter(|(_, value)| !value.is_null());
            Json::Object(kept.collect::<Map<String, Json>>())
        }
        other => other,
    }
}

pub fn project(project: &ProjectRecord) -> Json {
    let unstarted = UnstartedRunner::of(project);
    let mut project = project.clone();
    UnstartedRunner::forget(&mut project);
    present(json!({
        "path": project.path,
        "name": project.name,
        "enabled": project.enabled,
        "registeredAt": project.registered_at.to_string(),
        "lastSeenAt": project.last_seen_at.to_string(),
        "settings": &*project.settings,
        "unstarted": unstarted.as_ref().map(unstarted_runner),
    }))
}

/// That no runner of a project can be started.
pub fn unstarted_runner(unstarted: &UnstartedRunner) -> Json {
    json!({
        "failures": unstarted.failures,
        "error": unstarted.error,
        "notBefore": unstarted.not_before.to_string(),
    })
}

pub fn task(task: &TaskRecord) -> Json {
    present(json!({
        "id": task.id.to_string(),
        "title": task.title,
        "description": task.description,
        "project": task.project_path,
        "section": task.section_id,
        "status": task.status.as_str(),
        "priority": task.priority,
        "dependencies": task.dependencies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "sourceFile": task.source_file,
        "attempts": task.attempts,
        "rejections": task.rejections,
        "review": task.review.as_str(),
        "reason": task.reason,
        "decidedBy": task.decided_by.map(crate::records::Author::as_str),
        "notBefore": task.not_before.map(|time| time.to_string()),
        "parent": task.parent_id.map(|id| id.to_string()),
        "question": task.question,
        "answer": task.answer,
        "result": task.result,
        "epoch": task.epoch,
        "createdAt": task.created_at.to_string(),
        "updatedAt": task.updated_at.to_string(),
        "completedAt": task.completed_at.map(|time| time.to_string()),
    }))
}

pub fn attempt(attempt: &TaskAttemptRecord) -> Json {
    present(json!({
        "number": attempt.number,
        "role": attempt.role.as_str(),
        "agent": attempt.agent,
        "runner": attempt.runner_id.to_string(),
        "epoch": attempt.epoch,
        "run": attempt.run_id.map(|run| run.to_string()),
        "execution": attempt.execution,
        "startedAt": attempt.started_at.to_string(),
        "endedAt": attempt.ended_at.map(|time| time.to_string()),
        "stopReason": attempt.stop_reason.map(crate::records::StopReason::as_str),
        "counted": attempt.counted,
        "exitCode": attempt.exit_code,
        "wallMs": attempt.wall_ms,
        "cost": attempt.cost_micros as f64 / 1e6,
        "tokens": attempt.tokens,
        "session": attempt.session,
        "summary": attempt.summary,
        "log": attempt.log,
        "worktree": attempt.worktree,
    }))
}

pub fn event(event: &TaskEventRecord) -> Json {
    json!({
        "number": event.number,
        "at": event.at.to_string(),
        "kind": event.kind.as_str(),
        "by": event.author.as_str(),
        "message": event.message,
    })
}

pub fn lock(lock: &TaskLockRecord, standing: LockStanding) -> Json {
    present(json!({
        "taskId": lock.task_id.to_string(),
        "project": lock.project_path,
        "section": lock.section_id,
        "runnerId": lock.runner_id.to_string(),
        "epoch": lock.epoch,
        "acquiredAt": lock.acquired_at.to_string(),
        "expiresAt": lock.expires_at.to_string(),
        "state": lock_word(standing),
    }))
}

/// How a lock stands, in a word.
pub const fn lock_word(standing: LockStanding) -> &'static str {
    match standing {
        LockStanding::Own | LockStanding::Held => "held",
        LockStanding::Expired => "expired",
        LockStanding::Dead => "dead",
    }
}

/// A runner, as the seed's schema has it.
pub fn runner(seen: &SeenRunner) -> Json {
    let runner = &seen.runner;
    present(json!({
        "id": runner.id.to_string(),
        "status": seen.word(),
        "projectPath": runner.project_path,
        "section": runner.section_id,
        "currentTask": runner.current_task_id.map(|id| id.to_string()),
        "startedAt": runner.started_at.to_string(),
        "completedAt": runner.completed_at.map(|time| time.to_string()),
        "lastHeartbeat": runner.heartbeat_at.to_string(),
        "pid": runner.pid,
        "host": runner.host,
        "stopping": runner.stop.filter(|_| seen.is_live()).map(crate::records::StopLevel::as_str),
        "error": seen.error(),
    }))
}
