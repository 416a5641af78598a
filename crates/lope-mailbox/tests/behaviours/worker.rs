//! The worker shell: tick, idle, wake-up, stop, threads, counters, the hook.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_mailbox::key::MessagePosition;
use lope_mailbox::time::{SystemSleep, TimeHooks};
use lope_mailbox::trace::{AttemptResult, AttemptTrace, read_line};
use lope_mailbox::{
    Consumer, ConsumerConfig, ConsumerLoop, ConsumerLoopError, ConsumerPool, Handler, HandlerError,
    Until, handler, plain,
};
use lope_model::{Span, Timestamp};
use lope_store::SystemClock;
use tokio::sync::Semaphore;

use super::stand::{SEVEN, Seen, Stand, command, config, owner, worker};

async fn shell(
    stand: &Stand,
    config: ConsumerConfig,
    handler: impl Handler + 'static,
) -> ConsumerLoop {
    ConsumerLoop::init(
        Arc::clone(&stand.tables),
        Arc::new(handler),
        config,
        stand.time(),
    )
    .await
    .unwrap()
}

/// On the machine's clock, for workers that run beside the test.
async fn live(
    stand: &Stand,
    config: ConsumerConfig,
    handler: impl Handler + 'static,
) -> ConsumerLoop {
    let time = TimeHooks {
        clock: Arc::new(SystemClock::default()),
        sleep: Arc::new(SystemSleep),
    };
    ConsumerLoop::init(Arc::clone(&stand.tables), Arc::new(handler), config, time)
        .await
        .unwrap()
}

/// "`tick` handles up to `max_batch` across inbox and due timers."
#[tokio::test]
async fn a_tick_handles_up_to_max_batch() {
    let stand = Stand::new();
    stand.send_all(&["a", "b", "c"]).await;
    stand
        .mailbox
        .send_at(&command(SEVEN, "t", ""), Timestamp::from_millis(1))
        .await
        .unwrap();
    let mut worker = shell(
        &stand,
        ConsumerConfig {
            max_batch: 2,
            ..config(SEVEN, "desk")
        },
        plain(|_, _| Ok(())),
    )
    .await;
    let mut handled = Vec::new();
    for _ in 0..3 {
        handled.push(worker.tick().await.unwrap().handled);
    }
    assert_eq!(handled, [2, 2, 0]);
}

/// "Idle sleep = min(max(next_due − now, 0), max idle); no timer: max idle; 0 when due. Clock and
/// sleep can be injected."
#[tokio::test]
async fn idle_sleep_ends_with_the_next_timer() {
    let stand = Stand::new();
    let mut worker = shell(&stand, config(SEVEN, "desk"), plain(|_, _| Ok(()))).await;
    worker.set_idle_policy(Span::from_millis(250)).unwrap();
    assert_eq!(worker.idle_sleep().await.unwrap(), Span::from_millis(250));
    stand
        .mailbox
        .send_at(
            &command(8, "other", ""),
            Timestamp::from_millis(stand.now() + 3),
        )
        .await
        .unwrap();
    assert_eq!(
        worker.idle_sleep().await.unwrap(),
        Span::from_millis(250),
        "another worker's timer"
    );
    for (due, expected) in [(9_999, 250), (100, 100), (0, 0)] {
        stand
            .mailbox
            .send_at(
                &command(SEVEN, "t", ""),
                Timestamp::from_millis(stand.now() + due),
            )
            .await
            .unwrap();
        assert_eq!(
            worker.idle_sleep().await.unwrap(),
            Span::from_millis(expected),
            "{due}"
        );
    }
    stand.pass(500);
    assert_eq!(worker.idle_sleep().await.unwrap(), Span::ZERO);
    worker
        .set_time_hooks(TimeHooks::on(Arc::new(lope_store::ManualClock::at(
            Timestamp::from_millis(5),
        ))))
        .unwrap();
    assert_eq!(worker.idle_sleep().await.unwrap(), Span::from_millis(250));
}

/// "StopSignal request: no new work, the current message finishes."
#[tokio::test]
async fn a_stop_lets_the_current_message_finish() {
    let (stand, seen) = (Stand::new(), Seen::default());
    stand.send_all(&["a", "b", "c"]).await;
    let noted = seen.clone();
    let stop: Arc<Mutex<Option<lope_mailbox::StopSignal>>> = Arc::default();
    let asked = Arc::clone(&stop);
    let handler = plain(move |context, message| {
        noted.note_id(message);
        if let Some(stop) = &*asked.lock().expect("no panic") {
            stop.request();
        }
        context.put_state(message.id, b"1".to_vec())
    });
    let mut worker = shell(&stand, config(SEVEN, "desk"), handler).await;
    *stop.lock().unwrap() = Some(worker.stop());
    worker.run(Until::Stopped).await.unwrap();
    assert_eq!(
        (seen.all(), stand.state("a").await.as_deref()),
        (vec!["a".to_owned()], Some("1"))
    );
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![2, 3], vec![])
    );
    assert!(worker.tick().await.unwrap().is_idle(), "no new work");
    worker.shutdown().await.unwrap();
    assert!(matches!(
        worker.tick().await,
        Err(ConsumerLoopError::Consumer(_))
    ));
}

