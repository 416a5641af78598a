//! What commands read, write and print with: this process, or whoever a command is done for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use lope::tokens::Right;

use crate::ATTACHMENT_MAX;
use crate::command_call::CommandCall;
use crate::order::{Attached, CommandFrame, LastTold, Need, OutputFile};

/// Is this command done for somebody else?
pub fn is_remote() -> bool {
    CommandCall::current().is_some()
}

/// Does the command wait for something of its caller's? Then it opens no store: it begins again when
/// that has come.
pub fn is_short() -> bool {
    CommandCall::current().is_some_and(|call| call.is_short())
}

/// What the caller was told before the server was away, if the command goes on.
pub fn last_told() -> Option<LastTold> {
    CommandCall::current()?.order.last.clone()
}

/// Says something to whoever the command is done for; false: that is whoever sits here.
pub fn say(frame: impl FnOnce() -> CommandFrame) -> bool {
    match CommandCall::current() {
        Some(call) => {
            call.say(&frame());
            true
        }
        None => false,
    }
}

/// The right that whoever the command is done for lacks, if it does.
pub fn lacks(right: Right) -> Option<Right> {
    CommandCall::current()
        .filter(|call| call.right < right)
        .map(|call| call.right)
}

/// A file that the command line names, at most so many bytes of it and one more.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    match CommandCall::current() {
        None => read_some(File::open(path)?, most),
        Some(call) => given(&call, Need::File(path.to_string_lossy().into_owned())),
    }
}

/// What comes on standard input, at most so many bytes of it and one more.
pub fn read_stdin(most: u64) -> io::Result<Vec<u8>> {
    match CommandCall::current() {
        None => read_some(io::stdin(), most),
        Some(call) => given(&call, Need::Stdin),
    }
}

/// Is there a file of this name?
pub fn is_file(path: &Path) -> bool {
    match CommandCall::current() {
        None => path.is_file(),
        Some(_) => read_file(path, ATTACHMENT_MAX as u64).is_ok(),
    }
}

/// Write a file that the command line names, over one that is there.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match CommandCall::current() {
        None => std::fs::write(path, bytes),
        Some(call) => {
            begin_file(&call, path, false, None);
            call.say(&CommandFrame::Piece(bytes.to_vec()));
            Ok(())
        }
    }
}

/// Write a file that the command line names and that must not be there; whoever sits elsewhere is
/// told the hint if it is.
pub fn create_file(path: &Path, bytes: &[u8], hint: Option<&str>) -> io::Result<()> {
    match CommandCall::current() {
        None => File::create_new(path)?.write_all(bytes),
        Some(call) => {
            begin_file(&call, path, true, hint);
            call.say(&CommandFrame::Piece(bytes.to_vec()));
            Ok(())
        }
    }
}

/// Hands a file of this machine to whoever the command is done for, who writes it under a name that
/// the command line says and that must not be there.
pub async fn hand_over(
    call: &CommandCall,
    from: &Path,
    to: &Path,
    hint: Option<&str>,
) -> io::Result<u64> {
    const PIECE: usize = 256 * 1024;
    let mut file = File::open(from)?;
    begin_file(call, to, true, hint);
    let mut bytes = 0;
    loop {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(bytes);
        }
        piece.truncate(read);
        bytes += read as u64;
        call.room().await;
        call.say(&CommandFrame::Piece(piece));
    }
}

fn begin_file(call: &CommandCall, path: &Path, is_new: bool, hint: Option<&str>) {
    call.say(&CommandFrame::File(OutputFile {
        path: path.to_string_lossy().into_owned(),
        is_new,
        hint: hint.map(str::to_owned),
    }));
}

fn given(call: &CommandCall, need: Need) -> io::Result<Vec<u8>> {
    match call.given(need) {
        Some(Attached::Bytes(bytes)) => Ok(bytes.clone()),
        Some(Attached::Nothing { message, .. }) => Err(io::Error::other(message.clone())),
        None => Err(io::Error::other("it is asked for")),
    }
}

fn read_some(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
