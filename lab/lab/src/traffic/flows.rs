//! Flows of datagrams, with one thread each.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicU64;
use std::thread;

use forebay_units::Nanos;

use super::cue::write_records;
use super::meter::Meter;
use super::spec::{Spec, Window};
use super::{sockets, wait};

/// Calls `send` for each socket and its sink, from the start of its flow until the window stops;
/// returns the largest lateness.
pub(super) fn send(
    all: &[UdpSocket],
    sinks: &[SocketAddr],
    window: Window,
    send: impl Fn(&UdpSocket, SocketAddr, Nanos) -> io::Result<Nanos> + Sync,
) -> io::Result<Nanos> {
    let send = &send;
    thread::scope(|scope| {
        let flows: Vec<_> = all
            .iter()
            .zip(sinks)
            .zip(0..)
            .map(|((socket, sink), flow)| {
                scope.spawn(move || {
                    wait::sleep_until(window.begin_of(flow));
                    send(socket, *sink, window.stop)
                })
            })
            .collect();
        let late = |worst: Nanos, flow| Ok(worst.max(sockets::join(flow)?));
        flows.into_iter().try_fold(Nanos::ZERO, late)
    })
}

/// Calls `receive` for each socket until the window ends, and writes the counted bytes.
pub(super) fn receive(
    spec: &Spec,
    all: &[UdpSocket],
    window: Window,
    receive: impl Fn(&UdpSocket, &AtomicU64, Nanos) -> io::Result<()> + Sync,
) -> io::Result<Nanos> {
    let receive = &receive;
    let meter = Meter::new(all.len());
    let progress = thread::scope(|scope| {
        let flows: Vec<_> = all
            .iter()
            .zip(meter.counts())
            .map(|(socket, count)| scope.spawn(move || receive(socket, count, window.end)))
            .collect();
        let progress = meter.record(&spec.traffic, window);
        flows.into_iter().try_for_each(sockets::join)?;
        io::Result::Ok(progress)
    })?;
    write_records(&spec.output, &progress)?;
    Ok(Nanos::ZERO)
}