/// Until idle: everything is handled, also what waits for another attempt; timers of the future are
/// left.
#[tokio::test]
async fn until_idle_waits_for_what_will_be_tried_again() {
    let (stand, seen) = (Stand::new(), Seen::default());
    for number in 0..300 {
        stand.send(&command(SEVEN, &format!("m{number}"), "")).await;
    }
    stand
        .mailbox
        .send_at(
            &command(SEVEN, "future", ""),
            Timestamp::from_millis(stand.now() + 3_600_000),
        )
        .await
        .unwrap();
    let noted = seen.clone();
    let handler = plain(move |context, message| {
        noted.note_id(message);
        if context.about().attempt < 3 && message.id.ends_with(b"7") {
            Err(HandlerError::Busy("no".into()))
        } else {
            Ok(())
        }
    });
    let mut worker = shell(&stand, config(SEVEN, "desk"), handler).await;
    worker.run(Until::Idle).await.unwrap();
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![], vec![])
    );
    assert_eq!(seen.all().len(), 300 + 2 * 30);
    assert_eq!(
        stand.mailbox.timers(worker_seven(), 9).await.unwrap().len(),
        1
    );
}

fn worker_seven() -> lope_mailbox::key::WorkerId {
    worker(SEVEN)
}

/// "Threaded: start twice → busy; join before start → error"
#[cfg(feature = "threads")]
#[tokio::test]
async fn a_worker_is_started_once_and_joined_after() {
    let stand = Stand::new();
    let mut worker = live(&stand, config(SEVEN, "desk"), plain(|_, _| Ok(()))).await;
    assert!(matches!(worker.join(), Err(ConsumerLoopError::NotStarted)));
    worker.start().unwrap();
    assert!(matches!(worker.start(), Err(ConsumerLoopError::Busy)));
    assert!(matches!(worker.tick().await, Err(ConsumerLoopError::Busy)));
    worker.request_stop();
    worker.join().unwrap();
    assert!(matches!(worker.join(), Err(ConsumerLoopError::NotStarted)));
}

/// "many workers on one store, no message handled by two at once"
#[cfg(feature = "threads")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_share_an_inbox_and_no_message_is_handled_by_two() {
    const MESSAGES: usize = 2_000;
    let stand = Stand::new();
    let calls: Arc<Vec<AtomicUsize>> =
        Arc::new((0..MESSAGES).map(|_| AtomicUsize::new(0)).collect());
    let done = Arc::new(Semaphore::new(0));
    for number in 0..MESSAGES {
        stand.send(&command(SEVEN, &number.to_string(), "")).await;
    }
    let mut pool = ConsumerPool::default();
    for name in 0..8 {
        let (calls, done) = (Arc::clone(&calls), Arc::clone(&done));
        let handler = plain(move |_, message| {
            let number: usize = std::str::from_utf8(message.id)
                .expect("a number")
                .parse()
                .expect("a number");
            calls[number].fetch_add(1, Ordering::SeqCst);
            done.add_permits(1);
            Ok(())
        });
        let config = ConsumerConfig {
            owner: owner(&format!("desk{name}")),
            max_batch: 16,
            ..config(SEVEN, "any")
        };
        pool.add(live(&stand, config, handler).await);
    }
    // One clock for all, as one store has one.
    pool.start().unwrap();
    done.acquire_many(MESSAGES as u32).await.unwrap().forget();
    pool.request_stop();
    tokio::task::spawn_blocking(move || {
        pool.join().unwrap();
        assert_eq!(pool.counts().successes, MESSAGES as u64);
    })
    .await
    .unwrap();
    assert!(calls.iter().all(|calls| calls.load(Ordering::SeqCst) == 1));
    assert_eq!(
        (stand.queued(SEVEN).await, stand.leases().await),
        (vec![], vec![])
    );
}

/// "Wake-up is by notification, polling only as a fallback."
#[tokio::test(start_paused = true)]
async fn a_message_wakes_an_idle_worker_at_once() {
    let stand = Stand::new();
    let handled = Arc::new(Semaphore::new(0));
    let count = Arc::clone(&handled);
    let handler = plain(move |_, _| {
        count.add_permits(1);
        Ok(())
    });
    let config = ConsumerConfig {
        max_idle: Span::from_secs(3_600),
        ..config(SEVEN, "desk")
    };
    let mut worker = live(&stand, config, handler).await;
    let stop = worker.stop();
    let task = tokio::spawn(async move { worker.run(Until::Stopped).await });
    let began = tokio::time::Instant::now();
    for number in 0..20 {
        // Long enough for the worker to have fallen asleep; the runtime's clock jumps there.
        tokio::time::sleep(Duration::from_secs(5)).await;
        stand.send(&command(SEVEN, &format!("m{number}"), "")).await;
        handled.acquire().await.unwrap().forget();
    }
    let awake = began.elapsed().saturating_sub(Duration::from_secs(100));
    assert!(
        awake < Duration::from_secs(1),
        "twenty wake-ups took {awake:?}"
    );
    stop.request();
    task.await.unwrap().unwrap();
}

