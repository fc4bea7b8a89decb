//! The port behind which each host is, learnt from the frames that the host sends.

use std::collections::HashMap;

/// The number of hosts that are remembered; frames to further hosts go to every port.
const MAX_HOSTS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Ends(HashMap<[u8; 6], usize>);

impl Ends {
    /// Notes that `frame` came from `port`.
    pub(super) fn learn(&mut self, frame: &[u8], port: usize) {
        let source = frame.get(6..12).and_then(|m| <[u8; 6]>::try_from(m).ok());
        if let Some(mac) = source
            && (self.0.len() < MAX_HOSTS || self.0.contains_key(&mac))
        {
            self.0.insert(mac, port);
        }
    }

    /// Returns the port of the destination of `frame`; `None` for broadcasts and unknown hosts.
    pub(super) fn find(&self, frame: &[u8]) -> Option<usize> {
        self.0.get(frame.get(..6)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_where_they_spoke_last() {
        let frame = |to: u8, from: u8| [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
        let mut ends = Ends::default();
        assert_eq!(ends.find(&frame(1, 9)), None);
        ends.learn(&frame(9, 1), 0);
        assert_eq!(ends.find(&frame(1, 9)), Some(0));
        ends.learn(&frame(9, 1), 2);
        assert_eq!(ends.find(&frame(1, 9)), Some(2));
        assert_eq!(ends.find(&[0xff; 12]), None, "broadcast");
        assert_eq!(ends.find(&[]), None);
    }
}
