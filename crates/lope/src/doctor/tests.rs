//! What the doctor says about facts.

use lope_model::{QueueName, RunnerId};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn healths(verdicts: &[HealthCheck]) -> Vec<Health> {
    verdicts.iter().map(|verdict| verdict.health).collect()
}

#[test]
fn a_store_that_is_missing_is_a_warning_and_one_that_is_broken_a_failure() {
    let error = |error| opened("sqlite:x", Some(&error)).health;
    assert_eq!(opened("sqlite:x", None).health, Health::Ok);
    assert_eq!(
        error(StoreError::Missing {
            message: String::new()
        }),
        Health::Warn
    );
    assert_eq!(error(StoreError::unavailable("down")), Health::Fail);
    assert_eq!(error(StoreError::corrupt("torn")), Health::Fail);
    assert_eq!(
        error(StoreError::Version {
            found: 9,
            needed: 1,
            hint: "h".to_owned()
        }),
        Health::Fail
    );
    let finding = Finding {
        rule: "journal",
        message: "gap".to_owned(),
        hint: "h".to_owned(),
    };
    assert_eq!(healths(&integrity(&vec![finding; 9])), [Health::Fail; TOLD]);
    assert_eq!(healths(&integrity(&[])), [Health::Ok]);
}

#[test]
fn little_room_and_wrong_clocks_are_told() {
    assert_eq!(
        [0, SPACE_MIN, SPACE_LOW].map(|free| room("/", free).health),
        [Health::Fail, Health::Warn, Health::Ok]
    );
    let at = |seconds: i64| Timestamp::from_millis(NOW.millis() + seconds * 1_000);
    let told = |store, others: &[Timestamp]| clock(NOW, store, others.iter().copied()).health;
    assert_eq!(
        clock(Timestamp::EPOCH, NOW, std::iter::empty()).health,
        Health::Fail
    );
    assert_eq!(told(at(60), &[]), Health::Warn);
    assert_eq!(told(at(-60), &[]), Health::Warn);
    assert_eq!(told(at(1), &[at(2), at(-900)]), Health::Ok);
    assert_eq!(told(NOW, &[at(2), at(30)]), Health::Warn);
}

#[test]
fn runners_that_left_runs_behind_are_told() {
    let runner = |live, owns| RunnerRecord {
        runner: RunnerId::from_bytes([1; 16]),
        name: "n".to_owned(),
        host: "h".to_owned(),
        pid: 1,
        process: String::new(),
        program: "p".to_owned(),
        serves: lope_store::runs::Serves::default(),
        started_at: NOW,
        heartbeat_at: NOW,
        live,
        ended_at: None,
        owns,
    };
    let counts = |due| {
        [QueueCount {
            queue: QueueName::default(),
            due,
            later: 0,
            owned: 0,
            parked: 0,
            oldest: None,
        }]
    };
    assert_eq!(healths(&runners(&[], &counts(0))), [Health::Ok]);
    assert_eq!(healths(&runners(&[], &counts(3))), [Health::Warn]);
    assert_eq!(
        healths(&runners(&[runner(true, 2), runner(false, 0)], &counts(3))),
        [Health::Ok]
    );
    assert_eq!(
        healths(&runners(&[runner(false, 2)], &counts(0))),
        [Health::Ok, Health::Warn]
    );
}

#[test]
fn damaged_runs_that_were_set_aside_are_counted() {
    let told = |damaged| {
        let told = stuck(&[], damaged);
        let told = told.into_iter().map(|it| (it.health, it.message));
        told.collect::<Vec<_>>()
    };
    let none = "no run was set aside; 0 paused".to_owned();
    assert_eq!(told(0), [(Health::Ok, none)]);
    let some = "damaged runs that were set aside: 21".to_owned();
    assert_eq!(told(21), [(Health::Warn, some)]);
}

#[test]
fn python_and_servers_are_judged_by_what_they_say() {
    for (said, health) in [
        (None, Health::Warn),
        (Some("Python 3.9.18\n"), Health::Warn),
        (Some("Python 2.7"), Health::Warn),
        (Some("Python 3.10.0"), Health::Ok),
        (Some("Python 3.13.1+"), Health::Ok),
        (Some("zebra"), Health::Warn),
    ] {
        assert_eq!(python_version(said).health, health, "{said:?}");
    }
    let settings = |pairs: &[(&str, &str)]| {
        server(
            &pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        healths(&settings(&[("fsync", "on"), ("max_connections", "100")])),
        [Health::Ok]
    );
    let bad = settings(&[
        ("fsync", "off"),
        ("synchronous_commit", "off"),
        ("max_connections", "5"),
    ]);
    assert_eq!(healths(&bad), [Health::Fail, Health::Warn, Health::Warn]);
}
