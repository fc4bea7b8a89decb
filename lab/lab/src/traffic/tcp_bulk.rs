use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use forebay_units::Nanos;

use super::cue::FILLER;
use super::cue::{WindowCue, write_records};
use super::meter::Meter;
use super::spec::{Spec, Tcp};
use super::{sockets, wait};

/// Sends as much as `flows` connections take, from the start of the window to its stop.
pub(super) fn source(
    listen: SocketAddr,
    flows: u32,
    tcp: &Tcp,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let listener = sockets::listen(listen, tcp)?;
    let window = cue()?;
    let streams = sockets::accept(&listener, flows)?;
    thread::scope(|scope| {
        for (mut stream, flow) in streams.iter().zip(0..) {
            scope.spawn(move || {
                wait::sleep_until(window.begin_of(flow));
                // It ends by the shutdown below, or with the sink.
                while stream.write_all(&FILLER).is_ok() {}
            });
        }
        wait::sleep_until(window.stop);
        close(&streams, Shutdown::Write);
    });
    Ok(Nanos::ZERO)
}

/// Reads everything over `flows` connections to `source`, and writes the amounts.
pub(super) fn sink(
    spec: &Spec,
    source: SocketAddr,
    from: &[IpAddr],
    flows: u32,
    tcp: &Tcp,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let streams = sockets::connect_from(from, source, flows, tcp)?;
    let window = cue()?;
    let meter = Meter::new(streams.len());
    let progress = thread::scope(|scope| {
        for (stream, count) in streams.iter().zip(meter.counts()) {
            scope.spawn(move || drain(stream, count));
        }
        let progress = meter.record(&spec.traffic, window);
        close(&streams, Shutdown::Both);
        progress
    });
    write_records(&spec.output, &progress)?;
    Ok(Nanos::ZERO)
}

fn drain(mut stream: &TcpStream, count: &AtomicU64) {
    let mut buf = vec![0; FILLER.len()];
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return,
            Ok(n) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e) if sockets::is_passing(&e) => {}
            // The source is gone. The rest is recorded as zeros; the engine that started the source
            // knows why.
            Err(_) => return,
        }
    }
}

fn close(streams: &[TcpStream], how: Shutdown) {
    for stream in streams {
        // An error means that it is closed already.
        let _ = stream.shutdown(how);
    }
}
