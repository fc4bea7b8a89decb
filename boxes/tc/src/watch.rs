//! Notifications of changes that other programs make to the device and its queues.

use std::os::fd::{AsRawFd, RawFd};

use crate::encode::is_our_filter;
use crate::netlink::{Message, Netlink, array, messages, u32_at};
use crate::{Device, Error, Handle, Tree};

/// A change of the device or its queues by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A part of the tree is gone, or its root was replaced; [`Tree::rebuild`] repairs it.
    Damaged,
    /// The device went down; the packets in its queues are lost.
    Down,
    /// The device is up again. Its tree is still there.
    Up,
    /// The device itself is gone.
    Gone,
    /// The buffer for notifications was full, and some are lost; [`Tree::rebuild`] repairs any
    /// damage.
    Missed,
}

/// The notifications of one device. Its owner polls the descriptor.
#[derive(Debug)]
pub struct Watch {
    socket: Netlink,
    device: Device,
    /// The number of the socket whose own changes are not reported.
    own: u32,
    up: bool,
}

impl Watch {
    /// Watches the device of `tree` from now on.
    ///
    /// # Errors
    /// If the kernel sends no notifications.
    pub fn new(tree: &Tree) -> Result<Self, Error> {
        let groups = 1 << (libc::RTNLGRP_LINK - 1) | 1 << (libc::RTNLGRP_TC - 1);
        let socket = Netlink::open(groups)?;
        let own = tree.port()?;
        skip(socket.descriptor(), own)?;
        let device = tree.device().clone();
        Ok(Self { socket, device, own, up: true })
    }

    /// Returns the descriptor that becomes readable when there are notifications.
    pub fn descriptor(&self) -> RawFd {
        self.socket.descriptor()
    }

