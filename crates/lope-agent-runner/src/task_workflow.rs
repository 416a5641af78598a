//! The workflow of tasks: the one that is built in, or the project's own file. What a run of it is
//! given, and what its end means for the task.

use std::path::Path;
use std::sync::Arc;

use lope_agents::law::settle::{AttemptEnd, ReviewVerdict};
use lope_agents::records::{AttemptRole, StopReason, TaskRecord};
use lope_definition::Definition;
use lope_definition::yaml::{self, ProblemReport};
use lope_engine::codec;
use lope_flow::law::Plan;
use lope_model::{Failure, Timestamp, Value, failure, value};
use lope_store::runs::{FinalStatus, RunRecord, RunStatus};

/// The workflow that is built in. Another text is another version; runs stay on theirs.
pub const BUILT_IN: &str = include_str!("task_workflow.yaml");
/// Where a project has its own, below its folder.
pub const PROJECT_FILE: &str = ".lope/task.yaml";

/// The workflow for a task: the project's own for work, if it has one. A review that is not part of
/// such a round is the built-in's.
pub fn plan(project: &Path, role: AttemptRole) -> Result<Arc<Plan>, String> {
    let file = project.join(PROJECT_FILE);
    match (role, std::fs::read_to_string(&file)) {
        (AttemptRole::Work, Ok(text)) => read(&text, &file.display().to_string()),
        (AttemptRole::Work, Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()))
        }
        (AttemptRole::Work | AttemptRole::Review, _) => read(BUILT_IN, "lope.task"),
    }
}

fn read(text: &str, file_name: &str) -> Result<Arc<Plan>, String> {
    let definition = yaml::read(text, file_name).and_then(|definition| {
        let file = Some(file_name.into());
        Plan::new(&Definition { file, ..definition })
    });
    definition.map(Arc::new).map_err(|problems| {
        let report = ProblemReport {
            file_name,
            text,
            problems: &problems,
        };
        report.to_string().trim_end().to_owned()
    })
}

/// What a run for a task is given.
pub fn input(task: &TaskRecord, role: AttemptRole) -> Value {
    let text = |text: &str| Value::from(text);
    let optional = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    Value::map([
        ("id", Value::from(task.id.to_string())),
        ("title", text(&task.title)),
        ("description", text(&task.description)),
        ("project", text(&task.project_path)),
        ("section", optional(&task.section_id)),
        ("source", optional(&task.source_file)),
        ("priority", Value::Int(task.priority)),
        ("rejections", Value::Int(task.rejections)),
        ("review", text(task.review.as_str())),
        ("begin", text(role.as_str())),
    ])
}

/// What a run's end means: how its round ended. Nothing while it lives.
pub fn end_of(record: &RunRecord, role: AttemptRole) -> Option<AttemptEnd> {
    let RunStatus::Final(status) = record.status else {
        return None;
    };
    Some(match status {
        FinalStatus::Completed => {
            let result = record.result.as_deref().map(codec::read_result);
            match result.transpose() {
                Ok(result) => completed(&result.unwrap_or(Value::Null)),
                Err(error) => ended(role, StopReason::Exit, Some(error.to_string())),
            }
        }
        FinalStatus::Failed => {
            let failure = record.error.as_deref().map(codec::read_error);
            match failure.transpose() {
                Ok(Some(failure)) => failed(&failure, role),
                Ok(None) => ended(role, StopReason::Exit, None),
                Err(error) => ended(role, StopReason::Exit, Some(error.to_string())),
            }
        }
        FinalStatus::Cancelled => {
            let words = "its run was cancelled".to_owned();
            ended(role, StopReason::Cancel, Some(words))
        }
    })
}

/// An end without further ado.
pub fn ended(role: AttemptRole, reason: StopReason, message: Option<String>) -> AttemptEnd {
    AttemptEnd {
        role,
        reason,
        reset: None,
        verdict: None,
        message,
        session: None,
        is_split: false,
    }
}

