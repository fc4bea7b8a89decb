//! The reflector in a namespace of the test's own.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay_l4s_check::live::{PORT, reflect};
use forebay_l4s_check::{Echo, Probe};
use forebay_test_support::namespace::{Namespace, enter};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

fn probe(sequence: u32) -> Vec<u8> {
    let mut probe = vec![0; Probe::SHORTEST];
    Probe { session: 7, sequence }.encode(&mut probe);
    probe
}

/// Returns a UDP datagram without a checksum.
fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let header = [from, to, length, 0].map(u16::to_be_bytes).concat();
    [&header, payload].concat()
}

#[test]
fn a_sender_that_cannot_be_answered_does_not_end_the_reflector() {
    let space = Namespace::new(format!("fb-reflect-{}", std::process::id()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (name, stop) = (&space.0, &stop);
        let reflector = scope.spawn(move || {
            enter(name);
            reflect((Ipv4Addr::LOCALHOST, PORT).into(), || stop.load(Ordering::Relaxed))
        });
        let answered = scope.spawn(move || {
            enter(name);
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            let good = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            // An answer that does not come is asked for again, until the reflector has ended.
            good.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
            let mut echo = [0; 64];
            let mut ask = |sequence| loop {
                good.send_to(&probe(sequence), to).unwrap();
                if let Ok((length, _)) = good.recv_from(&mut echo)
                    && Echo::decode(&echo[..length]).is_ok_and(|e| e.sequence == sequence)
                {
                    return true;
                }
                if reflector.is_finished() {
                    return false;
                }
            };
            assert!(ask(1));
            for sequence in 2..4 {
                let from_port_0 = datagram(0, PORT, &probe(sequence));
                raw.send_to(&from_port_0, &SockAddr::from(to)).unwrap();
                assert!(ask(sequence + 10), "the reflector has ended");
            }
            stop.store(true, Ordering::Relaxed);
            reflector.join().unwrap()
        });
        answered.join().unwrap().unwrap();
    });
}
