//! Socket addresses in the kernel's form.

use std::mem::{size_of, zeroed};
use std::net::SocketAddr;

/// An address in the kernel's form, a quarter of the size of `sockaddr_storage`.
#[derive(Clone, Copy)]
pub(super) enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Address {
    /// Returns the pointer and the length that system calls take. The pointer is valid as long as
    /// `self`.
    pub(super) fn raw(&self) -> (*const libc::c_void, libc::socklen_t) {
        match self {
            Self::V4(v4) => ((&raw const *v4).cast(), size_of::<libc::sockaddr_in>() as u32),
            Self::V6(v6) => ((&raw const *v6).cast(), size_of::<libc::sockaddr_in6>() as u32),
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Self::from(SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V4(_) => "an IPv4 address",
            Self::V6(_) => "an IPv6 address",
        })
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => {
                // SAFETY: the structure consists of integers, for which zero is valid.
                let mut raw: libc::sockaddr_in6 = unsafe { zeroed() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_flowinfo = v6.flowinfo();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                Self::V6(raw)
            }
        }
    }
}
