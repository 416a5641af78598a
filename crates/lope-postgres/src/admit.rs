//! `admit`: runs enter the store. In: admissions; out: for each what became of it, in their order.
//!
//! One statement for all of them. The server leaves out what may not enter; who stood in the way is
//! asked afterwards.

use std::collections::HashMap;

use lope_model::RunId;
use lope_store::runs::{Admit, Admitted};
use lope_store::verdict::{self, AdmitFacts};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::columns::Appends;
use crate::connection::DbConnection;
use crate::failure::Worked;
use crate::statement::{Params, Statement};

pub(crate) static ADMIT: Statement = Statement {
    name: "admit",
    text: include_str!("admit.sql"),
    types: "append uuids uuids uuids ints ints ints ints shorts texts bytes texts texts texts texts uuids texts",
};

static FOUND: Statement = Statement {
    name: "admit_found",
    text: include_str!("admit_found.sql"),
    types: "uuids texts bytes",
};

/// The parameters of `admit.sql`.
#[derive(Default)]
pub(crate) struct AdmitColumns<'a> {
    appends: Appends<'a>,
    holders: Vec<Uuid>,
    run: Vec<Uuid>,
    claimed_by: Vec<Option<Uuid>>,
    due: Vec<i64>,
    law: Vec<i64>,
    weight: Vec<i64>,
    head: Vec<i64>,
    priority: Vec<i16>,
    workflow: Vec<&'a str>,
    version: Vec<&'a [u8]>,
    queue: Vec<&'a str>,
    realm: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    tags: Vec<String>,
    parent_run: Vec<Option<Uuid>>,
    parent_execution: Vec<Option<&'a str>>,
}

impl<'a> AdmitColumns<'a> {
    /// The admissions of one statement, in an order in which two processes that admit the same keys
    /// wait for each other and do not lock each other out.
    pub(crate) fn of(admits: &[&'a Admit]) -> Self {
        let mut sorted = admits.to_vec();
        sorted.sort_by(|one, other| one.key.cmp(&other.key));
        let mut columns = Self::default();
        sorted.into_iter().for_each(|admit| columns.add(admit));
        columns.holders = columns.claimed_by.iter().flatten().copied().collect();
        columns.holders.sort_unstable();
        columns.holders.dedup();
        columns
    }

    fn add(&mut self, admit: &'a Admit) {
        let base = admit.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        self.appends.add(
            admit.run,
            &admit.rows,
            &admit.blobs,
            admit.snapshot.as_ref(),
        );
        self.run.push(admit.run.uuid());
        self.claimed_by
            .push(admit.claimed_by.map(lope_model::RunnerId::uuid));
        self.due.push(admit.due.millis());
        self.law.push(i64::from(admit.law));
        self.weight.push(i64::from(admit.weight));
        self.head
            .push(admit.rows.last().map_or(base, |row| row.seq) as i64);
        self.priority.push(i16::from(admit.priority.level()));
        self.workflow.push(&admit.workflow);
        self.version.push(admit.version.0.as_bytes());
        self.queue.push(admit.queue.as_str());
        self.realm.push(admit.realm.as_str());
        self.key.push(admit.key.as_deref());
        self.tags
            .push(serde_json::to_string(&admit.tags).expect("a map of texts is JSON"));
        self.parent_run
            .push(admit.parent.as_ref().map(|parent| parent.run.uuid()));
        self.parent_execution.push(
            admit
                .parent
                .as_ref()
                .map(|parent| parent.execution.as_str()),
        );
    }

    pub(crate) fn params(&self) -> Params<'_> {
        let mut params = self.appends.params();
        params.extend([
            &self.holders as &(dyn tokio_postgres::types::ToSql + Sync),
            &self.run,
            &self.claimed_by,
            &self.due,
            &self.law,
            &self.weight,
            &self.head,
            &self.priority,
            &self.workflow,
            &self.version,
            &self.queue,
            &self.realm,
            &self.key,
            &self.tags,
            &self.parent_run,
            &self.parent_execution,
        ]);
        params
    }
}

/// Split admissions so that no statement holds an id or a key twice; a later one then finds what an
/// earlier one made.
pub(crate) fn waves<'a>(admits: impl IntoIterator<Item = &'a Admit>) -> Vec<Vec<&'a Admit>> {
    let mut waves: Vec<Vec<&Admit>> = Vec::new();
    let mut seen = ExistingRuns::default();
    for admit in admits {
        let wave = seen.wave(admit);
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Vec::new);
        }
        waves[wave].push(admit);
    }
    waves
}