/// A store that is out of reach for a while is waited for.
#[tokio::test(start_paused = true)]
async fn a_worker_outlives_a_store_that_does_not_answer() {
    let stand = Stand::new();
    stand.send_all(&["a"]).await;
    let trouble = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&trouble);
    let stop: Arc<Mutex<Option<lope_mailbox::StopSignal>>> = Arc::default();
    let asked = Arc::clone(&stop);
    let handler = handler(move |_, _| {
        let (count, asked) = (Arc::clone(&count), Arc::clone(&asked));
        Box::pin(async move {
            if count.fetch_add(1, Ordering::SeqCst) < 3 {
                return Err(HandlerError::Store(lope_store::StoreError::unavailable(
                    "gone fishing",
                )));
            }
            asked
                .lock()
                .expect("no panic")
                .as_ref()
                .expect("set")
                .request();
            Ok(())
        })
    });
    let mut worker = live(&stand, config(SEVEN, "desk"), handler).await;
    *stop.lock().unwrap() = Some(worker.stop());
    worker.run(Until::Stopped).await.unwrap();
    assert_eq!(
        (trouble.load(Ordering::SeqCst), stand.queued(SEVEN).await),
        (4, vec![])
    );
    assert_eq!(
        worker.counters().read().requeues,
        0,
        "that is not the message's fault"
    );
}

/// "Counters: attempts, successes, conflicts, busy, other failures, requeues, dead letters,
/// latency"
#[tokio::test]
async fn everything_is_counted() {
    let stand = Stand::new();
    stand.send_all(&["good", "busy", "conflict", "bad"]).await;
    let handler = plain(|_, message| match message.id {
        b"busy" => Err(HandlerError::Busy("no".into())),
        b"conflict" => Err(HandlerError::Conflict("no".into())),
        b"bad" => Err(HandlerError::Failed("no".into())),
        _ => Ok(()),
    });
    let mut worker = shell(&stand, config(SEVEN, "desk"), handler).await;
    worker.run(Until::Idle).await.unwrap();
    let counts = worker.counters().read();
    assert_eq!((counts.attempts, counts.successes), (10, 1));
    assert_eq!((counts.busy, counts.conflicts, counts.failures), (4, 4, 1));
    assert_eq!((counts.requeues, counts.dead_letters), (6, 3));
    assert_eq!(counts.latency_buckets.iter().sum::<u64>(), 1);
}

/// "a hook sees every attempt and result with its frame, enough to replay a trace"
#[tokio::test]
async fn the_hook_sees_enough_to_replay_a_trace() {
    let stand = Stand::new();
    let adding = || {
        handler(|context, message| {
            Box::pin(async move {
                if message.id == b"bad" {
                    return Err(HandlerError::Failed("no".into()));
                }
                if message.id == b"c"
                    && context.about().attempt == 1
                    && context.about().position.is_some()
                {
                    return Err(HandlerError::Busy("not yet".into()));
                }
                let mut log = context.state(b"log").await?.unwrap_or_default();
                log.extend_from_slice(message.id);
                context.put_state(b"log", log)
            })
        })
    };
    stand.send_all(&["a", "bad", "b", "c"]).await;
    let trace: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&trace);
    let mut worker = shell(&stand, config(SEVEN, "desk"), adding()).await;
    worker
        .set_observer(Arc::new(move |attempt: &AttemptTrace<'_>| {
            if let AttemptResult::Dead { reason } = attempt.result {
                assert_eq!(
                    (reason, attempt.position),
                    ("failed: no", Some(MessagePosition::Inbox(2)))
                );
            }
            lines.lock().expect("no panic").push(attempt.to_string());
        }))
        .unwrap();
    worker.run(Until::Idle).await.unwrap();
    assert_eq!(stand.state("log").await.as_deref(), Some("abc"));
    let trace = trace.lock().unwrap().clone();
    let results: Vec<&str> = trace
        .iter()
        .map(|line| line.split('\t').nth(4).unwrap())
        .collect();
    assert_eq!(
        results,
        ["requeued", "success", "dead", "success", "success"]
    );

    // The successes of the trace, handed to another consumer one by one, lead to the same state.
    let replay = Stand::new();
    let mut consumer: Consumer = replay.consumer(SEVEN, "replay", adding()).await;
    for (frame, _) in trace
        .iter()
        .filter_map(|line| read_line(line))
        .filter(|(_, result)| *result == "success")
    {
        consumer.run_step(&frame).await.unwrap();
    }
    assert_eq!(replay.state("log").await, stand.state("log").await);
}
