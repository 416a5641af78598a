//! The keeper, turn by turn, with a clock moved by hand.

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, VersionId, digest::Digest};
use lope_store::runs::SessionLost;

use super::*;

struct Play {
    keeper: Keeper,
    now: Now,
}

impl Play {
    fn new() -> Self {
        Self::with(Settings { max_runs: 3, retention: None, ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        let runner = RunnerId::from_bytes([1; 16]);
        Self { keeper: Keeper::new(runner, settings, 1), now: Now { wall: Timestamp::EPOCH, moment: Moment(0) } }
    }

    fn registered() -> Self {
        let mut play = Self::new();
        assert_eq!(play.tick(0), [Ask::Register]);
        let asks = play.hear(Heard::Registered(play.beat()));
        assert!(matches!(asks[..], [Ask::Claim(_), Ask::Takeover]), "{asks:?}");
        play
    }

    /// Registered, whatever that leads to.
    fn begun(settings: Settings) -> (Self, Vec<Ask>) {
        let mut play = Self::with(settings);
        play.tick(0);
        let asks = play.hear(Heard::Registered(play.beat()));
        (play, asks)
    }

    fn beat(&self) -> Beat {
        Beat { now: self.now.wall, moment: self.now.moment, expires: self.now.moment.plus(Span::from_secs(15)) }
    }

    fn hear(&mut self, heard: Heard) -> Vec<Ask> {
        let mut asks = Vec::new();
        self.keeper.handle(self.now, heard, &mut asks);
        asks
    }

    fn tick(&mut self, millis: u64) -> Vec<Ask> {
        self.now.moment = self.now.moment.plus(Span::from_millis(millis));
        self.now.wall = self.now.wall.plus(Span::from_millis(millis));
        let mut asks = Vec::new();
        self.keeper.tick(self.now, &mut asks);
        asks
    }

    fn claimed(&self, runs: usize, next_due: Option<u64>) -> Heard {
        let runs = (0..runs).map(|n| run(n as u8)).collect();
        let next_due = next_due.map(|millis| self.now.wall.plus(Span::from_millis(millis)));
        Heard::Claimed(Ok(Claimed { now: self.now.wall, runs, next_due }))
    }

    fn idle(&mut self) {
        assert_eq!(self.hear(self.claimed(0, None)), []);
        assert_eq!(self.hear(Heard::TookOver(TakenOver::default())), []);
    }
}

fn run(n: u8) -> ClaimedRun {
    ClaimedRun {
        run: RunId::from_bytes([n; 16]),
        epoch: Epoch(1),
        version: VersionId(Digest::of(b"v")),
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        law: 1,
        weight: 1,
        mail: 0,
        due: Timestamp::EPOCH,
    }
}

fn limit_of(asks: &[Ask]) -> Option<usize> {
    asks.iter().find_map(|ask| match ask {
        Ask::Claim(claim) => Some(claim.limit),
        _ => None,
    })
}

#[test]
fn claims_go_on_while_there_is_work_and_room() {
    let mut play = Play::registered();
    let asks = play.hear(play.claimed(2, None));
    assert_eq!(limit_of(&asks), Some(1), "one place is left");
    let asks = play.hear(play.claimed(1, None));
    assert_eq!(limit_of(&asks), None, "no place is left");
    let asks = play.hear(Heard::Left { owner: play.keeper.runner(), runs: 1, weight: 1 });
    assert_eq!(limit_of(&asks), Some(1), "a place became free");
}

#[test]
fn an_empty_queue_is_asked_again_when_the_next_run_is_due() {
    let mut play = Play::registered();
    play.hear(Heard::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, Some(300)));
    assert_eq!(limit_of(&play.tick(299)), None);
    assert_eq!(limit_of(&play.tick(1)), Some(3));
}

#[test]
fn a_bell_leads_to_a_claim_and_to_a_look_for_mail() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(play.claimed(0, None));
    play.hear(Heard::TookOver(TakenOver::default()));
    assert_eq!(play.hear(Heard::Rang), [], "nothing was found a moment ago");
    assert_eq!(play.keeper.next_deadline(), Some(Moment(5)));
    let asks = play.tick(5);
    assert!(matches!(asks[..], [Ask::Mail, Ask::Claim(_)]), "{asks:?}");
    assert_eq!(play.hear(Heard::Rang), [], "both are under way");
    assert_eq!(play.hear(Heard::Mailed), []);
    play.hear(play.claimed(0, None));
    let asks = play.tick(5);
    assert!(matches!(asks[..], [Ask::Mail, Ask::Claim(_)]), "the second bell is not forgotten: {asks:?}");
}

