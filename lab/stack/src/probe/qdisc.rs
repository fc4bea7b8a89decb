//! Statistics of a queueing discipline, from `tc -s -j qdisc show`.

use serde::{Deserialize, Serialize};

/// Counters of a queueing discipline. A packet is here what is on the wire: a segment of 64 KiB
/// counts as all the packets that it becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QdiscCounters {
    /// Bytes that were sent.
    #[serde(default)]
    pub bytes: u64,
    /// Packets that were sent.
    #[serde(default)]
    pub packets: u64,
    /// Packets that were dropped or refused.
    #[serde(default)]
    pub drops: u64,
    /// Packets that the driver could not take at once.
    #[serde(default)]
    pub requeues: u64,
    /// The bytes in the queue.
    #[serde(default)]
    pub backlog: u64,
    /// The packets or segments in the queue.
    #[serde(default)]
    pub qlen: u64,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    handle: String,
    #[serde(default)]
    root: bool,
    #[serde(flatten)]
    counters: QdiscCounters,
}

impl QdiscCounters {
    /// Parses tc's answer: the discipline with this handle or, without one, the root. `None` if
    /// there is none.
    pub fn parse(json: &str, handle: Option<&str>) -> Option<Self> {
        let entries: Vec<Entry> = serde_json::from_str(json).ok()?;
        let wanted = |entry: &&Entry| handle.map_or(entry.root, |handle| entry.handle == handle);
        entries.iter().find(wanted).map(|entry| entry.counters)
    }

    /// The increase since `before`; the backlog is the present one.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            packets: self.packets.saturating_sub(before.packets),
            drops: self.drops.saturating_sub(before.drops),
            requeues: self.requeues.saturating_sub(before.requeues),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"[
        {"kind":"htb","handle":"1:","root":true,"refcnt":3,"options":{"r2q":10},
         "bytes":500,"packets":5,"drops":1,"overlimits":7,"requeues":2,"backlog":90,"qlen":1},
        {"kind":"pfifo","handle":"2:","parent":"1:1","options":{"limit":1000},
         "bytes":400,"packets":4,"drops":3,"overlimits":0,"requeues":0,"backlog":80,"qlen":6},
        {"kind":"clsact","parent":"ffff:fff1","bytes":0}]"#;

    #[test]
    fn a_discipline_is_found_by_its_handle_or_as_the_root() {
        let leaf = QdiscCounters::parse(ANSWER, Some("2:")).unwrap();
        let counted = (leaf.bytes, leaf.packets, leaf.drops, leaf.requeues);
        assert_eq!((counted, leaf.backlog, leaf.qlen), ((400, 4, 3, 0), 80, 6));
        assert_eq!(QdiscCounters::parse(ANSWER, None).unwrap().requeues, 2);
        assert_eq!(QdiscCounters::parse(ANSWER, Some("3:")), None);
        assert_eq!(QdiscCounters::parse("", None), None);
    }

    #[test]
    fn the_backlog_is_the_present_one() {
        let before =
            QdiscCounters { bytes: 100, packets: 9, drops: 1, requeues: 1, backlog: 7, qlen: 2 };
        let after =
            QdiscCounters { bytes: 400, packets: 4, drops: 3, requeues: 1, backlog: 80, qlen: 6 };
        let expected =
            QdiscCounters { bytes: 300, packets: 0, drops: 2, requeues: 0, backlog: 80, qlen: 6 };
        assert_eq!(after.since(before), expected);
    }
}
