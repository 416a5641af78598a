//! The figures of the embedded runner: engine time of a trivial step, how fan-outs and loops grow,
//! how fast a long journal is taken up again.
//!
//! `cargo bench -p lope --bench embed [-- step fan loop resume]`. Timings swing with neighbours, so
//! nothing here fails; CPU time stands beside the wall figures.

#![allow(
    clippy::unwrap_used,
    reason = "a figure that cannot be had ends the benchmark"
)]

use std::time::{Duration, Instant};

use lope::{Checkpoint, Flow, RunOptions, Runner, StartOptions};
use lope_engine::Settings;
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        if is_asked("step") {
            steps().await;
        }
        if is_asked("fan") {
            fan_outs().await;
        }
        if is_asked("loop") {
            loops().await;
        }
        if is_asked("resume") {
            resumes().await;
        }
    });
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.cast_unsigned(),
        u32::try_from(now.tv_nsec).unwrap(),
    )
}

/// Resident memory, in megabytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / 1e6
}

/// Wall and CPU time of some work.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration, Duration) {
    let (wall, before) = (Instant::now(), cpu());
    let result = work.await;
    (result, wall.elapsed(), cpu() - before)
}

fn show(name: &str, count: usize, wall: Duration, cpu: Duration, wanted: &str) {
    println!(
        "{name:<58} {:>9.0}/s {:>8.2} µs wall {:>8.2} µs CPU each   {wanted}",
        count as f64 / wall.as_secs_f64(),
        wall.as_secs_f64() * 1e6 / count as f64,
        cpu.as_secs_f64() * 1e6 / count as f64,
    );
}

async fn memory() -> Runner {
    Runner::builder().concurrency(1_024).build().await.unwrap()
}

async fn feed(runner: &Runner, id: &str, flow: &Flow, input: i64) {
    runner
        .start_workflow(id, flow, StartOptions::default())
        .await
        .unwrap();
    let input = runner
        .run_with(id, input, RunOptions::default().input_id("1"))
        .await
        .unwrap();
    let result = runner.wait(id, &input).await.unwrap();
    assert!(result.failure().is_none(), "{result:?}");
}

/// Trivial steps: the law alone, by hand, and through a runner on memory.
#[allow(clippy::too_many_lines, reason = "one figure after the other")]
async fn steps() {
    let count = 200_000;
    let nothing: Vec<i64> = (0..count).collect();
    let flow = Flow::builder("wide").step("list", move |_: i64| {
        let list = nothing.clone();
        async move { Ok(list) }
    });
    let flow = flow
        .map("each", |x: i64| async move { Ok(x) })
        .after("list")
        .checkpoint(Checkpoint::OnComplete)
        .build()
        .unwrap();
    let plan = lope_flow::law::Plan::new(flow.definition()).unwrap();
    let items = lope::Value::list((0..count).map(lope::Value::Int).collect());
    let drive = async {
        lope_flow::law::drive(&plan, vec![lope::Value::Int(0)], |attempt| {
            let list = &*attempt.step == "list";
            lope::Settled::Done(if list {
                items.clone()
            } else {
                attempt.with.clone()
            })
        })
    };
    let (_, wall, used) = timed(drive).await;
    show(
        "the law alone, a step",
        count as usize,
        wall,
        used,
        "≤ 3 µs of engine time",
    );
    let runner = memory().await;
    let ((), wall, used) = timed(feed(&runner, "w", &flow, 0)).await;
    show(
        "memory, one run, on_complete, a step with its closure",
        count as usize,
        wall,
        used,
        "≤ 3 µs of engine time",
    );
    let tight = Flow::builder("loop")
        .repeat(
            "count",
            move |n: &i64| *n < count,
            |n: i64| async move { Ok(n + 1) },
        )
        .checkpoint(Checkpoint::OnComplete)
        .build()
        .unwrap();
    let ((), wall, used) = timed(feed(&runner, "l", &tight, 0)).await;
    show(
        "memory, one run, one after the other, on_complete",
        count as usize,
        wall,
        used,
        "",
    );
    let tight = Flow::builder("written")
        .repeat(
            "count",
            move |n: &i64| *n < count / 10,
            |n: i64| async move { Ok(n + 1) },
        )
        .build()
        .unwrap();
    let ((), wall, used) = timed(feed(&runner, "e", &tight, 0)).await;
    show(
        "memory, one run, one after the other, every_step",
        count as usize / 10,
        wall,
        used,
        "",
    );
}

