//! Promises of the byte tables: which there are, what is read back, ranges.

use lope_model::limit;

use super::ground::{Ground, all_bytes, assert_refused};
use super::promise::{Kept, promises};
use lope_store::tables::{
    At, Batch, Direction, Manifest, Range, Row, ScopeRule, TableId, Tables, Write, after_prefix,
};

promises![
    a_fresh_store_has_the_seven_tables,
    tables_are_added_behind_those_there,
    opening_again_changes_nothing,
    a_table_in_another_place_is_refused,
    two_that_open_at_once_agree,
    what_is_put_is_read_back_overwritten_and_deleted,
    values_round_trip_byte_by_byte,
    the_largest_value_fits_and_one_byte_more_is_refused,
    keys_sort_as_bytes,
    a_key_too_long_is_refused,
    get_answers_in_order,
    a_range_is_half_open_both_ways,
    a_range_is_bounded,
    a_prefix_finds_what_begins_with_it,
    an_unknown_table_is_refused,
    count_is_exact,
    count_is_of_a_range_and_stops_at_its_limit,
    another_handle_sees_the_write,
    tables_do_not_meet,
];

const INBOX: TableId = TableId::INBOX;

fn at(key: &[u8]) -> At {
    At::new(INBOX, key)
}

fn put(key: &[u8], value: &[u8]) -> Write {
    Write::Put(at(key), value.to_vec())
}

async fn write(tables: &dyn Tables, writes: Vec<Write>) -> Kept {
    let replies = tables
        .commit(vec![Batch {
            guards: Vec::new(),
            writes,
        }])
        .await?;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    Ok(())
}

fn range(from: &[u8], to: Option<&[u8]>, direction: Direction) -> Range {
    Range {
        table: INBOX,
        from: from.to_vec(),
        to: to.map(<[u8]>::to_vec),
        direction,
        limit: 100,
    }
}

async fn keys(ground: &Ground, range: Range) -> lope_store::StoreResult<Vec<Vec<u8>>> {
    Ok(ground
        .tables()
        .range(range)
        .await?
        .into_iter()
        .map(|row| row.key)
        .collect())
}

fn cells() -> Manifest {
    Manifest::standard()
        .with("cells", Some(ScopeRule::Prefix(2)))
        .expect("a good manifest")
}

async fn a_fresh_store_has_the_seven_tables(ground: Ground) -> Kept {
    assert_eq!(ground.tables().manifest().await?, Manifest::standard());
    ground.tables().open(&Manifest::standard()).await?;
    assert_eq!(ground.tables().manifest().await?, Manifest::standard());
    for index in 0..7 {
        assert_eq!(
            ground.tables().count(Range::whole(TableId(index))).await?,
            0
        );
    }
    Ok(())
}

async fn tables_are_added_behind_those_there(ground: Ground) -> Kept {
    ground.tables().open(&cells()).await?;
    assert_eq!(ground.tables().manifest().await?, cells());
    assert_eq!(ground.again().await.tables().manifest().await?, cells());
    write(
        ground.tables(),
        vec![Write::Put(At::new(TableId(7), *b"ab1"), b"x".to_vec())],
    )
    .await?;
    assert_eq!(
        ground.get(&At::new(TableId(7), *b"ab1")).await?,
        Some(b"x".to_vec())
    );
    Ok(())
}

async fn opening_again_changes_nothing(ground: Ground) -> Kept {
    ground.tables().open(&cells()).await?;
    write(ground.tables(), vec![put(b"k", b"v")]).await?;
    ground.tables().open(&cells()).await?;
    ground.tables().open(&Manifest::standard()).await?;
    assert_eq!(ground.tables().manifest().await?, cells());
    assert_eq!(ground.get(&at(b"k")).await?, Some(b"v".to_vec()));
    Ok(())
}

async fn a_table_in_another_place_is_refused(ground: Ground) -> Kept {
    ground.tables().open(&cells()).await?;
    let other = Manifest::standard()
        .with("links", None)
        .expect("a good manifest");
    assert_refused(ground.tables().open(&other).await);
    let unscoped = Manifest::standard()
        .with("cells", None)
        .expect("a good manifest");
    assert_refused(ground.tables().open(&unscoped).await);
    assert_eq!(ground.tables().manifest().await?, cells());
    Ok(())
}

