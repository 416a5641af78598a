//! A runner's session: who it is, since when, until when.

use lope_model::{Moment, Timestamp};

use crate::clock::Reading;
use crate::runs::{Beat, Register, RunnerRecord, Serves};

#[derive(Debug)]
pub(super) struct Session {
    register: Register,
    started_at: Timestamp,
    heartbeat_at: Timestamp,
    expires: Moment,
    ended_at: Option<Timestamp>,
}

impl Session {
    pub(super) fn begin(register: Register, reading: Reading) -> (Self, Beat) {
        let Reading { now, moment } = reading;
        let mut session = Self {
            register,
            started_at: now,
            heartbeat_at: now,
            expires: moment,
            ended_at: None,
        };
        let beat = session.beat(reading);
        (session, beat)
    }

    pub(super) fn is_held(&self, moment: Moment) -> bool {
        self.ended_at.is_none() && moment < self.expires
    }

    pub(super) fn beat(&mut self, reading: Reading) -> Beat {
        self.heartbeat_at = reading.now;
        self.expires = reading.moment.plus(self.register.lease);
        Beat {
            now: reading.now,
            moment: reading.moment,
            expires: self.expires,
        }
    }

    pub(super) fn announce(&mut self, serves: Serves) {
        self.register.serves = serves;
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        self.ended_at.get_or_insert(now);
    }

    pub(super) fn record(&self, moment: Moment, owns: u64) -> RunnerRecord {
        let Register {
            runner,
            name,
            host,
            pid,
            process,
            program,
            serves,
            ..
        } = self.register.clone();
        RunnerRecord {
            runner,
            name,
            host,
            pid,
            process,
            program,
            serves,
            started_at: self.started_at,
            heartbeat_at: self.heartbeat_at,
            live: self.is_held(moment),
            ended_at: self.ended_at,
            owns,
        }
    }
}
