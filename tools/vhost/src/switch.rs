//! A learning switch: it maps Ethernet addresses to virtual machines.
//!
//! Addresses of the configuration are pinned: another virtual machine cannot take them over by
//! sending from them. Other addresses are learnt from sent frames, and belong to the latest sender.

use std::collections::HashMap;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Maximum number of learnt addresses of one virtual machine, such as those of containers inside
/// it. A further one replaces the oldest.
const MAX_LEARNT: usize = 64;

/// Destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Only the virtual machine with this index.
    Vm(u8),
    /// All virtual machines and the outside: a multicast address.
    All,
    /// No virtual machine has the address.
    Unknown,
}

/// The table of addresses.
#[derive(Debug)]
pub(crate) struct Switch {
    owners: HashMap<Mac, u8>,
    /// Pinned address of each virtual machine, by index.
    pinned: Vec<Mac>,
    /// Learnt addresses of each virtual machine, the oldest first.
    learnt: Vec<Vec<Mac>>,
}

impl Switch {
    /// Creates the switch of virtual machines with these pinned addresses.
    pub(crate) fn new(pinned: Vec<Mac>) -> Self {
        let owners = pinned.iter().enumerate().map(|(vm, mac)| (*mac, vm as u8)).collect();
        let learnt = vec![Vec::new(); pinned.len()];
        Self { owners, pinned, learnt }
    }

    /// Returns the destination of `frame`.
    pub(crate) fn target(&self, frame: &[u8]) -> Target {
        let Some(destination) = frame.first_chunk::<6>() else { return Target::Unknown };
        if destination[0] & 1 != 0 {
            return Target::All;
        }
        self.owners.get(destination).map_or(Target::Unknown, |vm| Target::Vm(*vm))
    }

    /// Learns the source address of `frame`, which `vm` sent.
    pub(crate) fn learn(&mut self, vm: u8, frame: &[u8]) {
        let Some(source) = frame.get(6..12).and_then(|m| Mac::try_from(m).ok()) else { return };
        let known = self.owners.get(&source).copied();
        if known == Some(vm) || source[0] & 1 != 0 {
            return;
        }
        if let Some(other) = known {
            if self.pinned[usize::from(other)] == source {
                return;
            }
            self.learnt[usize::from(other)].retain(|mac| *mac != source);
        }
        let own = &mut self.learnt[usize::from(vm)];
        if own.len() == MAX_LEARNT {
            self.owners.remove(&own.remove(0));
        }
        own.push(source);
        self.owners.insert(source, vm);
    }

    /// Forgets the learnt addresses of a virtual machine whose front end has disconnected.
    pub(crate) fn forget(&mut self, vm: u8) {
        for mac in self.learnt[usize::from(vm)].drain(..) {
            self.owners.remove(&mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];
    const C: Mac = [2, 0, 0, 0, 0, 0xc];

    fn frame(to: Mac, from: Mac) -> Vec<u8> {
        [to, from].concat()
    }

    #[test]
    fn pinned_addresses_cannot_be_taken_over() {
        let mut switch = Switch::new(vec![A, B]);
        assert_eq!(switch.target(&frame(A, C)), Target::Vm(0));
        switch.learn(1, &frame(C, A));
        assert_eq!(switch.target(&frame(A, C)), Target::Vm(0));
        assert_eq!(switch.target(&frame([0xff; 6], A)), Target::All);
        assert_eq!(switch.target(&[2, 0]), Target::Unknown);
    }

    #[test]
    fn learnt_addresses_belong_to_the_latest_sender() {
        let mut switch = Switch::new(vec![A, B]);
        assert_eq!(switch.target(&frame(C, A)), Target::Unknown);
        switch.learn(0, &frame(B, C));
        assert_eq!(switch.target(&frame(C, A)), Target::Vm(0));
        switch.learn(1, &frame(B, C));
        assert_eq!(switch.target(&frame(C, A)), Target::Vm(1));
        assert!(switch.learnt[0].is_empty());
        switch.forget(1);
        assert_eq!(switch.target(&frame(C, A)), Target::Unknown);
        assert_eq!(switch.target(&frame(B, A)), Target::Vm(1), "pinned");
    }

    #[test]
    fn invented_addresses_use_only_the_share_of_their_guest() {
        let mut switch = Switch::new(vec![A, B]);
        switch.learn(1, &frame(A, C));
        for i in 0..1000u32 {
            let [_, _, x, y] = i.to_be_bytes();
            switch.learn(0, &frame(A, [6, 0, 0, 0, x, y]));
        }
        assert_eq!(switch.owners.len(), 2 + 1 + MAX_LEARNT);
        assert_eq!(switch.target(&frame(C, A)), Target::Vm(1));
        assert_eq!(
            switch.target(&frame([6, 0, 0, 0, 3, 231], A)),
            Target::Vm(0),
            "the latest address"
        );
        assert_eq!(switch.target(&frame([6, 0, 0, 0, 0, 0], A)), Target::Unknown);
        switch.learn(0, &frame(A, [1, 0, 0, 0, 0, 1]));
        assert_eq!(switch.owners.len(), 3 + MAX_LEARNT, "a multicast source is not learnt");
    }
}