async fn two_that_open_at_once_agree(ground: Ground) -> Kept {
    let other = ground.again().await;
    let links = Manifest::standard()
        .with("links", None)
        .expect("a good manifest");
    let wanted = [cells(), links.clone(), cells(), links];
    let tasks: Vec<_> = wanted
        .into_iter()
        .zip([&ground, &other, &other, &ground])
        .map(|(manifest, on)| {
            let on = on.clone();
            tokio::spawn(async move {
                on.tables()
                    .open(&manifest)
                    .await
                    .is_ok()
                    .then_some(manifest)
            })
        })
        .collect();
    let mut agreed = Vec::new();
    for task in tasks {
        agreed.extend(task.await.expect("opening does not panic"));
    }
    let stored = ground.tables().manifest().await?;
    assert_eq!(
        agreed.len(),
        2,
        "one of two manifests wins, for both who ask for it"
    );
    assert!(agreed.iter().all(|manifest| *manifest == stored));
    assert_eq!(other.tables().manifest().await?, stored);
    Ok(())
}

async fn what_is_put_is_read_back_overwritten_and_deleted(ground: Ground) -> Kept {
    assert_eq!(ground.get(&at(b"k")).await?, None);
    write(ground.tables(), vec![put(b"k", b"one")]).await?;
    assert_eq!(ground.get(&at(b"k")).await?, Some(b"one".to_vec()));
    write(ground.tables(), vec![put(b"k", b"two")]).await?;
    assert_eq!(ground.get(&at(b"k")).await?, Some(b"two".to_vec()));
    write(ground.tables(), vec![Write::Delete(at(b"k"))]).await?;
    assert_eq!(ground.get(&at(b"k")).await?, None);
    write(ground.tables(), vec![Write::Delete(at(b"k"))]).await?;
    assert_eq!(ground.tables().count(Range::whole(INBOX)).await?, 0);
    Ok(())
}

async fn values_round_trip_byte_by_byte(ground: Ground) -> Kept {
    let large: Vec<u8> = (0..1_000_003_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for value in [
        Vec::new(),
        vec![0],
        vec![0; 3],
        all_bytes(),
        b"caf\xc3\xa9 \xff\xfe'\"\\".to_vec(),
        large,
    ] {
        write(ground.tables(), vec![put(b"k", &value)]).await?;
        assert!(
            ground.get(&at(b"k")).await?.as_ref() == Some(&value),
            "{} bytes differ",
            value.len()
        );
        let found = ground
            .tables()
            .range(range(b"k", None, Direction::Forward))
            .await?;
        assert!(
            found
                == vec![Row {
                    key: b"k".to_vec(),
                    value
                }]
        );
    }
    Ok(())
}

async fn the_largest_value_fits_and_one_byte_more_is_refused(ground: Ground) -> Kept {
    let mut value = vec![0xa5; limit::PAYLOAD_MAX];
    write(ground.tables(), vec![put(b"k", &value)]).await?;
    assert!(ground.get(&at(b"k")).await?.as_ref() == Some(&value));
    value.push(0);
    let batch = Batch {
        guards: Vec::new(),
        writes: vec![put(b"other", b""), Write::Put(at(b"k"), value)],
    };
    assert_refused(ground.tables().commit(vec![batch]).await);
    assert_eq!(
        ground.get(&at(b"k")).await?.map(|value| value.len()),
        Some(limit::PAYLOAD_MAX)
    );
    assert_eq!(ground.get(&at(b"other")).await?, None);
    Ok(())
}

async fn keys_sort_as_bytes(ground: Ground) -> Kept {
    let longest = vec![b'k'; limit::KEY_MAX - 8];
    let keys_in_order: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        vec![0, 0],
        vec![0, 1],
        vec![1],
        b"Z".to_vec(),
        b"a".to_vec(),
        longest,
        vec![0x7f],
        vec![0x80],
        vec![0xff],
        vec![0xff, 0],
        vec![0xff, 0xff],
    ];
    let writes = keys_in_order
        .iter()
        .rev()
        .map(|key| put(key, key))
        .collect();
    write(ground.tables(), writes).await?;
    assert_eq!(
        keys(&ground, range(b"", None, Direction::Forward)).await?,
        keys_in_order
    );
    let backward: Vec<_> = keys_in_order.iter().rev().cloned().collect();
    assert_eq!(
        keys(&ground, range(b"", None, Direction::Backward)).await?,
        backward
    );
    for key in keys_in_order {
        assert_eq!(ground.get(&at(&key)).await?, Some(key));
    }
    Ok(())
}

