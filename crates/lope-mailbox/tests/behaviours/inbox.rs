//! Polling an inbox: which messages, in which order.

use lope_mailbox::frame::{Flags, Message};
use lope_mailbox::{HandlerError, MailboxError, Tally, plain};
use lope_store::tables::TableId;

use super::stand::{SEVEN, Seen, Stand, command, worker};

async fn noting(stand: &Stand, seen: &Seen) -> lope_mailbox::Consumer {
    let seen = seen.clone();
    stand
        .consumer(
            SEVEN,
            "desk",
            plain(move |_, message| {
                seen.note_id(message);
                Ok(())
            }),
        )
        .await
}

/// "Poll takes the lowest sequence of *this* worker, up to the batch; an empty inbox is ok with 0.
/// Another worker's rows stay."
#[tokio::test]
async fn poll_takes_the_lowest_of_this_worker_up_to_the_batch() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = noting(&stand, &seen).await;
    assert_eq!(consumer.poll_inbox(8).await, Ok(Tally::default()));
    for (seq, id) in [(40, "d"), (3, "a"), (17, "c"), (5, "b")] {
        stand
            .mailbox
            .put(worker(SEVEN), seq, command(SEVEN, id, "").encode().unwrap())
            .await
            .unwrap();
    }
    for other in [6, 8] {
        stand
            .mailbox
            .put(worker(other), 1, command(other, "x", "").encode().unwrap())
            .await
            .unwrap();
    }
    assert_eq!(consumer.poll_inbox(2).await.unwrap().handled, 2);
    assert_eq!(seen.all(), ["a", "b"]);
    assert_eq!(consumer.poll_inbox(9).await.unwrap().handled, 2);
    assert_eq!(seen.all(), ["a", "b", "c", "d"]);
    assert_eq!(
        (stand.queued(6).await, stand.queued(8).await),
        (vec![1], vec![1])
    );
    assert_eq!(stand.leases().await, []);
}

/// The lowest is the lowest that is there, also when it came late.
#[tokio::test]
async fn a_message_that_comes_late_under_a_low_number_is_found() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let mut consumer = noting(&stand, &seen).await;
    for seq in 10..20 {
        stand
            .mailbox
            .put(
                worker(SEVEN),
                seq,
                command(SEVEN, &format!("m{seq}"), "").encode().unwrap(),
            )
            .await
            .unwrap();
    }
    assert_eq!(consumer.poll_inbox(4).await.unwrap().handled, 4);
    stand
        .mailbox
        .put(
            worker(SEVEN),
            2,
            command(SEVEN, "late", "").encode().unwrap(),
        )
        .await
        .unwrap();
    for _ in 0..4 {
        consumer.poll_inbox(4).await.unwrap();
    }
    assert_eq!(seen.all().len(), 11);
    assert!(seen.all().contains(&"late".to_owned()));
}

/// "Order is oldest first; within one polled batch high-priority messages come first."
#[tokio::test]
async fn high_priority_comes_first_within_one_batch() {
    let (stand, seen) = (Stand::new(), Seen::default());
    for (id, high) in [
        ("a", false),
        ("b", true),
        ("c", false),
        ("d", true),
        ("e", true),
    ] {
        let flags = Flags::DURABLE.with(Flags::HIGH_PRIORITY, high);
        stand
            .send(&Message {
                flags,
                ..command(SEVEN, id, "")
            })
            .await;
    }
    let mut consumer = noting(&stand, &seen).await;
    consumer.poll_inbox(4).await.unwrap();
    assert_eq!(seen.all(), ["b", "d", "a", "c"]);
    consumer.poll_inbox(4).await.unwrap();
    assert_eq!(seen.all().last().map(String::as_str), Some("e"));
}