    /// Returns the events since the last call, each kind once, in the order of arrival. It does not
    /// wait.
    ///
    /// # Errors
    /// If notifications cannot be read.
    pub fn events(&mut self) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        loop {
            match self.socket.read(libc::MSG_DONTWAIT) {
                Ok(None) => return Ok(events),
                Ok(Some(bytes)) => {
                    for message in messages(bytes) {
                        let event = event(&message, &self.device, self.own, &mut self.up);
                        if let Some(event) = event
                            && !events.contains(&event)
                        {
                            events.push(event);
                        }
                    }
                }
                Err(Error::System { source, .. })
                    if source.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    events.push(Event::Missed);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// Decodes a notification; `None` if it is not about the device or its tree.
fn event(message: &Message<'_>, device: &Device, own: u32, up: &mut bool) -> Option<Event> {
    match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            // `struct ifinfomsg`: family, type, index, flags. A bridge tells of its ports by the
            // same messages, in its own address family.
            let family = u16::from_ne_bytes(array(message.body, 0)?);
            if family != 0 || u32_at(message.body, 4)? as i32 != device.index {
                return None;
            }
            if message.kind == libc::RTM_DELLINK {
                return Some(Event::Gone);
            }
            let now = u32_at(message.body, 8)? & libc::IFF_UP as u32 != 0;
            let was = std::mem::replace(up, now);
            (was != now).then_some(if now { Event::Up } else { Event::Down })
        }
        libc::RTM_DELQDISC | libc::RTM_DELTCLASS | libc::RTM_DELTFILTER => {
            let (tc, _) = message.object()?;
            let named = if message.kind == libc::RTM_DELTFILTER { tc.parent } else { tc.handle };
            let ours = Handle(named).is_ours() || Handle(tc.parent).is_ours();
            let ours = ours && (message.kind != libc::RTM_DELTFILTER || is_our_filter(&tc));
            (tc.index == device.index && ours && message.port != own).then_some(Event::Damaged)
        }
        libc::RTM_NEWQDISC => {
            let (tc, _) = message.object()?;
            let root = Handle(tc.parent) == Handle::ROOT && Handle(tc.handle) != Handle::TREE;
            (tc.index == device.index && root && message.port != own).then_some(Event::Damaged)
        }
        _ => None,
    }
}

/// Filters out notifications of changed classes, of which there are hundreds a second from the
/// sendbox itself, and of its other changes, of which a new file can cause more than fit into the
/// socket. `own` is the number of the socket that makes them.
fn skip(socket: RawFd, own: u32) -> Result<(), Error> {
    let code = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The message's type is the 16-bit word at 4, and the number of the requesting socket the word
    // at 12, in the machine's order; the filter loads both in the network's.
    let class = u32::from(libc::RTM_NEWTCLASS.to_be());
    let mut program = [
        code(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 4),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2, 0, class),
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 12),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, own.to_be()),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is valid through the call, which copies it, and its length is right.
    let set = unsafe {
        let (at, length) = ((&raw const program).cast(), size_of_val(&program) as u32);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, length)
    };
    if set == 0 { Ok(()) } else { Err(Error::last("filtering notifications")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Batch, Tc};

    const DEVICE: i32 = 7;

    /// The event for a message about an object, from another program or from the tree itself.
    fn of(kind: u16, handle: Handle, parent: Handle, index: i32, own: u32) -> Option<Event> {
        let mut batch = Batch::default();
        let tc = Tc { index, handle: handle.0, parent: parent.0, info: 1 << 16 };
        batch.about(kind, 0, tc);
        let bytes = batch.take();
        let device = Device { name: String::new(), index: DEVICE };
        // Requests carry no number, which reads as zero.
        event(&messages(&bytes).next().unwrap(), &device, own, &mut true)
    }

    #[test]
    fn only_changes_by_others_to_the_tree_are_events() {
        let (root, tree, class) = (Handle::ROOT, Handle::TREE, Handle::of_bundle(3));
        let leaf = Handle::new(0x8001, 0);
        let damaged = Some(Event::Damaged);
        assert_eq!(of(libc::RTM_DELQDISC, tree, root, DEVICE, 9), damaged);
        assert_eq!(of(libc::RTM_DELQDISC, tree, root, DEVICE, 0), None, "we did it");
        assert_eq!(of(libc::RTM_DELQDISC, tree, root, DEVICE + 1, 9), None, "elsewhere");
        assert_eq!(of(libc::RTM_DELTCLASS, class, tree, DEVICE, 9), damaged);
        assert_eq!(of(libc::RTM_DELQDISC, leaf, class, DEVICE, 9), damaged);
        assert_eq!(of(libc::RTM_DELTFILTER, Handle(1), tree, DEVICE, 9), damaged);
        assert_eq!(of(libc::RTM_DELTFILTER, Handle(1), leaf, DEVICE, 9), None);
        assert_eq!(of(libc::RTM_DELQDISC, leaf, Handle(0xffff_fff1), DEVICE, 9), None);
        assert_eq!(of(libc::RTM_NEWQDISC, Handle::new(1, 0), root, DEVICE, 9), damaged);
        assert_eq!(of(libc::RTM_NEWQDISC, tree, root, DEVICE, 9), None);
        assert_eq!(of(libc::RTM_NEWTCLASS, class, tree, DEVICE, 9), None);
    }

    #[test]
    fn each_change_of_a_devices_state_is_one_event() {
        let mut up = true;
        let device = Device { name: String::new(), index: DEVICE };
        let mut link = |kind: u16, family: u8, index: i32, flags: i32| {
            let mut bytes = vec![0u8; 32];
            bytes[0..4].copy_from_slice(&32u32.to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16] = family;
            bytes[20..24].copy_from_slice(&index.to_ne_bytes());
            bytes[24..28].copy_from_slice(&flags.to_ne_bytes());
            event(&messages(&bytes).next().unwrap(), &device, 9, &mut up)
        };
        let new = libc::RTM_NEWLINK;
        assert_eq!(link(new, 0, DEVICE, libc::IFF_UP), None);
        assert_eq!(link(new, 0, DEVICE + 1, 0), None);
        assert_eq!(link(new, 7, DEVICE, 0), None, "a bridge's");
        assert_eq!(link(new, 0, DEVICE, 0), Some(Event::Down));
        assert_eq!(link(new, 0, DEVICE, 0), None);
        assert_eq!(link(new, 0, DEVICE, libc::IFF_UP), Some(Event::Up));
        assert_eq!(link(libc::RTM_DELLINK, 7, DEVICE, 0), None);
        assert_eq!(link(libc::RTM_DELLINK, 0, DEVICE, 0), Some(Event::Gone));
    }
}