#[test]
fn an_idle_keeper_asks_a_handful_of_times_a_second() {
    let mut play = Play::registered();
    play.idle();
    let mut count = 0;
    for _ in 0..1_000 {
        for ask in play.tick(10) {
            count += 1;
            match ask {
                Ask::Claim(_) => play.hear(play.claimed(0, None)),
                Ask::Takeover => play.hear(Heard::TookOver(TakenOver::default())),
                Ask::Heartbeat => play.hear(Heard::Beaten(Ok(play.beat()))),
                Ask::Reconcile => play.hear(Heard::Owned(Vec::new())),
                other => panic!("unexpected {other:?}"),
            };
        }
    }
    assert!(count <= 30, "{count} asks in ten seconds");
}

/// "A runner that cannot renew stops its work before the lease can be stolen."
#[test]
fn a_runner_that_cannot_renew_stops_before_its_lease_can_be_stolen() {
    let mut play = Play::registered();
    play.idle();
    let mut fenced_at = None;
    for _ in 0..1_500 {
        for ask in play.tick(10) {
            match ask {
                Ask::Heartbeat => drop(play.hear(Heard::Failed(Asked::Heartbeat))),
                Ask::Claim(_) => drop(play.hear(Heard::Failed(Asked::Claim))),
                Ask::Takeover => drop(play.hear(Heard::Failed(Asked::Takeover))),
                Ask::Reconcile => drop(play.hear(Heard::Failed(Asked::Reconcile))),
                Ask::Fence(_) => fenced_at = fenced_at.or(Some(play.now.moment)),
                Ask::Register | Ask::Mail | Ask::Prune | Ask::Adopt(_) | Ask::Compare(_) | Ask::SetClock(_) => {}
                Ask::Announce(_) => {}
            }
        }
    }
    assert_eq!(fenced_at, Some(Moment(12_000)), "a fifth of the lease before its end");
}

#[test]
fn the_lease_counts_from_when_the_heartbeat_was_sent() {
    let mut play = Play::registered();
    play.idle();
    assert!(play.tick(5_000).contains(&Ask::Heartbeat));
    assert!(!play.tick(6_900).iter().any(|ask| matches!(ask, Ask::Fence(_))));
    assert!(play.hear(Heard::Beaten(Ok(play.beat()))).iter().all(|ask| !matches!(ask, Ask::Fence(_))));
    assert!(play.tick(5_099).iter().all(|ask| !matches!(ask, Ask::Fence(_))));
    assert!(play.tick(1).iter().any(|ask| matches!(ask, Ask::Fence(_))), "12 s after the beat was sent");
}

#[test]
fn a_lost_session_fences_and_registers_anew() {
    let mut play = Play::registered();
    let asks = play.hear(Heard::Claimed(Err(SessionLost)));
    assert!(matches!(asks[..], [Ask::Fence(_)]), "{asks:?}");
    play.keeper.reborn(RunnerId::from_bytes([2; 16]));
    assert_eq!(play.tick(0), [Ask::Register]);
}

#[test]
fn a_store_out_of_reach_is_asked_less_and_less_often() {
    let mut play = Play::new();
    let mut asked = 0;
    for _ in 0..600 {
        for _ in play.tick(100) {
            asked += 1;
            play.hear(Heard::Failed(Asked::Register));
        }
    }
    assert!((10..=25).contains(&asked), "{asked} times in a minute");
}

