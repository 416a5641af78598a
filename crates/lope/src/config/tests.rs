//! Settings from every source, and what is refused where.

use lope_model::Span;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(text: &str, environment: Pairs<'_>) -> Result<Config, BadConfig> {
    let pairs = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(Some(("config.yaml", text)), pairs)
}

fn setting(config: &Config, name: &str) -> (String, SettingSource) {
    let row = config
        .settings()
        .into_iter()
        .find(|row| row.name == name)
        .unwrap();
    (row.value, row.source)
}

#[test]
fn the_defaults_are_those_of_the_documents() {
    let config = Config::read(None, []).unwrap();
    let shown: Vec<String> = config
        .settings()
        .iter()
        .skip(2)
        .filter(|row| row.name.starts_with("engine."))
        .map(|row| format!("{}={}", row.name, row.value))
        .collect();
    let expected = [
        "engine.max_runs=10000",
        "engine.claim_batch=500",
        "engine.lease=15s",
        "engine.heartbeat=5s",
        "engine.sweep=1s",
        "engine.evict_after=10s",
        "engine.group_commit_max=1000",
        "engine.payload_max=16MiB",
        "engine.retention=30d",
        "engine.loss_budget=20",
        "engine.retention_completed=30d",
        "engine.retention_failed=30d",
        "engine.retention_cancelled=30d",
    ];
    assert_eq!(shown, expected);
    assert!(
        config
            .settings()
            .iter()
            .all(|row| row.source == SettingSource::Default)
    );
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let text =
        "engine: { lease: 9s, sweep: 2s, concurrency: 3, payload_max: 64KiB, retention: forever }";
    let environment = [
        ("LOPE_ENGINE_LEASE", "30s"),
        ("LOPE_ENGINE_CONCURRENCY", "4"),
        ("LOPE_STORE", "memory:"),
    ];
    let mut config = read(text, &environment).unwrap();
    config.flag("concurrency", "5").unwrap();
    let rows = [
        ("engine.concurrency", "5", SettingSource::Flag),
        ("engine.lease", "30s", SettingSource::Environment),
        ("engine.sweep", "2s", SettingSource::File),
        ("engine.payload_max", "64KiB", SettingSource::File),
        ("engine.retention", "forever", SettingSource::File),
        ("engine.evict_after", "10s", SettingSource::Default),
    ];
    for (name, value, source) in rows {
        assert_eq!(setting(&config, name), (value.to_owned(), source), "{name}");
    }
    assert_eq!(config.engine.lease, Span::from_secs(30));
}

#[test]
fn a_heartbeat_that_nobody_set_follows_the_lease_and_a_slow_one_is_refused() {
    let config = read("", &[("LOPE_ENGINE_LEASE", "900ms")]).unwrap();
    assert_eq!(config.engine.heartbeat, Span::from_millis(300));
    let error = read("engine: { lease: 2s, heartbeat: 1500ms }", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "engine.heartbeat: a heartbeat of 1s500ms is too slow for a lease of 2s"
    );
}

#[test]
fn the_other_sections_are_read() {
    let text = "
queues:
  slow: { concurrency: 2, rate: 10/s, priority: 3 }
secrets: { token: { env: TOKEN }, key: { file: /etc/key } }
env: [REGION]
retention: { hello: 1h, ledger: forever }
agents: { default: { command: [claude] } }
";
    let config = read(text, &[]).unwrap();
    assert_eq!(
        setting(&config, "queues.slow").0,
        "concurrency 2, rate 10/1s, priority 3"
    );
    assert_eq!(
        setting(&config, "secrets.token"),
        ("env TOKEN".to_owned(), SettingSource::File)
    );
    assert_eq!(config.secrets["key"], Secret::File("/etc/key".into()));
    assert_eq!(
        (
            setting(&config, "retention.ledger").0.as_str(),
            config.env.as_slice()
        ),
        ("forever", &["REGION".to_owned()][..])
    );
    assert_eq!(config.agents["default"].command, ["claude"]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let rows: [(&str, Pairs<'_>, &str); 9] = [
        (
            "engine: { lese: 3s }",
            &[],
            "config.yaml:1:17: there is no engine setting 'lese'",
        ),
        (
            "engine:\n  lease: soon",
            &[],
            "config.yaml:2:10: 'soon' is not a duration",
        ),
        (
            "engine: { shards: 0 }",
            &[],
            "config.yaml:1:19: '0' is not a whole number from 1 to 1024",
        ),
        (
            "engine: { payload_max: 1GiB }",
            &[],
            "config.yaml:1:24: '1GiB' is not a size from 4KiB to 16MiB",
        ),
        (
            "",
            &[("LOPE_ENGINE_LEASE", "5ms")],
            "LOPE_ENGINE_LEASE: 5ms is too short: at least 100ms",
        ),
        (
            "",
            &[("LOPE_ENGINE_LAESE", "5s")],
            "LOPE_ENGINE_LAESE: there is no engine setting 'laese'",
        ),
        (
            "queues: { a: { rate: often } }",
            &[],
            "queue 'a': 'often' is not a rate",
        ),
        (
            "secrets: { a: { env: A, file: b } }",
            &[],
            "a secret is found in one place",
        ),
        ("engin: {}", &[], "engin"),
    ];
    for (text, environment, expected) in rows {
        let error = read(text, environment).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
