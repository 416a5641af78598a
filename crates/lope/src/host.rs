//! The machine's name, as the registry of runners shows it.

/// What the kernel says; `localhost` if that is no text.
pub(crate) fn name() -> String {
    rustix::system::uname()
        .nodename()
        .to_str()
        .map_or_else(|_| "localhost".to_owned(), str::to_owned)
}
