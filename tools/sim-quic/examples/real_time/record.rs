//! What the ends of a download record.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_sim::{Endpoint, Received, Transmit};
use forebay_units::{Bytes, Nanos};

use crate::network::Path;

/// Ethernet, IPv4 and UDP headers.
pub(crate) const HEADERS: u64 = 14 + 20 + 8;

/// A datagram at one end, told from others by a hash of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) at: Nanos,
    hash: u64,
    frame: Bytes,
}

impl Datagram {
    fn new(at: Nanos, payload: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        payload.hash(&mut hasher);
        Self { at, hash: hasher.finish(), frame: Bytes(payload.len() as u64 + HEADERS) }
    }
}

/// An endpoint with a record of its datagrams.
pub(crate) struct Recorded<E> {
    pub(crate) endpoint: E,
    pub(crate) sent: Vec<Datagram>,
    pub(crate) received: Vec<Datagram>,
}

impl<E> Recorded<E> {
    pub(crate) fn new(endpoint: E) -> Self {
        Self { endpoint, sent: Vec::new(), received: Vec::new() }
    }
}

impl<E: Endpoint> Endpoint for Recorded<E> {
    fn on_datagram(&mut self, now: Nanos, datagram: Received<'_>) {
        self.received.push(Datagram::new(now, datagram.payload));
        self.endpoint.on_datagram(now, datagram);
    }

    fn poll_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.endpoint.poll_transmit(now, payload)?;
        self.sent.push(Datagram::new(now, payload));
        Some(transmit)
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        self.endpoint.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.endpoint.on_timer(now);
    }
}

/// A finished download.
pub(crate) struct Download {
    pub(crate) size: u64,
    /// The time from the first datagram of the client to the last byte of the answer.
    pub(crate) took: Nanos,
    /// The server's datagrams when they were sent, and at the client.
    pub(crate) sent: Vec<Datagram>,
    pub(crate) received: Vec<Datagram>,
}

impl Download {
    pub(crate) fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }

    pub(crate) fn goodput_mbps(&self) -> f64 {
        self.size as f64 * 8e-6 / self.seconds()
    }

    /// The rate of whole frames from a quarter of the datagrams on, when slow start has ended.
    pub(crate) fn mbps(&self) -> f64 {
        let rest = &self.received[self.received.len() / 4..];
        let bytes: u64 = rest[1..].iter().map(|d| d.frame.0).sum();
        let took = rest[rest.len() - 1].at.saturating_sub(rest[0].at);
        bytes as f64 * 8e-6 / took.as_secs_f64()
    }

    pub(crate) fn lost(&self) -> usize {
        self.sent.len() - self.received.len()
    }

    /// The differences of the datagrams' arrivals from those over an ideal link, in ms and in
    /// ascending order. The ideal link sends what it is given without a pause, and drops the same
    /// datagrams.
    pub(crate) fn late_ms(&self, path: &Path) -> Vec<f64> {
        let received: HashMap<_, _> = self.received.iter().map(|d| (d.hash, d.at)).collect();
        let mut free = Nanos::ZERO;
        let late = |d: &Datagram| {
            let at = received.get(&d.hash)?;
            free = free.max(d.at) + path.rate.time_for(d.frame);
            Some((at.0 as f64 - (free + path.delay).0 as f64) / 1e6)
        };
        let mut late: Vec<_> = self.sent.iter().filter_map(late).collect();
        late.sort_by(f64::total_cmp);
        late
    }

    /// The wait of the server's datagrams, beyond the delay and the time on the wire: a percentile,
    /// or the mean.
    pub(crate) fn wait_ms(&self, path: &Path, share: Option<f64>) -> f64 {
        let sent: HashMap<_, _> = self.sent.iter().map(|d| (d.hash, d.at)).collect();
        let wait = |d: &Datagram| {
            let least = path.delay.0 + path.rate.time_for(d.frame).0;
            (d.at.0 as f64 - sent[&d.hash].0 as f64 - least as f64) / 1e6
        };
        let mut waits: Vec<_> = self.received.iter().map(wait).collect();
        waits.sort_by(f64::total_cmp);
        match share {
            None => waits.iter().sum::<f64>() / waits.len() as f64,
            Some(share) => waits[((waits.len() - 1) as f64 * share) as usize],
        }
    }
}
