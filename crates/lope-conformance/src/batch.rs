//! Promises of a batch: guards hold together, writes happen together, the failing guard is named,
//! sequences are unique.

use lope_model::{Digest, limit};

use super::ground::{Ground, assert_refused};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::tables::{
    Applied, At, Batch, BatchReply, Conflict, Guard, Manifest, Range, ScopeRule, TableId, Write,
};

promises![
    a_batch_applies_when_its_guards_hold,
    the_failing_guard_is_named_and_nothing_written,
    the_first_of_several_failing_guards_is_named,
    guards_look_at_what_was_there_before,
    create_never_overwrites,
    writes_apply_in_order,
    a_conflict_leaves_the_other_batches_alone,
    batches_of_one_call_exclude_each_other,
    nothing_is_an_answer_to_nothing,
    a_refused_batch_stops_the_call,
    appends_are_numbered_upwards,
    appends_tell_their_numbers_in_order,
    an_append_passes_over_a_key_that_is_there,
    a_conflict_appends_nothing,
    a_scope_grows_with_every_write_in_it,
    a_prefix_scope_holds_its_own_keys,
    a_scope_guard_sees_every_write,
    absence_without_a_write_needs_a_scope,
    guards_on_ranges_need_a_scope,
];

const STATE: TableId = TableId::APP_STATE;
const OUTBOX: TableId = TableId::OUTBOX;

fn at(key: &[u8]) -> At {
    At::new(OUTBOX, key)
}

fn state(key: &[u8]) -> At {
    At::new(STATE, key)
}

fn put(at: At, value: &[u8]) -> Write {
    Write::Put(at, value.to_vec())
}

fn append(prefix: &[u8], sequence: &[u8], value: &[u8]) -> Write {
    Write::Append {
        table: OUTBOX,
        prefix: prefix.to_vec(),
        sequence: sequence.to_vec(),
        value: value.to_vec(),
    }
}

async fn apply(ground: &Ground, guards: Vec<Guard>, writes: Vec<Write>) -> StoreResult<BatchReply> {
    let replies = ground
        .tables()
        .commit(vec![Batch { guards, writes }])
        .await?;
    let [reply]: [BatchReply; 1] = replies.try_into().expect("one batch, one reply");
    Ok(reply)
}

async fn applied(ground: &Ground, guards: Vec<Guard>, writes: Vec<Write>) -> StoreResult<Applied> {
    Ok(apply(ground, guards, writes)
        .await?
        .expect("the batch applies"))
}

/// The batch must fail at this guard, and leave no `trace`.
async fn conflicts(ground: &Ground, mut guards: Vec<Guard>, index: usize) -> Kept {
    let at_guard = guards[index].at().clone();
    let trace = at(b"trace");
    let reply = apply(ground, guards.clone(), vec![put(trace.clone(), b"")]).await?;
    assert_eq!(
        reply,
        Err(Conflict {
            index,
            at: at_guard
        }),
        "{guards:?}"
    );
    guards.truncate(index);
    assert_eq!(ground.get(&trace).await?, None);
    assert!(
        apply(ground, guards, vec![]).await?.is_ok(),
        "the guards before it hold"
    );
    Ok(())
}

async fn a_batch_applies_when_its_guards_hold(ground: Ground) -> Kept {
    applied(
        &ground,
        vec![],
        vec![put(at(b"k"), b"v"), put(at(b"empty"), b"")],
    )
    .await?;
    let guards = vec![
        Guard::Equals(at(b"k"), b"v".to_vec()),
        Guard::Unchanged(at(b"k"), Digest::of(b"v")),
        Guard::Equals(at(b"empty"), Vec::new()),
        Guard::Unchanged(at(b"empty"), Digest::of(b"")),
        Guard::Absent(at(b"fresh")),
        Guard::Absent(state(b"none")),
        Guard::ScopeUnchanged(state(b""), 0),
    ];
    applied(
        &ground,
        guards,
        vec![put(at(b"fresh"), b"made"), Write::Delete(at(b"k"))],
    )
    .await?;
    assert_eq!(ground.get(&at(b"fresh")).await?, Some(b"made".to_vec()));
    assert_eq!(ground.get(&at(b"k")).await?, None);
    Ok(())
}

