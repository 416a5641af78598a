//! Sessions on one machine: the dead are known by their locks, the stopped by their expiry, and
//! neither the wall clock nor a reboot gives anybody what is not theirs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::ground;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ground::{Ground, admit, claim, commit, finish, hold, register, rows};
use lope_model::{Clock, Span, Timestamp};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::ManualClock;
use lope_store::runs::{CommitReply, SessionLost, TakenOver, Takeover};

const ALL: Takeover = Takeover { limit: 1_000 };

async fn on_clock() -> (Ground, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let theirs = Arc::clone(&clock) as Arc<dyn Clock>;
    (
        Ground::with(|options| SqliteOptions {
            clock: theirs,
            ..options
        })
        .await,
        clock,
    )
}

#[tokio::test]
async fn steps_of_the_wall_clock_steal_nothing() {
    let (ground, clock) = on_clock().await;
    let runner = register(&ground.store, Span::from_secs(10)).await;
    admit(&ground.store, 3).await;
    let claimed = claim(&ground.store, runner).await;
    let other = SqliteStore::open(SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::new(ground.path())
    })
    .unwrap();
    for year in ["2126-01-01T00:00:00Z", "1996-01-01T00:00:00Z"] {
        clock.set_wall(year.parse::<Timestamp>().unwrap());
        assert_eq!(
            other.runs.takeover(ALL).await.unwrap(),
            TakenOver::default(),
            "{year}"
        );
        assert!(
            ground.store.runs.heartbeat(runner).await.unwrap().is_ok(),
            "{year}"
        );
    }
    commit(&ground.store, finish(runner, &claimed[0])).await;
    clock.pass(Span::from_secs(11));
    assert_eq!(
        other.runs.takeover(ALL).await.unwrap(),
        TakenOver {
            ended: vec![runner],
            runs: 2,
            more: false
        }
    );
}

#[tokio::test]
async fn another_boot_voids_every_lease() {
    let ground = Ground::with(|options| SqliteOptions {
        boot_id: "first boot".to_owned(),
        ..options
    })
    .await;
    let runner = register(&ground.store, Span::from_secs(3_600)).await;
    admit(&ground.store, 2).await;
    let claimed = claim(&ground.store, runner).await;
    let options = SqliteOptions {
        boot_id: "second boot".to_owned(),
        ..SqliteOptions::new(ground.path())
    };
    let after = SqliteStore::open(options).unwrap();
    assert_eq!(
        after.runs.heartbeat(runner).await.unwrap(),
        Err(SessionLost)
    );
    assert!(!after.runs.runners(10).await.unwrap()[0].live);
    assert_eq!(
        after.runs.takeover(ALL).await.unwrap(),
        TakenOver {
            ended: vec![runner],
            runs: 2,
            more: false
        }
    );
    let stale = hold(runner, &claimed[0], rows(2, 2, 10));
    let replies = ground.store.runs.commit(vec![stale]).await.unwrap();
    assert!(
        matches!(replies[..], [CommitReply::Lost { .. }]),
        "{replies:?}"
    );
}

/// The child registers, claims and waits; it is killed without a word.
#[tokio::test]
async fn a_killed_process_is_taken_over_at_once() {
    const PLACE: &str = "LOPE_TEST_KILLED";
    if let Some(path) = std::env::var_os(PLACE) {
        let store = SqliteStore::open(SqliteOptions::existing(path)).unwrap();
        let runner = register(&store, Span::from_secs(3_600)).await;
        println!("\n@{runner} {}", claim(&store, runner).await.len());
        return std::future::pending().await;
    }
    let ground = Ground::new().await;
    admit(&ground.store, 5).await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sessions::a_killed_process_is_taken_over_at_once",
            "--nocapture",
        ])
        .env(PLACE, ground.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let said = lines
        .find_map(|line| line.strip_prefix('@').map(str::to_owned))
        .unwrap();
    let (dead, claimed) = said.split_once(' ').unwrap();
    assert_eq!(claimed, "5");
    assert_eq!(
        ground.store.runs.takeover(ALL).await.unwrap(),
        TakenOver::default(),
        "while it lives"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = vec![dead.parse().unwrap()];
    assert_eq!(
        ground.store.runs.takeover(ALL).await.unwrap(),
        TakenOver {
            ended,
            runs: 5,
            more: false
        }
    );
    let heir = register(&ground.store, Span::from_secs(60)).await;
    assert_eq!(claim(&ground.store, heir).await.len(), 5);
    let left = std::fs::read_dir(ground.folder.path().join("lope.db-runners"))
        .unwrap()
        .count();
    assert_eq!(
        left, 2,
        "the heir's lock and socket; the dead one's are gone"
    );
}

#[tokio::test]
async fn a_closed_store_leaves_its_runners_to_others() {
    let ground = Ground::new().await;
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let runner = register(&other, Span::from_secs(3_600)).await;
    admit(&ground.store, 1).await;
    assert_eq!(claim(&other, runner).await.len(), 1);
    other.upkeep.close().await.unwrap();
    assert_eq!(
        ground.store.runs.takeover(ALL).await.unwrap().ended,
        [runner]
    );
}

#[tokio::test]
async fn dropping_the_last_handle_lets_go_of_its_lock() {
    let ground = Ground::new().await;
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let runner = register(&other, Span::from_secs(3_600)).await;
    let lock = ground
        .folder
        .path()
        .join(format!("lope.db-runners/{runner}.lock"));
    assert!(lock.exists());
    drop(other);
    // The threads end by themselves; each look gives them time.
    for _ in 0..100_000 {
        if !ground
            .store
            .runs
            .takeover(ALL)
            .await
            .unwrap()
            .ended
            .is_empty()
        {
            assert!(!lock.exists());
            return;
        }
    }
    panic!("the lock is still taken");
}

/// A runner that lost its session goes on as another one in the same process: of the lost one no
/// file and no descriptor stays.
#[tokio::test]
async fn files_and_descriptors_of_fenced_sessions_are_cleaned_up() {
    let (ground, clock) = on_clock().await;
    let folder = ground.folder.path().join("lope.db-runners");
    for _ in 0..5 {
        register(&ground.store, Span::from_secs(15)).await;
        clock.pass(Span::from_secs(20));
        ground.store.runs.takeover(ALL).await.unwrap();
    }
    let heir = register(&ground.store, Span::from_secs(15)).await;
    ground.store.runs.takeover(ALL).await.unwrap();
    let locks = || {
        let files = std::fs::read_dir(&folder).unwrap().flatten();
        files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "lock"))
            .collect::<Vec<_>>()
    };
    assert_eq!(locks(), [folder.join(format!("{heir}.lock"))]);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    let of_runners =
        open.filter(|path| path.starts_with(&folder) && path.to_string_lossy().contains(".lock"));
    assert_eq!(of_runners.count(), 1);
}

