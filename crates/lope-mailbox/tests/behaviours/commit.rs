//! One commit a step: all of what a handler wanted, or none; tracked reads, ranges, nested scopes,
//! intents.

use std::sync::Arc;

use async_trait::async_trait;
use lope_mailbox::frame::{Flags, Intent, Message, MessageKind};
use lope_mailbox::{
    BadMessage, Consumer, ConsumerConfig, Context, Handled, Handler, HandlerError, handler, plain,
};
use lope_model::Timestamp;
use lope_store::door::DoorCall;
use lope_store::tables::{
    At, Direction, Manifest, Range, ScopeRule, TableId, Tables, TablesAnswer, TablesRequest, Write,
};
use lope_store::{StoreError, StoreResult, Watch};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::stand::{SEVEN, Seen, Stand, command, config, worker};

/// Writes, emits, arms, replies: everything a handler can want.
struct Everything;

#[async_trait]
impl Handler for Everything {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let count = context.state(b"count").await?.map_or(0, |bytes| bytes[0]);
        context.put_state(b"count", vec![count + 1])?;
        let id = context.child_id();
        context.emit(&Message {
            id: &id,
            ..command(8, "", "news")
        })?;
        let due = Timestamp::from_millis(context.about().now.millis() + 1_000);
        context.arm_own(due, message.id, b"later")?;
        context.reply(*b"done");
        Ok(())
    }
}

fn asking(id: &str) -> Message<'_> {
    let flags = Flags::DURABLE | Flags::DEDUPE | Flags::REQUIRES_ACK;
    Message {
        flags,
        from_worker: Some(9),
        ..command(SEVEN, id, "")
    }
}

/// A store that fails the n-th commit, and those after it, before or after it is applied.
struct Failing {
    inner: Arc<dyn Tables>,
    left: AtomicUsize,
    applied: bool,
}

impl Failing {
    async fn commit(&self, request: TablesRequest) -> StoreResult<TablesAnswer> {
        if self.left.load(Ordering::SeqCst) > 1 {
            self.left.fetch_sub(1, Ordering::SeqCst);
            return self.inner.call(request).await;
        }
        if self.left.swap(0, Ordering::SeqCst) == 1 && self.applied {
            self.inner.call(request).await?;
        }
        Err(StoreError::unknown("cut"))
    }
}

impl Tables for Failing {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        if request.verb().starts_with("commit") {
            Box::pin(self.commit(request))
        } else {
            self.inner.call(request)
        }
    }
    fn watch(&self) -> Watch {
        self.inner.watch()
    }
}

/// "The handler runs outside any write transaction. On success its state writes, emitted messages,
/// timers, dedupe row, and the removal of inbox row and lease are one commit. Kill the process at
/// any point: either all of it happened or none."
#[tokio::test]
async fn a_step_happens_whole_or_not_at_all() {
    for applied in [false, true] {
        for commit in 1..6 {
            let stand = Stand::new();
            let mut consumer = stand.consumer(SEVEN, "desk", Everything).await;
            consumer.shutdown().await.unwrap();
            stand.send(&asking("m")).await;
            let tables = Arc::new(Failing {
                inner: Arc::clone(&stand.tables),
                left: AtomicUsize::new(commit),
                applied,
            });
            let mut consumer = Consumer::new(tables, Arc::new(Everything), config(SEVEN, "desk"));
            consumer.set_time(stand.time());
            consumer.boot().await.unwrap();
            let _ = consumer.poll_inbox(8).await;
            assert_whole_or_not(&stand).await;
            // Whoever comes next finishes what is left.
            let mut next = stand.consumer(SEVEN, "desk", Everything).await;
            next.poll_inbox(8).await.unwrap();
            next.forward_outbox().await.unwrap();
            assert_eq!(stand.state("count").await.as_deref(), Some("\u{1}"));
            assert_eq!(
                (stand.queued(8).await.len(), stand.queued(9).await.len()),
                (1, 2)
            );
            assert_eq!(stand.rows(TableId::TIMERS).await.len(), 1);
        }
    }
}

