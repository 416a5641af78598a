//! `deliver`: mail waits with the run until its owner takes it into the journal.

use lope_model::{Timestamp, limit};

use super::entry::Entry;
use super::state::RunState;
use crate::runs::{Deliver, Delivered, LiveStatus, Mail, Reach, RunStatus};

impl RunState {
    pub(super) fn deliver(&mut self, mail: Vec<Deliver>, now: Timestamp) -> Vec<Delivered> {
        mail.into_iter().map(|delivery| self.deliver_one(delivery, now)).collect()
    }

    pub(super) fn deliver_one(&mut self, delivery: Deliver, now: Timestamp) -> Delivered {
        self.change(delivery.run, |entry| entry.receive(delivery, now)).unwrap_or(Delivered::Missing)
    }
}

impl Entry {
    fn receive(&mut self, delivery: Deliver, now: Timestamp) -> Delivered {
        if self.mail_ids.contains(&delivery.id) {
            return Delivered::Duplicate;
        }
        if !self.is_live() && delivery.reach != Reach::Reopen {
            return Delivered::Finished;
        }
        if self.waiting.len() as u64 >= limit::MAIL_MAX {
            return Delivered::Full;
        }
        if !self.is_live() {
            self.reopen(now);
        }
        match delivery.reach {
            Reach::Live => {}
            Reach::Unpark | Reach::Reopen => self.record.parked = None,
        }
        self.keep_mail(delivery, now);
        self.wake(now);
        Delivered::Accepted
    }

    fn keep_mail(&mut self, delivery: Deliver, now: Timestamp) {
        self.record.mail += 1;
        let number = self.record.mail;
        self.mail_ids.insert(delivery.id.clone());
        let mail = Mail { number, id: delivery.id, kind: delivery.kind, body: delivery.body, at: now };
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
