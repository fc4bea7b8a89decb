//! The record of a replaced tree. It is a file that outlives the process, so that the tree is
//! restored even if the process that replaced it was killed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::discipline::TCA_OPTIONS;
use crate::encode::{self, CREATE};
use crate::netlink::{Batch, Tc};
use crate::{Device, Error, Found, Handle};

/// A tree as it was found: the settings of each part as the kernel reported them, which is the form
/// that it takes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The parts in an order in which they can be created again.
    parts: Vec<Part>,
}

/// A qdisc or a class of a recorded tree.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// Whether it is a class and not a qdisc.
    class: bool,
    handle: Handle,
    parent: Handle,
    /// The kind of a qdisc; empty for a class.
    kind: String,
    options: Vec<u8>,
}

/// The qdiscs whose classes have to be created one by one. Other qdiscs create their own.
const WITH_CLASSES: [&str; 4] = ["htb", "hfsc", "drr", "qfq"];

impl Record {
    /// Records the tree `found`.
    pub(crate) fn new(found: &Found) -> Self {
        let mut parts = Vec::new();
        // Breadth first from the root.
        let mut next = vec![Handle::ROOT];
        while !next.is_empty() {
            let mut below = Vec::new();
            for parent in next {
                let Some(qdisc) = found.qdiscs.get(&parent) else { continue };
                let handle = qdisc.handle;
                let kind = qdisc.kind.clone();
                let options = encode::takeable(&kind, &qdisc.options);
                parts.push(Part { class: false, handle, parent, kind, options });
                if WITH_CLASSES.contains(&qdisc.kind.as_str()) {
                    classes(found, handle, &mut parts);
                }
                below.extend(
                    found.qdiscs.keys().filter(|p| p.qdisc() == handle && **p != Handle::ROOT),
                );
            }
            next = below;
        }
        Self { parts }
    }

    /// Encodes the requests that create the tree again on `device`.
    pub(crate) fn encode(&self, device: &Device) -> Batch {
        let mut batch = Batch::default();
        for part in &self.parts {
            if part.class {
                let tc = Tc::of(device.index, part.handle, part.parent);
                batch.about(libc::RTM_NEWTCLASS, CREATE, tc);
            } else {
                let (handle, parent) = (part.handle, part.parent);
                encode::new_qdisc(&mut batch, device, handle, parent, CREATE, &part.kind);
            }
            if !part.options.is_empty() {
                batch.attribute(TCA_OPTIONS, &part.options);
            }
        }
        batch
    }

    /// Describes part number `index`, for errors.
    pub(crate) fn describe(&self, index: usize) -> String {
        self.parts.get(index).map_or_else(String::new, |p| {
            let what = if p.class { "class" } else { "qdisc" };
            format!("putting back {what} {} {}", p.kind, p.handle)
        })
    }

    /// Returns the path of the record of `device`.
    pub(crate) fn path(device: &Device) -> Result<PathBuf, Error> {
        Ok(Path::new("/run/forebay").join(format!("queues-{}.json", device.key()?)))
    }

    /// Writes the record atomically.
    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let draft = path.with_extension("new");
            let mut file = forebay_system::private::file(&draft)?;
            file.set_len(0)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            fs::rename(&draft, path)
        };
        write().map_err(|source| Error::Record { path: path.to_owned(), source })
    }

    /// Reads the record; `None` if there is none.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, Error> {
        let read = || match fs::read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        };
        read().map_err(|source| Error::Record { path: path.to_owned(), source })
    }

    /// Removes the record.
    pub(crate) fn remove(path: &Path) -> Result<(), Error> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Record { path: path.to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}

/// Adds the classes of qdisc `handle` to `parts`, parents before children.
fn classes(found: &Found, handle: Handle, parts: &mut Vec<Part>) {
    let mut level = vec![Handle::ROOT, handle];
    while !level.is_empty() {
        let children: Vec<_> = found
            .classes
            .iter()
            .filter(|(id, c)| id.qdisc() == handle && **id != handle && level.contains(&c.parent))
            .collect();
        level = children.iter().map(|(id, _)| **id).collect();
        parts.extend(children.into_iter().map(|(id, class)| Part {
            class: true,
            handle: *id,
            parent: class.parent,
            kind: String::new(),
            options: class.options.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::{FoundClass, FoundQdisc};

    #[test]
    fn parents_come_before_children() {
        let mut found = Found::default();
        let h = Handle::new;
        let mut qdisc = |parent, handle, kind: &str| {
            let options = vec![handle as u8];
            let qdisc = FoundQdisc { handle: h(handle, 0), kind: kind.to_owned(), options };
            found.qdiscs.insert(parent, qdisc);
        };
        qdisc(h(1, 0x10), 9, "pfifo");
        qdisc(h(1, 2), 3, "mq");
        qdisc(h(3, 1), 2, "pfifo");
        qdisc(Handle::ROOT, 1, "htb");
        for (id, parent) in [(0x10, h(1, 0x20)), (0x20, h(1, 2)), (2, Handle::ROOT)] {
            found.classes.insert(h(1, id), FoundClass { parent, options: vec![] });
        }
        found.classes.insert(h(3, 1), FoundClass { parent: h(3, 0), options: vec![] });
        let record = Record::new(&found);
        let order: Vec<_> = record.parts.iter().map(|p| (p.handle, p.class)).collect();
        let expected = [
            (h(1, 0), false),
            (h(1, 2), true),
            (h(1, 0x20), true),
            (h(1, 0x10), true),
            (h(3, 0), false),
            (h(9, 0), false),
            (h(2, 0), false),
        ];
        assert_eq!(order, expected);
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
        let device = Device { name: String::new(), index: 1 };
        assert_eq!(record.encode(&device).len(), 7);
        assert_eq!(record.describe(0), "putting back qdisc htb 1:");
    }
}
