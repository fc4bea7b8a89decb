//! Endpoints over sockets of this machine.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;

use forebay_queue::Ecn;
use forebay_sim::{Endpoint, Received, Transmit};
use forebay_sim_quic::quinn_proto::TransportConfig;
use forebay_sim_quic::{Download, Files, Quic, drive};
use forebay_system::clock;
use forebay_units::Nanos;

/// The longest wait on a slow machine.
const TIMEOUT: Nanos = Nanos::from_secs(60);

/// Two sockets of the loopback interface, one of each IP version.
fn sockets() -> [(UdpSocket, UdpSocket); 2] {
    [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))]
        .map(|address| (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap()))
}

#[test]
fn a_download_over_sockets_is_complete() {
    for (near, far) in sockets() {
        let start = clock::now();
        let address = far.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut server = Quic::server(2, TransportConfig::default(), Files::default()).unwrap();
            let mut has_served = false;
            let ended = drive(&far, &mut server, start, TIMEOUT, |server| {
                let open = server.connections().count();
                has_served |= open > 0;
                has_served && open == 0
            });
            (ended.unwrap(), server.application().failed)
        });
        let download = Download::new(3_000_000);
        let mut client = Quic::client(1, TransportConfig::default(), address, download).unwrap();
        // The client goes on until its close has been sent and its connection is gone.
        let ended = drive(&near, &mut client, start, TIMEOUT, |client| {
            client.application().finished.is_some() && client.connections().count() == 0
        });
        assert!(ended.unwrap(), "{:?}", client.application());
        assert_eq!(client.application().received, 3_000_000);
        assert_eq!(server.join().unwrap(), (true, 0));
    }
}

/// Sends one datagram with a codepoint, and keeps what arrives.
struct Codepoint {
    to: Option<(SocketAddr, Ecn)>,
    got: Option<(Ecn, Vec<u8>)>,
}

impl Endpoint for Codepoint {
    fn on_datagram(&mut self, _: Nanos, datagram: Received<'_>) {
        self.got = Some((datagram.ecn, datagram.payload.to_vec()));
    }

    fn poll_transmit(&mut self, _: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        let (to, ecn) = self.to.take()?;
        payload.extend(b"marked");
        Some(Transmit { to, ecn })
    }
}

#[test]
fn the_ecn_field_passes_in_both_ip_versions() {
    for (near, far) in sockets() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let start = clock::now();
            let mut sender = Codepoint { to: Some((far.local_addr().unwrap(), ecn)), got: None };
            let mut receiver = Codepoint { to: None, got: None };
            assert!(drive(&near, &mut sender, start, TIMEOUT, |s| s.to.is_none()).unwrap());
            assert!(drive(&far, &mut receiver, start, TIMEOUT, |r| r.got.is_some()).unwrap());
            assert_eq!(receiver.got, Some((ecn, b"marked".to_vec())));
        }
    }
}

#[test]
fn nothing_to_do_ends_at_the_deadline() {
    let [(near, _), _] = sockets();
    let mut idle = Codepoint { to: None, got: None };
    let deadline = Nanos::from_millis(1);
    assert!(!drive(&near, &mut idle, clock::now(), deadline, |_| false).unwrap());
}