async fn a_key_too_long_is_refused(ground: Ground) -> Kept {
    let key = vec![b'k'; limit::KEY_MAX - 7];
    let batch = Batch {
        guards: Vec::new(),
        writes: vec![put(&key, b"")],
    };
    assert_refused(ground.tables().commit(vec![batch]).await);
    Ok(())
}

async fn get_answers_in_order(ground: Ground) -> Kept {
    let elsewhere = At::new(TableId::OUTBOX, *b"b");
    let writes = vec![
        put(b"a", b"1"),
        put(b"b", b"2"),
        Write::Put(elsewhere.clone(), b"3".to_vec()),
    ];
    write(ground.tables(), writes).await?;
    let wanted = [at(b"b"), elsewhere, at(b"none"), at(b"a"), at(b"b")];
    let found = ground.tables().get(&wanted).await?;
    let expected = [Some(b"2"), Some(b"3"), None, Some(b"1"), Some(b"2")];
    assert_eq!(
        found,
        expected.map(|value| value.map(|value| value.to_vec()))
    );
    assert!(ground.tables().get(&[]).await?.is_empty());
    Ok(())
}

async fn a_range_is_half_open_both_ways(ground: Ground) -> Kept {
    write(
        ground.tables(),
        [b"a", b"b", b"c", b"d"].map(|key| put(key, b"")).to_vec(),
    )
    .await?;
    let found = |from: &'static [u8], to: Option<&'static [u8]>, direction| {
        let ground = ground.clone();
        async move {
            Ok::<_, lope_store::StoreError>(
                keys(&ground, range(from, to, direction)).await?.concat(),
            )
        }
    };
    assert_eq!(found(b"b", Some(b"d"), Direction::Forward).await?, b"bc");
    assert_eq!(found(b"b", Some(b"d"), Direction::Backward).await?, b"cb");
    assert_eq!(found(b"", Some(b"bb"), Direction::Forward).await?, b"ab");
    assert_eq!(found(b"bb", None, Direction::Forward).await?, b"cd");
    assert_eq!(found(b"bb", None, Direction::Backward).await?, b"dc");
    assert_eq!(found(b"c", Some(b"c"), Direction::Forward).await?, b"");
    assert_eq!(found(b"d", Some(b"a"), Direction::Forward).await?, b"");
    assert_eq!(found(b"d", Some(b"a"), Direction::Backward).await?, b"");
    Ok(())
}

async fn a_range_is_bounded(ground: Ground) -> Kept {
    let number = limit::PAGE_MAX as u32 + 1;
    write(
        ground.tables(),
        (0..number).map(|i| put(&i.to_be_bytes(), b"")).collect(),
    )
    .await?;
    let limited = |limit, direction| Range {
        limit,
        ..range(b"", None, direction)
    };
    assert!(
        keys(&ground, limited(0, Direction::Forward))
            .await?
            .is_empty()
    );
    let first = keys(&ground, limited(2, Direction::Forward)).await?;
    assert_eq!(first, [0_u32, 1].map(|i| i.to_be_bytes().to_vec()));
    let last = keys(&ground, limited(2, Direction::Backward)).await?;
    assert_eq!(
        last,
        [number - 1, number - 2].map(|i| i.to_be_bytes().to_vec())
    );
    assert_eq!(
        keys(&ground, limited(usize::MAX, Direction::Forward))
            .await?
            .len(),
        limit::PAGE_MAX
    );
    assert_eq!(
        ground.tables().count(Range::whole(INBOX)).await?,
        u64::from(number)
    );
    Ok(())
}

async fn a_prefix_finds_what_begins_with_it(ground: Ground) -> Kept {
    let keys_there = [
        &b"a"[..],
        b"ab",
        b"ab\xff\xff",
        b"ac",
        b"\xff",
        b"\xff\xff\x01",
    ];
    write(
        ground.tables(),
        keys_there.map(|key| put(key, b"")).to_vec(),
    )
    .await?;
    let with = |prefix: &[u8]| {
        keys_there
            .iter()
            .filter(|key| key.starts_with(prefix))
            .map(|key| key.to_vec())
            .collect()
    };
    for prefix in [&b"a"[..], b"ab", b"\xff", b"\xff\xff", b"", b"zz"] {
        let expected: Vec<Vec<u8>> = with(prefix);
        assert_eq!(
            keys(&ground, Range::prefix(INBOX, prefix, 100)).await?,
            expected,
            "{prefix:?}"
        );
    }
    assert_eq!(after_prefix(b"\xff"), None);
    Ok(())
}

