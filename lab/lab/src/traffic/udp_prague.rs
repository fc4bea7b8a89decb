//! L4S traffic over UDP: sockets and clock for the rules of [`forebay_sim::udp::prague`], which the
//! simulator uses too. Datagrams look like those of [`super::udp_bulk`], and carry ECT(1).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_sim::udp::BULK_PAYLOAD;
use forebay_sim::udp::prague::{Receiver, Report, Sender};
use forebay_system::clock;
use forebay_system::wait::Waiter;
use forebay_units::Nanos;

use super::cue::FILLER;
use super::cue::WindowCue;
use super::spec::Spec;
use super::udp_bulk::{decode, encode, unfragmented};
use super::{ecn, flows, sockets};

const DATAGRAM: usize = BULK_PAYLOAD as usize;

/// Sends to each of `sinks` as much as Prague allows; returns the largest lateness.
pub(super) fn source(sinks: &[SocketAddr], cue: WindowCue<'_>) -> io::Result<Nanos> {
    let set_up = |sink: &SocketAddr| {
        let socket = unfragmented(*sink)?;
        ecn::set_up(&socket)?;
        Ok(socket)
    };
    let sockets: Vec<_> = sinks.iter().map(set_up).collect::<io::Result<_>>()?;
    flows::send(&sockets, sinks, cue()?, send)
}

fn send(socket: &UdpSocket, sink: SocketAddr, stop: Nanos) -> io::Result<Nanos> {
    let mut sender = Sender::new(clock::now());
    let mut datagram = FILLER[..DATAGRAM].to_vec();
    let mut buf = [0; Report::LEN];
    let mut waiter = Waiter::new([socket.as_raw_fd()]);
    let mut late = Nanos::ZERO;
    loop {
        while let Some(number) = sender.send(clock::now()) {
            datagram[..16].copy_from_slice(&encode(number));
            match socket.send_to(&datagram, sink) {
                Ok(_) => {}
                // A full device queue is a drop like any other.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => return Err(e),
            }
        }
        let due = sender.deadline().min(stop);
        waiter.wait_until(due);
        let now = clock::now();
        if now >= stop {
            return Ok(late);
        }
        if waiter.is_ready(0) {
            while let Some(came) = ecn::receive(socket, &mut buf)? {
                if came.from == sink && came.len == Report::LEN {
                    sender.report(now, &Report::decode(&buf));
                }
            }
        } else {
            late = late.max(now.saturating_sub(due));
        }
        sender.on_time(now);
    }
}

/// Receives at `listen`, one address per flow, until the run ends, and writes the amounts.
pub(super) fn sink(spec: &Spec, listen: &[SocketAddr], cue: WindowCue<'_>) -> io::Result<Nanos> {
    let set_up = |address: &SocketAddr| {
        let socket = UdpSocket::from(sockets::udp(*address)?);
        ecn::set_up(&socket)?;
        Ok(socket)
    };
    let sockets: Vec<_> = listen.iter().map(set_up).collect::<io::Result<_>>()?;
    flows::receive(spec, &sockets, cue()?, receive)
}

fn receive(socket: &UdpSocket, count: &AtomicU64, end: Nanos) -> io::Result<()> {
    let mut buf = [0; 2_048];
    let mut receiver = Receiver::default();
    let mut sender = None;
    let mut waiter = Waiter::new([socket.as_raw_fd()]);
    loop {
        waiter.wait_until(receiver.deadline().min(end));
        let now = clock::now();
        if now >= end {
            return Ok(());
        }
        while let Some(came) = ecn::receive(socket, &mut buf)? {
            // Only the first sender is counted.
            if let (DATAGRAM, Some(header)) = (came.len, buf.first_chunk())
                && *sender.get_or_insert(came.from) == came.from
            {
                count.fetch_add(came.len as u64, Ordering::Relaxed);
                if receiver.on_datagram(now, decode(*header), came.marked) {
                    report(socket, &mut receiver, sender);
                }
            }
        }
        if receiver.deadline() <= now {
            report(socket, &mut receiver, sender);
        }
    }
}

fn report(socket: &UdpSocket, receiver: &mut Receiver, sender: Option<SocketAddr>) {
    let report = receiver.report(clock::now());
    if let Some(sender) = sender {
        // A lost report is replaced by the next one.
        let _ = socket.send_to(&report.encode(), sender);
    }
}
