//! Takes datagrams of sFlow, whose flow samples are records of single packets.

use std::net::IpAddr;

use super::{Collector, Trouble};
use crate::flows::count::Reason;
use crate::flows::sflow;

impl Collector {
    /// Takes a datagram of sFlow that arrived from `from` at `now`.
    pub(super) fn sflow(
        &mut self,
        from: IpAddr,
        octets: &[u8],
        now: i64,
        trouble: &mut dyn FnMut(Trouble),
    ) {
        let datagram = match sflow::datagram(octets, now) {
            Ok(datagram) => datagram,
            Err(why) => {
                self.no_message(&why);
                return trouble(Trouble { at: 0, what: why.to_string() });
            }
        };
        let header = datagram.header;
        let Some(key) = self.hear(from, &header, now) else { return };
        let domain = self.domains.entry(key).or_default();
        domain.losses.message(&header, None);
        let dropped = datagram.samples.iter().map(|sample| domain.drops.sample(sample)).sum();
        self.counts.add_times(Reason::Dropped, dropped);
        self.counts.add_times(Reason::Packetless, datagram.packetless);
        for (at, why) in datagram.unread {
            self.counts.add(Reason::Malformed, 0.0);
            trouble(Trouble { at, what: why.to_owned() });
        }
        for sample in datagram.samples {
            match sample.flow {
                Some(flow) => self.flow(key, &header, &flow),
                None => self.counts.add(Reason::NotIp, 0.0),
            }
        }
    }
}
