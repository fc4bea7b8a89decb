//! The answering side of requests.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_units::Nanos;
use socket2::SockRef;

use crate::traffic::cue::FILLER;
use crate::traffic::cue::WindowCue;
use crate::traffic::pair::unpack;
use crate::traffic::spec::Tcp;
use crate::traffic::{sockets, wait};

/// Answers on `connections` connections until the client closes them. With `new_connections`,
/// answers on any connection until the window ends; a client has at most `connections` at a time.
pub(in crate::traffic) fn serve(
    listen: SocketAddr,
    connections: u32,
    new_connections: bool,
    tcp: &Tcp,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let listener = sockets::listen(listen, tcp)?;
    let window = cue()?;
    if new_connections {
        return serve_any(&listener, connections, window.end).map(|()| Nanos::ZERO);
    }
    let streams = sockets::accept(&listener, connections)?;
    thread::scope(|scope| {
        for stream in &streams {
            // A client that leaves in the middle of an answer is no failure.
            scope.spawn(move || answer(stream));
        }
    });
    Ok(Nanos::ZERO)
}

/// Runs threads that accept and answer, two per connection: a client opens the next connection
/// after an answer, although its FIN of the last one may be lost.
fn serve_any(listener: &TcpListener, connections: u32, end: Nanos) -> io::Result<()> {
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..2 * connections).map(|_| scope.spawn(move || accept_all(listener, over))).collect();
        wait::sleep_until(end);
        over.store(true, Ordering::Relaxed);
        // Wakes all threads that wait for a connection.
        SockRef::from(listener).shutdown(Shutdown::Both)?;
        threads.into_iter().try_for_each(sockets::join)
    })
}

fn accept_all(listener: &TcpListener, over: &AtomicBool) -> io::Result<()> {
    loop {
        let accepted = listener.accept();
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
        match accepted {
            Ok((stream, _)) => {
                stream.set_nodelay(true)?;
                // It ends with the client's FIN; an earlier end is no failure.
                let _ = answer(&stream);
            }
            // The connection was closed before it was accepted.
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    let mut request = [0; 16];
    loop {
        stream.read_exact(&mut request)?;
        let (_, size) = unpack(request);
        let mut left = size;
        while left > 0 {
            let n = left.min(FILLER.len() as u64) as usize;
            stream.write_all(&FILLER[..n])?;
            left -= n as u64;
        }
    }
}
