//! `list`: runs that match, youngest first. In: a filter; out: records.
//!
//! The statement is put together from the filter, so that each listing walks the narrowest index in its order: parent, tag,
//! workflow, status, or all runs by time. Where that depends on what there is, the server's planner is left to choose.

use lope_model::limit;
use lope_store::runs::{FinalStatus, LiveStatus, RunFilter, RunRecord, RunStatus};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::failure::Worked;
use crate::inner::Inner;
use crate::link::{Ask, View};
use crate::record;
use crate::statement::Params;

/// A run's status as users see it.
const SHOWN: &str = "case when q.run_id is null then r.status \
    when q.status = 'queued' and q.owner is not null then 'running' \
    when q.status = 'running' and q.owner is null then 'queued' \
    else q.status end";

const RUNS: &str = "{schema}.runs r left join {schema}.queue q on q.run_id = r.run_id";
const LIVE: &str = "{schema}.queue q join {schema}.runs r on r.run_id = q.run_id";
const TAGGED: &str =
    "{schema}.run_tags t join {schema}.runs r on r.run_id = t.run_id left join {schema}.queue q on q.run_id = r.run_id";

impl Inner {
    pub(crate) async fn list(&self, filter: &RunFilter) -> Worked<Vec<RunRecord>> {
        if filter.limit == 0 {
            return Ok(Vec::new());
        }
        let listing = Listing::of(filter);
        let ask = Ask::Once { text: &listing.text, types: &listing.types };
        let answers = self.reads.read_together(View::Whole, &[(ask, listing.params())]).await?;
        answers.iter().flatten().map(record::listed).collect()
    }
}

/// A listing as SQL.
pub(crate) struct Listing {
    pub(crate) text: String,
    pub(crate) types: String,
    values: Vec<Value>,
}

enum Value {
    Int(i64),
    Text(String),
    Texts(Vec<String>),
    Uuid(Uuid),
}

impl Value {
    fn as_param(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(number) => number,
            Self::Text(text) => text,
            Self::Texts(texts) => texts,
            Self::Uuid(uuid) => uuid,
        }
    }
}

/// One index walk: where its rows come from, in whose order, and under which condition.
struct Walk {
    from: &'static str,
    /// The table whose `created_at` and `run_id` are the order.
    by: &'static str,
    condition: String,
}

impl Listing {
    pub(crate) fn of(filter: &RunFilter) -> Self {
        let mut listing = Self { text: String::new(), types: String::new(), values: Vec::new() };
        let most = listing.bind("int", Value::Int(filter.limit.min(limit::PAGE_MAX) as i64));
        let walks = listing.walks(filter);
        let conditions = listing.conditions(filter);
        let pieces: Vec<String> = walks
            .iter()
            .map(|walk| {
                let by = walk.by;
                let all: Vec<String> = [walk.condition.clone()]
                    .into_iter()
                    .chain(conditions.iter().map(|condition| condition.replace("{by}", by)))
                    .collect();
                format!(
                    "(select {{record}} from {} where {} order by {by}.created_at desc, {by}.run_id desc limit {most})",
                    walk.from,
                    all.join(" and ")
                )
            })
            .collect();
        listing.text = format!(
            "select x.* from ({}) x order by x.created_at desc, x.run_id desc limit {most}",
            pieces.join(" union all ")
        );
        listing
    }

    fn bind(&mut self, kind: &str, value: Value) -> String {
        self.types.push_str(kind);
        self.types.push(' ');
        self.values.push(value);
        format!("${}", self.values.len())
    }

