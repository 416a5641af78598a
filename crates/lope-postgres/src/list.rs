//! `list`: runs that match, youngest first. In: a filter; out: records.
//!
//! The statement is put together from the filter, so that each listing walks the narrowest index in
//! its order: parent, tag, workflow, status, or all runs by time. Where that depends on what there
//! is, the server's planner is left to choose; where it does not, as for what dashboards ask again
//! and again, statements are kept and read through their index.

use std::ops::Range;

use lope_model::{RunId, limit};
use lope_store::runs::{FinalStatus, LiveStatus, RunFilter, RunRecord, RunStatus};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::connection::{ReadStatement, View};
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::record;
use crate::statement::Params;

/// A run's status as users see it.
const SHOWN: &str = "case when q.run_id is null then r.status \
    when q.status = 'queued' and q.owner is not null then 'running' \
    when q.status = 'running' and q.owner is null then 'queued' \
    else q.status end";

/// The error of a run, if it is short enough for a list: `limit::LISTED_ERROR_MAX`.
const ERROR: &str = "case when length(r.error) <= 8192 then r.error end";
/// Every row, through the index: one that is asked for nothing is not walked.
const ANY_LIVE: &str = "q.run_id >= '00000000-0000-0000-0000-000000000000'";
const RUNS: &str = "{schema}.runs r left join {schema}.queue q on q.run_id = r.run_id";
const TAGGED: &str = "{schema}.run_tags t join {schema}.runs r on r.run_id = t.run_id left join {schema}.queue q on q.run_id = r.run_id";

impl PostgresInner {
    pub(crate) async fn list(&self, filter: &RunFilter) -> Worked<Vec<RunRecord>> {
        if filter.limit == 0 {
            return Ok(Vec::new());
        }
        match self.page(&Listing::of(filter)).await {
            Err(fault) if fault.is_damage() => self.list_around_damage(filter).await,
            rows => readable(&rows?),
        }
    }

    /// What is asked again and again is one statement, and no transaction around it.
    pub(crate) async fn page(&self, listing: &Listing) -> Worked<Vec<Row>> {
        let (text, types) = (listing.text.as_str(), listing.types.as_str());
        let params = listing.params();
        match listing.view {
            View::Rows => self.reads.read_repeated(text, types, params).await,
            view @ (View::Whole | View::Pages) => {
                let asked = [(ReadStatement::Once { text, types }, params)];
                let answers = self.reads.read_together(view, &asked).await?;
                Ok(answers.into_iter().flatten().collect())
            }
        }
    }
}

/// The records of rows. One that cannot be read does not hide the others.
pub(crate) fn readable(rows: &[Row]) -> Worked<Vec<RunRecord>> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        match record::listed_with_error(row) {
            Ok(record) => records.push(record),
            Err(fault) if fault.is_damage() => {
                let run = RunId::from_uuid(row.get(0));
                tracing::warn!(%run, error = %fault.error, "a damaged run is left out of the list");
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(records)
}

/// A listing as SQL.
pub(crate) struct Listing {
    pub(crate) text: String,
    pub(crate) types: String,
    pub(crate) view: View,
    values: Vec<FilterValue>,
}

enum FilterValue {
    Int(i64),
    Text(String),
    Texts(Vec<String>),
    Uuid(Uuid),
}

impl FilterValue {
    fn as_param(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(number) => number,
            Self::Text(text) => text,
            Self::Texts(texts) => texts,
            Self::Uuid(uuid) => uuid,
        }
    }
}

/// One index walk: whose rows, in whose order, under which condition.
struct ListScan {
    table: ListTable,
    condition: String,
}

/// The table whose `created_at` and `run_id` are the order of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ListTable {
    Runs,
    Tags,
    /// Everything that is asked stands in the queue itself, so records are looked up only for the
    /// rows of the page.
    Queue,
    /// Records on the pages from the first number to the one before the second, without asking any
    /// index, which would lead to others.
    Pages(i64, i64),
}