#[test]
fn draining_takes_no_more_runs() {
    let mut play = Play::registered();
    play.idle();
    play.hear(Heard::Drain);
    assert_eq!(limit_of(&play.hear(Heard::Rang)), None);
    assert_eq!(limit_of(&play.tick(2_000)), None);
}

#[test]
fn a_bell_that_cannot_be_answered_yet_does_not_keep_the_keeper_looking() {
    let mut play = Play::new();
    play.hear(Heard::Rang);
    assert!(play.keeper.next_deadline().is_none_or(|due| due > play.now.moment), "it registers first");
    let mut play = Play::registered();
    play.hear(Heard::TookOver(TakenOver::default()));
    play.tick(10);
    play.hear(Heard::Rang);
    assert!(play.keeper.next_deadline().is_some_and(|due| due > play.now.moment), "a claim is under way");
}

#[test]
fn mail_that_could_not_be_fetched_is_asked_for_again() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(Heard::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, None));
    play.tick(10);
    assert!(play.hear(Heard::Rang).contains(&Ask::Mail));
    assert!(!play.hear(Heard::Failed(Asked::Mail)).contains(&Ask::Mail), "not at once");
    play.hear(play.claimed(0, None));
    assert!(play.tick(200).contains(&Ask::Mail));
}

#[test]
fn comparing_also_looks_for_mail_whose_bell_was_not_heard() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(Heard::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, None));
    play.tick(10);
    assert!(play.hear(Heard::Owned(vec![run(0)])).contains(&Ask::Mail));
}

#[test]
fn runs_of_a_session_that_has_ended_are_not_counted() {
    let mut play = Play::registered();
    let before = play.keeper.runner();
    play.hear(Heard::Claimed(Err(SessionLost)));
    play.keeper.reborn(RunnerId::from_bytes([2; 16]));
    play.hear(Heard::Took { owner: before, runs: 2 });
    assert_eq!(play.keeper.resident(), 0);
    play.hear(Heard::Took { owner: play.keeper.runner(), runs: 2 });
    play.hear(Heard::Left { owner: before, runs: 1, weight: 0 });
    assert_eq!(play.keeper.resident(), 2);
}

#[test]
fn a_runner_goes_by_the_clock_of_the_store() {
    let mut play = Play::new();
    assert_eq!(play.tick(0), [Ask::Register]);
    play.tick(100);
    let read = play.now.wall.plus(Span::from_millis(20_000 - 50));
    let beat = Beat { now: read, ..play.beat() };
    let asks = play.hear(Heard::Registered(beat));
    assert_eq!(asks[0], Ask::SetClock(20_000), "it was read half-way");
    let close = Beat { now: play.now.wall.plus(Span::from_millis(15)), ..play.beat() };
    play.tick(5_000);
    assert!(play.hear(Heard::Beaten(Ok(close))).iter().any(|ask| matches!(ask, Ask::SetClock(_))), "5 s behind");
}

fn claims(asks: &[Ask]) -> Vec<&Claim> {
    asks.iter().filter_map(|ask| if let Ask::Claim(claim) = ask { Some(claim) } else { None }).collect()
}

#[test]
fn a_runner_that_does_not_claim_takes_only_what_it_was_told_to_own() {
    let (mut play, asks) =
        Play::begun(Settings { claims: false, retention: Some(Span::from_secs(1)), ..Settings::default() });
    assert!(asks.iter().all(|ask| !matches!(ask, Ask::Claim(_) | Ask::Prune)), "{asks:?}");
    let root = RunId::from_bytes([7; 16]);
    let asks = play.hear(Heard::Own(vec![root]));
    assert_eq!(claims(&asks)[0].only, [root]);
    play.hear(play.claimed(1, None));
    play.hear(play.claimed(0, None));
    let child = RunId::from_bytes([8; 16]);
    let asks = play.hear(Heard::Own(vec![child]));
    assert_eq!(claims(&asks)[0].only, [root, child], "a child is asked for at once");
    play.hear(play.claimed(0, None));
    play.hear(Heard::Disown(child));
    let asks = play.tick(1_000);
    assert_eq!(claims(&asks)[0].only, [root]);
}

