//! Leases: who may handle a message, and for how long.

use std::sync::Arc;

use lope_mailbox::key::MessagePosition;
use lope_mailbox::{Consumer, ConsumerConfig, HandlerError, Leased, handler, plain};
use lope_model::{Epoch, Span};
use lope_store::tables::TableId;
use tokio::sync::Semaphore;

use super::stand::{SEVEN, Seen, Stand, command, config, owner, worker};

/// A handler that tells when it has begun and goes on when it is let.
#[derive(Clone)]
struct Gate {
    begun: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self {
            begun: Arc::new(Semaphore::new(0)),
            go_on: Arc::new(Semaphore::new(0)),
        }
    }

    async fn pass(&self) {
        self.begun.add_permits(1);
        self.go_on.acquire().await.expect("never closed").forget();
    }

    async fn wait_until_begun(&self) {
        self.begun.acquire().await.expect("never closed").forget();
    }
}

/// A consumer that notes each message in the state, through the gate.
async fn gated(stand: &Stand, config: ConsumerConfig, gate: &Gate, seen: &Seen) -> Consumer {
    let (gate, seen) = (gate.clone(), seen.clone());
    let name = config.owner.to_string();
    let handler = handler(move |context, message| {
        let (gate, seen, name) = (gate.clone(), seen.clone(), name.clone());
        Box::pin(async move {
            seen.note(format!("{name}:{}", String::from_utf8_lossy(message.id)));
            gate.pass().await;
            context.put_state(message.id, name.into_bytes())
        })
    });
    let mut consumer = stand.runner_with(config, handler).await;
    // Real sleep: the clock is moved by the test alone.
    consumer.set_time(lope_mailbox::time::TimeHooks::on(stand.clock.clone()));
    consumer
}

async fn lease(stand: &Stand, seq: u64) -> Option<Leased> {
    stand
        .mailbox
        .lease(worker(SEVEN), MessagePosition::Inbox(seq))
        .await
        .unwrap()
}

fn short(name: &str) -> ConsumerConfig {
    ConsumerConfig {
        lease: Span::from_secs(10),
        ..config(SEVEN, name)
    }
}

/// "A message is claimed with a lease (owner, deadline, attempts, epoch); a second claimer is busy
/// until the deadline, then takes over with attempts+1; the old holder's acknowledgement is
/// refused."
#[tokio::test]
async fn a_second_claimer_waits_for_the_deadline_and_the_first_is_then_refused() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let (slow, fast) = (Gate::new(), Gate::new());
    let seq = stand.send(&command(SEVEN, "m", "")).await;
    let mut first = gated(&stand, short("first"), &slow, &seen).await;
    let mut second = gated(&stand, short("second"), &fast, &seen).await;
    let held = tokio::spawn(async move {
        let tally = first.poll_inbox(4).await;
        (first, tally)
    });
    slow.wait_until_begun().await;
    let until = lope_model::Clock::moment(&*stand.clock).plus(Span::from_secs(10));
    let expected = Leased {
        owner: owner("first"),
        until,
        attempts: 1,
        epoch: Epoch(1),
        waiting: false,
    };
    assert_eq!(lease(&stand, seq).await, Some(expected));

    let busy = second.poll_inbox(4).await.unwrap();
    assert_eq!((busy.handled, busy.busy), (0, 1));
    // The first is not polled while the clock jumps, so it does not come to renew.
    stand.pass(10_000);
    fast.go_on.add_permits(1);
    assert_eq!(second.poll_inbox(4).await.unwrap().handled, 1);
    slow.go_on.add_permits(1);
    let (first, tally) = held.await.unwrap();
    assert_eq!(tally.unwrap().handled, 0);
    assert_eq!(first.counters().read().successes, 0);
    assert_eq!(stand.state("m").await.as_deref(), Some("second"));
    assert_eq!(seen.all(), ["first:m", "second:m"]);
    assert_eq!(stand.leases().await, []);
}

/// "takes over with attempts+1": the count of a message whose holders keep dying, and its end.
#[tokio::test]
async fn each_takeover_counts_and_too_many_are_the_end() {
    let stand = Stand::new();
    let seq = stand.send(&command(SEVEN, "m", "")).await;
    let mut config = short("any");
    config.retry.losses = 2;
    for (attempt, name) in ["a", "b", "c"].iter().enumerate() {
        let config = ConsumerConfig {
            owner: owner(name),
            ..config.clone()
        };
        die_holding(&stand, config).await;
        let lease = lease(&stand, seq).await.unwrap();
        assert_eq!(
            (lease.attempts as usize, lease.owner),
            (attempt + 1, owner(name))
        );
        stand.pass(10_000);
    }
    let mut last = stand
        .runner_with(
            ConsumerConfig {
                owner: owner("d"),
                ..config
            },
            plain(|_, _| Ok(())),
        )
        .await;
    assert_eq!(last.poll_inbox(4).await.unwrap().dead, 1);
    let dead = stand
        .mailbox
        .dead(worker(SEVEN), None, 1)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        dead.reason,
        "lost: its worker died 3 times while it was in hand"
    );
    assert_eq!(dead.attempts, 4);
}

