//! The store in memory keeps every promise, on a clock moved by hand and on the machine's.

use std::sync::Arc;

use async_trait::async_trait;
use lope_conformance::{Harness, StoreSite};
use lope_model::{Clock, Span};
use lope_store::{ManualClock, MemoryStore, Store, SystemClock};

struct ByHand;

struct OnManualClock {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
}

#[async_trait]
impl Harness for ByHand {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        let clock = Arc::new(ManualClock::default());
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Arc::new(OnManualClock { clock, memory })
    }
}

#[async_trait]
impl StoreSite for OnManualClock {
    async fn open(&self) -> Store {
        self.memory.handle()
    }

    async fn pass(&self, span: Span) {
        self.clock.pass(span);
    }
}

struct InRealTime;

struct OnSystemClock(MemoryStore);

#[async_trait]
impl Harness for InRealTime {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        Arc::new(OnSystemClock(MemoryStore::new(Arc::new(
            SystemClock::default(),
        ))))
    }
}

#[async_trait]
impl StoreSite for OnSystemClock {
    async fn open(&self) -> Store {
        self.0.handle()
    }
}

/// The suite holds, promise by promise: "Start: one transaction stores run and queue row; an
/// idempotency key makes a second start return the first run."
/// (`a_run_is_stored_with_all_that_was_said`, `a_key_admits_once`) "A start handled by a working
/// runner may be born claimed, so that a short run needs no second trip."
/// (`a_run_may_be_born_claimed`) "Claim: due rows without a lease or with an expired one, in
/// batches, `FOR UPDATE SKIP LOCKED` on Postgres; sets owner, expiry, epoch+1; judged by the
/// store's clock." (`a_claim_tells_what_it_took`, `runs_of_an_expired_session_go_back`,
/// `the_epoch_grows_with_every_claim`) "Commit: journal rows, then state and wake-up time, in one
/// transaction guarded by owner and epoch." (`a_stale_owner_or_epoch_is_refused`,
/// `a_refused_commit_leaves_no_trace`) "Complete: result or error stored, queue row deleted, parent
/// told, in that transaction, guarded too. Completed runs stay queryable until pruned."
/// (`a_finished_run_keeps_its_record`, `mail_is_delivered_with_the_commit`,
/// `a_pruned_run_is_not_found`) "Heartbeat extends the runner's session, and with it every lease it
/// owns, in one small write." (`a_heartbeat_extends_the_session`) "A sweep clears expired leases in
/// batches." (`a_takeover_is_bounded_and_goes_on`) "Retention by age and status; pruning in batches
/// that do not block work." (`only_what_ended_before_is_pruned`,
/// `only_the_endings_asked_for_are_pruned`, `a_prune_is_bounded_and_goes_on`) "delete→not found;
/// list reflects the set; upsert;" (`a_pruned_run_is_not_found`, `a_listing_reflects_the_set`,
/// `what_is_put_is_read_back_overwritten_and_deleted`) "the same suite runs for memory, SQLite,
/// Postgres;"
#[test]
fn memory_keeps_every_promise() {
    let report = lope_conformance::run(ByHand);
    // Nobody gets at what a process has in its memory.
    let left_out = [
        "damage::a_damaged_run_is_set_aside_and_its_neighbours_do_not_notice",
        "damage::a_store_that_was_taken_away_says_so_and_takes_nothing",
    ];
    assert_eq!(report.left_out, left_out);
}

#[test]
fn memory_keeps_every_promise_in_real_time() {
    lope_conformance::run(InRealTime);
}