#[test]
fn a_queue_with_limits_is_claimed_by_itself_and_never_beyond_them() {
    let (slow, free) = (QueueName::parse("slow").unwrap(), QueueName::default());
    let limit = crate::settings::QueueLimit { concurrency: Some(2), ..Default::default() };
    let settings = Settings {
        queues: vec![slow.clone(), free.clone()],
        queue_limits: [(slow.clone(), limit)].into_iter().collect(),
        retention: None,
        ..Settings::default()
    };
    let (mut play, asks) = Play::begun(settings);
    assert_eq!((&claims(&asks)[0].queues, claims(&asks)[0].limit), (&vec![free.clone()], 500));
    let asks = play.hear(play.claimed(0, None));
    assert_eq!((&claims(&asks)[0].queues, claims(&asks)[0].limit), (&vec![slow.clone()], 2));
    let asks = play.hear(play.claimed(2, None));
    assert_eq!(claims(&asks)[0].queues, std::slice::from_ref(&free), "the other lane has its turn: {asks:?}");
    let asks = play.hear(play.claimed(0, None));
    assert_eq!(claims(&asks)[0].queues, [free], "the full queue is passed over");
    play.hear(play.claimed(0, None));
    let asks = play.hear(Heard::Gone(vec![RunId::from_bytes([1; 16])]));
    let slow_again = claims(&asks).iter().any(|claim| claim.queues == std::slice::from_ref(&slow) && claim.limit == 1);
    assert!(slow_again, "one place became free: {asks:?}");
}

#[test]
fn a_rate_bounds_how_many_runs_of_a_queue_are_taken_in_a_stretch() {
    let rate = lope_model::policy::RateLimit { count: 2, per: Span::from_secs(1), name: None };
    let limit = crate::settings::QueueLimit { rate: Some(rate), ..Default::default() };
    let queue_limits = [(QueueName::default(), limit)].into_iter().collect();
    let (mut play, asks) = Play::begun(Settings { queue_limits, retention: None, ..Settings::default() });
    assert_eq!(limit_of(&asks), Some(2));
    let asks = play.hear(play.claimed(2, None));
    assert_eq!(limit_of(&asks), None, "the rate is spent: {asks:?}");
    assert_eq!(limit_of(&play.tick(1_000)), Some(2));
}

#[test]
fn old_runs_are_deleted_in_batches_with_pauses() {
    let (mut play, asks) = Play::begun(Settings::default());
    assert!(asks.contains(&Ask::Prune));
    play.idle();
    play.hear(Heard::Pruned { more: true });
    assert!(!play.tick(249).contains(&Ask::Prune));
    assert!(play.tick(1).contains(&Ask::Prune));
    play.hear(Heard::Pruned { more: false });
    assert!(!play.tick(10_000).contains(&Ask::Prune));
}

#[test]
fn what_is_served_from_now_on_is_said_in_the_registry_until_it_is_heard() {
    let mut play = Play::registered();
    play.idle();
    let announced = |asks: &[Ask]| {
        asks.iter().find_map(|ask| if let Ask::Announce(serves) = ask { Some(serves.to_string()) } else { None })
    };
    let realm = Realm::parse("python").expect("a good name");
    let said = announced(&play.hear(Heard::Serve(realm.clone()))).expect("it is said at once");
    assert_eq!(said, "queue default\nrealm default\nrealm python\n");
    assert_eq!(announced(&play.hear(Heard::Failed(Asked::Announce))), None);
    assert_eq!(announced(&play.tick(200)), Some(said), "again, after a pause");
    play.hear(Heard::Announced(Ok(())));
    assert_eq!(announced(&play.hear(Heard::Serve(realm))), None, "nothing new");
}