/// Claim, call the handler, and vanish.
async fn die_holding(stand: &Stand, config: ConsumerConfig) {
    let gate = Gate::new();
    let mut consumer = gated(stand, config, &gate, &Seen::default()).await;
    let task = tokio::spawn(async move { consumer.poll_inbox(64).await });
    gate.wait_until_begun().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
}

/// "The same owner may claim again after a restart."
#[tokio::test]
async fn the_same_owner_claims_again_at_once() {
    let stand = Stand::new();
    stand.send_all(&["a", "b", "c"]).await;
    die_holding(&stand, short("desk")).await;
    let mut other = stand
        .runner_with(short("other"), plain(|_, _| Ok(())))
        .await;
    assert_eq!(other.poll_inbox(8).await.unwrap().handled, 0);
    let mut again = stand.runner_with(short("desk"), plain(|_, _| Ok(()))).await;
    let mut handled = 0;
    for _ in 0..3 {
        handled += again.poll_inbox(8).await.unwrap().handled;
    }
    assert_eq!((handled, stand.queued(SEVEN).await), (3, vec![]));
}

/// A batch is claimed with one row; every message in it is leased before the first handler is
/// called.
#[tokio::test]
async fn a_batch_is_under_lease_as_a_stretch() {
    let (stand, seen, gate) = (Stand::new(), Seen::default(), Gate::new());
    stand.send_all(&["a", "b", "c"]).await;
    let mut consumer = gated(&stand, short("desk"), &gate, &seen).await;
    let task = tokio::spawn(async move { consumer.poll_inbox(2).await });
    gate.wait_until_begun().await;
    assert_eq!(stand.leases().await.len(), 1);
    for seq in [1, 2] {
        assert_eq!(lease(&stand, seq).await.unwrap().owner, owner("desk"));
    }
    assert_eq!(lease(&stand, 3).await, None);
    let mut other = stand
        .runner_with(short("other"), plain(|_, _| Ok(())))
        .await;
    assert_eq!(
        other.poll_inbox(8).await.unwrap().handled,
        1,
        "what is not leased is free"
    );
    gate.go_on.add_permits(2);
    assert_eq!(task.await.unwrap().unwrap().handled, 2);
    assert_eq!(stand.leases().await, []);
}

/// A message that kills its worker is soon alone, and the others of its batch are handled.
#[tokio::test]
async fn a_message_that_kills_its_worker_does_not_take_others_with_it() {
    let stand = Stand::new();
    let ids: Vec<String> = (0..40).map(|number| format!("m{number:02}")).collect();
    for id in &ids {
        stand.send(&command(SEVEN, id, "")).await;
    }
    let mut config = short("desk");
    config.retry.losses = 4;
    for _ in 0..60 {
        if stand.queued(SEVEN).await.is_empty() {
            break;
        }
        work_until_killed(&stand, config.clone()).await;
        // With which worker after worker dies rests a little longer each time.
        stand.pass(10_000);
    }
    let dead = stand.mailbox.dead(worker(SEVEN), None, 9).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message().unwrap().id, b"m17");
    for id in ids.iter().filter(|id| *id != "m17") {
        assert_eq!(
            stand.state(id).await.as_deref(),
            Some("1"),
            "{id} was handled once"
        );
    }
}

/// A machine that is killed again and again makes no dead letters of messages that were only in
/// hand.
#[tokio::test]
async fn deaths_are_held_against_the_message_that_was_with_its_handler() {
    let stand = Stand::new();
    let seqs = [
        stand.send(&command(SEVEN, "a", "")).await,
        stand.send(&command(SEVEN, "b", "")).await,
    ];
    let mut config = short("desk");
    config.retry.losses = 30;
    for _ in 0..20 {
        die_holding(&stand, config.clone()).await;
        stand.pass(10_000);
    }
    let attempts = [
        lease(&stand, seqs[0]).await.unwrap().attempts,
        lease(&stand, seqs[1]).await.unwrap().attempts,
    ];
    assert_eq!(
        attempts,
        [20, 4],
        "the first was with its handler each time, the second never"
    );
}

