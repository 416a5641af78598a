//! What many ask of the store at the same time, asked once for all of them.
//!
//! Whoever asks while somebody is asking is told the next answer, with all who wait for it: nobody is
//! told what was so before they asked, unless the answer is one that holds for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lope::Client;
use lope::runs::QueueCount;
use lope::stores::StoreResult;
use lope::workflows::Plan;
use lope_model::limit;

/// A count of queues that took less holds for nobody who asks later.
const QUICK: Duration = Duration::from_millis(25);
/// Another one holds for so many times as long as it took: counting is a share of the time.
const HOLDS_TIMES: u32 = 4;
/// Names of workflows that are known here.
const NAMES: usize = 1_000;

/// Questions that many ask.
#[derive(Debug)]
pub struct StoreQuestions {
    queues: AskedTogether<Arc<[QueueCount]>>,
    latest: Mutex<HashMap<String, Arc<LatestPlan>>>,
}

type LatestPlan = AskedTogether<Option<Arc<Plan>>>;

impl Default for StoreQuestions {
    fn default() -> Self {
        Self {
            queues: AskedTogether::new(counted_for),
            latest: Mutex::default(),
        }
    }
}

impl StoreQuestions {
    /// How deep the queues are. Many look again and again, and a long queue takes long to count.
    pub async fn queues(&self, client: &Client) -> StoreResult<Arc<[QueueCount]>> {
        let count = async { client.queues().await.map(Arc::from) };
        self.queues.ask(count).await
    }

    /// The plan of the version that is deployed last under a name: everybody who starts a run asks.
    pub async fn latest_plan(&self, client: &Client, name: &str) -> StoreResult<Option<Arc<Plan>>> {
        if name.len() > limit::NAME_MAX {
            return client.latest_plan(name).await;
        }
        self.latest_of(name).ask(client.latest_plan(name)).await
    }

    fn latest_of(&self, name: &str) -> Arc<LatestPlan> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = latest.get(name) {
            return Arc::clone(known);
        }
        if latest.len() >= NAMES {
            latest.clear();
        }
        let question = Arc::new(AskedTogether::new(|_| Duration::ZERO));
        latest.insert(name.to_owned(), Arc::clone(&question));
        question
    }
}

/// How long a count of queues holds.
fn counted_for(took: Duration) -> Duration {
    if took < QUICK {
        Duration::ZERO
    } else {
        took * HOLDS_TIMES
    }
}

/// One question.
#[derive(Debug)]
struct AskedTogether<T> {
    last: tokio::sync::Mutex<Option<LastAnswer<T>>>,
    /// How long an answer holds that took so long.
    hold: fn(Duration) -> Duration,
}

#[derive(Debug)]
struct LastAnswer<T> {
    began: Instant,
    took: Duration,
    answer: T,
}

impl<T: Clone> AskedTogether<T> {
    fn new(hold: fn(Duration) -> Duration) -> Self {
        Self {
            last: tokio::sync::Mutex::new(None),
            hold,
        }
    }

    /// The answer to a question, which is asked only if nobody does.
    async fn ask(&self, question: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|it| it.is_for(asked, self.hold)) {
            return Ok(last.answer.clone());
        }
        let began = Instant::now();
        let answer = question.await?;
        *last = Some(LastAnswer {
            began,
            took: began.elapsed(),
            answer: answer.clone(),
        });
        Ok(answer)
    }
}

impl<T> LastAnswer<T> {
    /// Is it an answer for somebody who asked then?
    fn is_for(&self, asked: Instant, hold: fn(Duration) -> Duration) -> bool {
        let hold = hold(self.took);
        let age = asked.saturating_duration_since(self.began + self.took);
        self.began >= asked || (!hold.is_zero() && age < hold)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::{join, join_all};
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn an_answer_is_for_who_waited_for_it_and_a_long_count_for_a_while() {
        let began = Instant::now() + Duration::from_secs(60);
        // Milliseconds: how long it took, when somebody asked after it began, and whether it is theirs.
        for (took, asked, is_theirs) in [
            (10_u64, -1_i64, true),
            (10, 0, true),
            (10, 1, false),
            (10, 11, false),
            (100, -1, true),
            (100, 50, true),
            (100, 499, true),
            (100, 500, false),
        ] {
            let last = LastAnswer {
                began,
                took: Duration::from_millis(took),
                answer: (),
            };
            let offset = Duration::from_millis(asked.unsigned_abs());
            let asked_at = if asked < 0 {
                began - offset
            } else {
                began + offset
            };
            let found = last.is_for(asked_at, counted_for);
            assert_eq!(found, is_theirs, "{took} {asked}");
        }
    }

    #[tokio::test]
    async fn all_who_ask_while_somebody_asks_share_the_next_answer() {
        let question = AskedTogether::new(|_| Duration::ZERO);
        let (asked, gate) = (Cell::new(0), Semaphore::new(0));
        let ask = || async {
            asked.set(asked.get() + 1);
            gate.acquire().await.unwrap().forget();
            Ok(asked.get())
        };
        let asking = join_all((0..10).map(|_| question.ask(ask())));
        // The first asks, the others wait.
        let (answers, ()) = join(asking, async { gate.add_permits(10) }).await;
        let answers: Vec<i32> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    }

    #[tokio::test]
    async fn who_asks_later_is_told_what_is_so_later() {
        let question = AskedTogether::new(|_| Duration::ZERO);
        for answer in [1, 2, 3] {
            assert_eq!(question.ask(async { Ok(answer) }).await.unwrap(), answer);
        }
    }
}