/// In which wave the next admission of an id or a key goes.
#[derive(Default)]
struct ExistingRuns<'a> {
    runs: HashMap<RunId, usize>,
    keys: HashMap<&'a str, usize>,
}

impl<'a> ExistingRuns<'a> {
    fn wave(&mut self, admit: &'a Admit) -> usize {
        let by_run = self.runs.get(&admit.run).copied().unwrap_or(0);
        let by_key = admit
            .key
            .as_deref()
            .and_then(|key| self.keys.get(key))
            .copied()
            .unwrap_or(0);
        let wave = by_run.max(by_key);
        self.runs.insert(admit.run, wave + 1);
        if let Some(key) = &admit.key {
            self.keys.insert(key, wave + 1);
        }
        wave
    }
}

/// Which admissions of a wave were created, and whether each is owned from birth.
pub(crate) fn created(rows: &[Row]) -> HashMap<RunId, bool> {
    rows.iter()
        .map(|row| (RunId::from_uuid(row.get(0)), row.get(1)))
        .collect()
}

/// The answers to admissions, given what each wave of them created.
pub(crate) async fn answers<'a>(
    db: &DbConnection,
    admits: impl IntoIterator<Item = &'a Admit>,
    mut created: Vec<HashMap<RunId, bool>>,
) -> Worked<Vec<Option<Admitted>>> {
    let mut seen = ExistingRuns::default();
    let (mut answers, mut left_out) = (Vec::new(), Vec::new());
    for admit in admits {
        match created
            .get_mut(seen.wave(admit))
            .and_then(|created| created.remove(&admit.run))
        {
            Some(owned) => answers.push(Some(Admitted::created(owned))),
            None => {
                left_out.push((answers.len(), admit));
                answers.push(None);
            }
        }
    }
    for (index, answer) in who_stands_there(db, &left_out).await? {
        answers[index] = answer;
    }
    Ok(answers)
}

/// Why admissions were left out. No answer: what stood in the way is gone by now.
async fn who_stands_there(
    db: &DbConnection,
    left_out: &[(usize, &Admit)],
) -> Worked<Vec<(usize, Option<Admitted>)>> {
    if left_out.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Vec<Uuid> = left_out.iter().map(|(_, admit)| admit.run.uuid()).collect();
    let keys: Vec<Option<&str>> = left_out
        .iter()
        .map(|(_, admit)| admit.key.as_deref())
        .collect();
    let versions: Vec<&[u8]> = left_out
        .iter()
        .map(|(_, admit)| &admit.version.0.as_bytes()[..])
        .collect();
    let rows = db.read(&FOUND, vec![&runs, &keys, &versions]).await?;
    Ok(left_out
        .iter()
        .zip(&rows)
        .map(|((index, admit), row)| {
            let verdict = verdict::admit(admit, facts(row), admit.due);
            (*index, verdict.err())
        })
        .collect())
}

fn facts(row: &Row) -> AdmitFacts {
    let existing: Option<Uuid> = row.get(0);
    AdmitFacts {
        existing: existing.map(|run| (RunId::from_uuid(run), row.get(1))),
        version_known: row.get(2),
        session_held: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_a_key_stands_once_in_a_wave() {
        let admit = |byte| Admit {
            run: RunId::from_bytes([byte; 16]),
            workflow: "w".to_owned(),
            version: lope_model::VersionId(lope_model::Digest::of(b"w")),
            key: None,
            queue: lope_model::QueueName::default(),
            priority: lope_model::Priority::NORMAL,
            realm: lope_model::Realm::default(),
            due: lope_model::Timestamp::EPOCH,
            law: 1,
            weight: 1,
            tags: std::collections::BTreeMap::new(),
            parent: None,
            rows: vec![],
            snapshot: None,
            blobs: vec![],
            claimed_by: None,
        };
        let admits = [admit(1), admit(2), admit(1), admit(1)];
        let sizes: Vec<usize> = waves(&admits).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1]);
        let keyed = |byte| Admit {
            key: Some("k".to_owned()),
            ..admit(byte)
        };
        let admits = [keyed(1), keyed(2), admit(2), admit(3)];
        let sizes: Vec<usize> = waves(&admits).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }
}