async fn the_failing_guard_is_named_and_nothing_written(ground: Ground) -> Kept {
    applied(
        &ground,
        vec![],
        vec![put(at(b"k"), b"v"), put(state(b"s"), b"v")],
    )
    .await?;
    let good = Guard::Equals(at(b"k"), b"v".to_vec());
    let failing = [
        Guard::Equals(at(b"k"), b"w".to_vec()),
        Guard::Equals(at(b"k"), Vec::new()),
        Guard::Equals(at(b"none"), Vec::new()),
        Guard::Unchanged(at(b"k"), Digest::of(b"w")),
        Guard::Unchanged(at(b"none"), Digest::of(b"")),
        Guard::Absent(state(b"s")),
        Guard::ScopeUnchanged(state(b""), 0),
        Guard::ScopeUnchanged(state(b""), 99),
    ];
    for guard in failing {
        conflicts(&ground, vec![good.clone(), guard.clone()], 1).await?;
        conflicts(&ground, vec![guard, good.clone()], 0).await?;
    }
    Ok(())
}

async fn the_first_of_several_failing_guards_is_named(ground: Ground) -> Kept {
    applied(
        &ground,
        vec![],
        vec![put(at(b"a"), b"v"), put(at(b"z"), b"v")],
    )
    .await?;
    let wrong = |key: &[u8]| Guard::Equals(at(key), b"w".to_vec());
    let guards = vec![
        Guard::Equals(at(b"a"), b"v".to_vec()),
        wrong(b"z"),
        wrong(b"a"),
        wrong(b"none"),
    ];
    conflicts(&ground, guards, 1).await
}

async fn guards_look_at_what_was_there_before(ground: Ground) -> Kept {
    let absent = vec![Guard::Absent(at(b"k"))];
    applied(
        &ground,
        absent,
        vec![put(at(b"k"), b"1"), put(at(b"k"), b"2")],
    )
    .await?;
    let equals = vec![Guard::Equals(at(b"k"), b"2".to_vec())];
    applied(
        &ground,
        equals,
        vec![Write::Delete(at(b"k")), put(at(b"k"), b"3")],
    )
    .await?;
    assert_eq!(ground.get(&at(b"k")).await?, Some(b"3".to_vec()));
    Ok(())
}

async fn create_never_overwrites(ground: Ground) -> Kept {
    let create = |value: &[u8]| Write::Create(at(b"k"), value.to_vec());
    applied(&ground, vec![], vec![create(b"first")]).await?;
    let guards = vec![
        Guard::Equals(at(b"k"), b"first".to_vec()),
        Guard::Absent(at(b"other")),
    ];
    let writes = vec![
        put(at(b"other"), b""),
        create(b"second"),
        put(at(b"behind"), b""),
    ];
    let reply = apply(&ground, guards, writes).await?;
    assert_eq!(
        reply,
        Err(Conflict {
            index: 3,
            at: at(b"k")
        }),
        "two guards and one write stand before it"
    );
    assert_eq!(ground.get(&at(b"k")).await?, Some(b"first".to_vec()));
    assert_eq!(ground.get(&at(b"other")).await?, None);
    assert_eq!(ground.get(&at(b"behind")).await?, None);
    applied(&ground, vec![], vec![Write::Delete(at(b"k"))]).await?;
    applied(&ground, vec![], vec![create(b"third")]).await?;
    Ok(())
}

async fn writes_apply_in_order(ground: Ground) -> Kept {
    let create = |key: &[u8], value: &[u8]| Write::Create(at(key), value.to_vec());
    applied(&ground, vec![], vec![put(at(b"there"), b"old")]).await?;
    let writes = vec![
        put(at(b"a"), b"1"),
        put(at(b"a"), b"2"),
        put(at(b"b"), b"1"),
        Write::Delete(at(b"b")),
        Write::Delete(at(b"there")),
        create(b"there", b"young"),
        create(b"c", b"1"),
        put(at(b"c"), b"2"),
    ];
    applied(&ground, vec![], writes).await?;
    let found = ground
        .tables()
        .get(&[at(b"a"), at(b"b"), at(b"there"), at(b"c")])
        .await?;
    assert_eq!(
        found,
        [
            Some(b"2".to_vec()),
            None,
            Some(b"young".to_vec()),
            Some(b"2".to_vec())
        ]
    );
    let twice = vec![create(b"d", b"1"), create(b"d", b"2")];
    assert_eq!(
        apply(&ground, vec![], twice).await?,
        Err(Conflict {
            index: 1,
            at: at(b"d")
        })
    );
    assert_eq!(ground.get(&at(b"d")).await?, None);
    Ok(())
}

async fn a_conflict_leaves_the_other_batches_alone(ground: Ground) -> Kept {
    let batch = |key: &[u8], guards| Batch {
        guards,
        writes: vec![put(at(key), b"v")],
    };
    let bad = vec![Guard::Equals(at(b"none"), Vec::new())];
    let batches = vec![batch(b"a", vec![]), batch(b"b", bad), batch(b"c", vec![])];
    let replies = ground.tables().commit(batches).await?;
    assert_eq!(
        replies.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true]
    );
    let found = ground.tables().get(&[at(b"a"), at(b"b"), at(b"c")]).await?;
    assert_eq!(found, [Some(b"v".to_vec()), None, Some(b"v".to_vec())]);
    Ok(())
}

