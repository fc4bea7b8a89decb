//! Counters of a namespace's TCP and of its interfaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters by protocol and name, such as `Tcp.RetransSegs`, from `/proc/net/snmp` and
/// `/proc/net/netstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters(BTreeMap<String, u64>);

impl TcpCounters {
    /// Parses the text of either file, or of both in turn: pairs of lines, of which the first has
    /// the names and the second the values.
    pub fn parse(text: &str) -> Self {
        let mut counters = BTreeMap::new();
        let mut names: Option<(&str, &str)> = None;
        for line in text.lines() {
            let Some((protocol, rest)) = line.split_once(':') else { continue };
            match names.take() {
                Some((before, heads)) if before == protocol => {
                    let pairs = heads.split_whitespace().zip(rest.split_whitespace());
                    for (name, value) in pairs {
                        // Some values are negative, such as Tcp.MaxConn; none of those is needed.
                        if let Ok(value) = value.parse() {
                            counters.insert(format!("{protocol}.{name}"), value);
                        }
                    }
                }
                _ => names = Some((protocol, rest)),
            }
        }
        Self(counters)
    }

    /// The increase of the counter `name` since `before`; 0 if the kernel does not have it.
    pub fn since(&self, before: &Self, name: &str) -> u64 {
        let of = |counters: &Self| counters.0.get(name).copied().unwrap_or(0);
        of(self).saturating_sub(of(before))
    }
}

/// Bytes and packets of an interface, from `/proc/net/dev`. A packet is what the driver gets, with
/// offloads a segment of up to 64 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Bytes that were received.
    pub rx_bytes: u64,
    /// Packets that were received.
    pub rx_packets: u64,
    /// Packets that were dropped on arrival.
    pub rx_dropped: u64,
    /// Bytes that were sent.
    pub tx_bytes: u64,
    /// Packets that were sent.
    pub tx_packets: u64,
    /// Packets that the driver dropped.
    pub tx_dropped: u64,
}

impl Interface {
    /// Finds `device` in the text of `/proc/net/dev`.
    pub fn parse(text: &str, device: &str) -> Option<Self> {
        let values = text.lines().find_map(|line| {
            let (name, values) = line.split_once(':')?;
            (name.trim() == device).then_some(values)
        })?;
        let n: Vec<u64> = values.split_whitespace().map_while(|v| v.parse().ok()).collect();
        // Eight fields of each direction: bytes, packets, errs, drop, ...
        let all: &[u64; 16] = n.first_chunk()?;
        Some(Self {
            rx_bytes: all[0],
            rx_packets: all[1],
            rx_dropped: all[3],
            tx_bytes: all[8],
            tx_packets: all[9],
            tx_dropped: all[11],
        })
    }

    /// The increase since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            rx_bytes: self.rx_bytes.saturating_sub(before.rx_bytes),
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_dropped: self.rx_dropped.saturating_sub(before.rx_dropped),
            tx_bytes: self.tx_bytes.saturating_sub(before.tx_bytes),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_dropped: self.tx_dropped.saturating_sub(before.tx_dropped),
        }
    }
}

/// The value in bytes of a line of `/proc/meminfo`, such as `MemAvailable`.
pub fn memory(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The memory in pages that all TCP sockets of the machine hold, from `/proc/net/sockstat`.
pub fn tcp_pages(sockstat: &str) -> Option<u64> {
    let values = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = values.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n\
        Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 1000 10\n\
        TcpExt: TCPPureAcks TCPHPAcks\nTcpExt: 5 7\n";
    const AFTER: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n\
        Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 3000 25\n\
        TcpExt: TCPPureAcks TCPHPAcks\nTcpExt: 105 3\n";

    #[test]
    fn counters_are_found_by_name() {
        let (before, after) = (TcpCounters::parse(BEFORE), TcpCounters::parse(AFTER));
        assert_eq!(after.since(&before, "Tcp.OutSegs"), 2000);
        assert_eq!(after.since(&before, "Tcp.RetransSegs"), 15);
        assert_eq!(after.since(&before, "TcpExt.TCPPureAcks"), 100);
        assert_eq!(after.since(&before, "TcpExt.TCPHPAcks"), 0, "a counter that went back");
        assert_eq!(after.since(&before, "Tcp.MaxConn"), 0);
        assert_eq!(after.since(&before, "Tcp.None"), 0);
    }

    #[test]
    fn lines_without_their_pair_are_passed_over() {
        let counters = TcpCounters::parse("Udp: A B\nTcp: C\nTcp: 4\nrest\n");
        assert_eq!(counters.since(&TcpCounters::default(), "Tcp.C"), 4);
        assert_eq!(counters, TcpCounters::parse("Tcp: C\nTcp: 4\n"));
    }

    #[test]
    fn an_interface_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets\n\
            fb-send0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
            fb-send: 100 20 0 3 0 0 0 0 7000 50 0 6 0 0 0 0\n";
        let found = Interface::parse(text, "fb-send").unwrap();
        let expected = Interface {
            rx_bytes: 100,
            rx_packets: 20,
            rx_dropped: 3,
            tx_bytes: 7000,
            tx_packets: 50,
            tx_dropped: 6,
        };
        assert_eq!(found, expected);
        assert_eq!(found.since(expected), Interface::default());
        assert_eq!(Interface::parse(text, "fb"), None);
        assert_eq!(Interface::parse("fb: 1 2", "fb"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       100 kB\nMemAvailable:    24 kB\nHugePages_Total:   0\n";
        assert_eq!(memory(text, "MemAvailable"), Some(24_576));
        assert_eq!(memory(text, "Mem"), None);
        assert_eq!(memory(text, "HugePages_Total"), None);
        let sockets = "sockets: used 16\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 296\nUDP: mem 9\n";
        assert_eq!(tcp_pages(sockets), Some(296));
        assert_eq!(tcp_pages("UDP: mem 9\n"), None);
    }
}
