//! Searching runs: what the store can filter by itself, and what only a look at each run tells: the
//! type of its error, its key, a path in its input. Such a look goes through a bounded number of
//! runs and says how many; whoever asks on goes on from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope::runs::{Cursor, FoundRun, RunFilter, RunRecord, RunStatus};
use lope::{Client, Redaction, RunId, describe};
use lope_model::{QueueName, Timestamp};
use serde_json::{Value as Json, json};

use crate::api_error::ApiError;
use crate::call::{ApiCall, earlier};
use crate::parameter::{Parameter, text, texts};
use crate::redactions::Redactions;

/// Runs that one request looks at for what the store cannot filter.
const SCANNED_MAX: usize = 10_000;
/// The same where the journal of each must be read.
const READ: usize = 2_000;
/// Runs asked for at a time.
const PAGE: usize = 500;
/// As far as runs are counted.
pub(crate) const COUNTED: usize = 50_000;

/// Everything that runs are searched by.
pub(crate) const PARAMETERS: [Parameter; 10] = [
    texts("status", "Any of these"),
    text("workflow", "Of this workflow"),
    text("queue", "In this queue"),
    texts("tag", "NAME=VALUE; all of these"),
    text("parent", "Children of this run"),
    text(
        "since",
        "Started at this time or later, or how long ago (2h)",
    ),
    text("until", "Started before this time, or how long ago"),
    text("key", "With this key"),
    text("error", "Failed with an error of this type"),
    texts("input", "PATH:VALUE, as in user.plan:pro; all of these"),
];

/// What is searched for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunSearch {
    pub(crate) filter: RunFilter,
    key: Option<String>,
    error: Option<String>,
    input: Vec<(String, String)>,
    redactions: Arc<Redactions>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct FoundRuns {
    pub(crate) records: Vec<RunRecord>,
    /// Where the next page begins, if there may be more.
    pub(crate) next: Option<String>,
    /// How many runs were looked at, if each had to be.
    pub(crate) searched: Option<usize>,
}

impl RunSearch {
    /// What the parameters of a request ask for.
    pub(crate) async fn read(client: &Client, call: &ApiCall) -> Result<Self, ApiError> {
        let parent = match call.query("parent") {
            Some(parent) => Some(crate::api::find::find(client, parent).await?.run),
            None => None,
        };
        let queue = call.query("queue").map(QueueName::parse).transpose();
        let statuses = call.query_all("status").map(status);
        let filter = RunFilter {
            statuses: statuses.collect::<Result<_, _>>()?,
            workflow: call.query("workflow").map(str::to_owned),
            queue: queue.map_err(|error| ApiError::bad(format!("queue: {error}")))?,
            tags: tags(call.query_all("tag"))?,
            parent,
            since: moment(call, "since")?,
            until: moment(call, "until")?,
            after: call.query("after").map(cursor).transpose()?,
            ..RunFilter::default()
        };
        Ok(Self {
            filter,
            key: call.query("key").map(str::to_owned),
            error: call.query("error").map(str::to_owned),
            input: call
                .query_all("input")
                .map(path)
                .collect::<Result<_, _>>()?,
            redactions: Arc::default(),
        })
    }

    /// A page of at most `limit` runs, youngest first.
    pub(crate) async fn page(&self, client: &Client, limit: usize) -> Result<FoundRuns, ApiError> {
        if let Some(key) = &self.key {
            return self.by_key(client, key).await;
        }
        if self.error.is_some() || !self.input.is_empty() {
            return self.scan(client, limit).await;
        }
        let mut filter = self.filter.clone();
        filter.limit = limit + 1;
        let mut records = client.list(filter).await?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).map(cursor_of);
        Ok(FoundRuns {
            records,
            next,
            searched: None,
        })
    }

    /// How many runs there are, counted to a bound, and whether there are more.
    pub(crate) async fn count(&self, client: &Client) -> Result<(usize, bool), ApiError> {
        let mut search = self.clone();
        let (mut count, mut searched) = (0, 0);
        loop {
            let found = search.page(client, PAGE.min(COUNTED - count)).await?;
            count += found.records.len();
            searched += found.searched.unwrap_or(0);
            let Some(next) = found.next else {
                return Ok((count, false));
            };
            // A search that looks at each run is counted as far as one request goes.
            if count >= COUNTED || searched >= self.looks() {
                return Ok((count, true));
            }
            search.filter.after = Some(cursor(&next)?);
        }
    }

    async fn by_key(&self, client: &Client, key: &str) -> Result<FoundRuns, ApiError> {
        let found = match client.find(key).await? {
            FoundRun::Run(run) => client.listed(&[run]).await?.pop(),
            FoundRun::Nothing | FoundRun::Several(..) => None,
        };
        let mut records = Vec::new();
        if let Some(record) = found.filter(|record| record.key.as_deref() == Some(key))
            && self.lets_through(&record)
            && self.matches_record(client, &record).await?
        {
            records.push(record);
        }
        Ok(FoundRuns {
            records,
            ..FoundRuns::default()
        })
    }

    /// What the store would have filtered, for a run that was found another way.
    fn lets_through(&self, record: &RunRecord) -> bool {
        let filter = &self.filter;
        let tagged = |(name, value): (&String, &String)| record.tags.get(name) == Some(value);
        (filter.statuses.is_empty() || filter.statuses.contains(&record.status))
            && filter
                .workflow
                .as_ref()
                .is_none_or(|it| *it == record.workflow)
            && filter.queue.as_ref().is_none_or(|it| *it == record.queue)
            && filter.tags.iter().all(tagged)
            && filter
                .parent
                .is_none_or(|it| record.parent.as_ref().is_some_and(|of| of.run == it))
            && filter.since.is_none_or(|it| record.created_at >= it)
            && filter.until.is_none_or(|it| record.created_at < it)
    }

    /// How many runs one request looks at.
    const fn looks(&self) -> usize {
        if self.input.is_empty() {
            SCANNED_MAX
        } else {
            READ
        }
    }

    /// Look at runs one by one, at most so many.
    async fn scan(&self, client: &Client, limit: usize) -> Result<FoundRuns, ApiError> {
        let most = self.looks();
        let mut found = FoundRuns::default();
        let mut searched = 0;
        let mut filter = self.filter.clone();
        loop {
            filter.limit = PAGE;
            let page = client.list(filter.clone()).await?;
            let last = page.len() < PAGE;
            for record in page {
                let at = cursor_of(&record);
                filter.after = Some(record.cursor());
                searched += 1;
                if self.matches_record(client, &record).await? {
                    found.records.push(record);
                }
                if found.records.len() == limit || searched == most {
                    found.next = Some(at);
                    found.searched = Some(searched);
                    return Ok(found);
                }
            }
            if last {
                found.searched = Some(searched);
                return Ok(found);
            }
        }
    }

    async fn matches_record(&self, client: &Client, record: &RunRecord) -> Result<bool, ApiError> {
        if let Some(error) = &self.error
            && error_type(client, record).await?.as_deref() != Some(error)
        {
            return Ok(false);
        }
        if self.input.is_empty() {
            return Ok(true);
        }
        let paths = self.redactions.paths(client, record).await?;
        let is_hidden = |(path, _): &(String, String)| Redaction::hides_input(&paths, path);
        if self.input.iter().any(is_hidden) {
            return Ok(false);
        }
        // A run whose journal cannot be read is found by what else is known of it.
        let input = client.input(record).await.ok().flatten();
        let input = json!(input);
        Ok(self
            .input
            .iter()
            .all(|(path, value)| has(&input, path, value)))
    }
}

