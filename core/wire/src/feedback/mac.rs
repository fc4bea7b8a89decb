use core::fmt;

use hmac::digest;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Key, ReceiveError, Session};

pub(super) const TAG_LEN: usize = 16;

/// The direction of a message. With the direction, both sessions and 36 bytes of its own, a
/// feedback message just fits into one block of SHA-256, whose padding takes 9 of the 64 bytes.
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

/// The sessions of a message. The receivebox's is unknown at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sessions {
    pub(super) sendbox: Session,
    pub(super) receivebox: Option<Session>,
}

/// The message authentication code under a bundle's key. The key is digested once.
///
/// The digests stay in memory when this value is dropped, since hmac 0.12 cannot set them to zero.
/// They do not show the key, but they suffice to make tags. A box has them until it ends.
#[derive(Clone)]
pub(super) struct Mac(Hmac<Sha256>);

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(..)")
    }
}

/// Returns HMAC-SHA-256 over `label` under `key`, a key for another purpose.
pub(super) fn derive(key: &Key, label: &[u8]) -> [u8; 32] {
    let mut mac = Mac::new(key).0;
    mac.update(label);
    mac.finalize().into_bytes().into()
}

impl Mac {
    pub(super) fn new(key: &Key) -> Self {
        // HMAC accepts a key of the length of SHA-256's block without hashing it. Padding with
        // zeros is what HMAC does with shorter keys.
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(key.bytes());
        Self(Hmac::new(digest::Key::<Hmac<Sha256>>::from_slice(&*block)))
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

    /// Checks `tag` in constant time.
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
