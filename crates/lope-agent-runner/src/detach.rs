//! A runner that goes on when the command that started it has ended.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// A session of its own: what the terminal says is said to others. It fails where it is one already.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// What this process says goes to a file from now on. Whoever waited for its output hears its end.
pub fn speak_into(file: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).open(file)?;
    rustix::stdio::dup2_stdout(&file)?;
    rustix::stdio::dup2_stderr(&file)?;
    Ok(())
}
