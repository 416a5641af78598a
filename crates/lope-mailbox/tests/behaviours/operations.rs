//! What people and programs beside the workers do: send, list, replay, drop, count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lope_mailbox::frame::Message;
use lope_mailbox::key::TimerKey;
use lope_mailbox::limit::{COUNTED_EACH, COUNTED_MAX};
use lope_mailbox::{
    Armed, BadMessage, Counting, Depth, HandlerError, Mailbox, MailboxError, TimerQuery, plain,
};
use lope_model::Timestamp;
use lope_store::Watch;
use lope_store::door::DoorCall;
use lope_store::tables::marker::Bootstrap;
use lope_store::tables::{Tables, TablesAnswer, TablesRequest};

use super::stand::{SEVEN, Stand, command, owner, worker};

#[tokio::test]
async fn messages_are_sent_listed_and_dropped() {
    let stand = Stand::new();
    for id in ["a", "b", "c"] {
        let sent = stand.mailbox.send(&command(SEVEN, id, "")).await.unwrap();
        assert_eq!((sent.worker, sent.due), (worker(SEVEN), None));
    }
    let page = stand.mailbox.list(worker(SEVEN), None, 2).await.unwrap();
    assert_eq!(
        page.iter()
            .map(|queued| queued.message().unwrap().id)
            .collect::<Vec<_>>(),
        [b"a", b"b"]
    );
    let rest = stand
        .mailbox
        .list(worker(SEVEN), Some(page[1].seq), 9)
        .await
        .unwrap();
    assert_eq!(rest.len(), 1);
    stand
        .mailbox
        .drop_message(worker(SEVEN), page[0].seq)
        .await
        .unwrap();
    let missing = MailboxError::NotFound {
        what: "message",
        worker: worker(SEVEN),
        seq: page[0].seq,
    };
    assert_eq!(
        stand.mailbox.drop_message(worker(SEVEN), page[0].seq).await,
        Err(missing)
    );
    assert_eq!(stand.queued(SEVEN).await.len(), 2);
    assert!(
        stand
            .mailbox
            .list(worker(8), None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn what_cannot_be_handled_is_not_sent() {
    let stand = Stand::new();
    let negative = stand.mailbox.send(&command(-7, "m", "")).await;
    assert!(matches!(
        negative,
        Err(MailboxError::Message(BadMessage::Key(_)))
    ));
    let past = stand
        .mailbox
        .send_at(&command(SEVEN, "m", ""), Timestamp::from_millis(-1))
        .await;
    assert!(matches!(
        past,
        Err(MailboxError::Message(BadMessage::Key(_)))
    ));
    let no_id = stand.mailbox.send(&command(SEVEN, "", "")).await;
    assert!(matches!(
        no_id,
        Err(MailboxError::Message(BadMessage::Encode(_)))
    ));
    let many = stand
        .mailbox
        .send_frames(vec![
            command(SEVEN, "a", "").encode().unwrap(),
            b"garbage".to_vec(),
        ])
        .await;
    assert!(matches!(
        many,
        Err(MailboxError::Message(BadMessage::Frame(_)))
    ));
    assert!(
        stand.queued(SEVEN).await.is_empty(),
        "nothing of a bad list is sent"
    );
}

#[tokio::test]
async fn timers_are_listed_and_cancelled() {
    let stand = Stand::new();
    for (to, due) in [(SEVEN, 30), (8, 20), (SEVEN, 10)] {
        stand
            .mailbox
            .send_at(&command(to, "t", ""), Timestamp::from_millis(due))
            .await
            .unwrap();
    }
    let timers = stand.mailbox.timers(worker(SEVEN), 9).await.unwrap();
    assert_eq!(
        timers
            .iter()
            .map(|timer| timer.due.millis())
            .collect::<Vec<_>>(),
        [10, 30]
    );
    assert_eq!(timers[0].message().unwrap().id, b"t");
    let key = TimerKey::new(timers[0].due, timers[0].seq).unwrap();
    stand
        .mailbox
        .cancel_timer(worker(SEVEN), key)
        .await
        .unwrap();
    assert!(matches!(
        stand.mailbox.cancel_timer(worker(SEVEN), key).await,
        Err(MailboxError::NotFound { .. })
    ));
    assert_eq!(
        stand.mailbox.timers(worker(SEVEN), 9).await.unwrap().len(),
        1
    );
}

/// Rows that went through the door while one worker's timers were looked for.
struct CountingDoor {
    inner: Arc<dyn Tables>,
    rows: AtomicUsize,
}

impl Tables for CountingDoor {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        Box::pin(async move {
            let answer = self.inner.call(request).await?;
            if let TablesAnswer::Range(rows) | TablesAnswer::TimersOf(rows) = &answer {
                self.rows.fetch_add(rows.len(), Ordering::Relaxed);
            }
            Ok(answer)
        })
    }

    fn watch(&self) -> Watch {
        self.inner.watch()
    }
}

/// "`mailbox timers` and `drop --timer` read only their worker": two of 2,500 are its own, and no
/// other is read.
#[tokio::test]
async fn only_the_workers_own_timers_are_read() {
    let stand = Stand::new();
    for due in 0..2_500 {
        let to = if due % 1_000 == 999 { SEVEN } else { 8 };
        stand
            .mailbox
            .send_at(&command(to, "t", ""), Timestamp::from_millis(due))
            .await
            .unwrap();
    }
    let door = Arc::new(CountingDoor {
        inner: Arc::clone(&stand.tables),
        rows: AtomicUsize::new(0),
    });
    let mailbox = Mailbox::new(Arc::clone(&door) as Arc<dyn Tables>);
    let dues =
        |timers: &[Armed]| -> Vec<i64> { timers.iter().map(|timer| timer.due.millis()).collect() };
    let found = mailbox.timers(worker(SEVEN), 9).await.unwrap();
    assert_eq!(dues(&found), [999, 1_999]);
    let from = Timestamp::from_millis(1_000);
    let query = TimerQuery { from, limit: 9 };
    let later = mailbox.query_timers(worker(SEVEN), query).await.unwrap();
    assert_eq!(dues(&later), [1_999]);
    let first = mailbox.timers(worker(SEVEN), 1).await.unwrap();
    assert_eq!(dues(&first), [999]);
    let last = mailbox.timer(worker(SEVEN), later[0].seq).await.unwrap();
    assert_eq!(last, Some(later[0].clone()));
    let another = mailbox.timer(worker(SEVEN), 1).await.unwrap();
    assert_eq!(another, None, "that one is somebody else's");
    assert_eq!(door.rows.load(Ordering::Relaxed), 2 + 1 + 1 + 2 + 2);
    let all = mailbox.timers(worker(8), 5_000).await.unwrap();
    assert_eq!(all.len(), 2_498, "in pages");
}

#[tokio::test]
async fn dead_letters_are_listed_replayed_and_dropped() {
    let stand = Stand::new();
    stand.send_all(&["a", "b", "c"]).await;
    let mut failing = stand
        .consumer(
            SEVEN,
            "desk",
            plain(|_, _| Err(HandlerError::Failed("no".into()))),
        )
        .await;
    failing.poll_inbox(8).await.unwrap();
    let dead = stand.mailbox.dead(worker(SEVEN), None, 9).await.unwrap();
    assert_eq!(
        dead.iter().map(|dead| dead.seq).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(
        stand.mailbox.dead(worker(SEVEN), Some(1), 1).await.unwrap()[0].seq,
        2
    );
    stand.mailbox.drop_dead(worker(SEVEN), 2).await.unwrap();
    assert!(matches!(
        stand.mailbox.drop_dead(worker(SEVEN), 2).await,
        Err(MailboxError::NotFound { .. })
    ));
    let number = stand.mailbox.replay(worker(SEVEN), 1).await.unwrap();
    assert_eq!(stand.queued(SEVEN).await, [number]);
    assert!(matches!(
        stand.mailbox.replay(worker(SEVEN), 1).await,
        Err(MailboxError::NotFound { .. })
    ));
    assert_eq!(stand.mailbox.replay_all(worker(SEVEN), 9).await.unwrap(), 1);
    let mut working = stand.consumer(SEVEN, "desk", plain(|_, _| Ok(()))).await;
    assert_eq!(working.poll_inbox(8).await.unwrap().handled, 2);
    assert!(
        stand
            .mailbox
            .dead(worker(SEVEN), None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

/// The whole frame comes back, also when it is large.
#[tokio::test]
async fn a_large_frame_survives_the_dead_letters() {
    let stand = Stand::new();
    let payload = "p".repeat(lope_mailbox::limit::FRAME_MAX - 61);
    stand.send(&command(SEVEN, "m", &payload)).await;
    let reason = "r".repeat(100_000);
    let mut failing = stand
        .consumer(
            SEVEN,
            "desk",
            plain(move |_, _| Err(HandlerError::Failed(reason.clone()))),
        )
        .await;
    assert_eq!(failing.poll_inbox(8).await.unwrap().dead, 1);
    stand.mailbox.replay(worker(SEVEN), 1).await.unwrap();
    let queued = stand
        .mailbox
        .list(worker(SEVEN), None, 1)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(queued.message().unwrap().payload.len(), payload.len());
}

#[tokio::test]
async fn stats_count_tables_and_workers() {
    let stand = Stand::new();
    stand.mailbox.send_frames(frames(3, 2_500)).await.unwrap();
    stand.mailbox.send_frames(frames(9, 7)).await.unwrap();
    stand
        .mailbox
        .put(worker(12), 4, b"garbage".to_vec())
        .await
        .unwrap();
    stand
        .mailbox
        .send_at(&command(3, "t", ""), Timestamp::from_millis(9))
        .await
        .unwrap();
    let mut consumer = stand.consumer(12, "desk", plain(|_, _| Ok(()))).await;
    consumer.poll_inbox(1).await.unwrap();
    let stats = stand.mailbox.stats(100, Counting::Quick).await.unwrap();
    let counted = [
        stats.inbox,
        stats.outbox,
        stats.timers,
        stats.dedupe,
        stats.dead_letters,
    ];
    assert_eq!(counted, [2_507, 0, 1, 0, 1].map(Depth::Exactly));
    let shown: Vec<(i64, Depth, Depth)> = stats
        .workers
        .iter()
        .map(|shown| (shown.worker.number(), shown.inbox, shown.dead_letters))
        .collect();
    let expected = [(3, 2_500, 0), (9, 7, 0), (12, 0, 1)];
    assert_eq!(
        shown,
        expected.map(|(worker, inbox, dead)| (worker, Depth::Exactly(inbox), Depth::Exactly(dead)))
    );
    assert_eq!(
        stand
            .mailbox
            .stats(2, Counting::Quick)
            .await
            .unwrap()
            .workers
            .len(),
        2
    );
}

fn frames(to: i64, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| command(to, &number.to_string(), "").encode().unwrap())
        .collect()
}

/// "A million queued messages: `stats`, `list --limit`, claim and ack stay fast": no more is
/// counted than a named limit, and the answer says so.
#[tokio::test]
async fn stats_of_long_inboxes_are_bounded_on_the_right_side() {
    let stand = Stand::new();
    stand
        .mailbox
        .send_frames(frames(3, COUNTED_MAX))
        .await
        .unwrap();
    let stats = stand.mailbox.stats(100, Counting::Quick).await.unwrap();
    assert_eq!(
        (stats.inbox, stats.workers[0].inbox),
        (Depth::Exactly(100_000), Depth::Exactly(100_000))
    );
    stand
        .mailbox
        .send_frames(frames(9, COUNTED_EACH))
        .await
        .unwrap();
    for seq in [2, 3] {
        stand.mailbox.drop_message(worker(3), seq).await.unwrap();
    }
    let stats = stand.mailbox.stats(100, Counting::Quick).await.unwrap();
    assert_eq!(stats.inbox, Depth::MoreThan(100_000));
    let workers: Vec<Depth> = stats.workers.iter().map(|worker| worker.inbox).collect();
    assert_eq!(
        workers,
        [Depth::AtMost(100_000), Depth::Exactly(COUNTED_EACH as u64)]
    );
    let exact = stand.mailbox.stats(100, Counting::Exact).await.unwrap();
    assert_eq!(
        (exact.inbox, exact.workers[0].inbox),
        (Depth::Exactly(100_998), Depth::Exactly(99_998))
    );
}

/// The listing says who holds what.
#[tokio::test]
async fn the_listing_shows_leases() {
    let stand = Stand::new();
    stand.send_all(&["a", "b"]).await;
    let handler = plain(|_, message: &Message<'_>| match message.id {
        b"a" => Err(HandlerError::Busy("no".into())),
        _ => Ok(()),
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    let listed = stand.mailbox.list(worker(SEVEN), None, 9).await.unwrap();
    let lease = listed[0].lease.as_ref().unwrap();
    assert_eq!(
        (&lease.owner, lease.attempts, lease.waiting),
        (&owner("desk"), 1, true)
    );
}

/// A mailbox that is opened is booted.
#[tokio::test]
async fn opening_a_mailbox_checks_the_marker() {
    let stand = Stand::new();
    let refusing = lope_mailbox::Boot {
        bootstrap: Bootstrap::Refuse,
        ..lope_mailbox::Boot::default()
    };
    assert!(
        Mailbox::open(stand.tables.clone(), &refusing)
            .await
            .is_err()
    );
    Mailbox::open(stand.tables.clone(), &lope_mailbox::Boot::default())
        .await
        .unwrap();
    Mailbox::open(stand.tables.clone(), &refusing)
        .await
        .unwrap();
}