async fn batches_of_one_call_exclude_each_other(ground: Ground) -> Kept {
    let batch = |value: u8| Batch {
        guards: vec![Guard::Absent(at(b"k"))],
        writes: vec![put(at(b"k"), &[value])],
    };
    let replies = ground.tables().commit((0..10).map(batch).collect()).await?;
    let winners: Vec<u8> = (0..)
        .zip(&replies)
        .filter(|(_, reply)| reply.is_ok())
        .map(|(value, _)| value)
        .collect();
    assert_eq!(winners.len(), 1, "{replies:?}");
    assert_eq!(ground.get(&at(b"k")).await?, Some(winners));
    Ok(())
}

async fn nothing_is_an_answer_to_nothing(ground: Ground) -> Kept {
    assert!(ground.tables().commit(vec![]).await?.is_empty());
    assert_eq!(
        apply(&ground, vec![], vec![]).await?,
        Ok(Applied::default())
    );
    Ok(())
}

async fn a_refused_batch_stops_the_call(ground: Ground) -> Kept {
    let sound = Batch {
        guards: vec![],
        writes: vec![put(at(b"k"), b"v")],
    };
    let number = limit::COMMIT_ROWS_MAX as u32 + 1;
    let writes = (0..number)
        .map(|i| Write::Delete(at(&i.to_be_bytes())))
        .collect();
    assert_refused(
        ground
            .tables()
            .commit(vec![
                sound,
                Batch {
                    guards: vec![],
                    writes,
                },
            ])
            .await,
    );
    assert_eq!(ground.get(&at(b"k")).await?, None);
    Ok(())
}

async fn appends_are_numbered_upwards(ground: Ground) -> Kept {
    let mut last = 0;
    for round in 0..10_u8 {
        let numbers = applied(&ground, vec![], vec![append(b"p/", b"seq", &[round])])
            .await?
            .appended;
        assert_eq!(numbers.len(), 1);
        assert!(numbers[0] > last, "{} after {last}", numbers[0]);
        last = numbers[0];
        let key = [&b"p/"[..], &last.to_be_bytes()].concat();
        assert_eq!(ground.get(&at(&key)).await?, Some(vec![round]));
    }
    assert_eq!(ground.tables().count(Range::whole(OUTBOX)).await?, 10);
    Ok(())
}

async fn appends_tell_their_numbers_in_order(ground: Ground) -> Kept {
    let writes = vec![
        append(b"a", b"one", b"1"),
        put(at(b"between"), b""),
        append(b"b", b"one", b"2"),
        append(b"c", b"two", b"3"),
        append(b"a", b"one", b"4"),
    ];
    let numbers = applied(&ground, vec![], writes).await?.appended;
    assert_eq!(numbers.len(), 4);
    assert!(
        numbers[0] < numbers[1] && numbers[1] < numbers[3],
        "one sequence, whatever the prefix: {numbers:?}"
    );
    for (prefix, number, value) in [
        (b"a", 0, b"1"),
        (b"b", 1, b"2"),
        (b"c", 2, b"3"),
        (b"a", 3, b"4"),
    ] {
        let key = [&prefix[..], &numbers[number].to_be_bytes()].concat();
        assert_eq!(ground.get(&at(&key)).await?, Some(value.to_vec()));
    }
    Ok(())
}

async fn an_append_passes_over_a_key_that_is_there(ground: Ground) -> Kept {
    let first = applied(&ground, vec![], vec![append(b"p", b"seq", b"first")])
        .await?
        .appended[0];
    let key = |number: u64| at(&[&b"p"[..], &number.to_be_bytes()].concat());
    let taken = (first + 1..first + 4)
        .map(|number| put(key(number), b"taken"))
        .collect();
    applied(&ground, vec![], taken).await?;
    let numbers = applied(
        &ground,
        vec![],
        vec![append(b"p", b"seq", b"x"), append(b"p", b"seq", b"y")],
    )
    .await?
    .appended;
    assert!(
        numbers[0] >= first + 4 && numbers[1] > numbers[0],
        "{numbers:?}"
    );
    assert_eq!(ground.get(&key(first + 1)).await?, Some(b"taken".to_vec()));
    assert_eq!(ground.get(&key(numbers[1])).await?, Some(b"y".to_vec()));
    Ok(())
}

