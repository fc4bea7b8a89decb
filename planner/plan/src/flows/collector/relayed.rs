//! Takes records and datagrams that other collectors relay.

use super::{Collector, Trouble};
use crate::flows::count::Reason;
use crate::flows::relayed::{self, MAX_MESSAGE, Messages, Relay, Unreadable};

impl Collector {
    /// Takes a message of `relay`: for goflow2 a record, for akvorado a datagram. One that is
    /// larger than [`MAX_MESSAGE`] counts as malformed.
    ///
    /// Lost datagrams are counted for akvorado only, since goflow2 does not relay what the sequence
    /// numbers count.
    pub fn relayed(&mut self, relay: Relay, octets: &[u8], trouble: &mut dyn FnMut(Trouble)) {
        let read = match relay {
            _ if octets.len() > MAX_MESSAGE => Err(Unreadable::Length),
            Relay::Goflow2 => self.goflow2(octets),
            Relay::Akvorado => relayed::akvorado(octets).map(|datagram| {
                let relayed::Datagram { exporter, received, payload } = datagram;
                self.datagram(exporter, payload, received, trouble);
            }),
        };
        if let Err(why) = read {
            self.unreadable(0, &why, trouble);
        }
    }

    fn goflow2(&mut self, octets: &[u8]) -> Result<(), Unreadable> {
        let relayed::Record { exporter, header, fields } = relayed::goflow2(octets)?;
        if let Some(key) = self.hear(exporter, &header, header.exported) {
            self.domains.entry(key).or_default();
            self.flow(key, &header, &fields);
        }
        Ok(())
    }

    /// Takes a file of messages of `relay`, each with its length in front.
    pub fn relayed_file(&mut self, relay: Relay, file: &[u8], trouble: &mut dyn FnMut(Trouble)) {
        for (at, message) in Messages::new(relay, file) {
            match message {
                Ok(octets) => self.relayed(relay, octets, &mut |t| {
                    trouble(Trouble { at: at + t.at, what: t.what });
                }),
                Err(why) => self.unreadable(at, &why, trouble),
            }
        }
    }

    fn unreadable(&mut self, at: usize, why: &Unreadable, trouble: &mut dyn FnMut(Trouble)) {
        let reason = match why {
            Unreadable::Kind(_) | Unreadable::Text(_) => Reason::Version,
            _ => Reason::Malformed,
        };
        self.counts.add(reason, 0.0);
        trouble(Trouble { at, what: format!("the message {why}") });
    }
}
