//! Backlogged TCP connections, sent and received by threads of this program.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use forebay_test_support::namespace::within;

use crate::network::{FLOWS, Network, Way};

/// Bytes sent or received by one system call.
const CHUNK: usize = 1 << 18;

/// Running traffic, which stops when this value is dropped.
pub(crate) struct Traffic {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts traffic over the path `way`.
pub(crate) fn start(network: &Network, way: Way) -> Traffic {
    let net = match way {
        Way::Routed => 2,
        Way::Wire => 3,
        Way::Direct => 4,
    };
    let received = Arc::new(AtomicU64::new(0));
    let (mut streams, mut threads) = (Vec::new(), Vec::new());
    for host in 2..2 + FLOWS {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, net, host)), 0);
        let listener = within(&network.far.0, move || TcpListener::bind(address).unwrap());
        let address = listener.local_addr().unwrap();
        let mut sender = within(&network.near.0, move || TcpStream::connect(address).unwrap());
        let mut receiver = listener.accept().unwrap().0;
        streams.extend([sender.try_clone().unwrap(), receiver.try_clone().unwrap()]);
        let count = Arc::clone(&received);
        threads.push(thread::spawn(move || {
            let mut buffer = vec![0; CHUNK];
            while let Ok(n @ 1..) = receiver.read(&mut buffer) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        }));
        threads.push(thread::spawn(move || {
            let chunk = vec![0x5a; CHUNK];
            while sender.write_all(&chunk).is_ok() {}
        }));
    }
    Traffic { received, streams, threads }
}

impl Traffic {
    /// Bytes that have arrived so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}