/// "Other failures and undecodable frames: dead letter at once, with reason, attempts, time. A
/// poisoned row never blocks those behind it."
#[tokio::test]
async fn poison_goes_to_the_dead_letters_and_blocks_nobody() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let noted = seen.clone();
    let handler = plain(move |_, message| {
        noted.note_id(message);
        match message.payload {
            b"fail" => Err(HandlerError::Failed("no such order".into())),
            b"panic" => panic!("out of cheese"),
            _ => Ok(()),
        }
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    stand
        .mailbox
        .put(worker(SEVEN), 1, b"garbage".to_vec())
        .await
        .unwrap();
    stand
        .mailbox
        .put(
            worker(SEVEN),
            2,
            command(SEVEN, "bad", "fail").encode().unwrap(),
        )
        .await
        .unwrap();
    stand
        .mailbox
        .put(worker(SEVEN), 3, command(8, "stray", "").encode().unwrap())
        .await
        .unwrap();
    stand
        .mailbox
        .put(
            worker(SEVEN),
            4,
            command(SEVEN, "boom", "panic").encode().unwrap(),
        )
        .await
        .unwrap();
    stand
        .mailbox
        .put(
            worker(SEVEN),
            5,
            command(SEVEN, "good", "").encode().unwrap(),
        )
        .await
        .unwrap();
    let tally = consumer.poll_inbox(16).await.unwrap();
    assert_eq!((tally.handled, tally.dead), (1, 4));
    assert_eq!(seen.all(), ["bad", "boom", "good"]);
    let dead = stand.mailbox.dead(worker(SEVEN), None, 9).await.unwrap();
    let shown: Vec<(u64, &str, u32, i64)> = dead
        .iter()
        .map(|dead| {
            (
                dead.seq,
                dead.reason.as_str(),
                dead.attempts,
                dead.failed_at.millis(),
            )
        })
        .collect();
    let now = stand.now();
    assert_eq!(
        shown,
        [
            (1, "undecodable: the frame is truncated", 1, now),
            (2, "failed: no such order", 1, now),
            (3, "not found: the frame is for worker 8", 1, now),
            (4, "failed: panic: out of cheese", 1, now),
        ]
    );
    assert_eq!(dead[0].frame, b"garbage");
    assert_eq!(dead[1].message().unwrap().id, b"bad");
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![], vec![])
    );
}

/// "Sequence numbers are allocated in the committing transaction; putting an existing sequence is
/// refused, never overwritten."
#[tokio::test]
async fn numbers_rise_in_the_commit_and_a_taken_one_is_refused() {
    let stand = Stand::new();
    let first = stand.send(&command(SEVEN, "a", "one")).await;
    let second = stand.send(&command(SEVEN, "b", "two")).await;
    assert!(first < second);
    let refused = stand
        .mailbox
        .put(
            worker(SEVEN),
            first,
            command(SEVEN, "c", "").encode().unwrap(),
        )
        .await;
    assert_eq!(
        refused,
        Err(MailboxError::Exists {
            worker: worker(SEVEN),
            seq: first
        })
    );
    let rows = stand.rows(TableId::INBOX).await;
    assert_eq!(Message::decode(&rows[0].value).unwrap().payload, b"one");
    // An explicit number in the way of the sequence is stepped over.
    stand
        .mailbox
        .put(
            worker(SEVEN),
            second + 1,
            command(SEVEN, "d", "").encode().unwrap(),
        )
        .await
        .unwrap();
    assert!(stand.send(&command(SEVEN, "e", "")).await > second + 1);
    assert_eq!(stand.queued(SEVEN).await.len(), 4);
}

/// "An inbox row is deleted only if its key and value still match what was claimed."
#[tokio::test]
async fn a_row_that_changed_in_hand_is_not_deleted() {
    let stand = Stand::new();
    let changed = command(SEVEN, "changed", "").encode().unwrap();
    let inner = stand.clone();
    let bytes = changed.clone();
    let handler = lope_mailbox::handler(move |context, message| {
        let (stand, bytes) = (inner.clone(), bytes.clone());
        Box::pin(async move {
            context.put_state(message.id, b"handled".to_vec())?;
            if message.id == b"a" {
                let key = lope_mailbox::key::inbox(worker(SEVEN), 1);
                stand
                    .write(vec![lope_store::tables::Write::Put(
                        lope_store::tables::At::new(TableId::INBOX, key),
                        bytes,
                    )])
                    .await;
            }
            Ok(())
        })
    });
    stand
        .mailbox
        .put(worker(SEVEN), 1, command(SEVEN, "a", "").encode().unwrap())
        .await
        .unwrap();
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(4).await.unwrap().handled, 0);
    assert_eq!(stand.rows(TableId::INBOX).await[0].value, changed);
    assert_eq!(
        stand.state("a").await,
        None,
        "what was handled is no longer there, so nothing of it happened"
    );
    assert_eq!(consumer.poll_inbox(4).await.unwrap().handled, 1);
    assert_eq!(stand.state("changed").await.as_deref(), Some("handled"));
}
