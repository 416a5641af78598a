//! A task list as an array of JSON objects, with the keys of `lope tasks list --json`.

use std::collections::BTreeMap;

use lope_model::id::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::sound::sound;
use super::{BadTaskList, ListedTask, as_added, unmarked};
use crate::records::{Budget, ReviewBy, TaskStatus};

/// What a list may say of a task.
const KEYS: [&str; 11] = [
    "id",
    "title",
    "description",
    "section",
    "status",
    "priority",
    "dependencies",
    "sourceFile",
    "review",
    "budget",
    "parent",
];
/// What `lope tasks list|show --json` says besides: what happened to it.
const OF_LIFE: [&str; 16] = [
    "project",
    "attempts",
    "rejections",
    "reason",
    "decidedBy",
    "notBefore",
    "question",
    "answer",
    "result",
    "epoch",
    "createdAt",
    "updatedAt",
    "completedAt",
    "attemptList",
    "events",
    "lock",
];

/// A task in a JSON list, and what the comment of a Markdown item may hold. Keys that describe what
/// happened to a task are let pass: they are not a list's to say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TaskDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) section: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dependencies: Vec<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) review: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<Budget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<TaskId>,
}

impl TaskDocument {
    pub(super) fn of(task: &ListedTask) -> Self {
        Self {
            id: task.id,
            title: Some(task.title.clone()),
            description: Some(task.description.clone()).filter(|text| !text.is_empty()),
            section: task.section.clone(),
            status: Some(task.status.as_str().to_owned()),
            priority: task.priority,
            dependencies: task.dependencies.clone(),
            source_file: task.source_file.clone(),
            review: task.review.map(|review| review.as_str().to_owned()),
            budget: Some(task.budget).filter(|budget| *budget != Budget::default()),
            parent: task.parent,
        }
    }

    /// The task that it describes.
    pub(super) fn listed(self, line: usize) -> Result<ListedTask, BadTaskList> {
        let bad = |message: String| BadTaskList { line, message };
        let title = self.title.unwrap_or_default();
        if title.trim().is_empty() {
            return Err(bad("a task needs a title".to_owned()));
        }
        let status = self.status.map(|text| text.parse::<TaskStatus>());
        let status = status
            .transpose()
            .map_err(|error| bad(format!("status: {error}")))?;
        let review = self.review.map(|text| text.parse::<ReviewBy>());
        let review = review
            .transpose()
            .map_err(|error| bad(format!("review: {error}")))?;
        if self.budget.is_some_and(|budget| !budget.is_sound()) {
            let words = "budget: a cost is an amount of dollars, and attempts are at least one";
            return Err(bad(words.to_owned()));
        }
        if let Some(priority) = self.priority.filter(|level| !(0..=9).contains(level)) {
            return Err(bad(format!("priority {priority} is not from 0 to 9")));
        }
        Ok(ListedTask {
            line,
            id: self.id,
            title,
            description: self.description.unwrap_or_default(),
            section: self.section,
            status: as_added(status.unwrap_or(TaskStatus::Pending)),
            priority: self.priority,
            dependencies: self.dependencies,
            source_file: self.source_file,
            review,
            budget: self.budget.unwrap_or_default(),
            parent: self.parent,
        })
    }
}

/// A task's document, all of whose keys are known.
pub(super) fn read_document(text: &str) -> serde_json::Result<TaskDocument> {
    let document: TaskDocument = serde_json::from_str(text)?;
    let keys: BTreeMap<String, Json> = serde_json::from_str(text)?;
    let unknown = |key: &&String| !KEYS.contains(&key.as_str()) && !OF_LIFE.contains(&key.as_str());
    match keys.keys().find(unknown) {
        None => Ok(document),
        Some(key) => Err(serde::de::Error::custom(format!(
            "unknown key '{key}', expected one of {}",
            KEYS.join(", ")
        ))),
    }
}

pub fn read_json(text: &str) -> Result<Vec<ListedTask>, BadTaskList> {
    let bad = |error: serde_json::Error, line: usize| BadTaskList {
        line: if error.line() > 0 { error.line() } else { line },
        message: error.to_string(),
    };
    let text = unmarked(text);
    let items: Vec<&serde_json::value::RawValue> =
        serde_json::from_str(text).map_err(|error| bad(error, 1))?;
    let mut tasks = Vec::with_capacity(items.len());
    for item in items {
        let from = item.get().as_ptr() as usize - text.as_ptr() as usize;
        let line = 1 + text[..from].matches('\n').count();
        let document: TaskDocument = read_document(item.get()).map_err(|error| {
            let within = error.line().saturating_sub(1);
            BadTaskList {
                line: line + within,
                message: error.to_string(),
            }
        })?;
        tasks.push(document.listed(line)?.checked()?);
    }
    sound(tasks)
}

pub fn write_json(tasks: &[ListedTask]) -> String {
    let documents: Vec<Json> = tasks
        .iter()
        .map(|task| {
            serde_json::to_value(TaskDocument::of(task)).expect("a task's document is JSON")
        })
        .collect();
    let text = serde_json::to_string_pretty(&documents).expect("a task's document is JSON");
    format!("{text}\n")
}
