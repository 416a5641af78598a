//! `deliver`: mail goes before its runs. In: deliveries; out: the columns of the statement and what
//! became of each.

use std::collections::{HashMap, HashSet};

use lope_model::RunId;
use lope_store::StoreError;
use lope_store::runs::{Deliver, Delivered, Reach};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::Worked;
use crate::statement::{Params, Statement};

pub(crate) static DELIVER: Statement = Statement {
    name: "deliver",
    text: include_str!("deliver.sql"),
    types: "uuids texts texts bytes shorts ints",
};

pub(crate) static LOCK: Statement = Statement {
    name: "lock",
    text: include_str!("lock.sql"),
    types: "uuids",
};

/// Ended runs have no row in the queue; whoever reopens them locks their record instead.
pub(crate) static LOCK_ENDED: Statement = Statement {
    name: "lock_ended",
    text: include_str!("lock_ended.sql"),
    types: "uuids",
};

/// The parameters of `deliver.sql`.
#[derive(Default)]
pub(crate) struct MailColumns<'a> {
    run: Vec<Uuid>,
    id: Vec<&'a str>,
    kind: Vec<&'a str>,
    body: Vec<&'a [u8]>,
    reach: Vec<i16>,
    room: Vec<i64>,
}

impl<'a> MailColumns<'a> {
    pub(crate) fn of(mail: &[&'a Deliver]) -> Self {
        let mut columns = Self::default();
        for delivery in mail {
            columns.run.push(delivery.run.uuid());
            columns.id.push(&delivery.id);
            columns.kind.push(&delivery.kind);
            columns.body.push(&delivery.body);
            columns.reach.push(match delivery.reach {
                Reach::Live => 0,
                Reach::Unpark => 1,
                Reach::Reopen => 2,
            });
            columns.room.push(delivery.room().cast_signed());
        }
        columns
    }

    pub(crate) fn params(&self) -> Params<'_> {
        vec![
            &self.run,
            &self.id,
            &self.kind,
            &self.body,
            &self.reach,
            &self.room,
        ]
    }
}

/// What became of one delivery, and how much mail its run ever got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivedMail {
    pub(crate) delivered: Delivered,
    pub(crate) mail: u64,
}

pub(crate) fn arrivals(rows: &[Row]) -> Worked<Vec<ArrivedMail>> {
    rows.iter().map(arrival).collect()
}

fn arrival(row: &Row) -> Worked<ArrivedMail> {
    let delivered = match row.get(0) {
        "accepted" => Delivered::Accepted,
        "duplicate" => Delivered::Duplicate,
        "finished" => Delivered::Finished,
        "missing" => Delivered::Missing,
        "full" => Delivered::Full,
        other => return Err(StoreError::corrupt(format!("a delivery became '{other}'")).into()),
    };
    Ok(ArrivedMail {
        delivered,
        mail: row.get::<_, i64>(1) as u64,
    })
}

/// Split deliveries into statements: a run that is reopened gets one delivery a statement, because
/// what is before it decides what becomes of the next; so does one whose mail differs in how much
/// may wait before it. Each piece says where its deliveries stand in `mail`.
pub(crate) fn waves(mail: &[&Deliver]) -> Vec<Vec<usize>> {
    let mut rooms: HashMap<RunId, u64> = HashMap::new();
    let one_by_one: HashSet<RunId> = mail
        .iter()
        .filter(|one| {
            let room = *rooms.entry(one.run).or_insert(one.room());
            one.reach == Reach::Reopen || one.room() != room
        })
        .map(|one| one.run)
        .collect();
    let mut waves: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<RunId, usize> = HashMap::new();
    for (index, delivery) in mail.iter().enumerate() {
        let wave = if one_by_one.contains(&delivery.run) {
            *seen
                .entry(delivery.run)
                .and_modify(|wave| *wave += 1)
                .or_insert(0)
        } else {
            0
        };
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Vec::new);
        }
        waves[wave].push(index);
    }
    waves
}

/// The runs whose records must be locked before mail may reopen them, by id.
pub(crate) fn reopened(mail: &[&Deliver]) -> Vec<Uuid> {
    let mut runs: Vec<Uuid> = mail
        .iter()
        .filter(|one| one.reach == Reach::Reopen)
        .map(|one| one.run.uuid())
        .collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}