async fn assert_whole_or_not(stand: &Stand) {
    let happened = stand.state("count").await.is_some();
    assert_eq!(stand.queued(SEVEN).await.is_empty(), happened);
    assert_eq!(
        stand.rows(TableId::TIMERS).await.len(),
        usize::from(happened)
    );
    assert_eq!(
        stand.rows(TableId::DEDUPE).await.len(),
        usize::from(happened)
    );
    let out = stand.rows(TableId::OUTBOX).await.len()
        + stand.queued(8).await.len()
        + stand.queued(9).await.len();
    assert_eq!(
        out,
        if happened { 3 } else { 0 },
        "the news, the reply and the acknowledgement"
    );
    if happened {
        assert_eq!(stand.leases().await, []);
    }
}

/// What one message of a batch wrote, the next one reads, though neither is committed yet.
#[tokio::test]
async fn messages_of_one_batch_see_each_other_in_order() {
    let stand = Stand::new();
    let ids: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for id in &ids {
        stand.send(&command(SEVEN, id, "")).await;
    }
    let handler = handler(|context, message| {
        Box::pin(async move {
            let mut log = context.state(b"log").await?.unwrap_or_default();
            log.extend_from_slice(message.id);
            log.push(b' ');
            context.put_state(b"log", log)
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(100).await.unwrap().handled, 100);
    assert_eq!(stand.state("log").await.unwrap().trim(), ids.join(" "));
    assert_eq!(consumer.counters().read().attempts, 100);
}

/// "Nested scopes: an inner scope commits into the outer or is dropped alone."
#[tokio::test]
async fn an_inner_scope_commits_into_the_outer_or_is_dropped_alone() {
    let stand = Stand::new();
    stand.send_all(&["m"]).await;
    let handler = handler(|context, _| {
        Box::pin(async move {
            context.put_state(b"outer", b"1".to_vec())?;
            {
                let mut kept = context.scope();
                kept.put_state(b"kept", b"1".to_vec())?;
                kept.emit(&command(8, "kept", ""))?;
                {
                    let mut dropped = kept.scope();
                    dropped.put_state(b"outer", b"2".to_vec())?;
                    dropped.put_state(b"dropped", b"1".to_vec())?;
                    dropped.emit(&command(8, "dropped", ""))?;
                    dropped.arm_own(Timestamp::from_millis(5), b"dropped", b"")?;
                    assert_eq!(
                        dropped.state(b"outer").await?,
                        Some(b"2".to_vec()),
                        "it reads what it wrote"
                    );
                    assert_eq!(
                        dropped.state(b"kept").await?,
                        Some(b"1".to_vec()),
                        "and what the outer wrote"
                    );
                }
                assert_eq!(kept.state(b"outer").await?, Some(b"1".to_vec()));
                assert_eq!(kept.state(b"dropped").await?, None);
                let mut deep = kept.scope();
                deep.put_state(b"deep", b"1".to_vec())?;
                deep.commit();
                kept.commit();
            }
            let mut abandoned = context.scope();
            let mut inner = abandoned.scope();
            inner.put_state(b"lost", b"1".to_vec())?;
            inner.commit();
            drop(abandoned);
            Ok(())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    for (key, expected) in [
        ("outer", Some("1")),
        ("kept", Some("1")),
        ("deep", Some("1")),
        ("dropped", None),
        ("lost", None),
    ] {
        assert_eq!(stand.state(key).await.as_deref(), expected, "{key}");
    }
    assert_eq!(stand.queued(8).await.len(), 1);
    assert!(stand.rows(TableId::TIMERS).await.is_empty());
}

/// What was read in a scope that was dropped still counts: the handler may have decided by it.
#[tokio::test]
async fn reads_of_a_dropped_scope_are_validated() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.send_all(&["m"]).await;
    let (outside, noted) = (stand.clone(), seen.clone());
    let handler = handler(move |context, _| {
        let (stand, seen) = (outside.clone(), noted.clone());
        Box::pin(async move {
            let flag = context.scope().state(b"flag").await?;
            seen.note(format!("{flag:?}"));
            stand.put_state("flag", "up").await;
            context.put_state(b"done", b"1".to_vec())
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    assert_eq!(seen.all().len(), 2);
}

/// Ranges are read with what the handler wrote, and guarded by their scope.
#[tokio::test]
async fn a_range_is_guarded_by_its_scope() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let tables = Manifest::standard()
        .with("cells", Some(ScopeRule::Prefix(2)))
        .unwrap()
        .specs()
        .to_vec();
    let cells = TableId(7);
    stand
        .tables
        .open(&Manifest::new(tables.clone()).unwrap())
        .await
        .unwrap();
    let cell = |key: &str| At::new(cells, key);
    stand
        .write(vec![
            Write::Put(cell("aa1"), b"x".to_vec()),
            Write::Put(cell("bb1"), b"y".to_vec()),
        ])
        .await;
    stand.send_all(&["m", "n"]).await;
    let (outside, noted) = (stand.clone(), seen.clone());
    let handler = handler(move |context, message| {
        let (stand, seen) = (outside.clone(), noted.clone());
        Box::pin(async move {
            context.put(At::new(cells, "aa2"), b"mine".to_vec())?;
            context.delete(At::new(cells, "aa1"))?;
            let rows = context.range(Range::prefix(cells, b"aa", 10)).await?;
            let keys: Vec<String> = rows
                .iter()
                .map(|row| String::from_utf8_lossy(&row.key).into_owned())
                .collect();
            seen.note(format!(
                "{}:{}",
                String::from_utf8_lossy(message.id),
                keys.join(",")
            ));
            let key = if seen.all().len() == 1 { "aa9" } else { "bb9" };
            stand
                .write(vec![Write::Put(At::new(cells, key), b"z".to_vec())])
                .await;
            Ok(())
        })
    });
    let mut config = config(SEVEN, "desk");
    config.boot.tables = tables;
    let mut consumer = stand.runner_with(config, handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 2);
    // The first try of m met a change in its scope; n's own view is fresh, for m was committed
    // before n read.
    assert_eq!(seen.all(), ["m:aa2", "n:aa2,aa9", "m:aa2,aa9"]);
}

/// Ranges over more than one scope, and the tables of the mailbox, are refused: the message is a
/// dead letter with the reason.
#[tokio::test]
async fn what_cannot_be_guarded_is_refused() {
    type Try = fn(&mut Context) -> std::pin::Pin<Box<dyn Future<Output = Handled> + Send + '_>>;
    let tries: [(Try, &str); 4] = [
        (
            |context| {
                Box::pin(async {
                    context
                        .range(Range::prefix(TableId(7), b"a", 1))
                        .await
                        .map(|_| ())
                })
            },
            "one scope",
        ),
        (
            |context| {
                Box::pin(async {
                    context
                        .get(&At::new(TableId::INBOX, *b"x"))
                        .await
                        .map(|_| ())
                })
            },
            "belongs to the mailbox",
        ),
        (
            |context| Box::pin(async { context.put(At::new(TableId::OUTBOX, *b"x"), vec![]) }),
            "belongs to the mailbox",
        ),
        (
            |context| Box::pin(async { context.put(At::new(TableId(99), *b"x"), vec![]) }),
            "not in the manifest",
        ),
    ];
    for (attempt, reason) in tries {
        let stand = Stand::new();
        let tables = Manifest::standard()
            .with("cells", Some(ScopeRule::Prefix(2)))
            .unwrap()
            .specs()
            .to_vec();
        let mut config = config(SEVEN, "desk");
        config.boot.tables = tables;
        stand.send_all(&["m", "n"]).await;
        let handler = handler(move |context, message| {
            Box::pin(async move {
                if message.id == b"m" {
                    attempt(context).await
                } else {
                    Ok(())
                }
            })
        });
        let mut consumer = stand.runner_with(config, handler).await;
        let tally = consumer.poll_inbox(8).await.unwrap();
        assert_eq!((tally.handled, tally.dead), (1, 1), "{reason}");
        let dead = stand
            .mailbox
            .dead(worker(SEVEN), None, 1)
            .await
            .unwrap()
            .remove(0);
        assert!(dead.reason.contains(reason), "{}", dead.reason);
    }
}

/// "staging an intent refuses a body that is not a valid LMSG frame. Worker ids are ≥ 0 (keys are
/// unsigned); a negative one is refused." "(due < 0 refused)"
#[tokio::test]
async fn staging_refuses_what_is_not_a_message_for_a_worker() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.send_all(&["m"]).await;
    let noted = seen.clone();
    let handler = plain(move |context, _| {
        let good = command(8, "staged", "").encode().expect("a sound message");
        let negative = command(-1, "x", "")
            .encode()
            .expect("the codec takes any worker");
        let refusals = [
            context.stage(
                &Intent::Emit {
                    message: b"not a message",
                }
                .encode()
                .expect("a body"),
            ),
            context.stage(
                &Intent::Arm {
                    due: 5,
                    message: &negative,
                }
                .encode()
                .expect("a body"),
            ),
            context.stage(
                &Intent::Arm {
                    due: -5,
                    message: &good,
                }
                .encode()
                .expect("a body"),
            ),
            context.stage(&good),
            context.emit(&command(-8, "x", "")),
            context.arm(Timestamp::from_millis(-1), &command(8, "x", "")),
            context.emit(&command(8, &"x".repeat(1_001), "")),
        ];
        for refusal in refusals {
            seen_as(&noted, refusal.expect_err("refused"));
        }
        context.stage(&Intent::Emit { message: &good }.encode().expect("a body"))?;
        Ok(context.stage(
            &Intent::Arm {
                due: 777,
                message: &good,
            }
            .encode()
            .expect("a body"),
        )?)
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    assert_eq!(
        seen.all(),
        ["frame", "key", "key", "frame", "key", "key", "long id"]
    );
    assert_eq!(
        (
            stand.queued(8).await.len(),
            stand.rows(TableId::TIMERS).await.len()
        ),
        (1, 1)
    );
}

fn seen_as(seen: &Seen, error: BadMessage) {
    seen.note(match error {
        BadMessage::Frame(_) => "frame",
        BadMessage::Key(_) => "key",
        BadMessage::LongId { .. } => "long id",
        BadMessage::Encode(_) => "encode",
        BadMessage::Large { .. } => "large",
    });
}

/// A message handled before a slow one does not wait for it with its commit.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_does_not_hold_up_what_was_handled_before_it() {
    let stand = Stand::new();
    stand.send_all(&["quick", "slow"]).await;
    let inner = stand.clone();
    let handler = handler(move |context, message| {
        let stand = inner.clone();
        Box::pin(async move {
            if message.id == b"slow" {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                assert_eq!(
                    stand.state("quick").await.as_deref(),
                    Some("1"),
                    "committed meanwhile"
                );
            }
            context.put_state(message.id, b"1".to_vec())
        })
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
    consumer.set_time(lope_mailbox::time::TimeHooks::on(stand.clock.clone()));
    assert_eq!(consumer.tick().await.unwrap().handled, 2);
}

/// Kinds and payloads arrive as they were emitted.
#[tokio::test]
async fn what_is_emitted_arrives_as_it_was() {
    let stand = Stand::new();
    stand.send_all(&["m"]).await;
    let handler = plain(|context, _| {
        let event = Message {
            trace: Some(b"t"),
            ..Message::new(MessageKind::Event, 8, b"e", b"\x00\xff")
        };
        Ok(context.emit(&event)?)
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer.poll_inbox(8).await.unwrap();
    let arrived = stand
        .mailbox
        .list(worker(8), None, 1)
        .await
        .unwrap()
        .remove(0);
    let message = arrived.message().unwrap();
    assert_eq!(
        (message.kind, message.trace, message.payload),
        (MessageKind::Event, Some(&b"t"[..]), &b"\x00\xff"[..])
    );
    assert_eq!((message.from_worker, message.route.worker), (Some(7), 7));
    assert_eq!(message.route.timestamp, stand.now());
}

/// Large values and frames are guarded by their digests.
#[tokio::test]
async fn large_values_conflict_like_small_ones() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.put_state("big", &"a".repeat(5_000)).await;
    stand.send(&command(SEVEN, "m", &"p".repeat(5_000))).await;
    let (outside, noted) = (stand.clone(), seen.clone());
    let handler = handler(move |context, _| {
        let (stand, seen) = (outside.clone(), noted.clone());
        Box::pin(async move {
            let big = context
                .state(b"big")
                .await?
                .ok_or_else(|| HandlerError::Failed("gone".into()))?;
            seen.note(char::from(big[0]));
            if big[0] == b'a' {
                stand.put_state("big", &"b".repeat(5_000)).await;
            }
            context.put_state(b"done", vec![big[0]])
        })
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    assert_eq!(consumer.poll_inbox(8).await.unwrap().handled, 1);
    assert_eq!(
        (seen.all(), stand.state("done").await.as_deref()),
        (vec!["a".into(), "b".into()], Some("b"))
    );
    let backward = Range {
        table: TableId::APP_STATE,
        from: vec![],
        to: None,
        direction: Direction::Backward,
        limit: 1,
    };
    assert_eq!(
        stand.tables.range(backward).await.unwrap()[0].key,
        b"runner.schema.version"
    );
}
