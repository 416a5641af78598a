//! The session task, turn by turn, with a clock moved by hand.

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, VersionId, digest::Digest};
use lope_store::runs::SessionLost;

use super::*;

struct Play {
    session: SessionMachine,
    now: Now,
}

impl Play {
    fn new() -> Self {
        Self::with(Settings {
            max_runs: 3,
            retention: None,
            ..Settings::default()
        })
    }

    fn with(settings: Settings) -> Self {
        let runner = RunnerId::from_bytes([1; 16]);
        Self {
            session: SessionMachine::new(runner, settings, 1),
            now: Now {
                wall: Timestamp::EPOCH,
                moment: Moment(0),
            },
        }
    }

    fn registered() -> Self {
        let mut play = Self::new();
        assert_eq!(play.tick(0), [SessionCommand::Call(SessionCall::Register)]);
        let commands = play.hear(SessionEvent::Registered(play.beat()));
        assert!(
            matches!(
                commands[..],
                [
                    SessionCommand::Call(SessionCall::Claim(_)),
                    SessionCommand::Call(SessionCall::Takeover)
                ]
            ),
            "{commands:?}"
        );
        play
    }

    /// Registered, whatever that leads to.
    fn begun(settings: Settings) -> (Self, Vec<SessionCommand>) {
        let mut play = Self::with(settings);
        play.tick(0);
        let commands = play.hear(SessionEvent::Registered(play.beat()));
        (play, commands)
    }

    fn beat(&self) -> Beat {
        Beat {
            now: self.now.wall,
            moment: self.now.moment,
            expires: self.now.moment.plus(Span::from_secs(15)),
        }
    }

    fn hear(&mut self, event: SessionEvent) -> Vec<SessionCommand> {
        let mut commands = Vec::new();
        self.session.handle(self.now, event, &mut commands);
        commands
    }

    fn tick(&mut self, millis: u64) -> Vec<SessionCommand> {
        self.now.moment = self.now.moment.plus(Span::from_millis(millis));
        self.now.wall = self.now.wall.plus(Span::from_millis(millis));
        let mut commands = Vec::new();
        self.session.tick(self.now, &mut commands);
        commands
    }

    fn claimed(&self, runs: usize, next_due: Option<u64>) -> SessionEvent {
        let runs = (0..runs).map(|n| run(n as u8)).collect();
        let next_due = next_due.map(|millis| self.now.wall.plus(Span::from_millis(millis)));
        SessionEvent::Claimed(Ok(Claimed {
            now: self.now.wall,
            runs,
            next_due,
        }))
    }