    pub(crate) fn params(&self) -> Params<'_> {
        self.values.iter().map(Value::as_param).collect()
    }

    fn walks(&mut self, filter: &RunFilter) -> Vec<Walk> {
        let walk = |from, by, condition| vec![Walk { from, by, condition }];
        if let Some(parent) = filter.parent {
            let parent = self.bind("uuid", Value::Uuid(parent.uuid()));
            return walk(RUNS, "r", format!("r.parent_run = {parent}"));
        }
        if let Some((tag, value)) = filter.tags.first_key_value() {
            let (tag, value) = (self.text_param(tag), self.text_param(value));
            return walk(TAGGED, "t", format!("t.tag = {tag} and t.value = {value}"));
        }
        if let Some(workflow) = &filter.workflow {
            let workflow = self.text_param(workflow);
            return walk(RUNS, "r", format!("r.workflow = {workflow}"));
        }
        let by_status: Option<Vec<Vec<Walk>>> = filter.statuses.iter().map(|status| status_walks(*status)).collect();
        match by_status {
            Some(walks) if !walks.is_empty() => walks.into_iter().flatten().collect(),
            _ => walk(RUNS, "r", "true".to_owned()),
        }
    }

    fn text_param(&mut self, text: &str) -> String {
        self.bind("text", Value::Text(text.to_owned()))
    }

    /// What every row must meet; `{by}` is the table whose order is walked.
    fn conditions(&mut self, filter: &RunFilter) -> Vec<String> {
        let mut conditions = Vec::new();
        if !filter.statuses.is_empty() {
            let names = filter.statuses.iter().map(|status| status.as_str().to_owned()).collect();
            let names = self.bind("texts", Value::Texts(names));
            conditions.push(format!("{SHOWN} = any ({names})"));
        }
        let texts = [
            ("r.workflow", filter.workflow.as_deref()),
            ("r.realm", filter.realm.as_ref().map(lope_model::Realm::as_str)),
            ("r.queue", filter.queue.as_ref().map(lope_model::QueueName::as_str)),
        ];
        for (column, text) in texts {
            conditions.extend(text.map(|text| format!("{column} = {}", self.text_param(text))));
        }
        for (tag, value) in &filter.tags {
            let (tag, value) = (self.text_param(tag), self.text_param(value));
            conditions.push(format!("r.tags ->> {tag} = {value}"));
        }
        self.times(filter, &mut conditions);
        conditions
    }

    fn times(&mut self, filter: &RunFilter, conditions: &mut Vec<String>) {
        if let Some(since) = filter.since {
            conditions.push(format!("{{by}}.created_at >= {}", self.bind("int", Value::Int(since.millis()))));
        }
        if let Some(until) = filter.until {
            conditions.push(format!("{{by}}.created_at < {}", self.bind("int", Value::Int(until.millis()))));
        }
        if let Some(after) = filter.after {
            let created = self.bind("int", Value::Int(after.created_at.millis()));
            let run = self.bind("uuid", Value::Uuid(after.run.uuid()));
            conditions.push(format!("({{by}}.created_at, {{by}}.run_id) < ({created}, {run})"));
        }
    }
}

/// The walks that find all runs of a status; none if that is no better than walking over all.
fn status_walks(status: RunStatus) -> Option<Vec<Walk>> {
    let live = |condition: &str| Walk { from: LIVE, by: "q", condition: condition.to_owned() };
    let said = |status: LiveStatus| live(&format!("q.status = '{}'", status.as_str()));
    match status {
        RunStatus::Live(LiveStatus::Queued) => Some(vec![
            live("q.status = 'queued' and q.owner is null"),
            live("q.status = 'running' and q.owner is null"),
        ]),
        RunStatus::Live(LiveStatus::Running) => {
            Some(vec![live("q.owner is not null and q.status in ('queued', 'running')")])
        }
        RunStatus::Live(
            status @ (LiveStatus::Idle | LiveStatus::Sleeping | LiveStatus::Waiting | LiveStatus::Paused),
        ) => Some(vec![said(status)]),
        // Their end marks them with a tag that has no name.
        RunStatus::Final(status @ (FinalStatus::Failed | FinalStatus::Cancelled)) => {
            let condition = format!("t.tag = '' and t.value = '{}'", status.as_str());
            Some(vec![Walk { from: TAGGED, by: "t", condition }])
        }
        RunStatus::Final(FinalStatus::Completed) => None,
    }
}
