//! Duplicates, replies and acknowledgements.

use lope_mailbox::frame::{Flags, Message};
use lope_mailbox::message::Acknowledgement;
use lope_mailbox::{Consumer, ConsumerConfig, HandlerError, plain};
use lope_model::Span;
use lope_store::tables::{Range, TableId};

use super::stand::{SEVEN, Seen, Stand, command, config, worker};

fn once(id: &str) -> Message<'_> {
    Message {
        flags: Flags::DURABLE | Flags::DEDUPE,
        from_worker: Some(9),
        ..command(SEVEN, id, "")
    }
}

async fn replying(stand: &Stand, seen: &Seen) -> Consumer {
    let seen = seen.clone();
    let handler = plain(move |context, message| {
        seen.note_id(message);
        context.reply(format!("reply {}", seen.all().len()));
        Ok(())
    });
    stand
        .runner_with(
            ConsumerConfig {
                dedupe_window: Span::from_secs(60),
                ..config(SEVEN, "desk")
            },
            handler,
        )
        .await
}

/// What arrived at worker nine, as `id=payload`.
async fn arrived(stand: &Stand) -> Vec<String> {
    let queued = stand.mailbox.list(worker(9), None, 99).await.unwrap();
    let shown = queued.iter().map(|queued| {
        let message = queued.message().unwrap();
        format!(
            "{}={}",
            String::from_utf8_lossy(message.id),
            String::from_utf8_lossy(message.payload)
        )
    });
    shown.collect()
}

/// "Dedupe-required: a second message with the same id within the window is acknowledged without
/// calling the handler, and gets the stored reply."
#[tokio::test]
async fn a_second_message_with_the_same_id_gets_the_stored_reply() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = replying(&stand, &seen).await;
    stand.send(&once("m")).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    stand.send(&once("m")).await;
    let tally = consumer.poll_inbox(8).await.unwrap();
    assert_eq!((tally.handled, tally.duplicates), (0, 1));
    assert_eq!(seen.all(), ["m"]);
    assert_eq!(arrived(&stand).await, ["re:m=reply 1", "re:m=reply 1"]);
    assert_eq!(stand.queued(SEVEN).await, [0; 0]);

    stand.pass(60_000);
    stand.send(&once("m")).await;
    assert_eq!(
        consumer.poll_inbox(8).await.unwrap().handled,
        1,
        "the window has ended"
    );
    assert_eq!(
        arrived(&stand).await.last().map(String::as_str),
        Some("re:m=reply 2")
    );
}

/// The same within one batch, where the first is not committed yet when the second is looked at.
#[tokio::test]
async fn duplicates_in_one_batch_are_handled_once() {
    let (stand, seen) = (Stand::new(), Seen::default());
    for id in ["a", "b", "a", "a", "b"] {
        stand.send(&once(id)).await;
    }
    let mut consumer = replying(&stand, &seen).await;
    let tally = consumer.poll_inbox(8).await.unwrap();
    assert_eq!((tally.handled, tally.duplicates), (2, 3));
    assert_eq!(seen.all(), ["a", "b"]);
    assert_eq!(arrived(&stand).await.len(), 5);
}

/// Without the flag the same id is another message.
#[tokio::test]
async fn only_who_asks_is_deduplicated() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = replying(&stand, &seen).await;
    stand.send_all(&["m", "m"]).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 2);
    assert!(stand.rows(TableId::DEDUPE).await.is_empty());
}

/// A message that failed was not handled: its id is free.
#[tokio::test]
async fn a_failure_is_not_remembered() {
    let stand = Stand::new();
    stand.send(&once("m")).await;
    let mut consumer = stand
        .consumer(
            SEVEN,
            "desk",
            plain(|_, _| Err(HandlerError::Failed("no".into()))),
        )
        .await;
    consumer.poll_inbox(8).await.unwrap();
    assert!(stand.rows(TableId::DEDUPE).await.is_empty());
    stand.mailbox.replay(worker(SEVEN), 1).await.unwrap();
    let mut consumer = stand.consumer(SEVEN, "desk", plain(|_, _| Ok(()))).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
}

/// Ids whose window has ended are forgotten in time, and no others.
#[tokio::test]
async fn old_ids_are_forgotten() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = replying(&stand, &seen).await;
    for number in 0..600 {
        stand.send(&once(&format!("m{number}"))).await;
        if number == 299 {
            while !consumer.poll_inbox(100).await.unwrap().is_idle() {}
            stand.pass(30_000);
        }
    }
    while !consumer.poll_inbox(100).await.unwrap().is_idle() {}
    assert_eq!(
        stand
            .tables
            .count(Range::whole(TableId::DEDUPE))
            .await
            .unwrap(),
        600
    );
    stand.pass(30_000);
    for _ in 0..4 {
        consumer.keep_up().await.unwrap();
        stand.pass(1_000);
    }
    assert_eq!(
        stand
            .tables
            .count(Range::whole(TableId::DEDUPE))
            .await
            .unwrap(),
        300
    );
}

/// "Requires-ack: the sender learns of commit or dead letter."
#[tokio::test]
async fn the_sender_learns_of_commit_and_of_dead_letter() {
    let stand = Stand::new();
    let handler = plain(|_, message| match message.id {
        b"good" => Ok(()),
        _ => Err(HandlerError::Failed("no such order".into())),
    });
    for id in ["good", "bad"] {
        let flags = Flags::DURABLE | Flags::REQUIRES_ACK;
        stand
            .send(&Message {
                flags,
                from_worker: Some(9),
                ..command(SEVEN, id, "")
            })
            .await;
    }
    stand
        .send(&Message {
            from_worker: Some(9),
            ..command(SEVEN, "good", "unasked")
        })
        .await;
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    let queued = stand.mailbox.list(worker(9), None, 9).await.unwrap();
    let told: Vec<_> = queued
        .iter()
        .map(|queued| Acknowledgement::of(&queued.message().unwrap()).unwrap())
        .collect();
    let dead = Acknowledgement::Dead {
        reason: "failed: no such order".into(),
    };
    assert_eq!(
        told,
        [
            (&b"good"[..], Acknowledgement::Committed),
            (&b"bad"[..], dead)
        ]
    );
}

/// A reply without dedupe goes to the sender too; without a sender it goes nowhere.
#[tokio::test]
async fn a_reply_goes_to_whoever_sent_the_message() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = replying(&stand, &seen).await;
    stand
        .send(&Message {
            from_worker: Some(9),
            ..command(SEVEN, "m", "")
        })
        .await;
    stand.send_all(&["n"]).await;
    consumer.poll_inbox(8).await.unwrap();
    assert_eq!(arrived(&stand).await, ["re:m=reply 1"]);
}
