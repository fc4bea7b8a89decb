use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use forebay_records::{
    HANDOVER_SOCKET, Handover, MAX_HANDOVER, ReceiveHandover, SendHandover, Taken,
};
use forebay_system::descriptors;
use forebay_system::local::{self, Directory};

use crate::config::BundleConfig;

/// The time that the whole state has to arrive.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that the report has.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the process before this one handed over; mostly nothing.
#[derive(Default)]
pub(crate) struct Handed {
    stream: Option<UnixStream>,
    state: Handover,
    socket: Option<UdpSocket>,
    taken: Taken,
}

impl Handed {
    /// Takes what `forebay upgrade` has for a box of this role at `interface`; nothing if it does
    /// not run.
    pub(crate) fn take(role: &str, interface: &str) -> Self {
        let Some(stream) = connect(interface) else { return Self::default() };
        let mut handed = match Self::read(&stream, role) {
            Ok(handed) => handed,
            Err(why) => {
                let mut handed = Self::default();
                handed.starts_fresh(why);
                handed
            }
        };
        handed.stream = Some(stream);
        handed
    }

    fn read(stream: &UnixStream, role: &str) -> Result<Self, String> {
        let deadline = Instant::now() + HANDOVER_TIMEOUT;
        let (text, descriptors) = receive(stream, deadline).map_err(|e| {
            format!("everything: the state of the process before did not arrive ({e})")
        })?;
        let state = Handover::parse(&text).map_err(|e| format!("everything: {e}"))?;
        if state.offer.role != role {
            let before = &state.offer.role;
            return Err(format!("everything: the process before was a {before}, this is a {role}"));
        }
        let socket = descriptors.into_iter().next().map(UdpSocket::from);
        Ok(Self { state, socket, ..Self::default() })
    }

    /// Whether another process handed something over, or should have.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.stream.is_some()
    }

    /// Notes what starts fresh, and why.
    pub(super) fn starts_fresh(&mut self, what: String) {
        tracing::warn!("starts fresh: {what}");
        self.taken.fresh.push(what);
    }

    /// Notes what goes on.
    pub(super) fn goes_on(&mut self, what: String) {
        tracing::info!("taken over: {what}");
        self.taken.kept.push(what);
    }

    /// Returns the UDP socket, if it listens at `address`. It is closed otherwise, so that
    /// another can listen there.
    pub(crate) fn socket(&mut self, address: SocketAddr) -> Option<UdpSocket> {
        let socket = self.socket.take()?;
        match socket.local_addr() {
            Ok(found) if found == address => {
                self.goes_on(format!("the messages at {address}"));
                Some(socket)
            }
            _ => {
                self.starts_fresh(format!("the socket: the process before did not have {address}"));
                None
            }
        }
    }

    /// Returns the state of a bundle that is sent.
    pub(super) fn send(&self, name: &str) -> Option<&SendHandover> {
        self.state.sends.iter().find(|bundle| bundle.name == name)
    }

    /// Returns the state of a bundle that is received.
    pub(super) fn receive(&self, name: &str) -> Option<&ReceiveHandover> {
        self.state.receives.iter().find(|bundle| bundle.name == name)
    }

    /// Numbers the bundles below `room`: those that the process before had keep their numbers, and
    /// so their queues.
    pub(crate) fn number(
        &self,
        bundles: Vec<BundleConfig>,
        room: usize,
    ) -> Vec<(usize, BundleConfig)> {
        let mut used = HashSet::new();
        let kept: Vec<Option<usize>> = bundles
            .iter()
            .map(|bundle| {
                let number = self.send(&bundle.name)?.number;
                (number < room && used.insert(number)).then_some(number)
            })
            .collect();
        let mut free = (0..).filter(|number| !used.contains(number));
        let numbers = kept.into_iter().filter_map(|kept| kept.or_else(|| free.next()));
        let mut numbered: Vec<_> = numbers.zip(bundles).collect();
        numbered.sort_unstable_by_key(|(number, _)| *number);
        numbered
    }

    /// Tells `forebay upgrade` what was taken over, when the set-up is complete.
    pub(crate) fn report(self) {
        let Some(stream) = self.stream else { return };
        let taken = Taken {
            process: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            ..self.taken
        };
        // Who has gone needs no report. Texts can always be written.
        let text = serde_json::to_vec(&taken).unwrap_or_default();
        let _ = local::write_all(&stream, &text, Instant::now() + REPORT_TIMEOUT);
    }

    #[cfg(test)]
    fn of(state: Handover) -> Self {
        Self { state, ..Self::default() }
    }
}

/// Connects to `forebay upgrade`, if it is root's or this user's. Without it nobody listens there.
fn connect(interface: &str) -> Option<UnixStream> {
    let path = Directory::open().ok()?.socket(HANDOVER_SOCKET, interface);
    Some(local::connect(&path).ok()?.0)
}

/// Reads to the end, with the descriptors that come.
fn receive(stream: &UnixStream, deadline: Instant) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    stream.set_nonblocking(false)?;
    let (mut text, mut descriptors) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        stream.set_read_timeout(Some(local::left(deadline)?))?;
        match descriptors::receive(stream, &mut buffer, &mut descriptors)? {
            0 => return Ok((text, descriptors)),
            n if text.len() + n > MAX_HANDOVER => return Err(io::ErrorKind::OutOfMemory.into()),
            n => text.extend_from_slice(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_discipline::Kind;

    use super::*;
    use crate::config::Policy;

    fn bundle(name: &str) -> BundleConfig {
        let discipline = Kind::Fifo.into();
        BundleConfig {
            name: name.to_owned(),
            id: 9,
            prefixes: Vec::new(),
            receivebox: SocketAddr::from(([10, 0, 0, 1], 1)).into(),
            key: forebay_wire::feedback::Key::new([0; 32]),
            policy: Policy { discipline, classes: Vec::new(), classifiers: Vec::new() },
            controller: forebay_control::ControllerKind::default(),
            cross_traffic: forebay_control::Detection::Ignore,
            multipath: forebay_control::Detection::Detect,
            guard: false,
            min_rate: None,
            max_rate: None,
            share: crate::config::Share::default(),
        }
    }

    #[test]
    fn bundles_keep_their_numbers_and_others_get_the_free_ones() {
        let send = |name: &str, number| SendHandover {
            name: name.to_owned(),
            number,
            ..SendHandover::default()
        };
        let sends = vec![send("a", 2), send("b", 2), send("c", 0), send("d", 64)];
        let handed = Handed::of(Handover { sends, ..Handover::default() });
        let names = ["a", "b", "c", "d", "e"];
        let bundles = Vec::from(names.map(bundle));
        let numbered = handed.number(bundles, 64);
        let numbers: Vec<_> = numbered.iter().map(|(n, b)| (*n, b.name.as_str())).collect();
        assert_eq!(numbers, [(0, "c"), (1, "b"), (2, "a"), (3, "d"), (4, "e")]);
    }
}