/// Ten times the width, at most twelve times the time.
async fn fan_outs() {
    let mut times = Vec::new();
    for width in [10_000_i64, 100_000] {
        let flow = Flow::builder("fan")
            .step(
                "list",
                |n: i64| async move { Ok((0..n).collect::<Vec<i64>>()) },
            )
            .map("each", |x: i64| async move { Ok(x) })
            .after("list")
            .reduce("sum", 0, |sum: i64, x: i64| sum + x)
            .after("each")
            .build()
            .unwrap();
        let runner = memory().await;
        let ((), wall, used) = timed(feed(&runner, "w", &flow, width)).await;
        show(
            &format!("memory, fan-out of {width}"),
            width as usize,
            wall,
            used,
            "",
        );
        times.push((wall, used));
    }
    let ratio = |of: fn(&(Duration, Duration)) -> f64| of(&times[1]) / of(&times[0]);
    println!(
        "10 × the width: {:.1} × the wall time, {:.1} × the CPU time   ≤ 12 ×",
        ratio(|time| time.0.as_secs_f64()),
        ratio(|time| time.1.as_secs_f64())
    );
}

/// A loop of a million steps on SQLite: the last tenth against the first, and memory.
async fn loops() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("loop.db").display());
    let count = 1_000_000_i64;
    let marks = std::sync::Arc::new(std::sync::Mutex::new(Vec::<(Instant, Duration, f64)>::new()));
    let noted = std::sync::Arc::clone(&marks);
    let flow = Flow::builder("million")
        .repeat(
            "count",
            move |n: &i64| *n < count,
            move |n: i64| {
                if n % (count / 10) == 0 {
                    noted
                        .lock()
                        .unwrap()
                        .push((Instant::now(), cpu(), resident()));
                }
                async move { Ok(n + 1) }
            },
        )
        .checkpoint(Checkpoint::EveryN(1_000))
        .build()
        .unwrap();
    let runner = Runner::open(&url).await.unwrap();
    runner
        .start_workflow("w", &flow, StartOptions::default())
        .await
        .unwrap();
    let before = (Instant::now(), cpu());
    runner.run("w", 0).await.unwrap();
    runner.wait_idle("w").await.unwrap();
    marks
        .lock()
        .unwrap()
        .push((Instant::now(), cpu(), resident()));
    show(
        "SQLite, a loop of 1,000,000, every_n 1,000",
        count as usize,
        before.0.elapsed(),
        cpu() - before.1,
        "",
    );
    let marks = marks.lock().unwrap();
    let tenths = |of: &dyn Fn(usize) -> String| (0..10).map(of).collect::<Vec<_>>().join(" ");
    println!(
        "  CPU seconds of each tenth   {}   linear",
        tenths(&|n| seconds(marks[n + 1].1 - marks[n].1))
    );
    println!(
        "  wall seconds of each tenth  {}",
        tenths(&|n| seconds(marks[n + 1].0 - marks[n].0))
    );
    println!(
        "  megabytes after each tenth  {}   flat",
        tenths(&|n| format!("{:.0}", marks[n + 1].2))
    );
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

/// A journal of 100,000 events without a snapshot, taken up again.
async fn resumes() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("long.db").display());
    let settings = || Settings {
        snapshot_min: usize::MAX,
        ..Settings::default()
    };
    let count = 100_000_i64;
    let flow = Flow::builder("long")
        .repeat(
            "count",
            move |n: &i64| *n % count != 0,
            |n: i64| async move { Ok(n + 1) },
        )
        .checkpoint(Checkpoint::EveryN(1_000))
        .build()
        .unwrap();
    let first = Runner::builder()
        .settings(settings())
        .url(&url)
        .build()
        .await
        .unwrap();
    first
        .start_workflow("w", &flow, StartOptions::default())
        .await
        .unwrap();
    first.run("w", 1).await.unwrap();
    first.wait_idle("w").await.unwrap();
    let events = first.workflow("w").await.unwrap().events;
    first.shutdown(Duration::from_secs(10)).await.unwrap();
    let second = Runner::builder()
        .settings(settings())
        .url(&url)
        .build()
        .await
        .unwrap();
    let work = async {
        second.resume("w", &flow).await.unwrap();
        second.run("w", 0).await.unwrap();
        loop {
            let record = second.lookup("w").await.unwrap().unwrap();
            let rows = second
                .store()
                .runs
                .run(record.run)
                .await
                .unwrap()
                .unwrap()
                .head;
            if rows > events {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let ((), wall, used) = timed(work).await;
    println!(
        "a journal of {events} events without a snapshot, taken up and fed: {wall:.2?} ({used:.2?} CPU)   < 1 s"
    );
    let ((), wall, used) = timed(async { drop(second.results("w").await.unwrap()) }).await;
    println!("its results, folded from the first row: {wall:.2?} ({used:.2?} CPU)");
}
