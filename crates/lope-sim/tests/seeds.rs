//! Worlds out of seeds: whatever goes wrong, every run ends as it would have without it, and the
//! judge has nothing to say.
//!
//! `LOPE_SIM_SEEDS` says how many worlds instead of the usual few hundred; `LOPE_SIM_SEED` lives
//! through one world alone, `LOPE_SIM_TAIL` says how much of its trace is shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_sim::{Dice, Faults, Mutant, Setup, SimReport, complaint, shapes, simulate, story};

/// Seeds in the normal tests.
const SAMPLE: u64 = 300;

/// A number from the environment.
fn wanted(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|number| number.parse().unwrap())
}

/// "Clock steps and suspends do not lose or double a wake-up.": in these worlds clocks differ and
/// are set, processes stand still for longer than their leases, and every sleeper and every signal
/// still arrives once.
#[test]
fn worlds_out_of_seeds_end_well() {
    let seeds = match (wanted("LOPE_SIM_SEED"), wanted("LOPE_SIM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(SAMPLE),
    };
    let bad: Vec<(u64, String)> = seeds
        .filter_map(|seed| Some((seed, complaint(&Setup::rolled(seed))?)))
        .collect();
    for (seed, complaint) in &bad {
        println!(
            "seed {seed}: {}",
            complaint.lines().next().unwrap_or_default()
        );
    }
    if let Some((seed, complaint)) = bad.first() {
        let tail = wanted("LOPE_SIM_TAIL").map_or(80, |tail| usize::try_from(tail).unwrap());
        let replay = format!("LOPE_SIM_SEED={seed} cargo test -p lope-sim --test all worlds");
        panic!(
            "{}\n\n{complaint}\n\nreplay: {replay}",
            story(&Setup::rolled(*seed), tail)
        );
    }
}

#[test]
fn a_seed_tells_the_same_story_every_time() {
    for seed in [3, 11, 42] {
        let setup = Setup {
            traced: true,
            ..Setup::rolled(seed)
        };
        let (one, two) = (simulate(&setup), simulate(&setup));
        assert_eq!(one.trace, two.trace);
        assert_eq!(
            (one.points, one.calls, one.over_at),
            (two.points, two.calls, two.over_at)
        );
    }
}

/// What is counted over worlds, and how.
type Counted = (&'static str, fn(&SimReport) -> u64);

/// A simulator in which nothing goes wrong proves nothing.
#[test]
fn worlds_are_not_too_kind() {
    let reports: Vec<_> = (0..150)
        .map(|seed| simulate(&Setup::rolled(seed)))
        .collect();
    let sum = |count: fn(&SimReport) -> u64| reports.iter().map(count).sum::<u64>();
    let (crashes, falls) = (
        sum(|report| report.crashes.into()),
        sum(|report| report.falls.into()),
    );
    let (fences, lost) = (
        sum(|report| report.fences.into()),
        sum(|report| report.lost_heard.into()),
    );
    let (refused, unanswered, rows) = (
        sum(|report| report.refused),
        sum(|report| report.unanswered),
        sum(|it| it.rows),
    );
    println!(
        "{crashes} crashes, {falls} falls, {fences} fences, {lost} lost, {refused} refused, {unanswered} unanswered"
    );
    assert!(
        crashes > 20
            && fences > 20
            && refused > 10
            && unanswered > 200
            && rows > 1_000
            && falls > 10
            && lost > 0
    );
    let seldom: [Counted; 5] = [
        ("retries of what had failed", |it| it.counts.reopened.into()),
        ("discards", |it| it.counts.discarded.into()),
        ("claims of a full queue", |it| it.counts.bounded.into()),
        ("refusals of mail", |it| it.counts.full.into()),
        ("damaged runs", |it| it.counts.set_aside.into()),
    ];
    for (what, count) in seldom {
        println!("{} {what}", sum(count));
        assert!(sum(count) > 10, "{what}");
    }
}

/// A judge that sees nothing proves nothing: what the engine once did wrong, class by class, is
/// done wrong again in worlds of the usual kind, and some of them say so.
#[test]
fn planted_mistakes_are_seen() {
    for mutant in Mutant::PLANTED {
        let said = |seed: u64| {
            let setup = Setup {
                mutant: Some(mutant),
                ..Setup::rolled(seed)
            };
            Some((seed, complaint(&setup)?))
        };
        let Some((seed, said)) = (0..SAMPLE).find_map(said) else {
            panic!("{mutant:?} is not seen in {SAMPLE} worlds");
        };
        println!(
            "{mutant:?}: seed {seed}: {}",
            said.lines().next().unwrap_or_default()
        );
    }
}

/// One process, restarted after it crashed at every point that the story has: before and after
/// every store call, and between any two effects.
#[test]
fn a_crash_at_every_point_is_survived() {
    let names = ["sequence", "parent", "letting-go", "cleanup", "relaxed"];
    for name in names.into_iter().chain(["retried", "flooded"]) {
        let job = shapes::one(name, &mut Dice::new(7));
        let setup = Setup {
            seed: 7,
            processes: 1,
            jobs: vec![job],
            faults: Faults::none(),
            mutant: None,
            traced: false,
        };
        let calm = simulate(&setup);
        assert_eq!(calm.violations, [] as [String; 0]);
        for point in 0..calm.points_until_over {
            let faults = Faults {
                crash_at: Some(point),
                crashes_max: 1,
                ..Faults::none()
            };
            let setup = Setup {
                faults,
                ..setup.clone()
            };
            let report = simulate(&setup);
            assert_eq!(
                report.violations,
                [] as [String; 0],
                "{name}, crash at point {point}"
            );
            assert_eq!(report.ends, calm.ends, "{name}, crash at point {point}");
            assert_eq!(report.crashes, 1, "{name}, crash at point {point}");
        }
    }
}
