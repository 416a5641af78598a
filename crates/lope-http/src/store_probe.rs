//! Does the store answer? Whoever waits for it longer than usual asks here, and is told what is wrong
//! instead of waiting on.
//!
//! In: a request that is being handled; out: its answer, or that the store does not answer. What takes
//! long while the store answers goes on. Many who wait ask once, together.

use std::pin::pin;
use std::time::{Duration, Instant};

use lope::Client;
use tokio::sync::Mutex;

use crate::api_error::{ApiError, ApiErrorKind};

/// A request that takes longer makes one look whether the store answers.
const USUAL: Duration = Duration::from_secs(2);
/// A store that takes longer to tell the time does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// What was found out holds for so long.
const HOLDS: Duration = Duration::from_secs(1);

const LATER: &str = "'/readyz' tells when it answers again";
const UNKNOWN: &str = "whether it was done is not known: look when the store answers again";

/// What was found out last.
#[derive(Debug, Default)]
pub struct StoreProbe(Mutex<Option<(Instant, Option<String>)>>);

impl StoreProbe {
    /// Do something for a request for as long as the store answers. What is given up may have been
    /// done all the same: whoever `changes` something is told so.
    pub async fn while_it_answers<T>(
        &self,
        client: &Client,
        changes: bool,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(USUAL, &mut work).await {
                return done;
            }
            let trouble = tokio::select! {
                biased;
                done = &mut work => return done,
                trouble = self.trouble(client) => trouble,
            };
            if let Some(trouble) = trouble {
                let error = ApiError::new(ApiErrorKind::Unavailable, trouble);
                return Err(error.hint(if changes { UNKNOWN } else { LATER }));
            }
        }
    }

    /// What is wrong with the store, as it was found a moment ago; nothing if it answers.
    async fn trouble(&self, client: &Client) -> Option<String> {
        let mut last = self.0.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return found.clone();
        }
        let found = trouble(client).await;
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

/// What is wrong with the store now; nothing if it answers.
pub async fn trouble(client: &Client) -> Option<String> {
    match tokio::time::timeout(PATIENCE, client.now()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the store does not answer".to_owned()),
    }
}
