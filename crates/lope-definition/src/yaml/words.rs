//! The words of workflow files that several readers must know.

/// Every kind of step with the keys that only it has.
pub(super) const KINDS: [(&str, &[&str]); 23] = [
    ("action", &["with"]),
    ("run", &["cwd", "env", "stdin", "shell"]),
    ("js", &["with"]),
    ("http", &["accept"]),
    ("agent", &["budget", "silence"]),
    ("let", &[]),
    ("if", &["steps", "else", "collect"]),
    ("switch", &["else"]),
    (
        "each",
        &["as", "index", "parallel", "steps", "collect", "on_error"],
    ),
    ("while", &["steps", "max"]),
    ("try", &["catch", "finally"]),
    ("sleep", &[]),
    ("until", &[]),
    ("wait", &["timeout", "default"]),
    ("workflow", &["with", "detach"]),
    ("send", &[]),
    ("state", &[]),
    ("race", &[]),
    ("all", &["on_error"]),
    ("return", &[]),
    ("raise", &[]),
    ("break", &[]),
    ("continue", &[]),
];
