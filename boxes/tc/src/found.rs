//! The queues that a device has.

use std::collections::BTreeMap;

use crate::discipline::TCA_OPTIONS;
use crate::encode::{HtbClass, TCA_KIND};
use crate::netlink::{Batch, Message, Netlink, Tc, string};
use crate::{Device, Error, Handle};

/// The qdiscs and classes of a device, without those that the kernel sets up by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The qdiscs, by their parents.
    pub(crate) qdiscs: BTreeMap<Handle, FoundQdisc>,
    /// The classes, by their names.
    pub(crate) classes: BTreeMap<Handle, FoundClass>,
}

/// A qdisc of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundQdisc {
    pub(crate) handle: Handle,
    pub(crate) kind: String,
    /// The settings as the kernel reports them, which is the form that it takes.
    pub(crate) options: Vec<u8>,
}

/// A class of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundClass {
    pub(crate) parent: Handle,
    pub(crate) options: Vec<u8>,
}

/// The owner of a device's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The kernel, which sets up default queues.
    Default,
    /// A sendbox of Forebay.
    Ours,
    /// Another program or administrator.
    Foreign {
        /// The kind of the root qdisc.
        kind: String,
        /// The name of the root qdisc.
        handle: Handle,
    },
}

/// The parent of a qdisc for arriving packets, which does not belong to the tree for departing
/// packets.
const INGRESS: Handle = Handle(0xffff_fff1);

impl Found {
    /// Asks the kernel for the queues of `device`.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn of(device: &Device) -> Result<Self, Error> {
        Self::ask(&mut Netlink::open(0)?, device)
    }

    pub(crate) fn ask(socket: &mut Netlink, device: &Device) -> Result<Self, Error> {
        let mut found = Self::default();
        dump(socket, libc::RTM_GETQDISC, device, Handle(0), |tc, kind, options| {
            let (handle, parent) = (Handle(tc.handle), Handle(tc.parent));
            // Qdiscs that the kernel sets up by itself have no names.
            if handle != Handle(0) && parent != INGRESS {
                found.qdiscs.insert(parent, FoundQdisc { handle, kind, options });
            }
        })?;
        if !found.qdiscs.is_empty() {
            dump(socket, libc::RTM_GETTCLASS, device, Handle(0), |tc, _, options| {
                let parent = Handle(tc.parent);
                found.classes.insert(Handle(tc.handle), FoundClass { parent, options });
            })?;
        }
        Ok(found)
    }

    /// Returns the owner of the tree.
    pub fn root(&self) -> Root {
        match self.qdiscs.get(&Handle::ROOT) {
            None => Root::Default,
            Some(q) if q.handle == Handle::TREE && q.kind == "htb" => Root::Ours,
            Some(q) => Root::Foreign { kind: q.kind.clone(), handle: q.handle },
        }
    }

    /// Returns the settings of a class of HTB.
    pub(crate) fn htb_class(&self, id: Handle) -> Option<HtbClass> {
        self.classes.get(&id).and_then(|class| HtbClass::decode(&class.options))
    }
}

/// Asks for the objects of `device`. Of classes, only those of qdisc `parent` unless that is zero.
fn dump(
    socket: &mut Netlink,
    kind: u16,
    device: &Device,
    parent: Handle,
    mut f: impl FnMut(Tc, String, Vec<u8>),
) -> Result<(), Error> {
    let mut batch = Batch::default();
    let tc = Tc { index: device.index, parent: parent.0, ..Tc::default() };
    batch.about(kind, libc::NLM_F_DUMP, tc);
    let failure = socket.ask(&mut batch, |message: &Message<'_>| {
        // The kernel answers with the qdiscs of all devices.
        if let Some((tc, attributes)) = message.object()
            && tc.index == device.index
        {
            let kind = attributes.get(TCA_KIND).map(string).unwrap_or_default();
            f(tc, kind, attributes.get(TCA_OPTIONS).unwrap_or_default().to_vec());
        }
    })?;
    match failure {
        None => Ok(()),
        Some(f) if f.errno == libc::ENODEV => Err(Error::NoDevice(device.name.clone())),
        Some(f) => Err(Error::Refused {
            device: device.name.clone(),
            object: "asking for its queues".to_owned(),
            message: f.message,
            errno: f.errno,
        }),
    }
}

/// Whether qdisc `parent` has filters.
pub(crate) fn has_filters(
    socket: &mut Netlink,
    device: &Device,
    parent: Handle,
) -> Result<bool, Error> {
    let mut any = false;
    dump(socket, libc::RTM_GETTFILTER, device, parent, |_, _, _| any = true)?;
    Ok(any)
}
