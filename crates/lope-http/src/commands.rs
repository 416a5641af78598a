//! Commands that pages offer to be copied: what strangers wrote into a name or a filter is one word
//! of them, whatever it holds.

use std::fmt::Write;

use crate::call::ApiCall;
use crate::context::ServerContext;

/// A text as one word of a shell. Letters that a terminal would act upon are written as escapes.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.chars().any(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut text = String::from("$'");
    for c in word.chars() {
        match c {
            '\\' | '\'' => {
                text.push('\\');
                text.push(c);
            }
            '\n' => text.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}

/// A command and the name that it is about, which is no option however it begins.
pub fn command(command: &str, name: &str) -> String {
    let end = if name.starts_with('-') { "-- " } else { "" };
    format!("{command} {end}{}", quoted(name))
}

/// The request as `curl` makes it, under the name by which whoever looks came here. Options stand
/// before the address.
pub fn curl(context: &ServerContext, call: &ApiCall, options: &str, path: &str) -> String {
    let forwarded = call.header("x-forwarded-proto") == Some("https");
    let scheme = if forwarded || context.settings.certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let listening = context.address.to_string();
    let host = call.header("host").unwrap_or(&listening);
    let token = match call.caller.token {
        Some(_) => "-H \"authorization: Bearer $LOPE_TOKEN\" ",
        None => "",
    };
    let space = if options.is_empty() { "" } else { " " };
    let address = format!("{scheme}://{host}{}", context.path(path));
    format!("curl {token}{options}{space}{}", quoted(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_whatever_it_holds() {
        for (word, wanted) in [
            ("orders", "orders"),
            ("shop/orders-2.new", "shop/orders-2.new"),
            ("", "''"),
            ("two words", "'two words'"),
            ("$(touch x)", "'$(touch x)'"),
            ("`id`; rm -rf ~ #", "'`id`; rm -rf ~ #'"),
            ("it's", "'it'\\''s'"),
            ("a\u{3}\nb'\\", "$'a\\u0003\\nb\\'\\\\'"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
        assert_eq!(command("lope start", "--help"), "lope start -- --help");
        assert_eq!(command("lope start", "a b"), "lope start 'a b'");
    }
}
