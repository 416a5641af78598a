//! Tokens: who may use a server, and what for.
//!
//! A token is random and shown once; the store keeps its digest. They live in the table
//! `app_state`, under keys that no handler of messages uses, so that they move with the store.

use std::fmt;
use std::str::FromStr;

use lope_model::{Digest, Timestamp};
use lope_store::tables::{At, Batch, Range, TableId, Write};
use lope_store::{StoreError, StoreResult};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::Client;

/// Most tokens of a store.
pub const TOKENS_MAX: usize = 1_000;
/// Longest name of a token.
pub const TOKEN_NAME_MAX: usize = 100;

/// What the keys of tokens begin with.
const PREFIX: &[u8] = b"lope.token/";
/// What a token begins with, so that people and scanners recognise one.
const WORD: &str = "lope_";
const RANDOM_BYTES: usize = 32;

/// What a token allows; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Look at everything.
    Read,
    /// Start, steer, send.
    Act,
    /// Deploy, delete, look after the store.
    Admin,
}

/// A word that is no right.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("'{0}' is no right: read, act or admin")]
pub struct BadRight(String);

/// A token as the store knows it: not the token itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRecord {
    /// The beginning of its digest: what it is listed and revoked by.
    pub id: String,
    pub name: String,
    pub right: Right,
    pub added_at: Timestamp,
}

/// A token that was just made. Its text is nowhere else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreshToken {
    pub text: String,
    pub record: TokenRecord,
}

/// Why no token was made.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TokenError {
    #[error("a token's name has 1 to {TOKEN_NAME_MAX} bytes")]
    BadName,
    #[error("there is a token '{0}' already")]
    NameTaken(String),
    #[error("there are {TOKENS_MAX} tokens already")]
    TooMany,
    #[error("the system gives no random bytes: {0}")]
    NoRandomness(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is stored of a token.
#[derive(Serialize, Deserialize)]
struct StoredToken {
    digest: Digest,
    name: String,
    right: Right,
    added_at: i64,
}

impl Client {
    /// Make a token. The answer is the only place where its text is.
    pub async fn add_token(&self, name: &str, right: Right) -> Result<FreshToken, TokenError> {
        if name.is_empty() || name.len() > TOKEN_NAME_MAX {
            return Err(TokenError::BadName);
        }
        let known = self.tokens().await?;
        if known.iter().any(|token| token.name == name) {
            return Err(TokenError::NameTaken(name.to_owned()));
        }
        if known.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let text = random_text()?;
        let digest = Digest::of(text.as_bytes());
        let stored = StoredToken {
            digest,
            name: name.to_owned(),
            right,
            added_at: self.now().await?.millis(),
        };
        let id = id_of(&digest);
        let bytes = rmp_serde::to_vec_named(&stored).map_err(StoreError::corrupt)?;
        self.write(Write::Create(at(&id), bytes)).await?;
        let record = stored.record();
        Ok(FreshToken { text, record })
    }

    /// All tokens, by name.
    pub async fn tokens(&self) -> StoreResult<Vec<TokenRecord>> {
        let range = Range::prefix(TableId::APP_STATE, PREFIX, TOKENS_MAX);
        let rows = self.store().tables.range(range).await?;
        let mut all = rows
            .iter()
            .map(|row| Ok(read(&row.value)?.record()))
            .collect::<StoreResult<Vec<_>>>()?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Take a token away, by its name or id: it opens nothing from now on. Nothing: there is none.
    pub async fn revoke_token(&self, named: &str) -> StoreResult<Option<TokenRecord>> {
        let all = self.tokens().await?;
        let found = all
            .into_iter()
            .find(|token| token.name == named || token.id == named);
        if let Some(found) = &found {
            self.write(Write::Delete(at(&found.id))).await?;
        }
        Ok(found)
    }

    /// Whose token this is, if it is one.
    pub async fn token(&self, text: &str) -> StoreResult<Option<TokenRecord>> {
        if !text.starts_with(WORD) {
            return Ok(None);
        }
        let digest = Digest::of(text.as_bytes());
        let found = self.store().tables.get(&[at(&id_of(&digest))]).await?;
        let Some(bytes) = found.into_iter().next().flatten() else {
            return Ok(None);
        };
        let stored = read(&bytes)?;
        // Whoever compares sees digests, not tokens: how long it takes tells nothing of a token.
        Ok((stored.digest == digest).then(|| stored.record()))
    }

    async fn write(&self, write: Write) -> StoreResult<()> {
        let batch = Batch {
            guards: Vec::new(),
            writes: vec![write],
        };
        let replies = self.store().tables.commit(vec![batch]).await?;
        match replies.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            _ => Err(StoreError::refused("a token with this digest exists")),
        }
    }
}

impl StoredToken {
    fn record(&self) -> TokenRecord {
        TokenRecord {
            id: id_of(&self.digest),
            name: self.name.clone(),
            right: self.right,
            added_at: Timestamp::from_millis(self.added_at),
        }
    }
}

fn random_text() -> Result<String, TokenError> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| TokenError::NoRandomness(error.to_string()))?;
    if filled < RANDOM_BYTES {
        return Err(TokenError::NoRandomness(format!("only {filled}")));
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{WORD}{hex}"))
}

fn id_of(digest: &Digest) -> String {
    digest.to_string().chars().take(12).collect()
}

fn at(id: &str) -> At {
    At::new(TableId::APP_STATE, [PREFIX, id.as_bytes()].concat())
}

fn read(bytes: &[u8]) -> StoreResult<StoredToken> {
    rmp_serde::from_slice(bytes)
        .map_err(|error| StoreError::corrupt(format!("a token cannot be read: {error}")))
}

impl Right {
    pub const ALL: [Self; 3] = [Self::Read, Self::Act, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Act => "act",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Right {
    type Err = BadRight;

    fn from_str(text: &str) -> Result<Self, BadRight> {
        let mut all = Self::ALL.into_iter();
        all.find(|right| right.as_str() == text)
            .ok_or_else(|| BadRight(text.to_owned()))
    }
}