    fn idle(&mut self) {
        assert_eq!(self.hear(self.claimed(0, None)), []);
        assert_eq!(self.hear(SessionEvent::TookOver(TakenOver::default())), []);
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

fn limit_of(commands: &[SessionCommand]) -> Option<usize> {
    commands.iter().find_map(|ask| match ask {
        SessionCommand::Call(SessionCall::Claim(claim)) => Some(claim.limit),
        _ => None,
    })
}

#[test]
fn claims_go_on_while_there_is_work_and_room() {
    let mut play = Play::registered();
    let commands = play.hear(play.claimed(2, None));
    assert_eq!(limit_of(&commands), Some(1), "one place is left");
    let commands = play.hear(play.claimed(1, None));
    assert_eq!(limit_of(&commands), None, "no place is left");
    let commands = play.hear(SessionEvent::Left {
        owner: play.session.runner(),
        runs: 1,
    });
    assert_eq!(limit_of(&commands), Some(1), "a place became free");
}

#[test]
fn an_empty_queue_is_asked_again_when_the_next_run_is_due() {
    let mut play = Play::registered();
    play.hear(SessionEvent::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, Some(300)));
    assert_eq!(limit_of(&play.tick(299)), None);
    assert_eq!(limit_of(&play.tick(1)), Some(3));
}

#[test]
fn a_notification_leads_to_a_claim_and_to_a_look_for_mail() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(play.claimed(0, None));
    play.hear(SessionEvent::TookOver(TakenOver::default()));
    assert_eq!(
        play.hear(SessionEvent::Notified),
        [],
        "nothing was found a moment ago"
    );
    assert_eq!(play.session.next_deadline(), Some(Moment(5)));
    let commands = play.tick(5);
    assert!(
        matches!(
            commands[..],
            [
                SessionCommand::Call(SessionCall::Mail),
                SessionCommand::Call(SessionCall::Claim(_))
            ]
        ),
        "{commands:?}"
    );
    assert_eq!(play.hear(SessionEvent::Notified), [], "both are under way");
    assert_eq!(play.hear(SessionEvent::Mailed), []);
    play.hear(play.claimed(0, None));
    let commands = play.tick(5);
    assert!(
        matches!(
            commands[..],
            [
                SessionCommand::Call(SessionCall::Mail),
                SessionCommand::Call(SessionCall::Claim(_))
            ]
        ),
        "the second notification is not forgotten: {commands:?}"
    );
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
                SessionCommand::Call(SessionCall::Claim(_)) => play.hear(play.claimed(0, None)),
                SessionCommand::Call(SessionCall::Takeover) => {
                    play.hear(SessionEvent::TookOver(TakenOver::default()))
                }
                SessionCommand::Call(SessionCall::Heartbeat) => {
                    play.hear(SessionEvent::Beaten(Ok(play.beat())))
                }
                SessionCommand::Call(SessionCall::Reconcile) => {
                    play.hear(SessionEvent::Owned(Vec::new()))
                }
                other => panic!("unexpected {other:?}"),
            };
        }
    }
    assert!(count <= 30, "{count} commands in ten seconds");
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
                SessionCommand::Call(SessionCall::Heartbeat) => {
                    drop(play.hear(SessionEvent::Failed(SessionRequest::Heartbeat)));
                }
                SessionCommand::Call(SessionCall::Claim(_)) => {
                    drop(play.hear(SessionEvent::Failed(SessionRequest::Claim)));
                }
                SessionCommand::Call(SessionCall::Takeover) => {
                    drop(play.hear(SessionEvent::Failed(SessionRequest::Takeover)));
                }
                SessionCommand::Call(SessionCall::Reconcile) => {
                    drop(play.hear(SessionEvent::Failed(SessionRequest::Reconcile)));
                }
                SessionCommand::Fence(_) => fenced_at = fenced_at.or(Some(play.now.moment)),
                SessionCommand::Call(
                    SessionCall::Register | SessionCall::Mail | SessionCall::Prune,
                )
                | SessionCommand::Adopt(_)
                | SessionCommand::Compare(_)
                | SessionCommand::SetClock(_) => {}
                SessionCommand::Call(SessionCall::Announce(_)) => {}
            }
        }
    }
    assert_eq!(
        fenced_at,
        Some(Moment(12_000)),
        "a fifth of the lease before its end"
    );
}

#[test]
fn the_lease_counts_from_when_the_heartbeat_was_sent() {
    let mut play = Play::registered();
    play.idle();
    assert!(
        play.tick(5_000)
            .contains(&SessionCommand::Call(SessionCall::Heartbeat))
    );
    assert!(
        !play
            .tick(6_900)
            .iter()
            .any(|command| matches!(command, SessionCommand::Fence(_)))
    );
    assert!(
        play.hear(SessionEvent::Beaten(Ok(play.beat())))
            .iter()
            .all(|command| !matches!(command, SessionCommand::Fence(_)))
    );
    assert!(
        play.tick(5_099)
            .iter()
            .all(|command| !matches!(command, SessionCommand::Fence(_)))
    );
    assert!(
        play.tick(1)
            .iter()
            .any(|command| matches!(command, SessionCommand::Fence(_))),
        "12 s after the beat was sent"
    );
}

