//! Packet headers, packet fingerprints, and the feedback protocol between sendbox and receivebox.
//!
//! Start from two types:
//! - [`Frame`] parses an Ethernet frame into its IP [`Headers`]. [`fingerprint`] computes from them
//!   the number by which both boxes of a bundle identify the packet.
//! - [`feedback::SendboxChannel`] is the sendbox's end of the feedback protocol, and
//!   [`feedback::ReceiveboxChannel`] the other end. They make and check the messages.
//!
//! The crate does no I/O, does not allocate and reads no clock. It parses bytes from untrusted
//! hosts, so no input makes it panic.
//!
//! ```
//! use forebay_wire::feedback::Key;
//! use forebay_wire::{EpochSize, Frame, fingerprint, is_boundary};
//!
//! // An Ethernet frame with an IPv4 packet: UDP from 10.0.0.1 to 10.0.0.2, IP ID 0x1234.
//! let mut frame = [0; 46];
//! frame[12..14].copy_from_slice(&[0x08, 0x00]);
//! frame[14..24].copy_from_slice(&[0x45, 0, 0, 32, 0x12, 0x34, 0, 0, 64, 17]);
//! frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
//! frame[34..40].copy_from_slice(&[0x30, 0x39, 0, 53, 0, 12]);
//!
//! let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!("this is an IP packet") };
//! assert_eq!(headers.ports.map(|ports| ports.destination), Some(53));
//! let key = Key::new([7; 32]).fingerprint_key();
//! let fingerprint = fingerprint(&frame, &headers, &key).expect("an IP ID identifies the packet");
//! assert!(is_boundary(fingerprint, EpochSize::MIN), "every packet is a boundary at epoch size 1");
//! ```
#![forbid(unsafe_code)]
#![no_std]

mod bytes;
mod epoch;
pub mod feedback;
mod fingerprint;
mod headers;
mod siphash;

pub use epoch::{EpochSize, InvalidEpochSize, is_boundary};
pub use fingerprint::{Segment, fingerprint, fingerprint_segment};
pub use headers::{
    Fragment, Frame, Headers, MAC_DESTINATION, MAC_SOURCE, MAX_EXTENSIONS, MAX_LABELS,
    MAX_TRANSPORT_OFFSET, MAX_VLAN_TAGS, ParseError, Ports, set_ce, vlan,
};
pub use siphash::FingerprintKey;
