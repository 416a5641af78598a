//! Mail of a run, from what the store handed over into its journal, in bites that a commit can hold.
//!
//! What steers the run and the ends of its children are read first. A signal for which the law has
//! no room stays where it is, so that the store refuses more of them at delivery; what this program
//! cannot read stays for one that can.

use lope_flow::law::{EventKind, Send};
use lope_model::{Timestamp, Value};
use lope_store::runs::{Deliver, Mail};

use super::pending_commit::SEND;
use super::resident::Resident;
use crate::codec;

/// Most mail of one bite, and most bytes, the last one aside.
const BITE: usize = 1_000;
const BITE_BYTES: usize = 4 * 1_024 * 1_024;

impl Resident {
    /// Mail was handed over; some of it may be known.
    pub(super) fn take_mail(&mut self, now: Timestamp, mail: Vec<Mail>) {
        let known = self.seen;
        let fresh = mail.into_iter().filter(|item| item.number > known);
        self.unread.waiting.extend(fresh);
        let last = self.unread.waiting.iter().map(|item| item.number).max();
        self.seen = self.seen.max(last.unwrap_or_default());
        self.read_mail(now);
    }

    /// Read what fits into the next commit.
    pub(super) fn read_mail(&mut self, now: Timestamp) {
        if self.unread.waiting.is_empty() || self.discarded {
            return;
        }
        if self.uncommitted.taken.is_empty() {
            self.unread.bytes = 0;
        }
        self.unread.goes_on = false;
        let mut waiting = std::mem::take(&mut self.unread.waiting);
        waiting.sort_by_key(|item| !codec::is_reserved(&item.kind));
        for item in waiting {
            if self.uncommitted.taken.len() >= BITE || self.unread.bytes >= BITE_BYTES {
                self.unread.goes_on = true;
                self.unread.waiting.push(item);
                continue;
            }
            match codec::mail_event(&item) {
                Ok(EventKind::Signal { name, .. }) if !self.state.takes_signal(&name) => {
                    self.unread.waiting.push(item);
                }
                Ok(kind) => {
                    self.unread.bytes += item.body.len();
                    self.uncommitted.taken.push(item.number);
                    self.fold(now, self.under_this_epoch(kind));
                }
                Err(error) => {
                    tracing::error!(run = %self.run, %error, "mail stays: this program cannot read it");
                }
            }
        }
    }

    /// How much mail the run has seen, for whoever lets it go: what could still be read has not
    /// been.
    pub(super) fn seen_mail(&self) -> u64 {
        let unread = self.unread.waiting.iter().map(|item| item.number).min();
        match unread.filter(|_| self.unread.goes_on) {
            Some(first) => first.saturating_sub(1),
            None => self.seen,
        }
    }

    pub(super) fn deliver(&mut self, mail: Deliver) {
        self.uncommitted.deliveries.push(mail);
    }

    /// A signal to another run; a target that is no run's id reaches nobody.
    pub(super) fn send_signal(&mut self, send: Send) {
        let Ok(target) = send.target.parse() else {
            return;
        };
        let name = send
            .body
            .get("signal")
            .map_or_else(|| "".into(), Value::key_text);
        let value = send.body.get("value").cloned().unwrap_or_default();
        let id = format!("{SEND}{}/{}", self.run, send.execution);
        self.deliver(codec::mail(target, id, &EventKind::Signal { name, value }));
    }
}
