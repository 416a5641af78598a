//! Tables of ticks: plain ones, the days on which clocks jump, texts that say no times; and
//! properties of all of them.

use lope_model::{Span, Timestamp};
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(expression: &str, zone: &str) -> Timing {
    Timing::cron(expression, zone).unwrap_or_else(|error| panic!("{error}"))
}

/// The next ticks behind a time, as the zone's clock shows them.
fn shown(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let timing = cron(expression, zone);
    let clock = TimeZone::get(zone).unwrap();
    let ticks =
        std::iter::successors(timing.next(at(after)), |tick| timing.next(*tick)).take(count);
    let show = |tick: Timestamp| {
        jiff::Timestamp::from_millisecond(tick.millis())
            .unwrap()
            .to_zoned(clock.clone())
    };
    ticks
        .map(|tick| show(tick).strftime("%m-%d %H:%M %:z").to_string())
        .collect()
}

/// "Cron (with time zone and DST), interval, jitter, start/end, pause, overlap policy"
#[test]
fn a_cron_expression_ticks_by_the_clock_of_its_zone() {
    let ticks = shown(
        "30 6 * * MON-FRI",
        "Europe/Berlin",
        "2026-01-02T12:00:00Z",
        2,
    );
    assert_eq!(ticks, ["01-05 06:30 +01:00", "01-06 06:30 +01:00"]);
    let ticks = shown("30 6 * * *", "Asia/Kolkata", "2026-01-02T00:59:59.999Z", 1);
    assert_eq!(ticks, ["01-02 06:30 +05:30"]);
    assert_eq!(
        shown("30 6 * * *", "Asia/Kolkata", "2026-01-02T01:00:00Z", 1),
        ["01-03 06:30 +05:30"]
    );
    assert_eq!(
        shown("@daily", "UTC", "2026-01-02T00:00:00Z", 1),
        ["01-03 00:00 +00:00"]
    );
    assert_eq!(
        shown("0 0 29 2 *", "UTC", "2026-01-02T00:00:00Z", 1),
        ["02-29 00:00 +00:00"]
    );
    assert_eq!(
        shown("0 12 L * *", "UTC", "2026-02-02T00:00:00Z", 1),
        ["02-28 12:00 +00:00"]
    );
}

