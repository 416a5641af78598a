//! Promises of sessions: one heartbeat holds them, the store's clock ends them, the registry tells
//! of them.

use lope_model::{RunId, Span};

use super::ground::{Ground, assert_refused, registration, runner_id, runs_of, sorted};
use super::promise::{Kept, promises};
use lope_store::runs::{Register, RunnerRecord, Serves, SessionLost};

promises![
    a_session_lasts_as_long_as_its_lease,
    a_heartbeat_extends_the_session,
    an_expired_session_cannot_be_revived,
    a_stranger_has_no_session,
    the_registry_tells_who_is_there,
    the_registry_lists_the_youngest_first,
    whose_session_lives_is_told_in_order,
    what_a_runner_owns_is_paged,
    an_unsound_registration_is_refused,
    what_a_runner_serves_can_be_said_anew,
];

async fn a_session_lasts_as_long_as_its_lease(ground: Ground) -> Kept {
    for millis in [250, 60_000, 86_400_000] {
        let beat = ground
            .runs()
            .register(registration(Span::from_millis(millis)))
            .await?;
        assert_eq!(beat.expires, beat.moment.plus(Span::from_millis(millis)));
    }
    Ok(())
}

async fn a_heartbeat_extends_the_session(ground: Ground) -> Kept {
    let lease = Span::from_secs(60);
    let register = registration(lease);
    let mut before = ground.runs().register(register.clone()).await?;
    for _ in 0..3 {
        ground.pass(Span::from_millis(5)).await;
        let beat = ground
            .runs()
            .heartbeat(register.runner)
            .await?
            .expect("the session is held");
        assert_eq!(beat.expires, beat.moment.plus(lease));
        assert!(
            beat.moment > before.moment && beat.now >= before.now,
            "{beat:?} after {before:?}"
        );
        before = beat;
    }
    let record = ground.runs().runners(10).await?.remove(0);
    assert_eq!((record.live, record.heartbeat_at), (true, before.now));
    Ok(())
}

async fn an_expired_session_cannot_be_revived(ground: Ground) -> Kept {
    let (dead, _) = ground.expired_owner().await?;
    assert_eq!(ground.runs().heartbeat(dead).await?, Err(SessionLost));
    assert_eq!(ground.runs().heartbeat(dead).await?, Err(SessionLost));
    Ok(())
}

async fn a_stranger_has_no_session(ground: Ground) -> Kept {
    assert_eq!(
        ground.runs().heartbeat(runner_id()).await?,
        Err(SessionLost)
    );
    Ok(())
}

async fn the_registry_tells_who_is_there(ground: Ground) -> Kept {
    let register = Register {
        name: "naïve 'runner'".to_owned(),
        host: "host.example".to_owned(),
        pid: u32::MAX,
        process: "42.7.boot-1".to_owned(),
        program: "lope 1.2.3".to_owned(),
        serves: Serves::parse("queue default\nat most 2 of queue mail\nrealm default"),
        ..registration(Span::from_secs(60))
    };
    let beat = ground.runs().register(register.clone()).await?;
    ground.admit_many(3).await?;
    ground.claim(register.runner).await?;
    let expected = RunnerRecord {
        runner: register.runner,
        name: register.name,
        host: register.host,
        pid: register.pid,
        process: register.process,
        program: register.program,
        serves: register.serves,
        started_at: beat.now,
        heartbeat_at: beat.now,
        live: true,
        ended_at: None,
        owns: 3,
    };
    assert_eq!(ground.runs().runners(10).await?, vec![expected.clone()]);
    assert_eq!(ground.again().await.runs().runners(10).await?, [expected]);
    ground.runs().release(register.runner).await?;
    let record = ground.runs().runners(10).await?.remove(0);
    assert!(
        !record.live && record.ended_at.is_some_and(|at| at >= beat.now) && record.owns == 0,
        "{record:?}"
    );
    Ok(())
}

async fn the_registry_lists_the_youngest_first(ground: Ground) -> Kept {
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.insert(0, ground.runner().await?);
        ground.pass(Span::from_millis(5)).await;
    }
    let listed: Vec<_> = ground
        .runs()
        .runners(10)
        .await?
        .into_iter()
        .map(|record| record.runner)
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(ground.runs().runners(2).await?.len(), 2);
    assert_eq!(ground.runs().runners(2).await?[0].runner, expected[0]);
    Ok(())
}

async fn whose_session_lives_is_told_in_order(ground: Ground) -> Kept {
    let (dead, _) = ground.expired_owner().await?;
    let (first, released) = (ground.runner().await?, ground.runner().await?);
    ground.runs().release(released).await?;
    let second = ground.runner().await?;
    let asked = [second, dead, runner_id(), first, released, first];
    let expected = [true, false, false, true, false, true];
    assert_eq!(ground.runs().live(&asked).await?, expected);
    let again = ground.again().await;
    assert_eq!(again.runs().live(&asked).await?, expected);
    assert!(ground.runs().live(&[]).await?.is_empty());
    Ok(())
}

async fn what_a_runner_owns_is_paged(ground: Ground) -> Kept {
    let runs = ground.admit_many(25).await?;
    let owner = ground.runner().await?;
    let mut claimed = ground.claim(owner).await?.runs;
    claimed.sort_by_key(|run| run.run);
    ground.admit_many(3).await?;
    ground.claim(ground.runner().await?).await?;
    let (mut owned, mut after): (Vec<_>, Option<RunId>) = (Vec::new(), None);
    loop {
        let page = ground.runs().owned(owner, after, 10).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.run);
        assert!(page.len() <= 10);
        owned.extend(page);
    }
    assert_eq!(runs_of(&owned), sorted(runs));
    assert_eq!(owned, claimed);
    assert!(ground.runs().owned(runner_id(), None, 10).await?.is_empty());
    Ok(())
}

async fn an_unsound_registration_is_refused(ground: Ground) -> Kept {
    let register = Register {
        name: "zero\0byte".to_owned(),
        ..registration(Span::from_secs(60))
    };
    assert_refused(ground.runs().register(register).await);
    assert!(ground.runs().runners(10).await?.is_empty());
    Ok(())
}

async fn what_a_runner_serves_can_be_said_anew(ground: Ground) -> Kept {
    let runner = ground.runner().await?;
    let serves = Serves::parse("queue other\nrealm python");
    assert_eq!(
        ground.runs().announce(runner, serves.clone()).await?,
        Ok(())
    );
    assert_eq!(
        ground
            .again()
            .await
            .runs()
            .runners(10)
            .await?
            .remove(0)
            .serves,
        serves
    );
    let (dead, _) = ground.expired_owner().await?;
    for gone in [dead, runner_id()] {
        assert_eq!(
            ground.runs().announce(gone, serves.clone()).await?,
            Err(SessionLost)
        );
    }
    Ok(())
}