#[test]
fn a_lost_session_fences_and_registers_anew() {
    let mut play = Play::registered();
    let commands = play.hear(SessionEvent::Claimed(Err(SessionLost)));
    assert!(
        matches!(commands[..], [SessionCommand::Fence(_)]),
        "{commands:?}"
    );
    play.session.reborn(RunnerId::from_bytes([2; 16]));
    assert_eq!(play.tick(0), [SessionCommand::Call(SessionCall::Register)]);
}

#[test]
fn a_store_out_of_reach_is_asked_less_and_less_often() {
    let mut play = Play::new();
    let mut asked = 0;
    for _ in 0..600 {
        for _ in play.tick(100) {
            asked += 1;
            play.hear(SessionEvent::Failed(SessionRequest::Register));
        }
    }
    assert!((10..=25).contains(&asked), "{asked} times in a minute");
}

#[test]
fn draining_takes_no_more_runs() {
    let mut play = Play::registered();
    play.idle();
    play.hear(SessionEvent::Drain);
    assert_eq!(limit_of(&play.hear(SessionEvent::Notified)), None);
    assert_eq!(limit_of(&play.tick(2_000)), None);
}

#[test]
fn a_notification_that_cannot_be_answered_yet_does_not_keep_the_keeper_looking() {
    let mut play = Play::new();
    play.hear(SessionEvent::Notified);
    assert!(
        play.session
            .next_deadline()
            .is_none_or(|due| due > play.now.moment),
        "it registers first"
    );
    let mut play = Play::registered();
    play.hear(SessionEvent::TookOver(TakenOver::default()));
    play.tick(10);
    play.hear(SessionEvent::Notified);
    assert!(
        play.session
            .next_deadline()
            .is_some_and(|due| due > play.now.moment),
        "a claim is under way"
    );
}

#[test]
fn mail_that_could_not_be_fetched_is_asked_for_again() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(SessionEvent::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, None));
    play.tick(10);
    assert!(
        play.hear(SessionEvent::Notified)
            .contains(&SessionCommand::Call(SessionCall::Mail))
    );
    assert!(
        !play
            .hear(SessionEvent::Failed(SessionRequest::Mail))
            .contains(&SessionCommand::Call(SessionCall::Mail)),
        "not at once"
    );
    play.hear(play.claimed(0, None));
    assert!(
        play.tick(200)
            .contains(&SessionCommand::Call(SessionCall::Mail))
    );
}

#[test]
fn comparing_also_looks_for_mail_whose_notification_was_not_heard() {
    let mut play = Play::registered();
    play.hear(play.claimed(1, None));
    play.hear(SessionEvent::TookOver(TakenOver::default()));
    play.hear(play.claimed(0, None));
    play.tick(10);
    assert!(
        play.hear(SessionEvent::Owned(vec![run(0)]))
            .contains(&SessionCommand::Call(SessionCall::Mail))
    );
}

#[test]
fn runs_of_a_session_that_has_ended_are_not_counted() {
    let mut play = Play::registered();
    let before = play.session.runner();
    play.hear(SessionEvent::Claimed(Err(SessionLost)));
    play.session.reborn(RunnerId::from_bytes([2; 16]));
    play.hear(SessionEvent::Took {
        owner: before,
        runs: 2,
    });
    assert_eq!(play.session.resident(), 0);
    play.hear(SessionEvent::Took {
        owner: play.session.runner(),
        runs: 2,
    });
    play.hear(SessionEvent::Left {
        owner: before,
        runs: 1,
    });
    assert_eq!(play.session.resident(), 2);
}

