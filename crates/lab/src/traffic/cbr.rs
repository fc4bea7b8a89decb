use std::io;
use std::net::SocketAddr;

use forebay_dataplane::clock;
use forebay_units::{Bytes, Nanos, Rate};

use super::agent::WindowCue;
use super::requests::FILLER;
use super::{sockets, wait};

/// Sends datagrams of `size` bytes to `sink`, evenly, at `rate_bps`. One that is late goes out at
/// once: the rate holds on average.
pub(super) fn source(
    sink: SocketAddr,
    rate_bps: u64,
    size: u64,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let socket = sockets::udp(sockets::any_like(sink))?;
    socket.connect(&sink.into())?;
    let datagram = &FILLER[..(size as usize).min(FILLER.len())];
    let rate = Rate::from_bps(rate_bps);
    let window = cue()?;
    let mut late = Nanos::ZERO;
    for n in 1_u64.. {
        // From the count and not from gap to gap, so that rounding does not add up.
        let after = rate.time_for(Bytes(size.saturating_mul(n - 1)));
        let due = window.begin.saturating_add(after);
        if due >= window.stop {
            break;
        }
        wait::sleep_until(due);
        late = late.max(clock::now().saturating_sub(due));
        match socket.send(datagram) {
            Ok(_) => {}
            // A full device queue is a drop like any other; a sink that has ended refuses.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(e),
        }
    }
    Ok(late)
}
