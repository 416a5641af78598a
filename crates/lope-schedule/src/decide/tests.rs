//! Tables of what becomes of ticks, and properties: whatever happens, each tick has one fate, and
//! looking always gets further.

use lope_model::{Span, Timestamp, limit};
use proptest::prelude::*;

use super::*;
use crate::timing::Timing;
use crate::{TickCounts, validate::InvalidSchedule};

const MINUTE: Span = Span::from_secs(60);
const ADDED: Timestamp = Timestamp::from_millis(1_767_258_000_000);

/// Ticks at every minute behind `ADDED`.
fn schedule() -> Schedule {
    Schedule::new(
        "minutely",
        "flow",
        Timing::every(MINUTE, ADDED.plus(MINUTE)).unwrap(),
        ADDED,
    )
}

fn entry(change: impl FnOnce(&mut Schedule)) -> ScheduleEntry {
    let mut schedule = schedule();
    change(&mut schedule);
    ScheduleEntry::new(schedule, ADDED)
}

/// So many minutes after it was added: also the tick of that minute.
fn minute(count: u64) -> Timestamp {
    ADDED.plus(MINUTE.times(count))
}

/// Look at it, and let the start be made if there is one.
fn fire_due(
    entry: ScheduleEntry,
    now: Timestamp,
    running: bool,
) -> (ScheduleEntry, Option<TickStart>) {
    let TickDecision { mut entry, start } = entry.decide(now, running);
    start.into_iter().for_each(|start| entry.started(start));
    (entry, start)
}

/// Look until nothing is due; the ticks that started runs, none of which ends.
fn look_on(
    mut entry: ScheduleEntry,
    now: Timestamp,
    mut running: bool,
) -> (ScheduleEntry, Vec<Timestamp>) {
    let mut ticks = Vec::new();
    for _ in 0..1_000 {
        let waits = entry.waits() && !running;
        if !waits && entry.due().is_none_or(|due| due > now) {
            return (entry, ticks);
        }
        let (next, start) = fire_due(entry, now, running);
        ticks.extend(start.map(|start| start.tick));
        running |= start.is_some();
        entry = next;
    }
    panic!("looking does not get further");
}

fn counts(fired: u64, skipped: u64, missed: u64) -> TickCounts {
    TickCounts {
        fired,
        skipped,
        missed,
        failed: 0,
    }
}

#[test]
fn a_tick_starts_its_run_and_the_next_one_is_due() {
    let entry = entry(|_| {});
    assert_eq!((entry.due(), entry.waits()), (Some(minute(1)), false));
    let (entry, start) = fire_due(entry, minute(1), false);
    assert_eq!(
        start,
        Some(TickStart {
            tick: minute(1),
            cancels: false
        })
    );
    assert_eq!(entry.due(), Some(minute(2)));
    assert_eq!(
        (entry.standing.last_tick, entry.standing.counts),
        (Some(minute(1)), counts(1, 0, 0))
    );
}

/// "overlap policy (skip, queue, cancel-other, allow)"
#[test]
fn a_tick_that_meets_the_last_run_is_dealt_with_as_the_schedule_says() {
    let met = |overlap, running| {
        fire_due(
            entry(|schedule| schedule.overlap = overlap),
            minute(1),
            running,
        )
    };
    let starts = |cancels| {
        Some(TickStart {
            tick: minute(1),
            cancels,
        })
    };
    for overlap in Overlap::ALL {
        assert_eq!(met(overlap, false).1, starts(false), "{overlap:?}");
    }
    let (skipped, start) = met(Overlap::Skip, true);
    assert_eq!(
        (start, skipped.standing.counts, skipped.waits()),
        (None, counts(0, 1, 0), false)
    );
    let (queued, start) = met(Overlap::Queue, true);
    assert_eq!(
        (start, queued.standing.counts, queued.waits()),
        (None, counts(0, 0, 0), true)
    );
    assert_eq!(met(Overlap::CancelOther, true).1, starts(true));
    assert_eq!(met(Overlap::Allow, true).1, starts(false));
    for overlap in Overlap::ALL {
        assert_eq!(met(overlap, true).0.due(), Some(minute(2)), "{overlap:?}");
    }
}

