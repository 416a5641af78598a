//! Runners of other machines, on a clock that somebody sets forward: whoever looks for the first time
//! does not take that for silence.

use std::sync::Arc;

use lope_agents::board::{AgentBoard, ClaimOutcome, ProcessFacts, RunnerPlace};
use lope_agents::law::select::TaskQuery;
use lope_agents::law::wakeup::{WakeAction, wakeup};
use lope_agents::law::watched::WatchedRunners;
use lope_agents::law::{ProcessProof, TaskRules};
use lope_agents::records::RunnerStatus;
use lope_model::{RunnerId, Span};
use lope_store::{ManualClock, MemoryStore};

use crate::fixture::{Facts, HOUR, PROJECT, Stage, claimed, new_runner, runner_id};

/// A store with a runner of another machine at work, and boards that look at it.
struct Elsewhere {
    stage: Stage,
    store: lope_store::Store,
    holder: RunnerId,
}

impl Elsewhere {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn lope_model::Clock>);
        let facts = Arc::new(Facts::default());
        let stage = Stage {
            board: board(&store, &facts),
            clock,
            facts,
        };
        stage.board.add_project(PROJECT, None).await.unwrap();
        stage.task("a").await;
        let holder = stage.runner().await;
        stage.prove(holder, ProcessProof::Unknown);
        claimed(&stage, holder).await;
        Self {
            stage,
            store,
            holder,
        }
    }

    /// Somebody who has never looked.
    fn fresh(&self) -> AgentBoard {
        board(&self.store, &self.stage.facts)
    }

    async fn is_taken_by(&self, board: &AgentBoard) -> bool {
        let query = TaskQuery {
            project: Some(PROJECT),
            ..TaskQuery::default()
        };
        let claim = board.claim(&query, runner_id(), HOUR).await.unwrap();
        matches!(claim, ClaimOutcome::Claimed(_))
    }

    async fn is_healthy_for(&self, board: &AgentBoard) -> bool {
        let view = board.view(None).await.unwrap();
        let steps = wakeup(&view, &board.rules);
        matches!(steps[0].action, WakeAction::Healthy { .. })
    }
}

fn board(store: &lope_store::Store, facts: &Arc<Facts>) -> AgentBoard {
    let facts = Arc::clone(facts) as Arc<dyn ProcessFacts>;
    AgentBoard::new(Arc::clone(&store.board), facts, TaskRules::default())
}

/// "Clock ±1 h: no lock stolen", by nobody's first look either.
#[tokio::test]
async fn the_first_look_after_a_step_forward_takes_nothing() {
    let there = Elsewhere::new().await;
    // The store's clock alone moves: to the machine that looks, no time has passed.
    there.stage.sleep(HOUR.times(2));
    let fresh = there.fresh();
    assert!(!there.is_taken_by(&fresh).await);
    assert!(there.is_healthy_for(&fresh).await);
    // Its holder lives, gives a sign of life, and is watched on.
    let beat = there
        .stage
        .board
        .beat(there.holder, RunnerStatus::Running, None);
    beat.await.unwrap().unwrap();
    there.stage.pass(Span::from_secs(299));
    assert!(there.is_healthy_for(&fresh).await);
}

#[tokio::test]
async fn one_that_is_silent_while_it_is_watched_is_dead() {
    let there = Elsewhere::new().await;
    there.stage.sleep(HOUR.times(2));
    let fresh = there.fresh();
    assert!(there.is_healthy_for(&fresh).await);
    there.stage.pass(Span::from_secs(149));
    assert!(there.is_healthy_for(&fresh).await && !there.is_taken_by(&fresh).await);
    // What one wake-up has seen, the next one knows.
    let seen = serde_json::to_string(&fresh.watched_runners()).unwrap();
    let next = there.fresh();
    let seen: WatchedRunners = serde_json::from_str(&seen).unwrap();
    next.go_on_watching(seen);
    there.stage.pass(Span::from_secs(1));
    assert!(!there.is_healthy_for(&next).await);
    assert!(there.is_taken_by(&next).await);
}

/// Who wants its place waits for certainty.
#[tokio::test]
async fn a_place_is_given_when_it_is_certain_that_its_holder_is_dead() {
    let there = Elsewhere::new().await;
    there.stage.sleep(HOUR);
    let fresh = there.fresh();
    let entry = new_runner(runner_id());
    let entered = async { fresh.enter_runner(&entry).await.unwrap() };
    let time = async {
        while fresh.watched_runners() == WatchedRunners::default() {
            tokio::task::yield_now().await;
        }
        there.stage.pass(Span::from_secs(150));
    };
    let (place, ()) = tokio::join!(entered, time);
    assert!(matches!(place, RunnerPlace::Taken(_)), "{place:?}");
}