/// A process that lost its session and begins again, again and again, leaves nothing of what it was
/// before, and is still woken.
#[tokio::test]
async fn the_files_of_lost_sessions_go_when_the_process_begins_again() {
    let (ground, clock) = on_clock().await;
    let folder = ground.folder.path().join("lope.db-runners");
    let files = || {
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let mut lost = register(&ground.store, Span::from_secs(1)).await;
    for _ in 0..5 {
        clock.pass(Span::from_secs(2));
        let runner = register(&ground.store, Span::from_secs(1)).await;
        assert_ne!(runner, lost);
        assert_eq!(
            files(),
            [format!("{runner}.lock"), format!("{runner}.sock")]
        );
        lost = runner;
    }
    let mut watch = ground.store.runs.watch();
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    admit(&other, 1).await;
    watch.changed().await;
    ground.store.upkeep.close().await.unwrap();
    assert_eq!(files(), Vec::<String>::new());
}

/// By hand, behind the store's back.
fn by_hand(ground: &Ground, text: &str, run: &lope_model::RunId) {
    let db = rusqlite::Connection::open(ground.path()).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    let changed = db.execute(text, [run.as_bytes()]).unwrap();
    assert_eq!(changed, 1, "{text}");
}

/// A session of which nobody knows whose it was, and two runs whose owner cannot be read.
#[tokio::test]
async fn a_takeover_goes_on_around_what_cannot_be_read() {
    let ground = Ground::new().await;
    let dead = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let runner = register(&dead, Span::from_secs(3_600)).await;
    admit(&ground.store, 5).await;
    let claimed = claim(&dead, runner).await;
    assert_eq!(claimed.len(), 5);
    dead.upkeep.close().await.unwrap();
    let unreadable = "UPDATE queue SET owner = x'01' WHERE run_id = ?1";
    by_hand(&ground, unreadable, &claimed[1].run);
    let empty = "UPDATE queue SET owner = x'' WHERE run_id = ?1";
    by_hand(&ground, empty, &claimed[3].run);
    let session = "INSERT INTO sessions SELECT x'07', name, host, pid, program, started_at, heartbeat_at, expires,
                       lease, boot_id, NULL, serves, process FROM sessions WHERE EXISTS (SELECT 1 FROM queue WHERE run_id = ?1)";
    by_hand(&ground, session, &claimed[0].run);

    let found = ground.store.upkeep.check().await.unwrap();
    for run in [claimed[1].run, claimed[3].run] {
        let names = format!("the owner of run {run} cannot be read");
        let finding = found.iter().find(|finding| finding.message == names);
        assert!(
            finding.is_some_and(|finding| finding.hint.contains("lope store remove-run")),
            "{found:?}"
        );
    }
    let is_session =
        |finding: &lope_store::store::Finding| finding.message.starts_with("the session 07 ");
    assert!(found.iter().any(is_session), "{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(ground.store.runs.runners(10).await.unwrap().len(), 1);

    let taken = ground.store.runs.takeover(ALL).await.unwrap();
    let expected = TakenOver {
        ended: vec![runner],
        runs: 5,
        more: false,
    };
    assert_eq!(taken, expected);
    assert_eq!(
        ground.store.runs.takeover(ALL).await.unwrap(),
        TakenOver::default()
    );
    assert_eq!(ground.store.upkeep.check().await.unwrap(), vec![]);
    let heir = register(&ground.store, Span::from_secs(60)).await;
    assert_eq!(claim(&ground.store, heir).await.len(), 5);
}

/// What nobody works on can be removed before anybody has taken it over; what somebody works on
/// cannot.
#[tokio::test]
async fn a_run_is_removed_when_its_owner_does_not_live() {
    let ground = Ground::new().await;
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let runner = register(&other, Span::from_secs(3_600)).await;
    admit(&ground.store, 2).await;
    let claimed = claim(&other, runner).await;
    let unreadable = claimed[1].run;
    by_hand(
        &ground,
        "UPDATE queue SET owner = x'01' WHERE run_id = ?1",
        &unreadable,
    );
    assert!(ground.store.upkeep.remove_run(unreadable).await.unwrap());
    let run = claimed[0].run;
    let refused = ground.store.upkeep.remove_run(run).await;
    assert!(
        matches!(&refused, Err(lope_store::StoreError::Refused { message }) if message.contains("a runner works on")),
        "{refused:?}"
    );
    other.upkeep.close().await.unwrap();
    assert!(ground.store.upkeep.remove_run(run).await.unwrap());
    assert_eq!(ground.store.upkeep.check().await.unwrap(), vec![]);
}