/// Killed at once again, a suspect is not tried before it has rested.
#[tokio::test]
async fn a_message_that_takes_its_workers_with_it_rests_in_between() {
    let stand = Stand::new();
    stand.send(&command(SEVEN, "a", "")).await;
    for _ in 0..4 {
        die_holding(&stand, short("desk")).await;
    }
    let mut consumer = stand.runner_with(short("desk"), plain(|_, _| Ok(()))).await;
    let at_once = consumer.poll_inbox(8).await.unwrap();
    assert_eq!((at_once.handled, at_once.busy), (0, 1));
    stand.pass(10_000);
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
}

/// Poll until the deadly message is met, then vanish.
async fn work_until_killed(stand: &Stand, config: ConsumerConfig) {
    let deadly = Arc::new(Semaphore::new(0));
    let met = Arc::clone(&deadly);
    let handler = handler(move |context, message| {
        let met = Arc::clone(&met);
        Box::pin(async move {
            if message.id == b"m17" {
                met.add_permits(1);
                std::future::pending::<()>().await;
            }
            let key = lope_store::tables::At::new(TableId::APP_STATE, message.id);
            let count = context.get(&key).await?.map_or(1, |_| 2);
            context.put(key, count.to_string().into_bytes())
        })
    });
    let mut consumer = stand.runner_with(config, handler).await;
    consumer.set_time(lope_mailbox::time::TimeHooks::on(stand.clock.clone()));
    let working = async { while !consumer.tick().await.expect("memory answers").is_idle() {} };
    tokio::select! {
        () = working => {}
        _ = deadly.acquire() => {}
    }
}

/// A handler that takes longer than its lease keeps it: it is renewed while it works.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_its_message_is_in_hand() {
    let (stand, seen, gate) = (Stand::new(), Seen::default(), Gate::new());
    stand.send_all(&["a", "b"]).await;
    let mut consumer = gated(&stand, short("desk"), &gate, &seen).await;
    let task = tokio::spawn(async move {
        let tally = consumer.poll_inbox(8).await;
        (consumer, tally)
    });
    gate.wait_until_begun().await;
    let mut other = stand
        .runner_with(short("other"), plain(|_, _| Ok(())))
        .await;
    for _ in 0..10 {
        stand.pass(6_000);
        // The runtime's time moves on by itself when nothing else can happen, so the consumer gets
        // to renew.
        tokio::time::sleep(std::time::Duration::from_secs(11)).await;
        assert_eq!(other.poll_inbox(8).await.unwrap().handled, 0);
    }
    gate.go_on.add_permits(2);
    let (consumer, tally) = task.await.unwrap();
    assert_eq!(tally.unwrap().handled, 2);
    assert_eq!(
        (
            consumer.counters().read().attempts,
            consumer.counters().read().lost
        ),
        (2, 0)
    );
}

/// Whoever is known to be dead holds nothing.
#[tokio::test]
async fn leases_of_the_dead_are_not_waited_for() {
    let stand = Stand::new();
    stand.send_all(&["a"]).await;
    die_holding(&stand, short("ghost")).await;
    let config = ConsumerConfig {
        is_gone: Some(Arc::new(|owner| owner.as_str() == "ghost")),
        ..short("desk")
    };
    let mut consumer = stand.runner_with(config, plain(|_, _| Ok(()))).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
}

/// What a stopping worker had claimed but not begun is free at once, as if it had never been
/// claimed.
#[tokio::test]
async fn what_was_not_begun_is_put_back() {
    let stand = Stand::new();
    stand.send_all(&["a", "b", "c"]).await;
    let stop = lope_mailbox::StopSignal::default();
    let asked = stop.clone();
    let mut consumer = stand
        .consumer(
            SEVEN,
            "desk",
            plain(move |_, _| {
                asked.request();
                Ok(())
            }),
        )
        .await;
    consumer.set_stop(stop);
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![2, 3], vec![])
    );
}

/// Epochs rise with every claim and never restart, also when nothing is leased any more.
#[tokio::test]
async fn epochs_never_restart() {
    let stand = Stand::new();
    let mut busy = stand
        .consumer(
            SEVEN,
            "desk",
            plain(|_, _| Err(HandlerError::Busy("later".into()))),
        )
        .await;
    let mut done = stand.consumer(SEVEN, "desk", plain(|_, _| Ok(()))).await;
    let mut epochs = Vec::new();
    for round in 0..3 {
        let seq = stand.send(&command(SEVEN, &format!("m{round}"), "")).await;
        busy.poll_inbox(1).await.unwrap();
        epochs.push(lease(&stand, seq).await.unwrap().epoch);
        stand.pass(60_000);
        assert_eq!(done.poll_inbox(1).await.unwrap().handled, 1);
        assert_eq!(stand.leases().await, []);
    }
    assert!(
        epochs.is_sorted_by(|before, after| before < after),
        "{epochs:?}"
    );
}
