//! Promises of definitions: kept by version, the latest found by name.

use super::ground::{Ground, all_bytes, assert_refused, version_of};
use super::promise::{Kept, promises};
use lope_store::error::StoreResult;
use lope_store::runs::{Deploy, StoredDefinition};

promises![
    a_definition_is_kept_under_its_version,
    the_version_deployed_last_is_the_latest,
    repeating_changes_nothing_but_the_latest,
    names_are_listed_in_order_and_paged,
    another_handle_sees_the_definition,
    an_unsound_definition_is_refused,
];

fn deploy(name: &str, text: &str) -> Deploy {
    Deploy {
        version: version_of(text),
        name: name.to_owned(),
        body: text.as_bytes().to_vec(),
    }
}

async fn latest(ground: &Ground, name: &str) -> StoreResult<StoredDefinition> {
    Ok(ground
        .runs()
        .latest(name)
        .await?
        .expect("the name was deployed"))
}

async fn a_definition_is_kept_under_its_version(ground: Ground) -> Kept {
    for body in [Vec::new(), all_bytes(), vec![7; 1_000_000]] {
        let version = version_of(&body.len().to_string());
        ground
            .runs()
            .deploy(Deploy {
                version,
                name: "bytes".to_owned(),
                body: body.clone(),
            })
            .await?;
        let stored = ground
            .runs()
            .definition(version)
            .await?
            .expect("it was deployed");
        assert_eq!((stored.version, stored.name.as_str()), (version, "bytes"));
        assert!(stored.body == body);
    }
    assert_eq!(ground.runs().definition(version_of("never")).await?, None);
    // Names come from data too: one that no store could keep is not there.
    for name in ["never", "zero\0byte"] {
        assert_eq!(ground.runs().latest(name).await?, None);
    }
    Ok(())
}

async fn the_version_deployed_last_is_the_latest(ground: Ground) -> Kept {
    for text in ["one", "two", "three"] {
        ground.runs().deploy(deploy("flow", text)).await?;
        assert_eq!(latest(&ground, "flow").await?.body, text.as_bytes());
    }
    ground.runs().deploy(deploy("other", "four")).await?;
    assert_eq!(latest(&ground, "flow").await?.body, b"three");
    Ok(())
}

async fn repeating_changes_nothing_but_the_latest(ground: Ground) -> Kept {
    for text in ["one", "two", "one", "one"] {
        ground.runs().deploy(deploy("flow", text)).await?;
    }
    assert_eq!(latest(&ground, "flow").await?.version, version_of("one"));
    let two = ground
        .runs()
        .definition(version_of("two"))
        .await?
        .expect("a version stays");
    assert_eq!(two.body, b"two");
    // A version is made of its body: a damaged one is mended by deploying it again.
    for body in ["damaged", "one"] {
        let again = Deploy {
            body: body.as_bytes().to_vec(),
            ..deploy("flow", "one")
        };
        ground.runs().deploy(again).await?;
        assert_eq!(latest(&ground, "flow").await?.body, body.as_bytes());
    }
    assert_eq!(ground.runs().definitions(None, 10).await?.len(), 1);
    Ok(())
}

async fn names_are_listed_in_order_and_paged(ground: Ground) -> Kept {
    assert!(ground.runs().definitions(None, 10).await?.is_empty());
    for name in ["pear", "apple", "fig", "Zebra", "apple-2"] {
        ground
            .runs()
            .deploy(deploy(name, &format!("{name} old")))
            .await?;
        ground
            .runs()
            .deploy(deploy(name, &format!("{name} young")))
            .await?;
    }
    let (mut names, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = ground.runs().definitions(after.as_deref(), 2).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        assert!(page.len() <= 2);
        assert!(
            page.iter()
                .all(|stored| stored.body == format!("{} young", stored.name).as_bytes())
        );
        names.extend(page.into_iter().map(|stored| stored.name));
    }
    assert_eq!(names, ["Zebra", "apple", "apple-2", "fig", "pear"]);
    assert!(ground.runs().definitions(None, 0).await?.is_empty());
    Ok(())
}

async fn another_handle_sees_the_definition(ground: Ground) -> Kept {
    let other = ground.again().await;
    ground.runs().deploy(deploy("flow", "text")).await?;
    assert_eq!(
        latest(&other, "flow").await?,
        latest(&ground, "flow").await?
    );
    Ok(())
}

async fn an_unsound_definition_is_refused(ground: Ground) -> Kept {
    assert_refused(ground.runs().deploy(deploy("", "text")).await);
    assert_refused(ground.runs().deploy(deploy("zero\0byte", "text")).await);
    assert_refused(ground.runs().deploy(deploy(&"n".repeat(201), "text")).await);
    assert!(ground.runs().definitions(None, 10).await?.is_empty());
    Ok(())
}
