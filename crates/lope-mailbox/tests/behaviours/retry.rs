//! Failures: tried again, given up.

use lope_mailbox::key::MessagePosition;
use lope_mailbox::{Consumer, ConsumerConfig, HandlerError, handler, plain};
use lope_store::tables::{At, TableId, Write};

use super::stand::{SEVEN, Seen, Stand, command, config, worker};

/// Tick until nothing is left, moving the clock to the next attempt each time. Answers with the
/// times between attempts.
async fn drain(stand: &Stand, consumer: &mut Consumer) -> Vec<i64> {
    let mut times = vec![];
    while !stand.queued(SEVEN).await.is_empty() {
        let before = stand.now();
        assert!(times.len() < 100, "it does not end");
        if consumer.tick().await.unwrap().is_idle() {
            let sleep = consumer.idle_sleep().await.unwrap();
            stand.clock.pass(sleep);
            times.push(stand.now() - before);
        }
    }
    times
}

/// "Retryable failure (busy, conflict): back off and try again within a budget (default 4), then
/// dead letter."
#[tokio::test]
async fn a_busy_message_backs_off_and_is_given_up_after_four_attempts() {
    for (error, reason) in [
        (HandlerError::Busy("no room".into()), "busy: no room"),
        (HandlerError::Conflict("again".into()), "conflict: again"),
    ] {
        let stand = Stand::new();
        let seq = stand.send(&command(SEVEN, "m", "")).await;
        let said = error.clone();
        let mut consumer = stand
            .consumer(SEVEN, "desk", plain(move |_, _| Err(said.clone())))
            .await;
        let waits = drain(&stand, &mut consumer).await;
        assert_eq!(waits.len(), 3);
        for (wait, whole) in waits.iter().zip([50, 100, 200]) {
            assert!((whole / 2..=whole).contains(wait), "{waits:?}");
        }
        let dead = stand
            .mailbox
            .dead(worker(SEVEN), None, 9)
            .await
            .unwrap()
            .remove(0);
        assert_eq!(
            (dead.seq, dead.reason.as_str(), dead.attempts),
            (seq, reason, 4)
        );
        assert_eq!(dead.failed_at.millis(), stand.now());
        let counts = consumer.counters().read();
        assert_eq!(
            (counts.attempts, counts.requeues, counts.dead_letters),
            (4, 3, 1)
        );
        assert_eq!(counts.busy + counts.conflicts, 4);
        assert_eq!(stand.leases().await, []);
    }
}

/// While a message waits for its next attempt its lease says so, and those behind it go on.
#[tokio::test]
async fn a_message_that_waits_blocks_nobody() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let noted = seen.clone();
    let handler = plain(move |context, message| {
        noted.note(format!(
            "{}#{}",
            String::from_utf8_lossy(message.id),
            context.about().attempt
        ));
        if message.id == b"a" && context.about().attempt < 3 {
            Err(HandlerError::Busy("not yet".into()))
        } else {
            Ok(())
        }
    });
    stand.send_all(&["a", "b", "c"]).await;
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    let tally = consumer.poll_inbox(8).await.unwrap();
    assert_eq!((tally.handled, tally.requeued), (2, 1));
    let lease = stand
        .mailbox
        .lease(worker(SEVEN), MessagePosition::Inbox(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((lease.waiting, lease.attempts), (true, 1));
    assert_eq!(
        consumer.poll_inbox(8).await.unwrap().handled,
        0,
        "not before its time"
    );
    drain(&stand, &mut consumer).await;
    assert_eq!(seen.all(), ["a#1", "b#1", "c#1", "a#2", "a#3"]);
}

/// Another worker of the same inbox takes up the next attempt, with the count.
#[tokio::test]
async fn the_count_goes_with_the_message() {
    let stand = Stand::new();
    stand.send_all(&["m"]).await;
    for attempt in 1..=4 {
        let name = format!("desk{attempt}");
        let mut consumer = stand
            .consumer(
                SEVEN,
                &name,
                plain(|_, _| Err(HandlerError::Busy("no".into()))),
            )
            .await;
        let tally = consumer.poll_inbox(8).await.unwrap();
        assert_eq!(
            (tally.requeued, tally.dead),
            if attempt < 4 { (1, 0) } else { (0, 1) }
        );
        stand.pass(1_000);
    }
}

/// A budget of one attempt leaves no retry.
#[tokio::test]
async fn the_budget_is_a_setting() {
    let stand = Stand::new();
    stand.send_all(&["m"]).await;
    let mut config = config(SEVEN, "desk");
    config.retry.budget = 1;
    let mut consumer = stand
        .runner_with(config, plain(|_, _| Err(HandlerError::Busy("no".into()))))
        .await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().dead, 1);
}