#[test]
fn ticks_wait_in_order_until_the_last_run_has_ended() {
    let mut entry = entry(|schedule| schedule.overlap = Overlap::Queue);
    for count in 1..=3 {
        (entry, _) = fire_due(entry, minute(count), true);
    }
    assert_eq!(entry.standing.waiting, [minute(1), minute(2), minute(3)]);
    // One that comes while others wait takes its place behind them, also if the last run has just
    // ended.
    let mut started = Vec::new();
    while entry.waits() {
        let (next, start) = fire_due(entry, minute(4), false);
        started.extend(start.map(|start| start.tick));
        entry = next;
    }
    assert_eq!(
        (started, entry.due()),
        (vec![minute(1), minute(2), minute(3)], Some(minute(4)))
    );
}

#[test]
fn no_more_ticks_wait_than_the_limit_says() {
    let mut entry = entry(|schedule| schedule.overlap = Overlap::Queue);
    let most = limit::WAITING_TICKS_MAX as u64;
    for count in 1..=most + 5 {
        (entry, _) = fire_due(entry, minute(count), true);
    }
    assert_eq!(
        (
            entry.standing.waiting.len() as u64,
            entry.standing.counts.skipped
        ),
        (most, 5)
    );
    assert!(entry.encode().len() < 4_096, "what waits stays small");
}

/// "catch-up policy for missed fires"
#[test]
fn missed_ticks_are_caught_up_as_the_schedule_says() {
    let hour = |catch_up| {
        let entry = entry(|schedule| {
            schedule.catch_up = catch_up;
            schedule.overlap = Overlap::Allow;
        });
        look_on(entry, minute(60).plus(Span::from_secs(30)), false)
    };
    let (entry, ticks) = hour(CatchUp::None);
    assert_eq!(
        (ticks, entry.standing.counts, entry.due()),
        (vec![], counts(0, 0, 60), Some(minute(61)))
    );
    let (entry, ticks) = hour(CatchUp::Last);
    assert_eq!(
        (ticks, entry.standing.counts, entry.due()),
        (vec![minute(60)], counts(1, 0, 59), Some(minute(61)))
    );
    let (entry, ticks) = hour(CatchUp::All);
    let all: Vec<Timestamp> = (1..=60).map(minute).collect();
    assert_eq!(
        (ticks, entry.standing.counts, entry.due()),
        (all, counts(60, 0, 0), Some(minute(61)))
    );
}

#[test]
fn a_tick_that_is_a_little_late_has_not_been_missed() {
    let late = |span: Span| {
        let entry = entry(|schedule| schedule.catch_up = CatchUp::None);
        fire_due(entry, minute(1).plus(span), false)
            .1
            .map(|start| start.tick)
    };
    assert_eq!(
        (late(Span::ZERO), late(GRACE)),
        (Some(minute(1)), Some(minute(1)))
    );
    assert_eq!(late(GRACE + Span::from_millis(1)), None);
}

#[test]
fn of_very_many_missed_ticks_the_last_are_caught_up() {
    let most = limit::CATCH_UP_MAX as u64;
    let entry = entry(|schedule| {
        schedule.catch_up = CatchUp::All;
        schedule.overlap = Overlap::Allow;
    });
    let (entry, ticks) = look_on(entry, minute(1_000), false);
    assert_eq!(
        ticks,
        (1_001 - most..=1_000).map(minute).collect::<Vec<_>>()
    );
    assert_eq!(entry.standing.counts, counts(most, 0, 1_000 - most));
    // A year of seconds is not counted one by one.
    let entry = super::tests::entry(|schedule| {
        schedule.timing = Timing::every(Span::from_secs(1), minute(1)).unwrap();
        schedule.catch_up = CatchUp::All;
        schedule.overlap = Overlap::Allow;
    });
    let now = minute(60 * 24 * 365);
    let (entry, ticks) = look_on(entry, now, false);
    assert_eq!(
        (ticks.len() as u64, ticks.last(), entry.due()),
        (most, Some(&now), Some(now.plus(Span::from_secs(1))))
    );
}

