//! The outbox: what was emitted arrives, once.

use lope_mailbox::{Consumer, plain};
use lope_store::tables::TableId;

use super::stand::{SEVEN, Stand, command, worker};

async fn idle(stand: &Stand, id: i64) -> Consumer {
    stand
        .consumer(id, &format!("desk{id}"), plain(|_, _| Ok(())))
        .await
}

async fn emitted(stand: &Stand, to: i64, id: &str) {
    let frame = command(to, id, "").encode().unwrap();
    stand
        .write(vec![lope_mailbox::key::append_outbox(frame)])
        .await;
}

/// "Outbox rows are forwarded to their worker's inbox at least once, and exactly once in effect
/// (dedupe by outbox sequence)."
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_arrive_once_however_many_forward_them() {
    let stand = Stand::new();
    for number in 0..200 {
        emitted(&stand, 100 + number % 3, &format!("m{number}")).await;
    }
    let mut forwarders = Vec::new();
    for id in 0..8 {
        let mut consumer = idle(&stand, id).await;
        forwarders.push(tokio::spawn(async move {
            consumer.forward_outbox().await.unwrap()
        }));
    }
    let mut forwarded = 0;
    for forwarder in forwarders {
        forwarded += forwarder.await.unwrap();
    }
    assert_eq!(forwarded, 200);
    let mut arrived = Vec::new();
    for to in 100..103 {
        let queued = stand.mailbox.list(worker(to), None, 999).await.unwrap();
        arrived.extend(
            queued
                .iter()
                .map(|queued| String::from_utf8_lossy(queued.message().unwrap().id).into_owned()),
        );
    }
    arrived.sort();
    let mut expected: Vec<String> = (0..200).map(|number| format!("m{number}")).collect();
    expected.sort();
    assert_eq!(arrived, expected);
    assert!(stand.rows(TableId::OUTBOX).await.is_empty());
}

/// Rows of a worker that died before it forwarded them are forwarded by another, in order.
#[tokio::test]
async fn rows_of_the_dead_are_forwarded_by_the_living() {
    let stand = Stand::new();
    for number in 0..5 {
        emitted(&stand, 8, &format!("m{number}")).await;
    }
    let mut living = idle(&stand, SEVEN).await;
    assert!(living.keep_up().await.unwrap());
    let queued = stand.mailbox.list(worker(8), None, 9).await.unwrap();
    let ids: Vec<Vec<u8>> = queued
        .iter()
        .map(|queued| queued.message().unwrap().id.to_vec())
        .collect();
    assert_eq!(ids, [b"m0", b"m1", b"m2", b"m3", b"m4"]);
    assert_eq!(living.counters().read().forwarded, 5);
}

/// A worker's own messages leave the outbox before its tick ends, in the order of emission.
#[tokio::test]
async fn a_worker_forwards_what_it_emitted_at_once() {
    let stand = Stand::new();
    stand.send_all(&["a", "b"]).await;
    let handler = plain(|context, message| {
        for number in 0..3 {
            let id = format!("{}{number}", String::from_utf8_lossy(message.id));
            context.emit(&command(8, &id, ""))?;
        }
        Ok(())
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    let queued = stand.mailbox.list(worker(8), None, 9).await.unwrap();
    let ids: Vec<Vec<u8>> = queued
        .iter()
        .map(|queued| queued.message().unwrap().id.to_vec())
        .collect();
    assert_eq!(ids, [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]);
    assert!(stand.rows(TableId::OUTBOX).await.is_empty());
}

/// Bytes that nobody can be sent do not stay in the way.
#[tokio::test]
async fn what_cannot_be_delivered_becomes_a_dead_letter() {
    let stand = Stand::new();
    stand
        .write(vec![lope_mailbox::key::append_outbox(b"garbage".to_vec())])
        .await;
    emitted(&stand, 8, "good").await;
    let mut consumer = idle(&stand, SEVEN).await;
    assert_eq!(consumer.forward_outbox().await.unwrap(), 2);
    let dead = stand
        .mailbox
        .dead(worker(SEVEN), None, 9)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (dead.reason.as_str(), dead.frame.as_slice()),
        (
            "undeliverable: not a message: the frame is truncated",
            &b"garbage"[..]
        )
    );
    assert_eq!(stand.queued(8).await.len(), 1);
}