async fn a_conflict_appends_nothing(ground: Ground) -> Kept {
    let failing = vec![Guard::Equals(at(b"none"), Vec::new())];
    assert!(
        apply(&ground, failing, vec![append(b"p", b"seq", b"lost")])
            .await?
            .is_err()
    );
    assert_eq!(ground.tables().count(Range::whole(OUTBOX)).await?, 0);
    Ok(())
}

async fn a_scope_grows_with_every_write_in_it(ground: Ground) -> Kept {
    let scope = state(b"");
    let mut version = ground.tables().scope_version(&scope).await?;
    assert_eq!(version, 0);
    let sequence = b"of the scope".to_vec();
    let writes = [
        put(state(b"a"), b"1"),
        put(state(b"a"), b"1"),
        Write::Create(state(b"b"), Vec::new()),
        Write::Append {
            table: STATE,
            prefix: b"c".to_vec(),
            sequence,
            value: Vec::new(),
        },
        Write::Delete(state(b"a")),
    ];
    for write in writes {
        applied(&ground, vec![], vec![write.clone()]).await?;
        let grown = ground.tables().scope_version(&scope).await?;
        assert!(grown > version, "{write:?}");
        version = grown;
    }
    applied(&ground, vec![], vec![put(at(b"elsewhere"), b"")]).await?;
    assert!(
        apply(
            &ground,
            vec![Guard::Absent(state(b"b"))],
            vec![put(state(b"b"), b"")]
        )
        .await?
        .is_err()
    );
    assert_eq!(ground.tables().scope_version(&scope).await?, version);
    Ok(())
}

async fn a_prefix_scope_holds_its_own_keys(ground: Ground) -> Kept {
    let cells = Manifest::standard()
        .with("cells", Some(ScopeRule::Prefix(2)))
        .expect("a good manifest");
    ground.tables().open(&cells).await?;
    let cell = |key: &[u8]| At::new(TableId(7), key);
    applied(
        &ground,
        vec![],
        vec![put(cell(b"ab-1"), b""), put(cell(b"a"), b"")],
    )
    .await?;
    let version = ground.tables().scope_version(&cell(b"ab")).await?;
    assert!(version > 0);
    assert_eq!(ground.tables().scope_version(&cell(b"cd")).await?, 0);
    assert!(
        ground.tables().scope_version(&cell(b"a")).await? > 0,
        "a shorter key is a scope of its own"
    );
    applied(
        &ground,
        vec![],
        vec![put(cell(b"cd-1"), b""), put(cell(b"a"), b"again")],
    )
    .await?;
    assert_eq!(ground.tables().scope_version(&cell(b"ab")).await?, version);
    let unchanged = vec![
        Guard::ScopeUnchanged(cell(b"ab"), version),
        Guard::Absent(cell(b"ab-2")),
    ];
    applied(&ground, unchanged.clone(), vec![put(cell(b"cd-2"), b"")]).await?;
    applied(&ground, unchanged.clone(), vec![put(cell(b"ab-3"), b"")]).await?;
    conflicts(&ground, unchanged, 0).await
}

async fn a_scope_guard_sees_every_write(ground: Ground) -> Kept {
    for write in [
        put(state(b"k"), b"1"),
        Write::Delete(state(b"k")),
        Write::Create(state(b"k"), Vec::new()),
    ] {
        let version = ground.tables().scope_version(&state(b"")).await?;
        applied(
            &ground,
            vec![Guard::ScopeUnchanged(state(b""), version)],
            vec![write],
        )
        .await?;
        conflicts(&ground, vec![Guard::ScopeUnchanged(state(b""), version)], 0).await?;
    }
    Ok(())
}

async fn absence_without_a_write_needs_a_scope(ground: Ground) -> Kept {
    let unscoped = Batch {
        guards: vec![Guard::Absent(at(b"k"))],
        writes: vec![put(at(b"other"), b"")],
    };
    assert_refused(ground.tables().commit(vec![unscoped]).await);
    applied(
        &ground,
        vec![Guard::Absent(state(b"k"))],
        vec![put(at(b"other"), b"")],
    )
    .await?;
    applied(
        &ground,
        vec![Guard::Absent(at(b"k"))],
        vec![Write::Create(at(b"k"), Vec::new())],
    )
    .await?;
    Ok(())
}

async fn guards_on_ranges_need_a_scope(ground: Ground) -> Kept {
    let batch = Batch {
        guards: vec![Guard::ScopeUnchanged(at(b""), 0)],
        writes: vec![],
    };
    assert_refused(ground.tables().commit(vec![batch]).await);
    assert_refused(ground.tables().scope_version(&at(b"")).await);
    Ok(())
}