/// "start/end"
#[test]
fn nothing_ticks_before_the_beginning_and_after_the_end() {
    let entry = entry(|schedule| {
        schedule.from = Some(minute(3));
        schedule.until = Some(minute(4));
    });
    assert_eq!(entry.due(), Some(minute(3)));
    let (entry, first) = fire_due(entry, minute(3), false);
    let (entry, second) = fire_due(entry, minute(4), false);
    assert_eq!(
        [first, second].map(|start| start.unwrap().tick),
        [minute(3), minute(4)]
    );
    assert_eq!(
        (entry.due(), entry.waits(), entry.standing.next),
        (None, false, None)
    );
}

/// "pause"
#[test]
fn a_pause_gives_up_what_waits_and_what_comes() {
    let mut entry = entry(|schedule| schedule.overlap = Overlap::Queue);
    (entry, _) = fire_due(entry, minute(1), true);
    entry.pause();
    assert_eq!(
        (entry.due(), entry.waits(), entry.standing.counts),
        (None, false, counts(0, 1, 0))
    );
    assert_eq!(fire_due(entry.clone(), minute(9), false).1, None);
    entry.resume(minute(9));
    assert_eq!(
        (entry.due(), entry.standing.counts),
        (Some(minute(10)), counts(0, 1, 0))
    );
    // Going on with what is not paused changes nothing.
    let before = entry.clone();
    entry.resume(minute(30));
    assert_eq!(entry, before);
}

#[test]
fn a_replaced_schedule_begins_now_and_remembers_its_counts() {
    let (mut entry, _) = fire_due(entry(|_| {}), minute(1), false);
    let two = Schedule {
        timing: Timing::every(MINUTE.times(2), minute(6)).unwrap(),
        ..schedule()
    };
    entry.replace(two, minute(4));
    assert_eq!(
        (entry.due(), entry.standing.counts),
        (Some(minute(6)), counts(1, 0, 0))
    );
}

#[test]
fn a_start_that_fails_is_told_and_over() {
    let TickDecision { mut entry, start } = entry(|_| {}).decide(minute(1), false);
    entry.failed(start.unwrap(), minute(1), "no workflow".to_owned());
    assert_eq!(
        (entry.standing.counts.failed, entry.due()),
        (1, Some(minute(2)))
    );
    let trouble = entry.standing.trouble.unwrap();
    assert_eq!(
        (trouble.tick, trouble.message.as_str()),
        (minute(1), "no workflow")
    );
}

/// The clock of the store is set back after a tick: it does not come again. Set forward: it is a
/// tick that comes late.
#[test]
fn a_tick_comes_once_however_the_clock_is_set() {
    let (entry, start) = fire_due(entry(|_| {}), minute(5), false);
    assert_eq!(start.map(|start| start.tick), Some(minute(5)));
    assert_eq!(entry.due(), Some(minute(6)));
    let (again, start) = fire_due(entry.clone(), minute(2), false);
    assert_eq!((start, again), (None, entry));
}

