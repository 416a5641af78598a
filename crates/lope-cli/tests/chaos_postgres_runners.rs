//! Three runners of the real binary on one Postgres: killed, stopped past their lease, with the
//! server restarted under them. Nothing is lost, nothing is settled twice, a stale runner writes
//! nothing and says why. A sample here, all of it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use fixture::cluster::{Cluster, Stop};
use fixture::party::{Party, Runner};
use rustix::process::Signal;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

#[test]
fn runners_that_die_or_stand_still_lose_nothing_and_settle_nothing_twice() {
    let Some(url) = fixture::server() else { return };
    block_on(async {
        let mut party = Party::at(&format!(
            "{url}?schema=chaos_runners_{}",
            std::process::id()
        ))
        .await;
        let mut runners: Vec<Runner> = ["one", "two", "three"]
            .map(|name| party.runner(name))
            .into();
        for runner in &runners {
            party.registered(runner).await;
        }
        let (rounds, runs) = if fixture::full() { (6, 300) } else { (1, 40) };
        for round in 0..rounds {
            kill_one_and_stop_one(&mut party, &mut runners, runs).await;
            println!("round {}: {} steps begun", round + 1, party.begun());
        }
        party.is_done().await;
        let verdict = party.verify().await;
        println!("{verdict:?}");
        assert!(
            verdict.adopted > 0,
            "nobody had to take anything over: {verdict:?}"
        );
        for runner in &mut runners {
            assert!(runner.stop().success(), "{}", runner.said());
        }
    });
}

/// The first runner is killed and replaced; the second stands still until others have its runs,
/// then goes on.
async fn kill_one_and_stop_one(party: &mut Party, runners: &mut [Runner], runs: usize) {
    let begun = party.begun();
    party.more(runs).await;
    party.has_begun(begun + runs / 4).await;
    let killed = party.owns_something(&runners[0]).await;
    runners[0].kill();
    let stopped = party.owns_something(&runners[1]).await;
    runners[1].signal(Signal::STOP);
    let said_before = runners[1].said().matches("stops its work").count();
    party.is_robbed(&killed).await;
    party.is_robbed(&stopped).await;
    runners[1].signal(Signal::CONT);
    let says_so =
        async || (runners[1].said().matches("stops its work").count() > said_before).then_some(());
    fixture::party::until("the stale runner says why it stopped", says_so).await;
    let replacement = party.runner("again");
    party.registered(&replacement).await;
    runners[0] = replacement;
    // The stale one is good for work again, as another session.
    party.more(runs / 4).await;
    party.is_done().await;
    assert!(runners[1].is_alive(), "{}", runners[1].said());
}

#[test]
fn runners_find_a_restarted_server_again_and_nothing_is_lost() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    block_on(async {
        let mut party = Party::at(&cluster.url()).await;
        let mut runners: Vec<Runner> = ["one", "two", "three"]
            .map(|name| party.runner(name))
            .into();
        for runner in &runners {
            party.registered(runner).await;
        }
        let (rounds, runs) = if fixture::full() { (8, 80) } else { (1, 40) };
        for how in [Stop::Fast, Stop::Immediate].repeat(rounds) {
            party.more(runs).await;
            party.has_begun(party.begun() + runs / 4).await;
            cluster.down(how);
            cluster.up();
            let back = std::time::Instant::now();
            // Steps of claimed runs begin without the store; no run is completed without it.
            let completed = party.completed().await;
            party.has_completed(completed + 5).await;
            println!(
                "{how:?}: at work again after {:.1} s",
                back.elapsed().as_secs_f64()
            );
        }
        party.is_done().await;
        println!("{:?}", party.verify().await);
        for runner in &mut runners {
            assert!(runner.is_alive(), "{}", runner.said());
            assert!(runner.stop().success(), "{}", runner.said());
        }
        party.store.upkeep.close().await.unwrap();
    });
}
