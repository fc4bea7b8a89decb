//! How the frames of a device begin.

use forebay_units::Bytes;

/// What the kernel's queues and programs see at the beginning of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// An Ethernet header.
    Ethernet,
    /// An IP header, as in tunnels. What the tunnel adds is not there yet, or no longer.
    BareIp,
}

/// The hardware types of devices whose packets begin with an IP header (`linux/if_arp.h`), of those
/// that `libc` lacks.
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_IP6GRE: u16 = 823;

impl Framing {
    /// Returns the framing of a device of this hardware type (`ARPHRD_…`); `None` if its packets
    /// begin in another way, or in several.
    ///
    /// A GRE device without a remote address (`is_multipoint`) writes its outer header before its
    /// queues.
    pub(crate) fn of(hardware: u16, is_multipoint: bool) -> Option<Self> {
        match hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(Self::Ethernet),
            libc::ARPHRD_IPGRE | ARPHRD_IP6GRE if is_multipoint => None,
            // WireGuard, TUN and xfrm; PPP; IPIP and VTI; SIT; GRE; modems.
            libc::ARPHRD_NONE
            | libc::ARPHRD_PPP
            | libc::ARPHRD_TUNNEL
            | libc::ARPHRD_TUNNEL6
            | libc::ARPHRD_SIT
            | libc::ARPHRD_IPGRE
            | ARPHRD_IP6GRE
            | ARPHRD_RAWIP => Some(Self::BareIp),
            _ => None,
        }
    }

    /// Returns the bytes before the IP header that the device's queues count, without VLAN tags.
    pub const fn header(self) -> Bytes {
        match self {
            Self::Ethernet => Bytes(14),
            Self::BareIp => Bytes(0),
        }
    }

    /// Returns its number in bpf/headers.h.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Ethernet => 0,
            Self::BareIp => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of `linux/if_arp.h`.
    #[test]
    fn tunnels_have_no_link_layer_header() {
        for (hardware, expected) in [
            (1, Some(Framing::Ethernet)),
            (772, Some(Framing::Ethernet)),
            (0xfffe, Some(Framing::BareIp)),
            (512, Some(Framing::BareIp)),
            (519, Some(Framing::BareIp)),
            (768, Some(Framing::BareIp)),
            (769, Some(Framing::BareIp)),
            (776, Some(Framing::BareIp)),
            (778, Some(Framing::BareIp)),
            (823, Some(Framing::BareIp)),
            // InfiniBand, a monitor of 802.11.
            (32, None),
            (803, None),
        ] {
            assert_eq!(Framing::of(hardware, false), expected, "{hardware}");
        }
        assert_eq!((Framing::of(778, true), Framing::of(823, true)), (None, None));
        assert_eq!(Framing::of(0xfffe, true), Some(Framing::BareIp), "others do not have one");
    }
}
