//! Many worlds: `LOPE_CHAOS=full` lives through thousands of seeds, normally a few.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_sim::{Setup, complaint, story};

/// Seeds that the normal tests do not take.
const FIRST: u64 = 1_000_000;

#[test]
fn thousands_of_worlds_end_well() {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full");
    let count = if full { 20_000 } else { 20 };
    for seed in FIRST..FIRST + count {
        let setup = Setup::rolled(seed);
        if let Some(complaint) = complaint(&setup) {
            let replay = format!("LOPE_SIM_SEED={seed} cargo test -p lope-sim --test all worlds");
            panic!("{}\n\n{complaint}\n\nreplay: {replay}", story(&setup, 80));
        }
    }
    println!("{count} worlds ended well");
}
