//! Numbers of waves: each wave of a space has a greater one than those before it, whoever hosted it.

use std::fmt;
use std::str::FromStr;

/// The number of a wave: in which ownership of the space, and which of its waves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WaveNumber {
    pub epoch: u64,
    pub wave: u64,
}

impl WaveNumber {
    /// From a row: both numbers, eight bytes each.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (epoch, wave) = bytes.split_at_checked(8)?;
        Some(Self {
            epoch: u64::from_be_bytes(epoch.try_into().ok()?),
            wave: u64::from_be_bytes(wave.try_into().ok()?),
        })
    }
}

impl fmt::Display for WaveNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.wave)
    }
}

impl FromStr for WaveNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.');
        let number = parts.and_then(|(epoch, wave)| {
            Some(Self {
                epoch: epoch.parse().ok()?,
                wave: wave.parse().ok()?,
            })
        });
        number.ok_or_else(|| format!("'{text}' is no number of a wave, as in 3.17"))
    }
}
