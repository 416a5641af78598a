//! The trouble that a world has from its beginning: pauses, stalls, outages and shutdowns at times
//! that the dice give. What each of them does is not known here.

use crate::wire::ProcessPart;
use crate::world::{Happening, SimWorld};

/// Until about this time there is work in most worlds.
const BUSY: i64 = 9_000;

impl SimWorld {
    /// Pauses, stalls and shutdowns have their times from the beginning.
    pub(crate) fn plan_trouble(&mut self) {
        let faults = self.setup.faults;
        let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
        for _ in 0..faults.pauses {
            let at = self.busy_time();
            let slot = self.slot();
            let until = (at + self.dice.between(10, lease * 5 / 2)).min(faults.until);
            self.at_time(at, Happening::Pause(slot, until));
        }
        for _ in 0..faults.stalls {
            let at = self.busy_time();
            let slot = self.slot();
            let part = *self.dice.pick(&[
                ProcessPart::Session,
                ProcessPart::Adopter,
                ProcessPart::Dispatcher,
                ProcessPart::Shard(0),
            ]);
            // While a session task stands still for longer than its lease the shards go on, and
            // hear that their runs are lost.
            let most = if part == ProcessPart::Session {
                lease * 2
            } else {
                lease
            };
            let until = (at + self.dice.between(1, most)).min(faults.until);
            self.at_time(at, Happening::Stall(slot, part, until));
        }
        for _ in 0..faults.outages {
            let at = self.busy_time();
            let slot = self.slot();
            let until = at + self.dice.between(lease / 2, lease * 3 / 2);
            self.at_time(at - lease / 2, Happening::Strain(slot, at));
            self.at_time(at, Happening::Outage(slot, until.min(faults.until)));
            if self.dice.chance(600) {
                let later = until + self.dice.between(0, lease);
                self.at_time(
                    at,
                    Happening::Stall(slot, ProcessPart::Session, later.min(faults.until)),
                );
            }
        }
        for _ in 0..faults.shutdowns {
            let at = self.busy_time();
            let slot = self.slot();
            self.at_time(at, Happening::Shutdown(slot));
        }
    }

    /// Some time before the faults stop, more often than not one at which there is work.
    fn busy_time(&mut self) -> i64 {
        let until = self.setup.faults.until;
        let latest = if self.dice.chance(600) {
            BUSY.min(until)
        } else {
            until
        };
        self.dice.between(0, latest)
    }

    fn slot(&mut self) -> usize {
        usize::try_from(self.dice.below(self.setup.processes as u64)).unwrap_or_default()
    }
}
