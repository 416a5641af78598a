//! Who comes in, and what they may do.

use lope::tokens::Right;
use lope_server::{Authentication, openapi_document};
use serde_json::json;

use super::fixture::http::Request;
use super::fixture::{Ground, settings};

const WAITS: &str = "name: waits\nsteps: { a: { wait: never } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_a_reachable_server_tells_nothing_but_its_health() {
    let ground = Ground::with(settings("0.0.0.0:0")).await;
    assert_eq!(ground.get("/healthz").await.status, 200);
    assert_eq!(ground.get("/readyz").await.status, 200);
    let document = openapi_document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let path = path.replace(['{', '}'], "");
            if ["/healthz", "/readyz"].contains(&path.as_str()) {
                continue;
            }
            let request = Request::new(&method.to_uppercase(), &path);
            let answer = ground.send(request.clone()).await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text());
            // Whoever goes on with a wrong one is told to wait.
            let answer = ground.send(request.token("lope_wrong")).await;
            assert!([401, 429].contains(&answer.status), "{method} {path}");
        }
    }
    assert_eq!(ground.get("/api/nothing").await.status, 401);
    assert_eq!(ground.get("/nothing").await.status, 401);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_allows_what_it_says_and_no_more() {
    let ground = Ground::with(settings("0.0.0.0:0")).await;
    let read = ground.token("reader", Right::Read).await;
    let act = ground.token("actor", Right::Act).await;
    let admin = ground.token("boss", Right::Admin).await;
    let deploy = |token: &str| {
        let request = Request::post("/api/workflows").body("application/yaml", WAITS);
        request.token(token)
    };
    let start = |token: &str| {
        let request = Request::post("/api/runs").json(&json!({ "workflow": "waits" }));
        request.token(token)
    };
    assert_eq!(ground.send(deploy(&read)).await.status, 403);
    assert_eq!(ground.send(deploy(&act)).await.status, 403);
    assert_eq!(ground.send(deploy(&admin)).await.status, 201);
    assert_eq!(ground.send(start(&read)).await.status, 403);
    assert_eq!(ground.send(start(&act)).await.status, 201);
    assert_eq!(
        ground
            .send(Request::get("/api/runs").token(&read))
            .await
            .status,
        200
    );
    // A reader can act by no request at all. What a command takes is held against its verb: see
    // `remote` of the command line's tests.
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap().iter();
    for (path, operations) in paths.filter(|(path, _)| *path != "/api/commands") {
        for (method, operation) in operations.as_object().unwrap() {
            let right = operation["x-right"].as_str().unwrap_or("read");
            if method == "get" && right == "read" {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let request = Request::new(&method.to_uppercase(), &path).token(&read);
            assert_eq!(ground.send(request).await.status, 403, "{method} {path}");
        }
    }
    // A token that is taken away opens nothing.
    assert!(
        ground
            .client
            .revoke_token("reader")
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        ground
            .send(Request::get("/api/runs").token(&read))
            .await
            .status,
        401
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_kept_as_digests() {
    let ground = Ground::open().await;
    let text = ground.token("one", Right::Act).await;
    let known = ground.client.tokens().await.unwrap();
    assert_eq!(
        (known[0].name.as_str(), known[0].right),
        ("one", Right::Act)
    );
    assert!(ground.client.add_token("one", Right::Read).await.is_err());
    for file in std::fs::read_dir(ground.folder.path()).unwrap() {
        let path = file.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        let secret = text.trim_start_matches("lope_").as_bytes();
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!found, "{} holds the token", path.display());
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_loopback_a_token_is_needed_only_where_it_is_asked_for() {
    let ground = Ground::open().await;
    assert_eq!(ground.get("/api/runs").await.status, 200);
    // One that is given counts: a reader's does not become more here.
    let read = ground.token("reader", Right::Read).await;
    let post = Request::post("/api/runs").json(&json!({ "workflow": "x" }));
    assert_eq!(ground.send(post.token(&read)).await.status, 403);
    assert_eq!(
        ground
            .send(Request::get("/api/runs").token("lope_x"))
            .await
            .status,
        401
    );
    ground.close().await;
    let mut strict = settings("127.0.0.1:0");
    strict.authentication = Authentication::Always;
    let ground = Ground::with(strict).await;
    assert_eq!(ground.get("/api/runs").await.status, 401);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_other_sites_are_refused_and_those_of_proxies_need_a_token() {
    let mut named = settings("127.0.0.1:0");
    named.hosts = vec!["lope.example.com".to_owned()];
    let ground = Ground::with(named).await;
    let get = |host: &str| Request::get("/api/runs").header("host", host);
    for host in ["localhost:7420", "127.0.0.1", "[::1]:80", "lope.localhost"] {
        assert_eq!(ground.send(get(host)).await.status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:7420",
        "localhost.evil.example",
        "192.168.1.4",
    ] {
        assert_eq!(ground.send(get(host)).await.status, 403, "{host}");
    }
    assert_eq!(ground.send(get("lope.example.com")).await.status, 401);
    let token = ground.token("one", Right::Read).await;
    assert_eq!(
        ground
            .send(get("lope.example.com").token(&token))
            .await
            .status,
        200
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_cannot_act() {
    let ground = Ground::open().await;
    ground.deploy(WAITS).await;
    let address = ground.server.address().to_string();
    let start = || Request::post("/api/runs").json(&json!({ "workflow": "waits" }));
    let own = format!("http://{address}");
    let allowed = [
        start(),
        start().header("origin", &own),
        start().header("sec-fetch-site", "same-origin"),
        start().header("sec-fetch-site", "none"),
    ];
    for request in allowed {
        assert_eq!(
            ground.send(request.clone()).await.status,
            201,
            "{request:?}"
        );
    }
    let refused = [
        start().header("origin", "https://evil.example"),
        start().header("origin", "null"),
        start()
            .header("origin", &own)
            .header("sec-fetch-site", "cross-site"),
        start().header("sec-fetch-site", "same-site"),
        // A cookie goes along by itself; whoever brings one says where it comes from.
        start().header("cookie", "lope_token=lope_x"),
    ];
    for request in refused {
        assert_eq!(
            ground.send(request.clone()).await.status,
            403,
            "{request:?}"
        );
    }
    let count = ground.get("/api/runs").await.json()["runs"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(count, 4);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_what_pages_need_not() {
    let ground = Ground::open().await;
    for path in ["/healthz", "/api/runs", "/api/nothing", "/api/runs/none"] {
        let answer = ground.get(path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    ground.close().await;
}

/// Cookies know no ports: a browser brings that of another server on this machine along.
#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_of_another_server_does_not_shut_an_open_one() {
    let ground = Ground::open().await;
    let own = ground.token("viewer", Right::Read).await;
    let foreign = |path: &str| Request::get(path).header("cookie", "lope_token=lope_foreign");
    for path in ["/", "/api/runs"] {
        assert_eq!(ground.send(foreign(path)).await.status, 200, "{path}");
    }
    // Its own says who asks, and a token that was meant for it and is wrong is refused.
    let cookie = format!("lope_token={own}");
    let known = Request::post("/api/runs")
        .json(&json!({ "workflow": "waits" }))
        .header("cookie", &cookie)
        .header("sec-fetch-site", "same-origin");
    assert_eq!(ground.send(known).await.status, 403);
    let wrong = Request::get("/api/runs").token("lope_wrong");
    assert_eq!(ground.send(wrong).await.status, 401);
    ground.close().await;
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = Authentication::Always;
    let ground = Ground::with(guarded).await;
    assert_eq!(ground.send(foreign("/api/runs")).await.status, 401);
    ground.close().await;
}