/// On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, on 8 March those of New York.
#[test]
fn a_time_that_the_clock_leaps_over_ticks_at_the_end_of_the_leap() {
    let berlin = shown("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
    assert_eq!(
        berlin,
        [
            "03-28 02:30 +01:00",
            "03-29 03:00 +02:00",
            "03-30 02:30 +02:00"
        ]
    );
    let york = shown("30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", 3);
    assert_eq!(
        york,
        [
            "03-07 02:30 -05:00",
            "03-08 03:00 -04:00",
            "03-09 02:30 -04:00"
        ]
    );
    // Two of them, and one that is named there: a single tick.
    let both = shown("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
    assert_eq!(
        both,
        [
            "03-29 03:00 +02:00",
            "03-29 03:30 +02:00",
            "03-30 02:00 +02:00"
        ]
    );
}

/// On 25 October 2026 the clocks of Berlin go from 03:00 back to 02:00, on 1 November those of New
/// York from 02:00 to 01:00.
#[test]
fn a_time_that_comes_twice_ticks_the_first_time() {
    let berlin = shown("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(berlin, ["10-25 02:30 +02:00", "10-26 02:30 +01:00"]);
    let york = shown("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2);
    assert_eq!(york, ["11-01 01:30 -04:00", "11-02 01:30 -05:00"]);
    // Asked in the second of the two hours.
    let after = shown("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
    assert_eq!(after, ["10-26 02:30 +01:00"]);
}

#[test]
fn with_a_star_the_clock_is_followed_through_leap_and_return() {
    let leap = shown("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 4);
    assert_eq!(
        leap,
        [
            "03-29 01:30 +01:00",
            "03-29 03:00 +02:00",
            "03-29 03:30 +02:00",
            "03-29 04:00 +02:00"
        ]
    );
    let back = shown("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 5);
    let expected = [
        "10-25 02:30 +02:00",
        "10-25 02:00 +01:00",
        "10-25 02:30 +01:00",
        "10-25 03:00 +01:00",
        "10-25 03:30 +01:00",
    ];
    assert_eq!(back, expected);
    // Every minute of an hour that is leapt over: not on that day.
    let hour = shown("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 1);
    assert_eq!(hour, ["03-30 02:00 +02:00"]);
    let york = shown("0 * * * *", "America/New_York", "2026-11-01T04:30:00Z", 3);
    assert_eq!(
        york,
        [
            "11-01 01:00 -04:00",
            "11-01 01:00 -05:00",
            "11-01 02:00 -05:00"
        ]
    );
}

/// Clocks that are set by half an hour, and a day that was left out.
#[test]
fn odd_clocks_are_followed_too() {
    let back = shown(
        "0 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:00:00Z",
        3,
    );
    assert_eq!(
        back,
        [
            "04-05 02:00 +10:30",
            "04-05 03:00 +10:30",
            "04-05 04:00 +10:30"
        ]
    );
    let hourless = shown(
        "*/5 5 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00:00Z",
        1,
    );
    assert_eq!(hourless, ["04-05 05:00 +10:30"]);
    let samoa = shown("0 8 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3);
    assert_eq!(
        samoa,
        [
            "12-29 08:00 -10:00",
            "12-31 00:00 +14:00",
            "12-31 08:00 +14:00"
        ]
    );
}

#[test]
fn an_interval_counts_from_its_anchor() {
    let timing = Timing::every(Span::from_secs(90), at("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(
        timing.next(at("2025-06-01T00:00:00Z")),
        Some(at("2026-01-01T00:00:00Z"))
    );
    assert_eq!(
        timing.next(at("2026-01-01T00:00:00Z")),
        Some(at("2026-01-01T00:01:30Z"))
    );
    assert_eq!(
        timing.next(at("2026-01-01T00:01:29.999Z")),
        Some(at("2026-01-01T00:01:30Z"))
    );
    assert_eq!(
        timing.next(at("2027-01-01T00:00:01Z")),
        Some(at("2027-01-01T00:01:30Z"))
    );
    assert!(Timing::every(Span::from_millis(999), at("2026-01-01T00:00:00Z")).is_err());
}

#[test]
fn a_text_that_says_no_times_is_refused_with_its_place() {
    for (expression, column, message) in [
        ("61 * * * *", 0, "61"),
        ("0 25 * * *", 2, "25"),
        ("0 0 * * * *", 10, "6 fields"),
        ("0 0 * *", 7, "4 of 5 fields"),
        ("", 0, "empty"),
        ("@often", 0, "known names"),
        ("0 5-1 * * *", 2, "5-1"),
        ("a * * * *", 0, ""),
    ] {
        let error = Timing::cron(expression, "UTC").unwrap_err();
        let BadTiming::Expression {
            column: found,
            message: said,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*found, column, "{error}");
        assert!(said.contains(message), "{error}");
        assert!(error.to_string().lines().count() == 3, "{error}");
    }
}

#[test]
fn an_unknown_zone_is_refused_with_the_one_that_was_meant() {
    for (zone, meant) in [
        ("Europe/Brelin", Some("Europe/Berlin")),
        ("berlin", Some("Europe/Berlin")),
        ("Nowhere", None),
    ] {
        let error = Timing::cron("0 0 * * *", zone).unwrap_err();
        let BadTiming::Zone { nearest, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(nearest.as_deref(), meant);
    }
    assert!(
        cron("0 0 * * *", "europe/berlin")
            .to_string()
            .ends_with("Europe/Berlin")
    );
}

#[test]
fn a_timing_is_kept_as_it_was_written() {
    let every = Timing::every(Span::from_secs(90), at("2026-01-01T00:00:00Z")).unwrap();
    for timing in [cron("30 6 * * MON", "Asia/Kolkata"), every] {
        let bytes = rmp_serde::to_vec_named(&timing).unwrap();
        assert_eq!(rmp_serde::from_slice::<Timing>(&bytes).unwrap(), timing);
    }
    let unknown = rmp_serde::to_vec_named(&CronText {
        expression: "0 0 * * *".into(),
        zone: "Nowhere".into(),
    })
    .unwrap();
    assert!(rmp_serde::from_slice::<Cron>(&unknown).is_err());
}

const EXPRESSIONS: [&str; 7] = [
    "*/7 * * * *",
    "0 */3 * * *",
    "15 2 * * *",
    "0,30 1-3 * * *",
    "0 0 1 * *",
    "5 4 * * SUN",
    "* 2 * * *",
];
const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Casablanca",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever time is asked about: the next tick lies behind it, and there is none in between.
    #[test]
    fn ticks_rise_and_leave_none_out(
        expression in prop::sample::select(&EXPRESSIONS[..]),
        zone in prop::sample::select(&ZONES[..]),
        after in 1_767_225_600_000_i64..1_900_000_000_000,
        part in 0.0..1.0_f64,
    ) {
        let timing = cron(expression, zone);
        let after = Timestamp::from_millis(after);
        let next = timing.next(after).unwrap();
        prop_assert!(next > after);
        let between = (next.millis() - after.millis()) as f64 * part;
        let between = Timestamp::from_millis(after.millis() + between as i64);
        prop_assert_eq!(timing.next(between), Some(next).filter(|next| *next > between).or(timing.next(next)));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A day has one tick of a time that is named, on every day of the year, in every zone.
    #[test]
    fn a_named_time_ticks_once_a_day(zone in prop::sample::select(&ZONES[..]), hour in 0..24_u8, minute in 0..60_u8) {
        let timing = cron(&format!("{minute} {hour} * * *"), zone);
        let year = (at("2026-01-10T00:00:00Z"), at("2027-01-10T00:00:00Z"));
        let ticks = std::iter::successors(timing.next(year.0), |tick| timing.next(*tick));
        prop_assert_eq!(ticks.take_while(|tick| *tick <= year.1).count(), 365);
    }
}