async fn error_type(client: &Client, record: &RunRecord) -> Result<Option<String>, ApiError> {
    if record.status.as_str() != "failed" {
        return Ok(None);
    }
    // A listing leaves large errors out.
    let whole = match record.error {
        Some(_) => None,
        None => client.run(record.run).await?,
    };
    let value = describe::run(whole.as_ref().unwrap_or(record));
    Ok(value["error"]["type"].as_str().map(str::to_owned))
}

/// Does a path of a value lead to what is asked for? Numbers and words are compared as they are
/// written; a list has what any of its items has.
fn has(value: &Json, path: &str, wanted: &str) -> bool {
    if path.is_empty() {
        return match value {
            Json::String(text) => text == wanted,
            Json::Array(items) => items.iter().any(|item| has(item, "", wanted)),
            other => {
                let written = other.to_string();
                written == wanted
            }
        };
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Json::Object(fields) => fields
            .get(first)
            .is_some_and(|inner| has(inner, rest, wanted)),
        Json::Array(items) => match first.parse::<usize>() {
            Ok(index) => items
                .get(index)
                .is_some_and(|inner| has(inner, rest, wanted)),
            Err(_) => items.iter().any(|item| has(item, path, wanted)),
        },
        _ => false,
    }
}

fn path(text: &str) -> Result<(String, String), ApiError> {
    let pair = text.split_once(':').filter(|(path, _)| !path.is_empty());
    let pair = pair.map(|(path, value)| (path.to_owned(), value.to_owned()));
    pair.ok_or_else(|| ApiError::bad(format!("input: '{text}' is not PATH:VALUE")))
}

fn tags<'a>(said: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, String>, ApiError> {
    said.map(|text| {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| ApiError::bad(format!("tag: '{text}' is not NAME=VALUE")))
    })
    .collect()
}

fn status(text: &str) -> Result<RunStatus, ApiError> {
    RunStatus::parse(text).ok_or_else(|| {
        let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
        ApiError::bad(format!("status: '{text}' is none")).hint(known)
    })
}

fn moment(call: &ApiCall, name: &str) -> Result<Option<Timestamp>, ApiError> {
    call.query(name).map(|text| earlier(name, text)).transpose()
}

fn cursor_of(record: &RunRecord) -> String {
    format!("{}.{}", record.created_at.millis(), record.run)
}

pub(crate) fn cursor(text: &str) -> Result<Cursor, ApiError> {
    let read = || {
        let (millis, run) = text.split_once('.')?;
        Some(Cursor {
            created_at: Timestamp::from_millis(millis.parse().ok()?),
            run: run.parse::<RunId>().ok()?,
        })
    };
    read().ok_or_else(|| {
        ApiError::bad(format!("after: '{text}' is none")).hint("give the 'next' of a page")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_of_the_list_knows_every_parameter() {
        let names = PARAMETERS.map(|parameter| parameter.name);
        assert_eq!(names, lope_http::run_filters::FILTERS);
    }

    #[test]
    fn a_path_leads_through_objects_and_lists() {
        let value = json!({ "user": { "plan": "pro", "age": 7, "tags": ["a", "b"] }, "items": [{ "id": 1 }, { "id": 2 }] });
        for (path, wanted) in [
            ("user.plan", "pro"),
            ("user.age", "7"),
            ("user.tags", "b"),
            ("items.1.id", "2"),
            ("items.id", "2"),
        ] {
            assert!(has(&value, path, wanted), "{path}");
        }
        for (path, wanted) in [("user.plan", "free"), ("user", "pro"), ("items.2.id", "2")] {
            assert!(!has(&value, path, wanted), "{path}");
        }
    }
}
