//! `lope mailbox stats`: how much is where. And what a worker did, when it ends.

use clap::Args;
use lope::describe;
use lope::mailbox::key::WorkerId;
use lope::mailbox::{Counting, Depth, MailboxCounts, Stats};
use serde_json::{Map, Value as Json};

use super::{OpenMailbox, show};
use crate::error::{CliResult, Exit};
use crate::output::{Output, counted, remark};
use crate::table::Column;

/// How much to count.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Show at most so many workers
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Count everything, however long it takes; without this counting stops at 100,000
    #[arg(long)]
    exact: bool,
}

pub(super) async fn stats(
    args: &StatsArgs,
    opened: &OpenMailbox,
    output: Output,
) -> CliResult<Exit> {
    let counting = if args.exact {
        Counting::Exact
    } else {
        Counting::Quick
    };
    let stats = opened.mailbox.stats(args.limit, counting).await?;
    output.document(&describe::mailbox_stats(&stats), &text(&stats));
    Ok(Exit::Done)
}

fn text(stats: &Stats) -> String {
    let all = format!(
        "{}, {}, {}, {} to be forwarded, {} remembered",
        so_many(stats.inbox, "message"),
        so_many(stats.timers, "timer"),
        so_many(stats.dead_letters, "dead letter"),
        shown(stats.outbox),
        so_many(stats.dedupe, "id")
    );
    if stats.workers.is_empty() {
        return all;
    }
    let rows = stats.workers.iter().map(|one| {
        vec![
            one.worker.to_string(),
            shown(one.inbox),
            shown(one.dead_letters),
        ]
    });
    format!(
        "{all}\n{}",
        show::table(
            ["WORKER", "INBOX", "DEAD LETTERS"].map(Column::whole),
            rows.collect()
        )
    )
}

fn so_many(depth: Depth, what: &str) -> String {
    match depth {
        Depth::Exactly(rows) => counted(rows, what),
        Depth::MoreThan(_) | Depth::AtMost(_) => format!("{} {what}s", shown(depth)),
    }
}

fn shown(depth: Depth) -> String {
    match depth {
        Depth::Exactly(rows) => rows.to_string(),
        Depth::MoreThan(rows) => format!("{rows}+"),
        Depth::AtMost(rows) => format!("≤ {rows}"),
    }
}

/// What a worker did.
pub(super) fn summary(worker: WorkerId, counts: &MailboxCounts, output: Output) {
    if output.json {
        let mut value = Map::from_iter([("worker".to_owned(), worker.number().into())]);
        value.extend(
            counts
                .series()
                .map(|series| (series.name.to_owned(), series.value.into())),
        );
        value.insert("latency_micros".into(), counts.latency_micros.into());
        output.document(&Json::Object(value), "");
        return;
    }
    let mut text = format!("worker {worker}: {} handled", counts.successes);
    for (count, what) in [
        (counts.duplicates, "seen before"),
        (counts.requeues, "tried again"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if counts.dead_letters > 0 {
        text.push_str(&format!(
            ", {}",
            counted(counts.dead_letters, "dead letter")
        ));
        text.push_str(&format!("\n  hint: 'lope mailbox dead {worker}' shows why"));
    }
    remark(output, &text);
}

#[cfg(test)]
mod tests {
    use lope::mailbox::WorkerStats;

    use super::*;

    /// What was not counted to its end never looks like a count.
    #[test]
    fn numbers_say_on_which_side_of_them_the_truth_lies() {
        let worker = WorkerStats {
            worker: WorkerId::new(7).unwrap(),
            inbox: Depth::AtMost(1_000_000),
            dead_letters: Depth::Exactly(2),
        };
        let inbox = Depth::MoreThan(100_000);
        let dead_letters = Depth::Exactly(2);
        let stats = Stats {
            inbox,
            dead_letters,
            workers: vec![worker],
            ..Stats::default()
        };
        let shown = text(&stats);
        let (all, rows) = shown.split_once('\n').unwrap();
        assert_eq!(
            all,
            "100000+ messages, 0 timers, 2 dead letters, 0 to be forwarded, 0 ids remembered"
        );
        let one = Stats {
            inbox: Depth::Exactly(1),
            timers: Depth::Exactly(1),
            dedupe: Depth::MoreThan(1),
            ..Stats::default()
        };
        assert_eq!(
            text(&one),
            "1 message, 1 timer, 0 dead letters, 0 to be forwarded, 1+ ids remembered"
        );
        assert_eq!(rows.lines().last(), Some("7       ≤ 1000000  2"));
    }
}
