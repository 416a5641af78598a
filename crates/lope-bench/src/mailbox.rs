//! Messages and timers of one worker: how many it handles in batches of two sizes, beside bare
//! reads and removals of the same rows; whether a deep queue is slower than a short one; and how
//! late timers come when there is nothing else to do.

use lope::mailbox::Until;
use lope::measure::{MeasuredMailbox, idle_handler, measured_mailbox};
use lope_model::Span;

use crate::error::BenchResult;
use crate::figure::{BenchFigure, Cost};
use crate::measured_store::{MeasuredStore, StoreKind};

const BATCHES: [usize; 2] = [1_024, 64];
/// Depths that are compared, in messages. The first is never scaled: the others are compared with
/// it.
const DEPTHS: [u64; 3] = [1_000, 100_000, 1_000_000];
/// How many batches are taken off the front of each, whole ones, so that no message is claimed and
/// then put back; and how often: the best time counts, since neighbours on the machine only ever
/// add to it.
const TAKEN: u64 = 20;
const TURNS: usize = 3;
/// Timers whose lateness is noted, and how far apart they are due.
const LATE: u64 = 200;
const APART: Span = Span::from_millis(40);

pub(crate) async fn mailbox(scale: u64, store: &MeasuredStore) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let mailbox = measured_mailbox(&store.client).await?;
    let bench = MailboxBench { mailbox, store };
    let plenty = scaled(if store.kind == StoreKind::Memory {
        400_000
    } else {
        100_000
    });
    let mut figures = Vec::new();
    for batch in BATCHES {
        figures.push(bench.messages(batch, plenty).await?);
    }
    figures.push(bench.timers(plenty).await?);
    figures.push(bench.late(scaled(LATE)).await?);
    let taken = scaled(TAKEN) * BATCHES[0] as u64;
    let deep = DEPTHS[1..]
        .iter()
        .map(|depth| scaled(*depth).max(2 * taken));
    figures.extend(
        bench
            .depths(DEPTHS[..1].iter().copied().chain(deep), taken)
            .await?,
    );
    Ok(figures)
}

struct MailboxBench<'a> {
    mailbox: MeasuredMailbox,
    store: &'a MeasuredStore,
}

impl MailboxBench<'_> {
    fn figure(&self, unit: &'static str, units: u64, cost: Cost) -> BenchFigure {
        let figure = BenchFigure {
            bench: "mailbox",
            store: self.store.kind.name(),
            unit,
            units,
            cost,
            notes: Vec::new(),
        };
        let per_cpu_second = 1e6 / figure.cpu_micros().max(1e-9);
        figure.note("per CPU second", format!("{per_cpu_second:.0}"))
    }

    async fn messages(&self, batch: usize, count: u64) -> BenchResult<BenchFigure> {
        let flush = self.store.flush_millis()?;
        self.mailbox.queue(count as usize).await?;
        let (handled, cost) = self.drain(batch).await?;
        self.mailbox.queue(count as usize).await?;
        let before = self.store.read().await?;
        let bare = self.mailbox.bare(batch).await? as f64;
        let bare = bare / before.until(self.store.read().await?).wall.as_secs_f64();
        let figure = self.figure("messages", handled, cost).note("batch", batch);
        let share = figure.per_second() / bare * 100.0;
        Ok(figure
            .note("of the raw store", format!("{share:.0} % of {bare:.0}/s"))
            .note("flush", format!("{flush:.2} ms")))
    }

    async fn timers(&self, count: u64) -> BenchResult<BenchFigure> {
        let flush = self.store.flush_millis()?;
        self.mailbox.arm(count as usize).await?;
        let (handled, cost) = self.drain(BATCHES[0]).await?;
        Ok(self
            .figure("timers", handled, cost)
            .note("batch", BATCHES[0])
            .note("flush", format!("{flush:.2} ms")))
    }

    /// Work until nothing is left.
    async fn drain(&self, batch: usize) -> BenchResult<(u64, Cost)> {
        let mut worker = self.mailbox.worker(batch, idle_handler()).await?;
        let before = self.store.read().await?;
        worker.run(Until::Idle).await?;
        let cost = before.until(self.store.read().await?);
        Ok((worker.counters().read().successes, cost))
    }

    async fn late(&self, timers: u64) -> BenchResult<BenchFigure> {
        let flush = self.store.flush_share(0.99)?;
        let timer_meter = self.mailbox.timer_meter(timers as usize, APART).await?;
        let before = self.store.read().await?;
        let late = timer_meter.lateness().await?;
        let cost = before.until(self.store.read().await?);
        let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
        let figure = self.figure("timers", timers, cost);
        Ok(figure
            .note("late p50", format!("{} ms", at(0.5)))
            .note("late p99", format!("{} ms", at(0.99)))
            .note("flush p99", format!("{flush:.2} ms")))
    }

    /// The front of one queue that grows: the same work at every depth. What is left of it goes
    /// with the store.
    async fn depths(
        &self,
        depths: impl Iterator<Item = u64>,
        taken: u64,
    ) -> BenchResult<Vec<BenchFigure>> {
        let mut figures: Vec<BenchFigure> = Vec::new();
        let mut queued = 0;
        for depth in depths {
            let mut best: Option<BenchFigure> = None;
            for _ in 0..TURNS {
                let round = self.round(depth, taken, &mut queued).await?;
                best = best
                    .into_iter()
                    .chain([round])
                    .min_by(|a, b| a.cpu_micros().total_cmp(&b.cpu_micros()));
            }
            let figure = best
                .expect("there is at least one turn")
                .note("queued", depth);
            let share =
                figures.first().unwrap_or(&figure).cpu_micros() / figure.cpu_micros().max(1e-9);
            figures.push(figure.note("speed by CPU against 1000 queued", format!("{share:.2}×")));
        }
        Ok(figures)
    }

    /// Fill the queue up to a depth and take from its front; a short queue is filled and emptied
    /// until it is as much.
    async fn round(&self, depth: u64, taken: u64, queued: &mut u64) -> BenchResult<BenchFigure> {
        let mut sum: Option<BenchFigure> = None;
        let each = depth.min(taken);
        for _ in 0..taken.div_ceil(each) {
            self.mailbox.queue((depth - *queued) as usize).await?;
            let figure = self.take(each).await?;
            *queued = depth - each;
            sum = Some(match sum {
                None => figure,
                Some(sum) => self.figure(
                    "messages",
                    sum.units + figure.units,
                    sum.cost.and(figure.cost),
                ),
            });
        }
        Ok(sum.expect("something is taken"))
    }

    /// Handle so many messages off the front.
    async fn take(&self, count: u64) -> BenchResult<BenchFigure> {
        let mut worker = self.mailbox.taker(BATCHES[0], count as usize).await?;
        let before = self.store.read().await?;
        worker.run(Until::Stopped).await?;
        Ok(self.figure("messages", count, before.until(self.store.read().await?)))
    }
}
