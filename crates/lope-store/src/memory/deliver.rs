//! `deliver`: mail waits with the run until its owner takes it into the journal.

use lope_model::Timestamp;

use super::run_entry::RunEntry;
use super::state::RunState;
use crate::runs::{Deliver, Delivered, LiveStatus, Mail, RunStatus};
use crate::verdict::{self, Accepted, DeliverFacts};

impl RunState {
    pub(super) fn deliver(&mut self, mail: Vec<Deliver>, now: Timestamp) -> Vec<Delivered> {
        mail.into_iter()
            .map(|delivery| self.deliver_one(delivery, now))
            .collect()
    }

    pub(super) fn deliver_one(&mut self, delivery: Deliver, now: Timestamp) -> Delivered {
        let ahead = self.mail_ahead;
        self.change(delivery.run, |entry| entry.receive(delivery, ahead, now))
            .unwrap_or(Delivered::Missing)
    }
}

impl RunEntry {
    fn receive(&mut self, delivery: Deliver, ahead: u64, now: Timestamp) -> Delivered {
        let facts = DeliverFacts {
            ended: match self.record.status {
                RunStatus::Live(_) => None,
                RunStatus::Final(status) => Some(status),
            },
            seen: self.mail_ids.contains(&delivery.id),
            waiting: ahead + self.waiting.len() as u64,
        };
        let Accepted { reopens, unparks } = match verdict::deliver(&delivery, Some(&facts)) {
            Ok(accepted) => accepted,
            Err(refused) => return refused,
        };
        if reopens {
            self.reopen(now);
        }
        if unparks {
            self.record.parked = None;
        }
        self.keep_mail(delivery, now);
        self.wake(now);
        Delivered::Accepted
    }

    fn keep_mail(&mut self, delivery: Deliver, now: Timestamp) {
        self.record.mail += 1;
        let number = self.record.mail;
        self.mail_ids.insert(delivery.id.clone());
        let mail = Mail {
            number,
            id: delivery.id,
            kind: delivery.kind,
            body: delivery.body,
            at: now,
        };
        self.waiting.insert(number, mail);
    }

    fn reopen(&mut self, now: Timestamp) {
        self.record.status = RunStatus::Live(LiveStatus::Queued);
        self.record.finished_at = None;
        self.record.due = Some(now);
        self.result = None;
        self.error = None;
    }
}
