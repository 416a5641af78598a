//! What clients do to the runs of a world, one thing at a time.

/// What a client of a job does next. Numbers count from the first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientAct {
    /// Sends this of its mail, then the next.
    Send(usize),
    /// Sends this of its mail, for which there was no room.
    SendAgain(usize),
    /// Retries the run for the so-manieth time, if it has failed.
    Retry(usize),
    /// Retries it as it had decided on then, whatever became of it since.
    RetryLate(usize),
    /// Has its progress thrown away.
    Discard(usize),
    /// Resumes it once it was let go.
    Resume(usize),
}