async fn an_unknown_table_is_refused(ground: Ground) -> Kept {
    let nowhere = At::new(TableId(7), *b"k");
    assert_refused(ground.tables().get(std::slice::from_ref(&nowhere)).await);
    assert_refused(
        ground
            .tables()
            .range(Range::prefix(nowhere.table, b"", 1))
            .await,
    );
    assert_refused(ground.tables().count(Range::whole(nowhere.table)).await);
    assert_refused(ground.tables().scope_version(&nowhere).await);
    let sound = Batch {
        guards: Vec::new(),
        writes: vec![put(b"k", b"v")],
    };
    let unsound = Batch {
        guards: Vec::new(),
        writes: vec![Write::Put(nowhere, Vec::new())],
    };
    assert_refused(ground.tables().commit(vec![sound, unsound]).await);
    assert_eq!(
        ground.get(&at(b"k")).await?,
        None,
        "a refused call writes nothing"
    );
    Ok(())
}

async fn count_is_exact(ground: Ground) -> Kept {
    write(
        ground.tables(),
        vec![put(b"a", b""), put(b"b", b""), put(b"a", b"again")],
    )
    .await?;
    assert_eq!(ground.tables().count(Range::whole(INBOX)).await?, 2);
    write(
        ground.tables(),
        vec![Write::Delete(at(b"a")), Write::Delete(at(b"never"))],
    )
    .await?;
    assert_eq!(ground.tables().count(Range::whole(INBOX)).await?, 1);
    assert_eq!(
        ground.tables().count(Range::whole(TableId::OUTBOX)).await?,
        0
    );
    Ok(())
}

async fn count_is_of_a_range_and_stops_at_its_limit(ground: Ground) -> Kept {
    let keys_there = [&b"a"[..], b"ab", b"ab\xff", b"ac", b"b"];
    write(
        ground.tables(),
        keys_there.map(|key| put(key, b"")).to_vec(),
    )
    .await?;
    let all = Range::whole(INBOX);
    for (range, expected) in [
        (Range::prefix(INBOX, b"ab", 100), 2),
        (Range::prefix(INBOX, b"a", 3), 3),
        (Range::prefix(INBOX, b"c", 3), 0),
        (
            Range {
                from: b"ac".to_vec(),
                ..all.clone()
            },
            2,
        ),
        (
            Range {
                from: b"b".to_vec(),
                to: Some(b"a".to_vec()),
                ..all.clone()
            },
            0,
        ),
        (
            Range {
                direction: Direction::Backward,
                limit: 4,
                ..all.clone()
            },
            4,
        ),
        (
            Range {
                limit: 0,
                ..all.clone()
            },
            0,
        ),
        (all, 5),
    ] {
        assert_eq!(
            ground.tables().count(range.clone()).await?,
            expected,
            "{range:?}"
        );
    }
    Ok(())
}

async fn another_handle_sees_the_write(ground: Ground) -> Kept {
    let other = ground.again().await;
    for round in 0..20_u32 {
        write(ground.tables(), vec![put(b"k", &round.to_be_bytes())]).await?;
        let reader = other.clone();
        let seen = tokio::spawn(async move { reader.get(&at(b"k")).await });
        let seen = seen.await.expect("reading does not panic")?;
        assert_eq!(seen, Some(round.to_be_bytes().to_vec()));
    }
    Ok(())
}

async fn tables_do_not_meet(ground: Ground) -> Kept {
    for index in 0..7 {
        write(
            ground.tables(),
            vec![Write::Put(
                At::new(TableId(index), *b"k"),
                vec![index as u8],
            )],
        )
        .await?;
    }
    for index in 0..7 {
        let table = TableId(index);
        assert_eq!(
            ground.get(&At::new(table, *b"k")).await?,
            Some(vec![index as u8])
        );
        assert_eq!(
            ground
                .tables()
                .range(Range::prefix(table, b"", 10))
                .await?
                .len(),
            1
        );
    }
    Ok(())
}
