use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use forebay_sim::udp::{LOOP_PAYLOAD, LOST_AFTER};
use forebay_system::clock;
use forebay_units::Nanos;

use super::cue::{WindowCue, write_records};
use super::spec::{Spec, Window};
use super::{sockets, wait};
use crate::results::RoundTrip;

const SIZE: usize = LOOP_PAYLOAD as usize;

/// Returns each datagram to its sender until the window ends.
pub(super) fn echo(listen: SocketAddr, cue: WindowCue<'_>) -> io::Result<Nanos> {
    let socket = UdpSocket::from(sockets::udp(listen)?);
    let window = cue()?;
    let mut buf = [0; 2 * SIZE];
    while let Some(left) = wait::left_until(window.end) {
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut buf) {
            Ok((n, from)) => {
                // If it is lost, the other side notices.
                let _ = socket.send_to(&buf[..n], from);
            }
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Nanos::ZERO)
}

/// Keeps one request in flight in each of `flows` loops, and writes a record of every request.
pub(super) fn loops(
    spec: &Spec,
    echo: SocketAddr,
    flows: u32,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let sockets: Vec<_> = (0..flows)
        .map(|_| {
            let socket = UdpSocket::from(sockets::udp(sockets::any_like(echo))?);
            socket.connect(echo)?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()?;
    let window = cue()?;
    let records = thread::scope(|scope| {
        let loops: Vec<_> = (0..)
            .zip(&sockets)
            .map(|(flow, socket)| {
                scope.spawn(move || one_loop(&spec.traffic, flow, socket, window))
            })
            .collect();
        let mut records = Vec::new();
        for one in loops {
            records.extend(sockets::join(one)?);
        }
        io::Result::Ok(records)
    })?;
    write_records(&spec.output, &records)?;
    Ok(Nanos::ZERO)
}

fn one_loop(
    traffic: &str,
    flow: u32,
    socket: &UdpSocket,
    window: Window,
) -> io::Result<Vec<RoundTrip>> {
    let mut records = Vec::new();
    wait::sleep_until(window.begin_of(flow));
    loop {
        let start = clock::now();
        if start >= window.stop {
            return Ok(records);
        }
        let mut request = [0; SIZE];
        request[..8].copy_from_slice(&(records.len() as u64).to_be_bytes());
        socket.send(&request)?;
        let given_up = start.saturating_add(LOST_AFTER);
        let end = response(socket, &request, given_up.min(window.end))?;
        // Cut off by the end of the run: neither answered nor lost.
        if end.is_none() && given_up > window.end {
            return Ok(records);
        }
        records.push(RoundTrip {
            traffic: traffic.to_owned(),
            flow,
            start: start.0,
            end: end.map(|t| t.0),
        });
    }
}

/// The time of the response to `request`; `None` if there is none by `deadline`. Responses to
/// earlier requests, which were given up, are skipped.
fn response(
    socket: &UdpSocket,
    request: &[u8; SIZE],
    deadline: Nanos,
) -> io::Result<Option<Nanos>> {
    let mut buf = [0; 2 * SIZE];
    while let Some(left) = wait::left_until(deadline) {
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buf) {
            Ok(n) if buf[..n] == *request => return Ok(Some(clock::now())),
            Ok(_) => {}
            // At the end of the run the other side may close its socket first.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}
