//! Shapes of what is kept beside runs: mailboxes, the store, tokens, bulk actions, values.

use super::ShapeFields;

pub(super) const SHAPES: &[(&str, ShapeFields)] = &[
    (
        "MailboxEvent",
        &[
            ("worker?", "integer|null"),
            ("inbox?", "integer"),
            ("dead_letters?", "integer"),
            ("timers?", "integer"),
        ],
    ),
    (
        "ScheduleEvent",
        &[
            ("name?", "string"),
            ("workflow?", "string"),
            ("status?", "string"),
        ],
    ),
    (
        "CommandOrder",
        &[
            ("arguments?", "[string]"),
            ("attachments?", "any"),
            ("width?", "integer|null"),
            ("called?", "string"),
            ("folder?", "string"),
            ("task?", "string|null"),
            ("last?", "any"),
        ],
    ),
    (
        "MailboxStats",
        &[
            ("inbox", "integer"),
            ("inbox_more", "boolean"),
            ("timers", "integer"),
            ("timers_more", "boolean"),
            ("outbox", "integer"),
            ("outbox_more", "boolean"),
            ("dedupe", "integer"),
            ("dedupe_more", "boolean"),
            ("dead_letters", "integer"),
            ("dead_letters_more", "boolean"),
            ("workers", "[MailboxDepth]"),
        ],
    ),
    (
        "MailboxDepth",
        &[
            ("worker", "integer"),
            ("inbox", "integer"),
            ("inbox_at_most", "boolean"),
            ("dead_letters", "integer"),
            ("dead_letters_at_most", "boolean"),
        ],
    ),
    (
        "MessagePage",
        &[("messages", "[Message]"), ("next", "integer|null")],
    ),
    (
        "Message",
        &[
            ("worker", "integer"),
            ("seq", "integer"),
            ("message_id", "string|null"),
            ("kind?", "string"),
            ("payload?", "string"),
            ("payload_hex?", "string"),
            ("state", "string"),
            ("lease", "any"),
        ],
    ),
    ("TimerPage", &[("timers", "[Timer]")]),
    (
        "Timer",
        &[
            ("worker", "integer"),
            ("seq", "integer"),
            ("due", "time"),
            ("message_id", "string|null"),
            ("payload?", "string"),
        ],
    ),
    (
        "DeadLetterPage",
        &[("dead_letters", "[DeadLetter]"), ("next", "integer|null")],
    ),
    (
        "DeadLetter",
        &[
            ("worker", "integer"),
            ("seq", "integer"),
            ("message_id", "string|null"),
            ("reason", "string"),
            ("attempts", "integer"),
            ("failed_at", "time"),
            ("payload?", "string"),
        ],
    ),
    (
        "OutgoingMessage",
        &[
            ("payload", "string"),
            ("id?", "string"),
            ("kind?", "string"),
            ("dedupe?", "boolean"),
            ("priority?", "boolean"),
            ("at?", "string"),
            ("from?", "integer"),
            ("ack?", "boolean"),
            ("trace?", "string"),
        ],
    ),
    (
        "SentMessage",
        &[
            ("worker", "integer"),
            ("seq", "integer"),
            ("message_id", "string"),
            ("kind", "string"),
            ("due", "time|null"),
        ],
    ),
    ("Replay", &[("seq?", "integer"), ("all?", "boolean")]),
    (
        "Replayed",
        &[
            ("worker", "integer"),
            ("replayed", "integer"),
            ("seq?", "integer"),
            ("new_seq?", "integer"),
        ],
    ),
    (
        "Drop",
        &[
            ("seq?", "integer"),
            ("all?", "boolean"),
            ("what?", "string"),
        ],
    ),
    (
        "Dropped",
        &[
            ("worker", "integer"),
            ("dropped", "integer"),
            ("seq", "integer|null"),
        ],
    ),
    (
        "ScheduleRequest",
        &[
            ("name", "string"),
            ("workflow", "string"),
            ("cron?", "string"),
            ("zone?", "string"),
            ("every?", "string"),
            ("jitter?", "string"),
            ("from?", "string"),
            ("until?", "string"),
            ("overlap?", "string"),
            ("catch_up?", "string"),
            ("input?", "any"),
            ("queue?", "string"),
            ("priority?", "integer"),
            ("tags?", "object"),
            ("paused?", "boolean"),
            ("replace?", "boolean"),
        ],
    ),
    ("StoreSummary", &[("now", "time"), ("schema", "string")]),
    (
        "StoreCheck",
        &[("sound", "boolean"), ("findings", "[StoreFinding]")],
    ),
    (
        "StoreFinding",
        &[
            ("rule", "string"),
            ("message", "string"),
            ("hint", "string"),
        ],
    ),
    (
        "Prune",
        &[
            ("older?", "string"),
            ("status?", "[string]"),
            ("workflow?", "string"),
            ("dry_run?", "boolean"),
            ("compact?", "boolean"),
        ],
    ),
    (
        "Pruned",
        &[
            ("runs", "integer"),
            ("before", "time"),
            ("dry_run", "boolean"),
            ("freed", "integer|null"),
            ("space_rows", "integer"),
        ],
    ),
    (
        "RemovedRun",
        &[("run_id", "string"), ("removed", "boolean")],
    ),
    (
        "Token",
        &[
            ("id", "string"),
            ("name", "string"),
            ("right", "string"),
            ("added_at", "time"),
        ],
    ),
    ("TokenPage", &[("tokens", "[Token]")]),
    ("TokenRequest", &[("name", "string"), ("right?", "string")]),
    (
        "FreshToken",
        &[
            ("id", "string"),
            ("name", "string"),
            ("right", "string"),
            ("added_at", "time"),
            ("token", "string"),
        ],
    ),
    (
        "BulkRequest",
        &[
            ("action", "string"),
            ("filter", "object"),
            ("dry_run?", "boolean"),
        ],
    ),
    (
        "BulkAction",
        &[
            ("id", "string"),
            ("action", "string"),
            ("filter", "[string]"),
            ("by", "string|null"),
            ("status", "string"),
            ("created_at", "time"),
            ("finished_at", "time|null"),
            ("found", "integer"),
            ("more", "boolean"),
            ("done", "integer"),
            ("skipped", "integer"),
            ("failed", "integer"),
        ],
    ),
    ("BulkActionPage", &[("bulk_actions", "[BulkAction]")]),
    (
        "BulkRunPage",
        &[("runs", "[BulkRun]"), ("next", "integer|null")],
    ),
    (
        "BulkRun",
        &[
            ("run_id", "string"),
            ("status", "string"),
            ("message", "string|null"),
        ],
    ),
    (
        "ValuePiece",
        &[
            ("text", "string"),
            ("from", "integer"),
            ("to", "integer"),
            ("total", "integer"),
        ],
    ),
];
