//! The exporter: hears which runs end, makes spans of them, and sends what has gathered now and
//! then. It holds a bounded number of everything and holds nobody up.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lope::runs::{News, RunStatus};
use lope::{Client, RunId, Runner};
use reqwest::Client as HttpClient;
use serde_json::{Value as Json, json};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use crate::export_settings::ExportSettings;
use crate::{metrics, spans};

/// Spans of one request.
const BATCH: usize = 500;
/// Spans that wait while a collector is away; then the oldest go.
const SPANS_MAX: usize = 20_000;
/// Runs that ended and were not looked at yet; then the oldest go.
const RUNS_MAX: usize = 20_000;
/// How long a run that is said to have ended may take to be written down.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a collector may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the last words may take.
const LAST: Duration = Duration::from_secs(5);

/// Sends traces and metrics of a runner until it is stopped.
#[derive(Debug)]
pub struct Exporter {
    end: watch::Sender<bool>,
    work: JoinHandle<()>,
}

impl Exporter {
    /// From now on. Attempts are told which span they are.
    pub async fn start(runner: &Runner, settings: ExportSettings) -> lope::Result<Self> {
        runner.trace();
        let news = runner.news().await?;
        let (end, ending) = watch::channel(false);
        // Another part of the program may have chosen a provider already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let work = ExportWork {
            runner: runner.clone(),
            client: runner.client().clone(),
            http: HttpClient::builder()
                .timeout(ANSWER)
                .build()
                .unwrap_or_default(),
            since: nanos(),
            settings,
            ended: VecDeque::new(),
            spans: VecDeque::new(),
            dropped: 0,
            is_away: false,
        };
        let work = tokio::spawn(work.go_on(news, ending));
        Ok(Self { end, work })
    }

    /// Send what has gathered, and end.
    pub async fn stop(self) {
        let _ = self.end.send(true);
        // A collector that is away holds nobody up.
        let _ = tokio::time::timeout(LAST, self.work).await;
    }
}

struct ExportWork {
    runner: Runner,
    client: Client,
    http: HttpClient,
    settings: ExportSettings,
    /// When counting began.
    since: String,
    ended: VecDeque<(RunId, Instant)>,
    spans: VecDeque<Json>,
    dropped: u64,
    is_away: bool,
}

impl ExportWork {
    async fn go_on(
        mut self,
        mut news: broadcast::Receiver<News>,
        mut ending: watch::Receiver<bool>,
    ) {
        let mut next = tokio::time::interval(self.settings.interval);
        next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = news.recv() => match heard {
                    Ok(News::Ended { run, .. }) => self.note(run),
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(missed)) => self.dropped += missed,
                    Err(broadcast::error::RecvError::Closed) => break,
                },
                _ = next.tick() => self.send_all().await,
                () = ended(&mut ending) => break,
            }
        }
        while let Ok(heard) = news.try_recv() {
            if let News::Ended { run, .. } = heard {
                self.note(run);
            }
        }
        self.send_all().await;
    }

    fn note(&mut self, run: RunId) {
        self.ended.push_back((run, Instant::now()));
        if self.ended.len() > RUNS_MAX {
            self.ended.pop_front();
            self.dropped += 1;
        }
    }

    async fn send_all(&mut self) {
        self.gather().await;
        while !self.spans.is_empty() {
            let count = self.spans.len().min(BATCH);
            let batch: Vec<Json> = self.spans.iter().take(count).cloned().collect();
            if !self.send("/v1/traces", &self.traces(batch)).await {
                break;
            }
            self.spans.drain(..count);
        }
        let text = self.runner.metrics().encode();
        let told = metrics::of_text(&text, &self.since, &nanos());
        self.send("/v1/metrics", &self.measured(told)).await;
        if self.dropped > 0 {
            tracing::warn!(
                runs = self.dropped,
                "traces of runs were not exported: too many at once"
            );
            self.dropped = 0;
        }
    }

    /// Spans of the runs that ended and are written down.
    async fn gather(&mut self) {
        for (run, since) in std::mem::take(&mut self.ended) {
            let found = self.client.run(run).await;
            let record = match found {
                Ok(Some(record)) if matches!(record.status, RunStatus::Final(_)) => record,
                Ok(None) => continue,
                Ok(Some(_)) | Err(_) if since.elapsed() < PATIENCE => {
                    self.ended.push_back((run, since));
                    continue;
                }
                Ok(Some(_)) | Err(_) => continue,
            };
            match spans::of_run(&self.client, &record).await {
                Ok(spans) => self.spans.extend(spans),
                Err(error) => tracing::debug!(%run, %error, "a run cannot be traced"),
            }
            let surplus = self.spans.len().saturating_sub(SPANS_MAX);
            self.dropped += surplus as u64;
            self.spans.drain(..surplus);
        }
    }

    fn resource(&self) -> Json {
        let said =
            |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        json!({ "attributes": [
            said("service.name", &self.settings.service),
            said("service.version", env!("CARGO_PKG_VERSION")),
        ] })
    }

    fn traces(&self, spans: Vec<Json>) -> Json {
        json!({ "resourceSpans": [{ "resource": self.resource(), "scopeSpans": [{ "scope": { "name": "lope" }, "spans": spans }] }] })
    }

    fn measured(&self, metrics: Vec<Json>) -> Json {
        json!({ "resourceMetrics": [{ "resource": self.resource(), "scopeMetrics": [{ "scope": { "name": "lope" }, "metrics": metrics }] }] })
    }

    /// Was it taken? What a collector refuses is not sent again.
    async fn send(&mut self, path: &str, body: &Json) -> bool {
        let url = format!("{}{path}", self.settings.endpoint);
        let mut post = self.http.post(&url).body(body.to_string());
        post = post.header("content-type", "application/json");
        for (name, value) in &self.settings.headers {
            post = post.header(name, value);
        }
        let away = match post.send().await {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) if answer.status().is_client_error() && answer.status() != 429 => {
                tracing::warn!(%url, status = %answer.status(), "the collector refuses what is exported");
                None
            }
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = away.as_ref().filter(|_| !self.is_away) {
            tracing::warn!(%url, why, "the collector is away; traces wait for it");
        }
        self.is_away = away.is_some();
        away.is_none()
    }
}

fn nanos() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos().to_string()
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ends| *ends).await;
}