impl ListTable {
    fn name(self) -> &'static str {
        match self {
            Self::Runs | Self::Pages(..) => "r",
            Self::Tags => "t",
            Self::Queue => "q",
        }
    }

    /// Where the queue and the realm of a run are read.
    fn record(self) -> &'static str {
        match self {
            Self::Runs | Self::Tags | Self::Pages(..) => "r",
            Self::Queue => "q",
        }
    }

    /// A page of this table's rows that meet the conditions.
    fn page(self, conditions: &str, most: &str) -> String {
        let by = self.name();
        let page = format!(
            "where {conditions} order by {by}.created_at desc, {by}.run_id desc limit {most}"
        );
        match self {
            Self::Runs => format!("(select {{record}}, {ERROR} from {RUNS} {page})"),
            Self::Tags => format!("(select {{record}}, {ERROR} from {TAGGED} {page})"),
            Self::Queue => format!(
                "(select {{record}}, {ERROR} from (select * from {{schema}}.queue q {page}) q
                  join {{schema}}.runs r on r.run_id = q.run_id)"
            ),
            Self::Pages(first, end) => format!(
                "(select {{record}}, {ERROR} from (select * from {{schema}}.runs
                     where ctid >= '({first},0)' and ctid < '({end},0)' offset 0) r
                  left join {{schema}}.queue q on q.run_id = r.run_id {page})"
            ),
        }
    }
}

impl Listing {
    pub(crate) fn of(filter: &RunFilter) -> Self {
        Self::over(view(filter), filter, |listing| listing.walks(filter))
    }

    /// The same of the records on some pages alone.
    pub(crate) fn on_pages(filter: &RunFilter, pages: &Range<i64>) -> Self {
        let table = ListTable::Pages(pages.start, pages.end);
        Self::over(View::Pages, filter, |listing| {
            let condition = filter.parent.map_or("true".to_owned(), |parent| {
                let parent = listing.bind("uuid", FilterValue::Uuid(parent.uuid()));
                format!("r.parent_run = {parent}")
            });
            listing.all_statuses(filter, table, condition)
        })
    }

    fn over(
        view: View,
        filter: &RunFilter,
        walks: impl FnOnce(&mut Self) -> Vec<ListScan>,
    ) -> Self {
        let mut listing = Self {
            text: String::new(),
            types: String::new(),
            view,
            values: Vec::new(),
        };
        let most = listing.bind(
            "int",
            FilterValue::Int(filter.limit.min(limit::PAGE_MAX) as i64),
        );
        let walks = walks(&mut listing);
        let conditions = listing.conditions(filter);
        let pages: Vec<String> = walks
            .iter()
            .map(|walk| walk.page(&conditions, &most))
            .collect();
        listing.text = format!(
            "select x.* from ({}) x order by x.created_at desc, x.run_id desc limit {most}",
            pages.join(" union all ")
        );
        listing
    }

    fn bind(&mut self, kind: &str, value: FilterValue) -> String {
        self.types.push_str(kind);
        self.types.push(' ');
        self.values.push(value);
        format!("${}", self.values.len())
    }

