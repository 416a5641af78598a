//! Timers: due, dispatched, cancelled.

use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::TimerKey;
use lope_mailbox::{Consumer, ConsumerConfig, HandlerError, MailboxError, handler, plain};
use lope_model::{Span, Timestamp};
use lope_store::tables::{At, TableId, Write};

use super::stand::{SEVEN, Seen, Stand, command, config, worker};

async fn noting(stand: &Stand, seen: &Seen, max_batch: usize) -> Consumer {
    let seen = seen.clone();
    let handler = plain(move |_, message| {
        seen.note_id(message);
        Ok(())
    });
    stand
        .runner_with(
            ConsumerConfig {
                max_batch,
                ..config(SEVEN, "desk")
            },
            handler,
        )
        .await
}

impl Stand {
    /// Arm a timer for a worker, so many milliseconds from now.
    async fn arm(&self, to: i64, id: &str, millis: i64) -> TimerKey {
        let due = Timestamp::from_millis(self.now() + millis);
        let message = Message {
            kind: MessageKind::Timer,
            ..command(to, id, "")
        };
        let sent = self.mailbox.send_at(&message, due).await.unwrap();
        TimerKey::new(due, sent.seq).unwrap()
    }
}

/// "Due timers are dispatched after the inbox with what is left of the batch, earliest first, only
/// to their worker"
#[tokio::test]
async fn due_timers_come_after_the_inbox_with_what_is_left_of_the_batch() {
    let (stand, seen) = (Stand::new(), Seen::default());
    for (to, id, millis) in [
        (SEVEN, "t3", -1),
        (SEVEN, "t1", -9),
        (8, "other", -5),
        (SEVEN, "later", 50),
        (SEVEN, "t2", -5),
    ] {
        stand.arm(to, id, millis).await;
    }
    stand.send_all(&["a", "b"]).await;
    let mut consumer = noting(&stand, &seen, 3).await;
    assert_eq!(consumer.tick().await.unwrap().handled, 3);
    assert_eq!(seen.all(), ["a", "b", "t1"]);
    assert_eq!(consumer.tick().await.unwrap().handled, 2);
    assert_eq!(seen.all()[3..], ["t2", "t3"]);
    assert!(consumer.tick().await.unwrap().is_idle());
    stand.pass(50);
    assert_eq!(consumer.tick().await.unwrap().handled, 1);
    assert_eq!(
        stand.mailbox.timers(worker(8), 9).await.unwrap().len(),
        1,
        "another worker's timer stays"
    );
    assert_eq!(stand.rows(TableId::TIMERS).await.len(), 1);
    assert_eq!(stand.leases().await, []);
}

/// A full inbox does not keep timers waiting for ever.
#[tokio::test]
async fn a_full_inbox_does_not_starve_timers() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.arm(SEVEN, "timer", -1).await;
    for number in 0..100 {
        stand.send(&command(SEVEN, &format!("m{number}"), "")).await;
    }
    let mut consumer = noting(&stand, &seen, 4).await;
    for _ in 0..10 {
        consumer.tick().await.unwrap();
    }
    assert!(seen.all().contains(&"timer".to_owned()));
    assert!(seen.all().len() < 45);
}

/// "with the same retry budget and dead letter"
#[tokio::test]
async fn a_timer_is_tried_again_and_given_up_like_a_message() {
    let stand = Stand::new();
    stand.arm(SEVEN, "t", -1).await;
    let mut consumer = stand
        .consumer(
            SEVEN,
            "desk",
            plain(|_, _| Err(HandlerError::Busy("no".into()))),
        )
        .await;
    for _ in 0..4 {
        consumer.tick().await.unwrap();
        stand.pass(1_000);
    }
    let dead = stand
        .mailbox
        .dead(worker(SEVEN), None, 9)
        .await
        .unwrap()
        .remove(0);
    assert_eq!((dead.reason.as_str(), dead.attempts), ("busy: no", 4));
    assert_eq!(dead.message().unwrap().id, b"t");
    assert_eq!(
        (stand.rows(TableId::TIMERS).await, stand.leases().await),
        (vec![], vec![])
    );
    // Its number is one that no message of the inbox gets.
    assert!(stand.send(&command(SEVEN, "m", "")).await != dead.seq);
    stand.mailbox.replay(worker(SEVEN), dead.seq).await.unwrap();
    assert_eq!(stand.queued(SEVEN).await.len(), 2);
}