#[test]
fn a_runner_goes_by_the_clock_of_the_store() {
    let mut play = Play::new();
    assert_eq!(play.tick(0), [SessionCommand::Call(SessionCall::Register)]);
    play.tick(100);
    let read = play.now.wall.plus(Span::from_millis(20_000 - 50));
    let beat = Beat {
        now: read,
        ..play.beat()
    };
    let commands = play.hear(SessionEvent::Registered(beat));
    assert_eq!(
        commands[0],
        SessionCommand::SetClock(20_000),
        "it was read half-way"
    );
    let close = Beat {
        now: play.now.wall.plus(Span::from_millis(15)),
        ..play.beat()
    };
    play.tick(5_000);
    assert!(
        play.hear(SessionEvent::Beaten(Ok(close)))
            .iter()
            .any(|command| matches!(command, SessionCommand::SetClock(_))),
        "5 s behind"
    );
}

fn claims(commands: &[SessionCommand]) -> Vec<&Claim> {
    commands
        .iter()
        .filter_map(|ask| {
            if let SessionCommand::Call(SessionCall::Claim(claim)) = ask {
                Some(claim)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_runner_that_does_not_claim_takes_only_what_it_was_told_to_own() {
    let (mut play, commands) = Play::begun(Settings {
        claims: false,
        retention: Some(Span::from_secs(1)),
        ..Settings::default()
    });
    assert!(
        commands.iter().all(|command| !matches!(
            command,
            SessionCommand::Call(SessionCall::Claim(_) | SessionCall::Prune)
        )),
        "{commands:?}"
    );
    let root = RunId::from_bytes([7; 16]);
    let commands = play.hear(SessionEvent::Own(vec![root]));
    assert_eq!(claims(&commands)[0].only, [root]);
    play.hear(play.claimed(1, None));
    play.hear(play.claimed(0, None));
    let child = RunId::from_bytes([8; 16]);
    let commands = play.hear(SessionEvent::Own(vec![child]));
    assert_eq!(
        claims(&commands)[0].only,
        [root, child],
        "a child is asked for at once"
    );
    play.hear(play.claimed(0, None));
    play.hear(SessionEvent::Disown(child));
    let commands = play.tick(1_000);
    assert_eq!(claims(&commands)[0].only, [root]);
}

#[test]
fn a_queue_with_limits_is_claimed_by_itself_and_never_beyond_them() {
    let slow = QueueName::parse("slow").unwrap();
    let free = QueueName::default();
    let limit = crate::settings::QueueLimit {
        concurrency: Some(2),
        ..Default::default()
    };
    let settings = Settings {
        queues: vec![slow.clone(), free.clone()],
        queue_limits: [(slow.clone(), limit)].into_iter().collect(),
        retention: None,
        ..Settings::default()
    };
    let (mut play, commands) = Play::begun(settings);
    assert_eq!(
        (&claims(&commands)[0].queues, claims(&commands)[0].limit),
        (&vec![free.clone()], 500)
    );
    let commands = play.hear(play.claimed(0, None));
    assert_eq!(
        (&claims(&commands)[0].queues, claims(&commands)[0].limit),
        (&vec![slow.clone()], 2)
    );
    let commands = play.hear(play.claimed(2, None));
    assert_eq!(
        claims(&commands)[0].queues,
        std::slice::from_ref(&free),
        "the other lane has its turn: {commands:?}"
    );
    let commands = play.hear(play.claimed(0, None));
    assert_eq!(
        claims(&commands)[0].queues,
        [free],
        "the full queue is passed over"
    );
    play.hear(play.claimed(0, None));
    let commands = play.hear(SessionEvent::Gone(vec![RunId::from_bytes([1; 16])]));
    let slow_again = claims(&commands)
        .iter()
        .any(|claim| claim.queues == std::slice::from_ref(&slow) && claim.limit == 1);
    assert!(slow_again, "one place became free: {commands:?}");
}

/// A lane whose claims fail (its rows are locked, its rate is out of reach) has had its turn.
#[test]
fn a_claim_that_fails_does_not_keep_the_other_queues_waiting() {
    let (slow, free) = (QueueName::parse("slow").unwrap(), QueueName::default());
    let limit = crate::settings::QueueLimit {
        concurrency: Some(2),
        ..Default::default()
    };
    let settings = Settings {
        queues: vec![slow.clone(), free.clone()],
        queue_limits: [(slow.clone(), limit)].into_iter().collect(),
        retention: None,
        ..Settings::default()
    };
    let (mut play, commands) = Play::begun(settings);
    assert_eq!(claims(&commands)[0].queues, std::slice::from_ref(&free));
    for next in [slow, free] {
        play.hear(SessionEvent::Failed(SessionRequest::Claim));
        let commands = play.tick(1_000);
        assert_eq!(claims(&commands)[0].queues, [next], "{commands:?}");
    }
}

#[test]
fn old_runs_are_deleted_in_batches_with_pauses() {
    let (mut play, commands) = Play::begun(Settings::default());
    assert!(commands.contains(&SessionCommand::Call(SessionCall::Prune)));
    play.idle();
    play.hear(SessionEvent::Pruned { more: true });
    assert!(
        !play
            .tick(249)
            .contains(&SessionCommand::Call(SessionCall::Prune))
    );
    assert!(
        play.tick(1)
            .contains(&SessionCommand::Call(SessionCall::Prune))
    );
    play.hear(SessionEvent::Pruned { more: false });
    assert!(
        !play
            .tick(10_000)
            .contains(&SessionCommand::Call(SessionCall::Prune))
    );
}

#[test]
fn what_is_served_from_now_on_is_said_in_the_registry_until_it_is_heard() {
    let mut play = Play::registered();
    play.idle();
    let announced = |commands: &[SessionCommand]| {
        commands.iter().find_map(|ask| {
            if let SessionCommand::Call(SessionCall::Announce(serves)) = ask {
                Some(serves.to_string())
            } else {
                None
            }
        })
    };
    let realm = Realm::parse("python").expect("a good name");
    let said =
        announced(&play.hear(SessionEvent::Serve(realm.clone()))).expect("it is said at once");
    assert_eq!(said, "queue default\nrealm default\nrealm python\n");
    assert_eq!(
        announced(&play.hear(SessionEvent::Failed(SessionRequest::Announce))),
        None
    );
    assert_eq!(
        announced(&play.tick(200)),
        Some(said),
        "again, after a pause"
    );
    play.hear(SessionEvent::Announced(Ok(())));
    assert_eq!(
        announced(&play.hear(SessionEvent::Serve(realm.clone()))),
        None,
        "nothing new"
    );
    let said = announced(&play.hear(SessionEvent::Unserve(realm.clone())));
    assert_eq!(said.as_deref(), Some("queue default\nrealm default\n"));
    play.hear(SessionEvent::Announced(Ok(())));
    assert_eq!(announced(&play.hear(SessionEvent::Unserve(realm))), None);
}

/// A runner that is too slow for what it took begins again with less, and takes more as long as it
/// keeps up.
#[test]
fn whoever_could_not_renew_with_so_many_goes_on_with_half_of_them() {
    let (mut play, commands) = Play::begun(Settings {
        max_runs: 100,
        claim_batch: 40,
        retention: None,
        ..Settings::default()
    });
    let limit = |commands: &[SessionCommand]| {
        commands.iter().find_map(|command| match command {
            SessionCommand::Call(SessionCall::Claim(claim)) => Some(claim.limit),
            _ => None,
        })
    };
    assert_eq!(limit(&commands), Some(40));
    play.hear(play.claimed(40, None));
    let commands = play.tick(12_000);
    assert_eq!(
        commands,
        [SessionCommand::Fence(
            "it could not renew its session in time"
        )]
    );
    play.session.reborn(RunnerId::from_bytes([2; 16]));
    play.tick(0);
    let commands = play.hear(SessionEvent::Registered(play.beat()));
    assert_eq!(limit(&commands), Some(20), "half of what was too much");
    play.hear(play.claimed(20, None));
    play.tick(5_000);
    let commands = play.hear(SessionEvent::Beaten(Ok(play.beat())));
    assert_eq!(limit(&commands), Some(3), "an eighth more when it kept up");
}
