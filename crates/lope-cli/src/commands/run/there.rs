//! `lope run` through a server: the run is started for whoever works there, and followed to its
//! end.

use lope::runs::{Admitted, FinalStatus, RunRecord, RunStatus};
use lope::{Client, PreparedRun};

use super::{has_ended, not_set_aside};
use crate::commands::record::present;
use crate::commands::runs::find::found;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};
use crate::progress::{self, KNOWN_MAX, ProgressView};

/// Starts a run and sees it to its end.
pub(super) async fn begin(
    client: &Client,
    prepared: PreparedRun,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let plan = std::sync::Arc::clone(prepared.plan());
    let key = prepared.key().unwrap_or_default().to_owned();
    let (run, admitted) = client.start(prepared).await?;
    let is_known = matches!(admitted, Admitted::Exists { .. });
    if is_known {
        remark(
            output,
            &format!("run {run} has the key '{key}' and goes on"),
        );
        // A Ctrl-C on a store may have paused it.
        client.resume(run).await?;
    } else {
        remark(output, &format!("run {run} of '{}' started", plan.name()));
    }
    let record = found(client.run(run).await?, run)?;
    let left = is_known.then_some(record.head);
    see_through(client, record, left, settings, output).await
}

/// Goes on with a run that was left.
pub(super) async fn resume(
    client: &Client,
    record: RunRecord,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let words = format!("run {} of '{}' goes on", record.run, record.workflow);
    remark(output, &words);
    client.resume(record.run).await?;
    let left = Some(record.head);
    see_through(client, record, left, settings, output).await
}

async fn see_through(
    client: &Client,
    record: RunRecord,
    left: Option<u64>,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let plan = client.plan(&record).await?;
    let follower = client.follow(record.run, &plan).await?;
    let mut follower = follower.with_limit(KNOWN_MAX);
    let mut progress = ProgressView::new(&record, output);
    if shown::hides_progress(client, &record).await? {
        progress = ProgressView::Silent;
    }
    let mut watch = client.watch();
    loop {
        let told = follower.catch_up(|row, _, history| {
            if left.is_none_or(|left| row.seq > left) {
                progress.row(history);
            }
        });
        told.await?;
        progress.draw(follower.historian());
        if follower.historian().status().is_final() && has_ended(client, record.run).await? {
            break;
        }
        not_set_aside(client, record.run).await?;
        progress::pause(&mut watch).await;
    }
    progress.end(follower.historian());
    let record = found(client.run(record.run).await?, record.run)?;
    let exit = present(client, record.clone(), output).await?;
    if record.status == RunStatus::Final(FinalStatus::Failed) {
        let called = &settings.called;
        let run = record.run;
        let text = format!("mend the cause, then go on from there: {called} runs retry {run}");
        remark(output, &text);
    }
    Ok(exit)
}
