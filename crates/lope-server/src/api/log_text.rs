//! The logs of a run as one text, whole, one log after the other: for keeping, not for looking. However
//! long they are, a piece is held of them.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use lope::Redaction;
use lope::workers::LogEntry;
use lope_model::masks::MaskedStream;
use tokio::sync::mpsc;

use super::find;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{count, text};
use crate::reply;

/// Bytes of a log that are read at once.
const PIECE: usize = 64 * 1024;

pub(crate) const ENDPOINTS: &[Endpoint] = &[Endpoint::get(
    "/api/runs/{id}/logs/text",
    "downloadLogs",
    |context, call| Box::pin(download(context, call)),
)
.about("What a run's steps wrote, on this machine: every log from its beginning to its end, as one text.")
.query(&[
    text("execution", "Of this execution alone, by its path"),
    count("attempt", "Of this attempt alone"),
])
.answers(Answer::Text(&["text/plain"]))];

async fn download(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let attempt: Option<u32> = call.number("attempt")?;
    let execution = call.query("execution").map(str::to_owned);
    let (record, redaction) = find::shown(&context, &call).await?;
    let logs = context.logs.clone();
    // One piece waits while another is being read by the client: no more is held of them.
    let (texts, received) = mpsc::channel::<Bytes>(1);
    tokio::task::spawn_blocking(move || {
        let entries = logs.of_run(record.run).unwrap_or_default();
        let asked = entries.iter().filter(|entry| {
            attempt.is_none_or(|attempt| entry.attempt == attempt)
                && execution
                    .as_deref()
                    .is_none_or(|path| entry.execution == path)
        });
        for entry in asked {
            let mut put = |piece: Vec<u8>| texts.blocking_send(piece.into()).is_ok();
            if !tell(entry, redaction.as_ref(), &mut put) {
                return;
            }
        }
    });
    let body = futures_util::stream::unfold(received, |mut received| async move {
        let text = received.recv().await?;
        Some((Ok::<Bytes, Infallible>(text), received))
    });
    let mut reply = reply::text("text/plain; charset=utf-8", Body::from_stream(body));
    let saved = HeaderValue::from_static("attachment; filename=\"log.txt\"");
    reply.headers_mut().insert("content-disposition", saved);
    Ok(reply)
}

/// A log under its name, as it may be shown. False: whoever asked has gone away.
fn tell(
    entry: &LogEntry,
    redaction: Option<&Redaction>,
    put: &mut dyn FnMut(Vec<u8>) -> bool,
) -> bool {
    let name = format!("== {} attempt {} ==\n", entry.execution, entry.attempt);
    if !put(name.into_bytes()) {
        return false;
    }
    if let Some(redaction) = redaction.filter(|it| it.hides_log(&entry.execution)) {
        return put(format!("{}\n", redaction.left_out()).into_bytes());
    }
    match File::open(&entry.path) {
        Ok(log) => pieces(log, redaction.map(Redaction::stream), put),
        Err(_) => true,
    }
}

/// A log piece by piece, however long it is, and the end of its last line. What must not be shown may
/// stand across pieces.
fn pieces(
    mut log: impl Read,
    mut masked: Option<MaskedStream>,
    put: &mut dyn FnMut(Vec<u8>) -> bool,
) -> bool {
    let mut piece = vec![0; PIECE];
    let mut last = b'\n';
    loop {
        let read = match log.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // What cannot be read is left out.
            read => read.unwrap_or(0),
        };
        let shown = match &mut masked {
            Some(masked) if read == 0 => masked.finish(),
            Some(masked) => masked.push(&piece[..read]),
            None => piece[..read].to_vec(),
        };
        last = shown.last().copied().unwrap_or(last);
        if !shown.is_empty() && !put(shown) {
            return false;
        }
        if read == 0 {
            return last == b'\n' || put(b"\n".to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use lope_model::masks::Masks;

    use super::*;

    /// A log that writes down how much of it was asked for at once.
    struct Counted<'a> {
        rest: &'a [u8],
        most: &'a mut usize,
    }

    impl Read for Counted<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            *self.most = into.len().max(*self.most);
            self.rest.read(into)
        }
    }

    /// "a million-line log: bounded memory": no more of it is held than a piece.
    #[test]
    fn a_long_log_is_read_and_sent_in_pieces() {
        let line = "a line of a log with the word hunter2 in it\n";
        let log = line.repeat(30_000) + "the end";
        let masks = Masks::of(["hunter2".into()]);
        for (masked, word) in [(None, "hunter2"), (Some(masks.stream()), "***")] {
            let (mut most, mut longest, mut all) = (0, 0, Vec::new());
            let counted = Counted {
                rest: log.as_bytes(),
                most: &mut most,
            };
            assert!(pieces(counted, masked, &mut |piece: Vec<u8>| {
                longest = piece.len().max(longest);
                all.extend(piece);
                true
            }));
            let wanted = log.replace("hunter2", word) + "\n";
            assert!(all == wanted.as_bytes(), "all of it, as it may be shown");
            assert!(most <= PIECE && longest <= 2 * PIECE, "{most} {longest}");
        }
    }

    #[test]
    fn nothing_more_is_read_for_somebody_who_has_gone() {
        let log = "x\n".repeat(PIECE);
        let mut asked = 0;
        let goes_on = pieces(log.as_bytes(), None, &mut |_: Vec<u8>| {
            asked += 1;
            asked < 2
        });
        assert_eq!((goes_on, asked), (false, 2));
    }
}
