//! The kernel's view of a connection (`TCP_INFO`, tcp(7)).

use std::io;
use std::os::fd::AsRawFd;

use forebay_guest::sockopt;

/// The part of `struct tcp_info` that is used. The kernel may write more.
const LEN: usize = 256;

/// What the kernel knows about a sending connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// The lowest round trip in microseconds.
    pub min_rtt_us: u32,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Bytes that the receiver has acknowledged.
    pub acked: u64,
    /// Bytes that were written and not sent yet.
    pub unsent: u32,
    /// Segments that were sent.
    pub segments: u32,
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    /// If `socket` is no TCP socket, or the kernel is older than 4.9, whose answer is shorter.
    pub fn of(socket: &impl AsRawFd) -> io::Result<Self> {
        let mut buf = [0; LEN];
        let len = sockopt::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut buf)?;
        Self::parse(&buf[..len]).ok_or_else(|| io::Error::other("the kernel's TCP_INFO is short"))
    }

    /// Reads the fields at their offsets in `struct tcp_info` (include/uapi/linux/tcp.h), whose
    /// order never changes; `None` if one is missing.
    fn parse(info: &[u8]) -> Option<Self> {
        let u32_at =
            |at: usize| info.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let u64_at =
            |at: usize| info.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        Some(Self {
            rtt_us: u32_at(68)?,
            cwnd: u32_at(80)?,
            retransmits: u32_at(100)?,
            acked: u64_at(120)?,
            segments: u32_at(136)?,
            unsent: u32_at(144)?,
            min_rtt_us: u32_at(148)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 5000]).unwrap();
        receiver.read_exact(&mut [0; 5000]).unwrap();
        // The answer to a further exchange acknowledges everything before it.
        receiver.write_all(b"a").unwrap();
        sender.read_exact(&mut [0; 1]).unwrap();
        let info = TcpInfo::of(&sender).unwrap();
        // The SYN is not counted in `tcpi_bytes_acked` since Linux 4.13, and was before.
        assert!((5000..=5001).contains(&info.acked), "{info:?}");
        assert!(info.rtt_us > 0 && info.min_rtt_us > 0 && info.cwnd > 0, "{info:?}");
        assert_eq!((info.unsent, info.retransmits), (0, 0));
        assert!(info.segments >= 2, "{info:?}");
    }

    #[test]
    fn a_short_answer_has_no_fields() {
        assert_eq!(TcpInfo::parse(&[0; 151]), None);
        assert_eq!(TcpInfo::parse(&[0; 152]), Some(TcpInfo::default()));
    }
}
