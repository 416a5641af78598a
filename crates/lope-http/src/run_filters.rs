//! The filters of the list of runs, as the words of its box and as parameters of its links: whatever
//! narrows the list is seen in the box.

use crate::call::ApiCall;
use crate::reply::encoded;

/// The parameters that runs are searched by. As words they begin with their name and a colon; a path
/// of the input is written as `input.PATH:VALUE`.
pub const FILTERS: [&str; 10] = [
    "status", "workflow", "queue", "tag", "parent", "since", "until", "key", "error", "input",
];

/// `status:failed tag:a=b` as parameters; a word alone names a workflow.
pub fn of_words(text: &str) -> Vec<(String, String)> {
    let parameter = |word: String| match word.split_once(':') {
        _ if word.starts_with("input.") && word.contains(':') => {
            ("input".to_owned(), word["input.".len()..].to_owned())
        }
        Some((name, value)) if name != "input" && FILTERS.contains(&name) => {
            (name.to_owned(), value.to_owned())
        }
        _ => ("workflow".to_owned(), word),
    };
    split(text).into_iter().map(parameter).collect()
}

/// Words between spaces. One that has spaces stands in quotes, and its own quotes are doubled.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => word.push('"'),
            '"' if quoted || word.is_empty() => quoted = !quoted,
            _ if letter.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Parameters as words; read again, they are the same.
pub fn words(parameters: &[(String, String)]) -> String {
    let word = |(name, value): &(String, String)| {
        let word = match name.as_str() {
            "input" => format!("input.{value}"),
            _ => format!("{name}:{value}"),
        };
        if word.contains(char::is_whitespace) {
            format!("\"{}\"", word.replace('"', "\"\""))
        } else {
            word
        }
    };
    parameters.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Everything that runs are searched by, of the parameters of a page, each once.
pub fn searched(call: &ApiCall) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for parameter in &call.query {
        let (name, value) = parameter;
        let is_filter = FILTERS.contains(&name.as_str()) && !value.is_empty();
        if is_filter && !all.contains(parameter) {
            all.push(parameter.clone());
        }
    }
    all
}

/// All of them, as the words that say so.
pub fn in_words(call: &ApiCall) -> String {
    words(&searched(call))
}

/// What the box says beside the workflow that is picked below it.
pub fn in_box(call: &ApiCall, picked: Option<&str>) -> String {
    let mut said = searched(call);
    said.retain(|(name, value)| name != "workflow" || Some(value.as_str()) != picked);
    words(&said)
}

/// All but one kind of them, as parameters of another page.
pub fn in_link(call: &ApiCall, without: &str) -> String {
    let all = searched(call);
    let kept = all.iter().filter(|(name, _)| name != without);
    kept.map(|(name, value)| format!("{}={}&", encoded(name), encoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        of.iter().map(owned).collect()
    }

    #[test]
    fn words_are_parameters_and_parameters_are_words() {
        for (text, parameters) in [
            ("status:failed", pairs(&[("status", "failed")])),
            ("workflow:orders", pairs(&[("workflow", "orders")])),
            (
                "tag:plan=pro input.user.plan:pro",
                pairs(&[("tag", "plan=pro"), ("input", "user.plan:pro")]),
            ),
            (
                "\"tag:name=Ada \"\"the\"\" first\" error:A\"B",
                pairs(&[("tag", "name=Ada \"the\" first"), ("error", "A\"B")]),
            ),
            ("", pairs(&[])),
        ] {
            assert_eq!(of_words(text), parameters, "{text}");
            assert_eq!(words(&parameters), text);
        }
        let alone = pairs(&[("workflow", "orders"), ("workflow", "a:b")]);
        assert_eq!(of_words("  orders   a:b "), alone);
        assert_eq!(
            of_words("\"two words"),
            pairs(&[("workflow", "two words")]),
            "what is not closed ends with the text"
        );
    }

    #[test]
    fn nothing_that_narrows_the_list_is_left_out_or_said_twice() {
        let call = ApiCall::of_query(&pairs(&[
            ("q", "tag:a=b"),
            ("workflow", "orders"),
            ("status", "failed"),
            ("after", "1.2"),
            ("status", "failed"),
            ("queue", ""),
            ("tag", "a=b"),
        ]));
        assert_eq!(in_words(&call), "workflow:orders status:failed tag:a=b");
        assert_eq!(in_box(&call, Some("orders")), "status:failed tag:a=b");
        assert_eq!(in_box(&call, None), in_words(&call));
        assert_eq!(in_link(&call, "status"), "workflow=orders&tag=a%3Db&");
    }
}
