//! A key exchange for simulations, without any secret.
//!
//! That of *ring* draws its keys from the operating system, so the bytes of two runs would differ.
//! Here the shared secret consists of the two public values. Messages have the lengths of X25519.

use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

use crate::randomness::Seeded;

/// The length of a public value, that of X25519.
const LEN: usize = 32;
/// A number for private use (RFC 8446 section 4.2.7), so that no real peer agrees to it.
const GROUP: NamedGroup = NamedGroup::Unknown(0xfe5a);

/// The key exchange as `rustls` knows it.
#[derive(Debug)]
pub(crate) struct Public;

/// One end of a key exchange, with its public value.
struct Started([u8; LEN]);

impl SupportedKxGroup for Public {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut value = [0; LEN];
        rustls::crypto::SecureRandom::fill(&Seeded, &mut value)?;
        Ok(Box::new(Started(value)))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        GROUP
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        if peer.len() != LEN {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        // The same order at both ends.
        let (first, second) = (self.0.as_slice().min(peer), self.0.as_slice().max(peer));
        Ok([first, second].concat().into())
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        GROUP
    }
}
