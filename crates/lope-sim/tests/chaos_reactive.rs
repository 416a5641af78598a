//! Reactive spaces in worlds out of seeds: `LOPE_CHAOS=full` lives through thousands, normally a
//! few; `LOPE_SIM_SEED` lives through one alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_sim::spaces::{SpaceSetup, SpaceStory, simulate_space, space_complaint};

#[test]
fn spaces_end_as_without_faults_whatever_goes_wrong() {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full");
    let seed = std::env::var("LOPE_SIM_SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().unwrap());
    let seeds = match seed {
        Some(seed) => seed..seed + 1,
        None => 0..if full { 5_000 } else { 60 },
    };
    for seed in seeds {
        if let Some(complaint) = space_complaint(&SpaceSetup::rolled(seed)) {
            panic!(
                "seed {seed}: {complaint}\n\nreplay: LOPE_SIM_SEED={seed} cargo test -p lope-sim spaces_end"
            );
        }
    }
}

/// A simulator in which nothing goes wrong proves nothing.
#[test]
fn worlds_of_spaces_are_not_too_kind() {
    let mut all = SpaceStory::default();
    for seed in 0..20 {
        let (_, story) = simulate_space(&SpaceSetup::rolled(seed));
        all.crashes += story.crashes;
        all.lost_answers += story.lost_answers;
        all.pauses += story.pauses;
        all.fenced += story.fenced;
        all.effects += story.effects;
    }
    println!("{all:?}");
    assert!(all.crashes > 100 && all.lost_answers > 100 && all.pauses > 50);
    assert!(all.fenced > 5 && all.effects > 50);
}

#[test]
fn a_seed_of_a_space_tells_the_same_story_every_time() {
    let setup = SpaceSetup::rolled(11);
    let (one, two) = (simulate_space(&setup), simulate_space(&setup));
    assert_eq!(one.0, two.0);
    assert_eq!(format!("{:?}", one.1), format!("{:?}", two.1));
}
