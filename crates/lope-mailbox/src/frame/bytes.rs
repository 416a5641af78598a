//! Reading fixed places of a header, and the checks that both frames begin with.

use super::FrameError;

/// What both headers have in their first twelve bytes.
pub(super) struct FrameHeader {
    pub(super) magic: &'static [u8; 4],
    pub(super) header: usize,
}

impl FrameHeader {
    /// Length, magic, version and announced length, in this order.
    pub(super) fn validate(&self, frame: &[u8]) -> Result<(), FrameError> {
        if frame.len() < self.header {
            return Err(FrameError::Truncated);
        }
        if frame[..4] != *self.magic {
            return Err(FrameError::Format("magic"));
        }
        if frame[4..8] != [0; 4] {
            return Err(FrameError::Version);
        }
        let announced = u32_at(frame, 8) as usize;
        if announced < self.header {
            return Err(FrameError::Format("length below the header"));
        }
        if announced > frame.len() {
            return Err(FrameError::Truncated);
        }
        if announced < frame.len() {
            return Err(FrameError::Format("bytes behind the frame"));
        }
        Ok(())
    }

    /// Magic, version 0.0 and length.
    pub(super) fn write(&self, frame: &mut Vec<u8>, length: u32) {
        frame.extend_from_slice(self.magic);
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&length.to_le_bytes());
    }
}

pub(super) fn u32_at(frame: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(frame, at))
}

pub(super) fn i64_at(frame: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(array_at(frame, at))
}

fn array_at<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&frame[at..at + N]);
    bytes
}