    pub(crate) fn params(&self) -> Params<'_> {
        self.values.iter().map(FilterValue::as_param).collect()
    }

    fn walks(&mut self, filter: &RunFilter) -> Vec<ListScan> {
        if let Some(parent) = filter.parent {
            let parent = self.bind("uuid", FilterValue::Uuid(parent.uuid()));
            return self.all_statuses(filter, ListTable::Runs, format!("r.parent_run = {parent}"));
        }
        if let Some((tag, value)) = filter.tags.first_key_value() {
            let (tag, value) = (self.text_param(tag), self.text_param(value));
            return self.all_statuses(
                filter,
                ListTable::Tags,
                format!("t.tag = {tag} and t.value = {value}"),
            );
        }
        if let Some(workflow) = &filter.workflow {
            let workflow = self.text_param(workflow);
            return self.all_statuses(filter, ListTable::Runs, format!("r.workflow = {workflow}"));
        }
        if is_all_live(&filter.statuses) {
            return vec![live(ANY_LIVE)];
        }
        let by_status: Option<Vec<Vec<ListScan>>> = filter
            .statuses
            .iter()
            .map(|status| status_walks(*status))
            .collect();
        match by_status {
            Some(walks) if !walks.is_empty() => walks.into_iter().flatten().collect(),
            _ => self.all_statuses(filter, ListTable::Runs, "true".to_owned()),
        }
    }

    /// A walk over runs of any status, of which those asked for are kept.
    fn all_statuses(
        &mut self,
        filter: &RunFilter,
        table: ListTable,
        condition: String,
    ) -> Vec<ListScan> {
        if filter.statuses.is_empty() {
            return vec![ListScan { table, condition }];
        }
        let names = filter
            .statuses
            .iter()
            .map(|status| status.as_str().to_owned())
            .collect();
        let names = self.bind("texts", FilterValue::Texts(names));
        vec![ListScan {
            table,
            condition: format!("{condition} and {SHOWN} = any ({names})"),
        }]
    }

    fn text_param(&mut self, text: &str) -> String {
        self.bind("text", FilterValue::Text(text.to_owned()))
    }

    /// What every row must meet; `{by}` and `{of}` are the table that is walked and the one that
    /// knows queue and realm.
    fn conditions(&mut self, filter: &RunFilter) -> Vec<String> {
        let mut conditions = Vec::new();
        let texts = [
            ("r.workflow", filter.workflow.as_deref()),
            (
                "{of}.realm",
                filter.realm.as_ref().map(lope_model::Realm::as_str),
            ),
            (
                "{of}.queue",
                filter.queue.as_ref().map(lope_model::QueueName::as_str),
            ),
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
            conditions.push(format!(
                "{{by}}.created_at >= {}",
                self.bind("int", FilterValue::Int(since.millis()))
            ));
        }
        if let Some(until) = filter.until {
            conditions.push(format!(
                "{{by}}.created_at < {}",
                self.bind("int", FilterValue::Int(until.millis()))
            ));
        }
        if let Some(after) = filter.after {
            let created = self.bind("int", FilterValue::Int(after.created_at.millis()));
            let run = self.bind("uuid", FilterValue::Uuid(after.run.uuid()));
            conditions.push(format!(
                "({{by}}.created_at, {{by}}.run_id) < ({created}, {run})"
            ));
        }
    }
}

impl ListScan {
    fn page(&self, conditions: &[String], most: &str) -> String {
        let common = conditions.iter().map(|one| {
            one.replace("{by}", self.table.name())
                .replace("{of}", self.table.record())
        });
        let all: Vec<String> = std::iter::once(self.condition.clone())
            .chain(common)
            .collect();
        self.table.page(&all.join(" and "), most)
    }
}

/// Runs of any status, and the live ones of any, are found through one index each, whatever there
/// is. The planner does not know that a queue which was long a moment ago has nothing but room left,
/// and would read all of that room each time.
fn view(filter: &RunFilter) -> View {
    let is_narrowed = filter.parent.is_some()
        || filter.workflow.is_some()
        || filter.realm.is_some()
        || filter.queue.is_some()
        || !filter.tags.is_empty();
    let is_any = filter.statuses.is_empty() || is_all_live(&filter.statuses);
    if is_any && !is_narrowed {
        View::Rows
    } else {
        View::Whole
    }
}

/// Every status of live runs and no other?
fn is_all_live(statuses: &[RunStatus]) -> bool {
    let asked = |status: &RunStatus| statuses.contains(status);
    RunStatus::ALL.iter().all(|status| match status {
        RunStatus::Live(_) => asked(status),
        RunStatus::Final(_) => !asked(status),
    })
}

fn live(condition: &str) -> ListScan {
    ListScan {
        table: ListTable::Queue,
        condition: condition.to_owned(),
    }
}

/// The walks that find all runs of a status; none if that is no better than walking over all.
fn status_walks(status: RunStatus) -> Option<Vec<ListScan>> {
    match status {
        RunStatus::Live(LiveStatus::Queued) => {
            let said = ["queued", "running"];
            Some(
                said.map(|said| live(&format!("q.status = '{said}' and q.owner is null")))
                    .into(),
            )
        }
        RunStatus::Live(LiveStatus::Running) => Some(vec![live(
            "q.owner is not null and q.status in ('queued', 'running')",
        )]),
        RunStatus::Live(
            status @ (LiveStatus::Idle
            | LiveStatus::Sleeping
            | LiveStatus::Waiting
            | LiveStatus::Paused),
        ) => Some(vec![live(&format!("q.status = '{}'", status.as_str()))]),
        // Their end marks them with a tag that has no name.
        RunStatus::Final(status @ (FinalStatus::Failed | FinalStatus::Cancelled)) => {
            let condition = format!("t.tag = '' and t.value = '{}'", status.as_str());
            Some(vec![ListScan {
                table: ListTable::Tags,
                condition,
            }])
        }
        RunStatus::Final(FinalStatus::Completed) => None,
    }
}
