//! `--server https://…`: a server with a certificate that nobody signed, and whom the command line
//! believes that it is the server.

use std::path::{Path, PathBuf};

use crate::server::Up;
use crate::stage::{Home, said};

fn certificate(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of)
}

/// A server that speaks TLS, and where it is.
fn encrypted(home: &Home) -> (Up, String) {
    let own = certificate("lope-server/tests/certificate");
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    let config = format!(
        "server: {{ certificate: '{0}/localhost.pem', key: '{0}/localhost.key' }}\n",
        own.display()
    );
    home.file(".lope/config.yaml", &config);
    let up = Up::start(home, &["--http", "127.0.0.1:0"]);
    let port = up.address.rsplit(':').next().unwrap().to_owned();
    (up, format!("https://localhost:{port}"))
}

#[test]
fn a_server_that_speaks_tls_is_believed_if_its_certificate_is_named() {
    let there = Home::new();
    let (_up, url) = encrypted(&there);
    let home = Home::new();
    let own = certificate("lope-server/tests/certificate/localhost.pem");
    let own = own.to_str().unwrap();
    home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    let words = ["run", "hi.yaml", "--server", &url];

    let strange = home.lope(&words);
    assert_eq!((strange.code, strange.out.as_str()), (4, ""), "{strange:?}");
    assert!(strange.err.contains("certificate"), "{strange:?}");

    let flagged = home.lope(&[&words[..], &["--server-ca", own]].concat());
    assert_eq!(flagged.done().out, "1\n");
    for variable in ["LOPE_SERVER_CA", "SSL_CERT_FILE"] {
        let mut command = home.command(&["runs", "list", "--json"]);
        let command = command.env("LOPE_SERVER", &url).env(variable, own);
        let listed = said(command).done().json();
        assert_eq!(listed[0]["workflow"], "hi", "{variable}");
    }

    // Whoever is named is believed alone: another certificate of the same name is not this one's.
    let other = certificate("lope-workers/tests/certificates/localhost.pem");
    let mut command = home.command(&["runs", "list", "--server", &url]);
    command.env("SSL_CERT_FILE", own);
    let refused = said(command.args(["--server-ca", other.to_str().unwrap()]));
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("certificate"), "{refused:?}");
}

#[test]
fn a_file_of_certificates_that_holds_none_is_refused() {
    let home = Home::new();
    home.file("none.pem", "nothing\n");
    for (file, words) in [
        ("none.pem", "holds no certificate in PEM"),
        ("missing.pem", "--server-ca: missing.pem"),
    ] {
        let bad = home.lope(&[
            "runs",
            "list",
            "--server",
            "https://localhost:1",
            "--server-ca",
            file,
        ]);
        assert_eq!(bad.code, 2, "{bad:?}");
        assert!(bad.err.contains(words), "{bad:?}");
    }
}
