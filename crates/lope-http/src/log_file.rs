//! Pieces of files that grow: the end of a log, or what follows a byte of it; and how much of each of
//! many goes into one answer.

use std::fs::{File, metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The end of a file, and at which byte it begins.
pub fn tail(path: &Path, most: u64) -> io::Result<(String, u64)> {
    let from = metadata(path)?.len().saturating_sub(most);
    let bytes = read_from(path, from, most)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), from))
}

/// At most so many bytes of a file, from one of them on.
pub fn read_from(path: &Path, from: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How many bytes of the end of each file are shown where all of them together have so much room:
/// small ones whole, the others alike.
pub fn shares<'a>(files: impl Iterator<Item = &'a Path>, all: u64) -> Vec<u64> {
    let sizes: Vec<u64> = files
        .map(|file| metadata(file).map_or(0, |it| it.len()))
        .collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|place| sizes[*place]);
    let mut shares = vec![0; sizes.len()];
    let mut room = all;
    let mut left = sizes.len() as u64;
    for place in order {
        shares[place] = room / left;
        room -= sizes[place].min(shares[place]);
        left -= 1;
    }
    shares
}

/// How many bytes end with a whole character; all of them if they are no text.
pub fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(cut) if cut.error_len().is_none() && cut.valid_up_to() > 0 => cut.valid_up_to(),
        _ => bytes.len(),
    }
}
