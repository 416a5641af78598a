//! The address of a request, as an error shows it: as the workflow wrote it, without its secrets.
//!
//! A parsed address is another text: its scheme and host in lower case, without dot segments, with
//! escapes. A secret would not be found in it any more, so no error shows one.

use std::fmt;

use lope_model::masks::{MASK, Masks};
use reqwest::Url;

/// An address without secrets.
#[derive(Debug)]
pub(super) struct ShownAddress {
    text: String,
    /// The host as it is parsed, if the text does not show it.
    hidden_host: Option<String>,
}

impl ShownAddress {
    pub(super) fn of(written: &str, masks: &Masks) -> Self {
        // Masked first: a secret may reach from the password into the host.
        let text = without_user(&masks.hide(written));
        let shown = text.to_ascii_lowercase();
        let parsed = Url::parse(written).ok();
        let host = parsed.as_ref().and_then(Url::host_str);
        Self {
            hidden_host: host
                .filter(|host| !host.is_empty() && !shown.contains(*host))
                .map(str::to_owned),
            text,
        }
    }

    /// Words about a connection, which may name the host (those about a certificate do).
    pub(super) fn hide_host(&self, words: &str) -> String {
        match &self.hidden_host {
            Some(host) => words.replace(host.as_str(), MASK),
            None => words.to_owned(),
        }
    }
}

impl fmt::Display for ShownAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The address without a user's name and password.
fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once(':') else {
        return address.to_owned();
    };
    let rest = rest.trim_start_matches(['/', '\\']);
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_address_is_shown_as_it_was_written_without_secrets_and_passwords() {
        for (secret, written, shown) in [
            ("SeCrEt", "http://SeCrEt.invalid/x", "http://***.invalid/x"),
            ("SeCrEt", "SeCrEt://Host/x", "***://Host/x"),
            ("a/../top", "http://h/a/../top", "http://h/***"),
            ("s\"qu\\o/x", "http://h/s\"qu\\o/x?q", "http://h/***?q"),
            ("none", "HTTP://u:p@w@Host/a/../b@c", "HTTP://Host/a/../b@c"),
            ("none", "http:u:p@host?u@", "http://host?u@"),
            ("p@host", "http://u:p@host/x", "http://u:***/x"),
            ("none", "nonsense", "nonsense"),
        ] {
            let masks = Masks::of([Arc::from(secret)]);
            assert_eq!(ShownAddress::of(written, &masks).to_string(), shown);
        }
    }

    #[test]
    fn a_host_that_is_a_secret_is_hidden_in_what_is_said_about_it() {
        let masks = Masks::of([Arc::from("SeCrEt")]);
        let said =
            |written| ShownAddress::of(written, &masks).hide_host("not valid for 'secret.example'");
        assert_eq!(said("https://SeCrEt.example/"), "not valid for '***'");
        let plain = Masks::default();
        assert_eq!(
            ShownAddress::of("https://Secret.example/", &plain)
                .hide_host("not valid for 'secret.example'"),
            "not valid for 'secret.example'"
        );
    }
}