/// "Reads made by the handler are validated at commit; a changed key means conflict and another
/// attempt with a fresh view, bounded, with backoff and jitter."
#[tokio::test]
async fn a_changed_read_means_another_attempt_with_a_fresh_view() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.put_state("stock", "5").await;
    stand.send_all(&["m"]).await;
    let mut consumer = stand
        .consumer(SEVEN, "desk", contended(&stand, &seen, 2))
        .await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    assert_eq!(seen.all(), ["5", "v1", "v2"]);
    assert_eq!(stand.state("result").await.as_deref(), Some("v2"));
    let counts = consumer.counters().read();
    assert_eq!(
        (counts.attempts, counts.conflicts, counts.successes),
        (3, 2, 1)
    );
    assert_eq!(counts.requeues, 0);
}

/// "bounded": a key that changes under every attempt ends in the dead letters.
#[tokio::test]
async fn endless_conflicts_end_in_the_dead_letters() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.put_state("stock", "5").await;
    stand.send_all(&["m"]).await;
    let mut config = config(SEVEN, "desk");
    config.retry.conflicts = 3;
    let mut consumer = stand
        .runner_with(config, contended(&stand, &seen, usize::MAX))
        .await;
    drain(&stand, &mut consumer).await;
    let dead = stand
        .mailbox
        .dead(worker(SEVEN), None, 9)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (dead.reason.as_str(), dead.attempts),
        ("conflict: what it read was changed by others 4 times", 4)
    );
    assert_eq!(
        seen.all().len(),
        16,
        "four attempts with three more tries each"
    );
    assert_eq!(stand.state("result").await, None);
}

/// Copies `stock` to `result`; the first times somebody changes `stock` in between.
fn contended(stand: &Stand, seen: &Seen, times: usize) -> impl lope_mailbox::Handler + 'static {
    let (stand, seen) = (stand.clone(), seen.clone());
    handler(move |context, _| {
        let (stand, seen) = (stand.clone(), seen.clone());
        Box::pin(async move {
            let stock = String::from_utf8(context.state(b"stock").await?.unwrap_or_default())
                .expect("text");
            seen.note(stock.clone());
            context.put_state(b"result", stock.into_bytes())?;
            let tries = seen.all().len();
            if tries <= times {
                stand.put_state("stock", &format!("v{tries}")).await;
            }
            Ok(())
        })
    })
}

/// A read of nothing is a read: a key that appears is a conflict too.
#[tokio::test]
async fn absence_is_a_read() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.send_all(&["m"]).await;
    let (outside, noted) = (stand.clone(), seen.clone());
    let handler = handler(move |context, _| {
        let (stand, seen) = (outside.clone(), noted.clone());
        Box::pin(async move {
            let found = context.state(b"flag").await?.is_some();
            seen.note(found.to_string());
            context.put_state(b"found", found.to_string().into_bytes())?;
            if !found {
                stand.put_state("flag", "up").await;
            }
            Ok(())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    assert_eq!(
        (seen.all(), stand.state("found").await.as_deref()),
        (vec!["false".into(), "true".into()], Some("true"))
    );
}

/// A conflict in one message of a batch leaves the others alone.
#[tokio::test]
async fn a_conflict_leaves_the_others_of_the_batch_alone() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.send_all(&["a", "b", "c"]).await;
    let (outside, noted) = (stand.clone(), seen.clone());
    let handler = handler(move |context, message| {
        let (stand, seen) = (outside.clone(), noted.clone());
        Box::pin(async move {
            seen.note_id(message);
            let key = [b"k-", message.id].concat();
            context.state(&key).await?;
            if message.id == b"b" && seen.all().len() == 2 {
                stand.put_state("k-b", "x").await;
            }
            context.put_state(&key, b"done".to_vec())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 3);
    assert_eq!(seen.all(), ["a", "b", "c", "b"]);
}

/// A handler that cannot work at all leaves its message untouched, and the worker stops.
#[tokio::test]
async fn an_unfit_handler_leaves_messages_where_they_are() {
    let stand = Stand::new();
    stand.send_all(&["a", "b"]).await;
    let handler = plain(|_, message| match message.id {
        b"a" => Ok(()),
        _ => Err(HandlerError::Unfit("no such program".into())),
    });
    let mut consumer = stand
        .runner_with(
            ConsumerConfig {
                max_batch: 8,
                ..config(SEVEN, "desk")
            },
            handler,
        )
        .await;
    let error = consumer.tick().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the handler cannot work: no such program"
    );
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![2], vec![])
    );
    assert!(
        stand
            .mailbox
            .dead(worker(SEVEN), None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

/// A dead letter under a number that is taken gets another one.
#[tokio::test]
async fn a_dead_letter_never_overwrites_another() {
    let stand = Stand::new();
    let at = At::new(
        TableId::DEAD_LETTER,
        lope_mailbox::key::inbox(worker(SEVEN), 1),
    );
    stand
        .write(vec![Write::Put(at, b"an old one".to_vec())])
        .await;
    stand
        .mailbox
        .put(worker(SEVEN), 1, b"garbage".to_vec())
        .await
        .unwrap();
    let mut consumer = stand.consumer(SEVEN, "desk", plain(|_, _| Ok(()))).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().dead, 1);
    let rows = stand.rows(TableId::DEAD_LETTER).await;
    assert_eq!(
        (rows.len(), rows[0].value.as_slice()),
        (2, b"an old one".as_slice())
    );
}