/// "interval, jitter"
#[test]
fn jitter_is_the_same_for_everybody_and_within_its_bound() {
    let jittered = |name: &str| {
        let mut schedule = schedule();
        schedule.name = name.to_owned();
        schedule.jitter = Span::from_secs(30);
        schedule
    };
    let delays = |schedule: &Schedule| -> Vec<u64> {
        (1..200)
            .map(|count| {
                schedule
                    .start_of(minute(count))
                    .since(minute(count))
                    .millis()
            })
            .collect()
    };
    let (one, other) = (delays(&jittered("one")), delays(&jittered("other")));
    assert_eq!(one, delays(&jittered("one")));
    assert_ne!(one, other);
    assert!(one.iter().all(|delay| *delay <= 30_000));
    assert!(one.iter().any(|delay| *delay > 20_000) && one.iter().any(|delay| *delay < 10_000));
    let entry = ScheduleEntry::new(jittered("one"), ADDED);
    let due = entry.due().unwrap();
    assert_eq!(due, minute(1).plus(Span::from_millis(one[0])));
    assert_eq!(
        fire_due(
            entry.clone(),
            Timestamp::from_millis(due.millis() - 1),
            false
        )
        .1,
        None
    );
    assert_eq!(
        fire_due(entry, due, false).1.map(|start| start.tick),
        Some(minute(1))
    );
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    let unsound = |change: fn(&mut Schedule)| {
        let mut schedule = schedule();
        change(&mut schedule);
        schedule.validate(ADDED)
    };
    assert_eq!(unsound(|_| {}), Ok(()));
    assert!(matches!(
        unsound(|it| it.name.clear()),
        Err(InvalidSchedule::Name { .. })
    ));
    assert!(matches!(
        unsound(|it| it.name = "a\nb".to_owned()),
        Err(InvalidSchedule::Name { .. })
    ));
    assert!(matches!(
        unsound(|it| it.jitter = MINUTE.times(2)),
        Err(InvalidSchedule::Jitter { .. })
    ));
    assert!(matches!(
        unsound(|it| it.until = Some(ADDED)),
        Err(InvalidSchedule::Never { .. })
    ));
    let never = |it: &mut Schedule| it.timing = Timing::cron("0 0 30 2 *", "UTC").unwrap();
    assert!(matches!(unsound(never), Err(InvalidSchedule::Never { .. })));
    let crossed = |it: &mut Schedule| (it.from, it.until) = (Some(minute(9)), Some(minute(8)));
    assert!(matches!(
        unsound(crossed),
        Err(InvalidSchedule::Bounds { .. })
    ));
    let reserved = |it: &mut Schedule| drop(it.tags.insert("schedule".to_owned(), "x".to_owned()));
    assert!(matches!(unsound(reserved), Err(InvalidSchedule::Tag(_))));
}

#[test]
fn what_is_kept_is_read_again_and_what_is_not_known_yet_is_left_out() {
    let (kept, _) = fire_due(
        entry(|schedule| schedule.overlap = Overlap::Queue),
        minute(3),
        true,
    );
    let stored = |body| lope_store::runs::StoredSchedule {
        name: "minutely".to_owned(),
        revision: lope_model::Revision::from_bytes([1; 16]),
        due: None,
        last_run: None,
        waits: false,
        body,
    };
    assert_eq!(ScheduleEntry::decode(&stored(kept.encode())).unwrap(), kept);
    assert!(ScheduleEntry::decode(&stored(b"not this".to_vec())).is_err());
    // Fields of a later version are passed over.
    #[derive(serde::Serialize)]
    struct Later {
        colour: &'static str,
        schedule: Schedule,
        standing: ScheduleState,
    }
    let later = Later {
        colour: "red",
        schedule: kept.schedule.clone(),
        standing: kept.standing.clone(),
    };
    assert_eq!(
        ScheduleEntry::decode(&stored(rmp_serde::to_vec_named(&later).unwrap())).unwrap(),
        kept
    );
}

fn any_overlap() -> impl Strategy<Value = Overlap> {
    prop::sample::select(&Overlap::ALL[..])
}

fn any_catch_up() -> impl Strategy<Value = CatchUp> {
    prop::sample::select(&CatchUp::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However late and however often it is looked at, whatever run is going: every tick that has
    /// come has one fate.
    #[test]
    fn every_tick_has_one_fate(
        overlap in any_overlap(),
        catch_up in any_catch_up(),
        jitter in 0..60_u64,
        looks in prop::collection::vec((0..400_u64, any::<bool>()), 1..40),
    ) {
        let mut entry = entry(|schedule| {
            (schedule.overlap, schedule.catch_up) = (overlap, catch_up);
            schedule.jitter = Span::from_secs(jitter);
        });
        let mut now = ADDED;
        for (passed, running) in looks {
            now = now.plus(Span::from_secs(passed));
            entry = look_on(entry, now, running).0;
            let TickCounts { fired, skipped, missed, failed } = entry.standing.counts;
            let dealt_with = fired + skipped + missed + failed + entry.standing.waiting.len() as u64;
            let next = entry.standing.next.unwrap();
            prop_assert_eq!(dealt_with, next.since(minute(1)).millis() / MINUTE.millis());
            prop_assert!(entry.due().unwrap() > now);
        }
    }
}
