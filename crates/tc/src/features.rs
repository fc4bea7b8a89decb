//! Which queueing disciplines the running kernel has: found by trying, since a kernel lists none that
//! it would only load when asked.

use std::collections::BTreeSet;
use std::thread;

use crate::encode::{self, CREATE};
use crate::netlink::{Batch, Netlink};
use crate::plan::stands_in;
use crate::{Device, Discipline, Error, Handle, QdiscKind};

/// The queueing disciplines that a kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(BTreeSet<&'static str>);

impl Features {
    /// All that a plan may have.
    pub const KINDS: [&str; 9] =
        ["htb", "pfifo", "bfifo", "sfq", "fq_codel", "pie", "fq_pie", "cake", "dualpi2"];

    /// Of a kernel that has `kinds`.
    pub fn of(kinds: &[&'static str]) -> Self {
        Self(kinds.iter().copied().collect())
    }

    /// Those of the running kernel: each is tried on the loopback interface of a network namespace
    /// that is made for it, so that nothing is touched.
    ///
    /// # Errors
    /// Without the rights to make a namespace and queues.
    pub fn probe() -> Result<Self, Error> {
        thread::scope(|scope| {
            let probe = scope.spawn(|| {
                // SAFETY: takes a flag, and changes the network namespace of this thread alone,
                // which ends with it.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    return Err(Error::last("making a network namespace"));
                }
                let lo = Device::find("lo")?;
                let mut socket = Netlink::open(0)?;
                let mut found = BTreeSet::new();
                for kind in Self::KINDS {
                    if tried(&mut socket, &lo, kind)? {
                        found.insert(kind);
                    }
                }
                Ok(Self(found))
            });
            probe.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Their names.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }

    /// Whether packets can wait by `discipline`, or by what stands in for it.
    ///
    /// # Errors
    /// If they cannot; it says what the kernel has.
    pub fn check(&self, discipline: &Discipline) -> Result<(), Error> {
        match stands_in(discipline) {
            None if self.lacks(discipline) => Err(self.missing(discipline.kind())),
            _ => Ok(()),
        }
    }

    pub(crate) fn lacks(&self, discipline: &Discipline) -> bool {
        !self.0.contains(discipline.kind())
    }

    /// # Errors
    /// If the kernel has no `kind`.
    pub(crate) fn require(&self, kind: &str) -> Result<(), Error> {
        if self.0.contains(kind) { Ok(()) } else { Err(self.missing(kind)) }
    }

    /// That the kernel has no `kind`, and what it has.
    fn missing(&self, kind: &str) -> Error {
        let instead = match kind {
            "htb" => "use dataplane = \"user\", which needs none".to_owned(),
            _ => {
                let others: Vec<&str> = self.kinds().filter(|k| *k != "htb").collect();
                format!("it has {}; sfq works on every kernel", others.join(", "))
            }
        };
        Error::NoDiscipline { kind: kind.to_owned(), module: format!("sch_{kind}"), instead }
    }
}

/// Whether a qdisc without settings, or of HTB's, can be had on `device`.
fn tried(socket: &mut Netlink, device: &Device, kind: &str) -> Result<bool, Error> {
    let mut batch = Batch::default();
    encode::new_qdisc(&mut batch, device, Handle::TREE, Handle::ROOT, CREATE, kind);
    if kind == "htb" {
        QdiscKind::Htb.encode(&mut batch);
    }
    let refused = socket.transact(&mut batch)?;
    match refused.first() {
        Some(f) if f.errno == libc::EPERM => Err(Error::Permission("trying queues".to_owned())),
        // An unknown kind is ENOENT; anything else was said by the discipline itself.
        Some(f) => Ok(f.errno != libc::ENOENT),
        None => {
            batch.clear();
            encode::delete_qdisc(&mut batch, device, Handle::TREE, Handle::ROOT);
            socket.transact(&mut batch).map(|_| true)
        }
    }
}
