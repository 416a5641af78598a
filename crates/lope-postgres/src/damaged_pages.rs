//! Runs whose records are on pages that the server cannot read: found one by one, so that the others
//! do not notice. In: runs; out: those that nobody can read, each with what the server says. In: a
//! filter; out: the runs of the pages that can be read.

use std::cmp::Reverse;
use std::ops::Range;

use lope_model::limit;
use lope_store::StoreError;
use lope_store::runs::{RunFilter, RunRecord};
use uuid::Uuid;

use crate::connection::{ReadStatement, View};
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::list::{self, Listing};
use crate::statement::Statement;

/// Runs looked at together; of those that meet a damaged page, each is looked at alone.
const TOGETHER: usize = 1_000;

/// Pages that a list is read around; where there are more, it fails.
const UNREADABLE_MAX: usize = 64;

static RECORDS: Statement = Statement {
    name: "damaged_pages_records",
    text: "select count(version) from {schema}.runs where run_id = any($1)",
    types: "uuids",
};

static QUEUED: Statement = Statement {
    name: "damaged_pages_queued",
    text: "select run_id from {schema}.queue where run_id > $1 order by run_id limit $2",
    types: "uuid int",
};

static PAGES: Statement = Statement {
    name: "damaged_pages_of_runs",
    text: "select pg_relation_size('{schema}.runs') / current_setting('block_size')::bigint",
    types: "",
};

/// Pages of `runs` that can be read, one after another.
pub(crate) struct ReadablePages {
    pages: Range<i64>,
    /// Runs on them that have completed.
    pub(crate) completed: i64,
}

impl PostgresInner {
    /// A listing met a page that cannot be read, and is asked of those that can. That reads the table
    /// from end to end, whatever is asked for.
    pub(crate) async fn list_around_damage(&self, filter: &RunFilter) -> Worked<Vec<RunRecord>> {
        let mut records: Vec<RunRecord> = Vec::new();
        for part in self.readable_pages().await? {
            let rows = self.page(&Listing::on_pages(filter, &part.pages)).await?;
            records.extend(list::readable(&rows)?);
            // One that was written meanwhile may have been met twice.
            records.sort_by_key(|record| Reverse((record.created_at, record.run)));
            records.dedup_by_key(|record| record.run);
            records.truncate(filter.limit.min(limit::PAGE_MAX));
        }
        Ok(records)
    }

    /// Parts of the table are read, and the halves of those that meet the damage, until all but the
    /// damaged pages have been.
    pub(crate) async fn readable_pages(&self) -> Worked<Vec<ReadablePages>> {
        let size = self.reads.read(&PAGES, vec![]).await?;
        let whole = 0..size.first().map_or(0, |row| row.get(0));
        let mut parts: Vec<Range<i64>> = vec![whole];
        let mut unreadable = 0;
        let mut found = Vec::new();
        while let Some(pages) = parts.pop() {
            match self.completed_on(&pages).await {
                Err(fault) if fault.is_damage() => match halves(&pages) {
                    Some(halves) => parts.extend(halves),
                    None if unreadable == UNREADABLE_MAX => return Err(fault),
                    None => {
                        unreadable += 1;
                        tracing::warn!(page = pages.start, error = %fault.error, "runs of a damaged page are left out");
                    }
                },
                completed => found.push(ReadablePages {
                    pages,
                    completed: completed?,
                }),
            }
        }
        Ok(found)
    }

    async fn completed_on(&self, pages: &Range<i64>) -> Worked<i64> {
        let Range { start, end } = pages;
        let text = format!(
            "select count(*) filter (where status = 'completed') from {{schema}}.runs where ctid >= '({start},0)' and ctid < '({end},0)'"
        );
        let asked = [(
            ReadStatement::Once {
                text: &text,
                types: "",
            },
            Vec::new(),
        )];
        let answers = self.reads.read_together(View::Pages, &asked).await?;
        Ok(answers.iter().flatten().next().map_or(0, |row| row.get(0)))
    }

    pub(crate) async fn on_damaged_pages(&self, runs: &[Uuid]) -> Worked<Vec<(Uuid, StoreError)>> {
        let mut found = Vec::new();
        for some in runs.chunks(TOGETHER) {
            if self.damage_of(some).await?.is_none() {
                continue;
            }
            for run in some {
                let damage = self.damage_of(std::slice::from_ref(run)).await?;
                found.extend(damage.map(|why| (*run, why)));
            }
        }
        Ok(found)
    }

    /// The same of all unfinished runs; at most so many.
    pub(crate) async fn queued_on_damaged_pages(
        &self,
        most: usize,
    ) -> Worked<Vec<(Uuid, StoreError)>> {
        let mut found = Vec::new();
        let mut after = Uuid::nil();
        while found.len() < most {
            let rows = self
                .reads
                .read(&QUEUED, vec![&after, &(TOGETHER as i64)])
                .await?;
            let runs: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
            let Some(last) = runs.last() else { break };
            after = *last;
            found.extend(self.on_damaged_pages(&runs).await?);
        }
        found.truncate(most);
        Ok(found)
    }

    async fn damage_of(&self, runs: &[Uuid]) -> Worked<Option<StoreError>> {
        match self.reads.read(&RECORDS, vec![&runs]).await {
            Err(fault) if fault.is_damage() => Ok(Some(fault.error)),
            read => read.map(|_| None),
        }
    }
}

/// Nothing: it is a page alone.
fn halves(pages: &Range<i64>) -> Option<[Range<i64>; 2]> {
    let middle = pages.start.midpoint(pages.end);
    (middle > pages.start).then_some([pages.start..middle, middle..pages.end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_halved_until_each_is_alone() {
        for (pages, expected) in [
            (0..0, None),
            (7..8, None),
            (0..2, Some([0..1, 1..2])),
            (4..7, Some([4..5, 5..7])),
        ] {
            assert_eq!(halves(&pages), expected, "{pages:?}");
        }
    }
}
