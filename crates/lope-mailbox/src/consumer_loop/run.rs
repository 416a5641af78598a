//! The loop of a consumer: tick while there is work, sleep while there is none, until it is time to
//! stop.

use lope_model::Span;
use lope_store::Watch;

use crate::consumer::{Consumer, Tally};
use crate::error::ConsumerError;

/// After this many notifications in a row that brought nothing, a consumer no longer follows every
/// one.
const EMPTY_WAKES: u32 = 4;
/// Longest wait between two notifications that are followed.
const WAKE_GAP_MAX: Span = Span::from_millis(8);
/// Wait after a store that did not answer: doubled each time, up to the longest.
const TROUBLE_BASE: Span = Span::from_millis(20);
const TROUBLE_MAX: Span = Span::from_secs(5);

/// What the loop is to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// A request to stop.
    Stopped,
    /// A request to stop, or an inbox without messages and no timer due. Messages that wait for
    /// another attempt are waited for.
    Idle,
}

/// The loop. A store that is out of reach for a while is waited for; any other error ends it.
pub(super) async fn run_until(consumer: &mut Consumer, until: Until) -> Result<(), ConsumerError> {
    let mut watch = consumer.tables().watch();
    let (mut trouble, mut empty) = (0, 0);
    while !consumer.stop().is_requested() {
        watch.take();
        match run_once(consumer).await {
            Ok(tally) if !tally.is_idle() || tally.more => (trouble, empty) = (0, 0),
            Ok(tally) => {
                trouble = 0;
                if until == Until::Idle && tally.busy == 0 {
                    break;
                }
                empty = if idle(consumer, &mut watch, empty).await? {
                    empty + 1
                } else {
                    0
                };
            }
            Err(ConsumerError::Store(error)) if error.is_passing() => {
                trouble += 1;
                rest(consumer, backoff(TROUBLE_BASE, TROUBLE_MAX, trouble)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(consumer.let_go().await?)
}

async fn run_once(consumer: &mut Consumer) -> Result<Tally, ConsumerError> {
    let forwarded = consumer.keep_up().await?;
    let mut tally = consumer.tick_on().await?;
    tally.more |= forwarded;
    Ok(tally)
}

/// Sleep until something may have happened. Answers whether a notification woke us.
async fn idle(consumer: &Consumer, watch: &mut Watch, empty: u32) -> Result<bool, ConsumerError> {
    let sleep = match consumer.idle_sleep().await {
        Ok(sleep) => sleep,
        Err(error) if error.is_passing() => TROUBLE_BASE,
        Err(error) => return Err(error.into()),
    };
    // Somebody else's commits notify us too: with many of them, look less often.
    let gap = if empty < EMPTY_WAKES {
        Span::ZERO
    } else {
        backoff(Span::from_millis(1), WAKE_GAP_MAX, empty - 3)
    };
    let gap = gap.min(sleep);
    if gap > Span::ZERO {
        rest(consumer, gap).await;
    }
    tokio::select! {
        biased;
        () = consumer.stop().requested() => Ok(false),
        () = watch.changed() => Ok(true),
        () = consumer.time().sleep.sleep(sleep - gap) => Ok(false),
    }
}

async fn rest(consumer: &Consumer, span: Span) {
    tokio::select! {
        () = consumer.stop().requested() => {}
        () = consumer.time().sleep.sleep(span) => {}
    }
}

fn backoff(base: Span, max: Span, count: u32) -> Span {
    base.times(
        1_u64
            .checked_shl(count.saturating_sub(1))
            .unwrap_or(u64::MAX),
    )
    .min(max)
}
