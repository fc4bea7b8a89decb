//! The certificate of all simulated servers.

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::setup::SetupError;

/// The name of all servers.
pub(crate) const NAME: &str = "server.invalid";

/// The head of a private Ed25519 key in PKCS #8 (RFC 8410 section 7). 32 bytes follow.
const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// The key, which is public: signatures of Ed25519 follow from the key and the message alone.
const KEY: [u8; 32] = *b"not a secret: the same everywher";

/// Returns the certificate and its key, which are the same in every run.
pub(crate) fn identity()
-> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), SetupError> {
    let key = PrivatePkcs8KeyDer::from([&HEAD[..], &KEY].concat());
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519)?;
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.serial_number = Some(SerialNumber::from(1_u64));
    Ok((params.self_signed(&pair)?.into(), key))
}
