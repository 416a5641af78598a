//! The store's clock is set back: whoever looks brings back what lies ahead of it. No look takes a
//! lock from a holder that lives, none lets one that is dead keep it.

use lope_agents::board::ClaimOutcome;
use lope_agents::law::lock::{BroughtBack, LockStanding, brought_back, standing};
use lope_agents::law::select::TaskQuery;
use lope_agents::law::{BoardView, ProcessProof, TaskRules};
use lope_model::{Moment, RunnerId, Span};
use proptest::prelude::*;

use crate::fixture::{PROJECT, Stage, runner_id};

/// How long the lock lasts from its last renewal.
const LENGTH: Span = Span::from_secs(60);

/// A task that a runner has just taken, as its holder's machine sees the board.
fn taken() -> (BoardView, RunnerId) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stage = Stage::new().await;
        stage.task("a").await;
        let holder = stage.runner().await;
        let query = TaskQuery {
            project: Some(PROJECT),
            ..TaskQuery::default()
        };
        let claim = stage.board.claim(&query, holder, LENGTH).await.unwrap();
        assert!(matches!(claim, ClaimOutcome::Claimed(_)), "{claim:?}");
        stage
            .board
            .beat(holder, lope_agents::records::RunnerStatus::Running, None)
            .await
            .unwrap();
        (stage.board.view(None).await.unwrap(), holder)
    })
}

fn shift(view: &mut BoardView, millis: i64) {
    let clock = &mut view.clock;
    clock.moment = Moment(clock.moment.0 + millis);
    clock.lease_moment = clock.moment;
}

/// Look once, and write what was brought back. False: there was nothing.
fn look(view: &mut BoardView) -> bool {
    let all = brought_back(view);
    for BroughtBack { runner, locks } in &all {
        for lock in locks {
            let place = view.locks.iter().position(|it| it.task_id == lock.task_id);
            view.locks[place.unwrap()] = lock.clone();
        }
        if let Some(runner) = runner {
            let place = view.runners.iter().position(|it| it.id == runner.id);
            view.runners[place.unwrap()] = runner.clone();
        }
    }
    !all.is_empty()
}

/// How the lock stands for somebody on another machine, who can prove nothing.
fn from_elsewhere(view: &BoardView, holder: RunnerId, rules: &TaskRules) -> LockStanding {
    let mut elsewhere = view.clone();
    elsewhere.proofs.insert(holder, ProcessProof::Unknown);
    standing(&elsewhere, &elsewhere.locks[0], Some(runner_id()), rules)
}

#[test]
fn two_looks_before_the_renewal_leave_the_lock_to_its_holder() {
    let rules = TaskRules::default();
    for proof in [ProcessProof::Alive, ProcessProof::Unknown] {
        for seconds in [10, 59, 61, 3_600, 86_400] {
            let (mut view, holder) = taken();
            view.proofs.insert(holder, proof);
            shift(&mut view, seconds * -1_000);
            assert!(look(&mut view), "{proof:?} {seconds}");
            shift(&mut view, 1_000);
            assert!(!look(&mut view), "{proof:?} {seconds}: moved twice");
            let seen = from_elsewhere(&view, holder, &rules);
            assert_eq!(seen, LockStanding::Held, "{proof:?} {seconds}");
        }
    }
}

/// Runners of all projects are in view, locks of one only.
#[test]
fn a_look_at_another_project_does_not_prolong_the_lock() {
    let rules = TaskRules::default();
    let (mut view, holder) = taken();
    view.proofs.insert(holder, ProcessProof::Unknown);
    shift(&mut view, -3_600_000);
    let mut other = view.clone();
    (other.projects, other.locks, other.tasks) = (Vec::new(), Vec::new(), Vec::new());
    assert_eq!(brought_back(&other), []);
    assert!(look(&mut view));
    shift(&mut view, LENGTH.millis().cast_signed());
    let seen = from_elsewhere(&view, holder, &rules);
    assert_eq!(seen, LockStanding::Expired);
}

/// "Clock ±1 h: no lock stolen": one that was taken by hand for three hours lasts so long, whoever
/// looks with whatever rules; only a clock that was set back moves it, by that much.
#[tokio::test]
async fn a_lock_taken_by_hand_lasts_as_long_as_it_was_taken_for() {
    let length = Span::from_secs(3 * 3_600);
    let stage = Stage::new().await;
    stage.task("a").await;
    let query = TaskQuery {
        project: Some(PROJECT),
        ..TaskQuery::default()
    };
    let hand = runner_id();
    let claim = stage.board.claim(&query, hand, length).await.unwrap();
    assert!(matches!(claim, ClaimOutcome::Claimed(_)), "{claim:?}");
    let mut view = stage.board.view(None).await.unwrap();
    let rules = TaskRules::default();
    let end = view.locks[0].expires;
    for hours in 0..3 {
        assert!(!look(&mut view), "after {hours} hours");
        assert_eq!(view.locks[0].expires, end);
        assert_eq!(from_elsewhere(&view, hand, &rules), LockStanding::Held);
        shift(&mut view, 3_600_000);
        view.clock.now = view.clock.now.plus(Span::from_secs(3_600));
    }
    assert_eq!(from_elsewhere(&view, hand, &rules), LockStanding::Expired);
    let mut view = stage.board.view(None).await.unwrap();
    shift(&mut view, -3_600_000);
    view.clock.now = view.clock.now.minus(Span::from_secs(3_600));
    assert!(look(&mut view), "an hour too long");
    assert!(!look(&mut view), "once");
    assert_eq!(view.locks[0].expires, view.clock.moment.plus(length));
    assert_eq!(view.locks[0].expires_at, view.clock.now.plus(length));
}

proptest! {
    /// However far the clock was set back, however often others look, whatever they can prove: the
    /// lock lasts as long from the first look as it had left, no longer and no shorter.
    #[test]
    fn looks_neither_shorten_nor_prolong_a_lock(
        back in 2_001_i64..100_000_000,
        looks in prop::collection::vec((any::<bool>(), 0_i64..10_000), 1..6),
    ) {
        let rules = TaskRules::default();
        let (mut view, holder) = taken();
        shift(&mut view, -back);
        let mut first = None;
        for (is_here, pause) in looks {
            let proof = if is_here { ProcessProof::Alive } else { ProcessProof::Unknown };
            view.proofs.insert(holder, proof);
            let is_moved = look(&mut view);
            prop_assert_eq!(is_moved, first.is_none());
            let end = *first.get_or_insert(view.clock.moment.plus(LENGTH));
            prop_assert_eq!(view.locks[0].expires, end);
            prop_assert_eq!(from_elsewhere(&view, holder, &rules), LockStanding::Held);
            shift(&mut view, pause);
        }
        view.clock.lease_moment = first.unwrap();
        prop_assert_eq!(from_elsewhere(&view, holder, &rules), LockStanding::Expired);
    }
}
