use std::io;
use std::net::{SocketAddr, UdpSocket};

use forebay_sim::Pattern;
use forebay_system::clock;
use forebay_units::Nanos;

use super::cue::FILLER;
use super::cue::WindowCue;
use super::{ecn, sockets, wait};

/// Sends the datagrams of `pattern` to `sink` at the times at which the simulator sends them, with
/// ECT(1) if they are `l4s`. A late datagram is sent at once, so that the average rate holds.
pub(super) fn source(
    sink: SocketAddr,
    pattern: Pattern,
    l4s: bool,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    pattern.check().map_err(io::Error::other)?;
    let socket = UdpSocket::from(sockets::udp(sockets::any_like(sink))?);
    socket.connect(sink)?;
    if l4s {
        ecn::set_up(&socket)?;
    }
    let window = cue()?;
    let mut late = Nanos::ZERO;
    for datagram in pattern.datagrams() {
        let due = window.begin.saturating_add(datagram.at);
        if due >= window.stop {
            break;
        }
        wait::sleep_until(due);
        late = late.max(clock::now().saturating_sub(due));
        // A pattern's datagrams fit into a packet, and the filler is longer.
        match socket.send(&FILLER[..datagram.size.0 as usize]) {
            Ok(_) => {}
            // A full device queue is a drop like any other; a sink that has ended refuses
            // datagrams.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(e),
        }
    }
    Ok(late)
}
