use core::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::{Key, ReceiveError, Session};

pub(super) const TAG_LEN: usize = 16;

/// Who speaks to whom. With it, both sessions and its own 36 bytes, a feedback message just fits
/// into one block of SHA-256, whose padding takes 9 of the 64 bytes.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    ToReceivebox,
    ToSendbox,
}

impl Direction {
    const fn label(self) -> &'static [u8; 3] {
        match self {
            Self::ToReceivebox => b"S>R",
            Self::ToSendbox => b"R>S",
        }
    }
}

/// The sessions that a message belongs to. The receivebox's is unknown to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sessions {
    pub(super) sendbox: Session,
    pub(super) receivebox: Option<Session>,
}

/// The message authentication code under a bundle's key, which is digested once.
#[derive(Clone)]
pub(super) struct Mac(Hmac<Sha256>);

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(..)")
    }
}

impl Mac {
    pub(super) fn new(key: &Key) -> Self {
        // A key as long as SHA-256's block is the only one that HMAC takes without hashing or
        // checking its length; padding with zeros is what it does to shorter keys anyway.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key.bytes());
        Self(Hmac::new(&block.into()))
    }

    pub(super) fn tag(
        &self,
        direction: Direction,
        sessions: Sessions,
        body: &[u8],
    ) -> [u8; TAG_LEN] {
        let code = self.over(direction, sessions, body).finalize().into_bytes();
        core::array::from_fn(|i| code[i])
    }

    /// Checks `tag` in a time that does not depend on where it is wrong.
    pub(super) fn verify(
        &self,
        direction: Direction,
        sessions: Sessions,
        body: &[u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), ReceiveError> {
        self.over(direction, sessions, body)
            .verify_truncated_left(tag)
            .map_err(|_| ReceiveError::Tag)
    }

    fn over(&self, direction: Direction, sessions: Sessions, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(direction.label());
        mac.update(&sessions.sendbox.0.get().to_be_bytes());
        mac.update(&sessions.receivebox.map_or(0, |s| s.0.get()).to_be_bytes());
        mac.update(body);
        mac
    }
}