/// A result with a verdict is that of a review; any other is that of work.
fn completed(result: &Value) -> AttemptEnd {
    let verdict = match result.get("verdict").and_then(Value::as_str) {
        Some("approved") => Some(ReviewVerdict::Approved),
        Some("rejected") => Some(ReviewVerdict::Rejected),
        Some(_) | None => None,
    };
    match verdict {
        Some(found) => AttemptEnd {
            verdict: Some(found),
            ..ended(
                AttemptRole::Review,
                StopReason::Success,
                result.get("notes").and_then(words),
            )
        },
        None => ended(AttemptRole::Work, StopReason::Success, words(result)),
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Str(text) => Some(text.to_string()),
        other => Some(value::to_json(other)),
    }
}

/// A review's answer, as a step has it.
pub fn review_value(verdict: ReviewVerdict, notes: Option<&str>) -> Value {
    let word = match verdict {
        ReviewVerdict::Approved => "approved",
        ReviewVerdict::Rejected => "rejected",
    };
    Value::map([
        ("verdict", Value::from(word)),
        ("notes", notes.map_or(Value::Null, Value::from)),
    ])
}

/// How an attempt that is the end of its round fails its step; [`end_of`] reads it again.
pub fn step_failure(kind: &str, end: &AttemptEnd) -> Failure {
    let message = end.message.clone();
    let mut failure = Failure::new(kind, message.unwrap_or_else(|| end.reason.to_string()));
    let reset = end.reset.map(|time| Value::from(time.to_string()));
    failure.detail = Value::map([
        ("stop", Value::from(end.reason.as_str())),
        ("role", Value::from(end.role.as_str())),
        ("reset", reset.unwrap_or(Value::Null)),
        ("split", Value::from(end.is_split)),
    ]);
    failure
}

fn failed(failure: &Failure, role: AttemptRole) -> AttemptEnd {
    let text = |key| failure.detail.get(key).and_then(Value::as_str);
    let stop = text("stop").and_then(|word| word.parse::<StopReason>().ok());
    let Some(reason) = stop else {
        return ended(role, stop_of(failure), Some(told(failure)));
    };
    AttemptEnd {
        reset: text("reset").and_then(|time| time.parse::<Timestamp>().ok()),
        is_split: failure.detail.get("split") == Some(&Value::from(true)),
        ..ended(
            text("role")
                .and_then(|word| word.parse().ok())
                .unwrap_or(role),
            reason,
            Some(failure.message.clone()),
        )
    }
}

/// What the failure of a step that is no agent's means.
fn stop_of(failure: &Failure) -> StopReason {
    match &*failure.kind {
        failure::kind::TIMEOUT | failure::kind::DEADLINE => StopReason::Timeout,
        _ => StopReason::Exit,
    }
}

fn told(failure: &Failure) -> String {
    let step = failure.step.as_deref();
    let place = step.map_or_else(String::new, |step| format!("step '{step}': "));
    format!("{place}{}: {}", failure.kind, failure.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workflow_is_sound() {
        let plan = read(BUILT_IN, "lope.task").unwrap();
        assert_eq!(&**plan.name(), "lope.task");
    }

    #[test]
    fn what_a_step_fails_with_is_read_again() {
        for reason in StopReason::ALL {
            let end = AttemptEnd {
                reset: Some(Timestamp::from_millis(1_700_000_000_000)),
                is_split: true,
                ..ended(AttemptRole::Review, *reason, Some("words".to_owned()))
            };
            let failure = step_failure("AgentFailed", &end);
            assert_eq!(failed(&failure, AttemptRole::Work), end);
        }
    }

    #[test]
    fn a_result_with_a_verdict_is_a_reviews() {
        let rejected = review_value(ReviewVerdict::Rejected, Some("no tests"));
        let end = completed(&rejected);
        assert_eq!(
            (end.role, end.verdict, end.message.as_deref()),
            (
                AttemptRole::Review,
                Some(ReviewVerdict::Rejected),
                Some("no tests")
            )
        );
        let end = completed(&Value::from("done"));
        assert_eq!(
            (end.role, end.message.as_deref()),
            (AttemptRole::Work, Some("done"))
        );
    }
}