/// A timer that is not a message belongs to whoever meets it, and blocks nobody.
#[tokio::test]
async fn an_undecodable_timer_is_a_dead_letter() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let key = TimerKey::new(Timestamp::from_millis(5), 1).unwrap();
    stand
        .mailbox
        .put_timer(worker(SEVEN), key, b"garbage".to_vec())
        .await
        .unwrap();
    stand.arm(SEVEN, "good", -1).await;
    let mut consumer = noting(&stand, &seen, 8).await;
    let tally = consumer.tick().await.unwrap();
    assert_eq!(
        (tally.handled, tally.dead, seen.all()),
        (1, 1, vec!["good".to_owned()])
    );
    let refused = stand
        .mailbox
        .put_timer(worker(SEVEN), key, b"x".to_vec())
        .await;
    assert_eq!(refused, Ok(()), "the key is free again");
    let taken = stand
        .mailbox
        .put_timer(worker(SEVEN), key, b"y".to_vec())
        .await;
    assert_eq!(
        taken,
        Err(MailboxError::Exists {
            worker: worker(SEVEN),
            seq: 1
        })
    );
}

/// "a timer can be cancelled"
#[tokio::test]
async fn a_timer_can_be_cancelled_by_its_worker() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.arm(SEVEN, "timeout", 1_000).await;
    stand.arm(8, "timeout", 1_000).await;
    let due = Timestamp::from_millis(stand.now() + 1_000);
    stand.send_all(&["paid", "paid again"]).await;
    let noted = seen.clone();
    let handler = handler(move |context, message| {
        let seen = noted.clone();
        Box::pin(async move {
            let found = context.cancel_timer(due, b"timeout").await?;
            let twice = context.cancel_timer(due, b"timeout").await?;
            context.arm_own(due, b"other", b"")?;
            let armed = context.cancel_timer(due, b"other").await?;
            seen.note(format!(
                "{}: {found} {twice} {armed}",
                String::from_utf8_lossy(message.id)
            ));
            Ok(())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 2);
    assert_eq!(
        seen.all(),
        ["paid: true false true", "paid again: false false true"]
    );
    let left = stand.rows(TableId::TIMERS).await;
    assert_eq!(left.len(), 1, "the other worker's");
    assert_eq!(Message::decode(&left[0].value).unwrap().to_worker, 8);
}

/// A scope that is dropped cancels nothing.
#[tokio::test]
async fn a_dropped_scope_cancels_nothing() {
    let stand = Stand::new();
    stand.arm(SEVEN, "timeout", 1_000).await;
    let due = Timestamp::from_millis(stand.now() + 1_000);
    stand.send_all(&["m"]).await;
    let handler = handler(move |context, _| {
        Box::pin(async move {
            context.arm_own(due, b"own", b"")?;
            let mut inner = context.scope();
            assert!(inner.cancel_timer(due, b"timeout").await?);
            assert!(inner.cancel_timer(due, b"own").await?);
            drop(inner);
            Ok(())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    assert_eq!(stand.rows(TableId::TIMERS).await.len(), 2);
}

/// "A timer deleted or changed meanwhile is not deleted blindly."
#[tokio::test]
async fn a_timer_that_changed_in_hand_is_left_alone() {
    for cancel in [true, false] {
        let stand = Stand::new();
        let key = stand.arm(SEVEN, "t", -1).await;
        let changed = command(SEVEN, "changed", "").encode().unwrap();
        let (outside, bytes) = (stand.clone(), changed.clone());
        let handler = handler(move |context, message| {
            let (stand, bytes) = (outside.clone(), bytes.clone());
            Box::pin(async move {
                context.put_state(message.id, b"1".to_vec())?;
                if message.id == b"t" && cancel {
                    stand
                        .mailbox
                        .cancel_timer(worker(SEVEN), key)
                        .await
                        .expect("it is there");
                } else if message.id == b"t" {
                    stand
                        .write(vec![Write::Put(
                            At::new(TableId::TIMERS, key.to_bytes()),
                            bytes,
                        )])
                        .await;
                }
                Ok(())
            })
        });
        let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
        assert_eq!(consumer.tick().await.unwrap().handled, 0);
        assert_eq!(stand.state("t").await, None);
        let rows = stand.rows(TableId::TIMERS).await;
        assert_eq!(
            rows.iter().map(|row| row.value.clone()).collect::<Vec<_>>(),
            if cancel { vec![] } else { vec![changed] }
        );
        assert_eq!(consumer.tick().await.unwrap().handled, usize::from(!cancel));
        assert_eq!(stand.leases().await, []);
    }
}

/// Timers of others, however many, do not hide one's own.
#[tokio::test]
async fn timers_of_others_do_not_hide_ones_own() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let frame = command(8, "other", "").encode().unwrap();
    for chunk in 0..40 {
        let writes = (0..500).map(|number| {
            let key = TimerKey::new(Timestamp::from_millis(chunk), number).unwrap();
            Write::Put(At::new(TableId::TIMERS, key.to_bytes()), frame.clone())
        });
        stand.write(writes.collect()).await;
    }
    stand.arm(SEVEN, "mine", -1).await;
    let mut consumer = noting(&stand, &seen, 8).await;
    for _ in 0..8 {
        consumer.tick().await.unwrap();
    }
    assert_eq!(seen.all(), ["mine"]);
    assert_eq!(
        consumer.idle_sleep().await.unwrap(),
        Span::ZERO,
        "it looks again at once: it cannot see past them"
    );
}
