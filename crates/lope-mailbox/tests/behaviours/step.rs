//! A step: one frame, handed in.

use lope_mailbox::frame::FrameError;
use lope_mailbox::{ConsumerError, HandlerError, plain};

use super::stand::{SEVEN, Seen, Stand, command};

/// "A step decodes one frame, refuses another worker's frame (not found, handler not called,
/// counter unchanged), calls the handler, counts on success"
#[tokio::test]
async fn a_step_is_for_its_worker_and_counts_on_success() {
    let (stand, seen) = (Stand::new(), Seen::default());
    let noted = seen.clone();
    let handler = plain(move |_, message| {
        noted.note_id(message);
        if message.payload == b"bad" {
            Err(HandlerError::Failed("no".into()))
        } else {
            Ok(())
        }
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;

    let other = command(8, "other", "").encode().unwrap();
    assert_eq!(
        consumer.run_step(&other).await,
        Err(ConsumerError::NotFound { to: 8, worker: 7 })
    );
    assert_eq!(
        consumer.run_step(&other[..59]).await,
        Err(ConsumerError::Frame(FrameError::Truncated))
    );
    assert!(seen.all().is_empty());
    assert_eq!(consumer.counters().read().successes, 0);

    consumer
        .run_step(&command(SEVEN, "good", "").encode().unwrap())
        .await
        .unwrap();
    assert_eq!(
        (seen.all(), consumer.counters().read().successes),
        (vec!["good".to_owned()], 1)
    );

    let bad = command(SEVEN, "bad", "bad").encode().unwrap();
    let refused = ConsumerError::Handler(HandlerError::Failed("no".into()));
    assert_eq!(consumer.run_step(&bad).await, Err(refused));
    assert_eq!(consumer.counters().read().successes, 1);
}

/// A step commits what its handler wanted, also without an inbox row.
#[tokio::test]
async fn a_step_commits_state_and_messages() {
    let stand = Stand::new();
    let handler = plain(|context, message| {
        context.put_state(b"last", message.id.to_vec())?;
        let id = context.child_id();
        let note = lope_mailbox::frame::Message {
            id: &id,
            ..command(8, "", "note")
        };
        Ok(context.emit(&note)?)
    });
    let mut consumer = stand.consumer(SEVEN, "desk", handler).await;
    consumer
        .run_step(&command(SEVEN, "m", "").encode().unwrap())
        .await
        .unwrap();
    assert_eq!(stand.state("last").await.as_deref(), Some("m"));
    let arrived = stand
        .mailbox
        .list(super::stand::worker(8), None, 9)
        .await
        .unwrap();
    assert_eq!(arrived[0].message().unwrap().id, b"m/1");
    assert_eq!(arrived[0].message().unwrap().from_worker, Some(7));
}
