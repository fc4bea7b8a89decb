//! The queueing disciplines of the running kernel. They are found by trying each, since a kernel
//! does not list those that it loads on demand.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::thread;

use crate::encode::{self, CREATE};
use crate::netlink::{Batch, Netlink};
use crate::plan::stands_in;
use crate::{Device, Discipline, Error, Handle, QdiscKind};

/// The queueing disciplines that a kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(BTreeSet<&'static str>);

impl Features {
    /// Every kind that a plan may have.
    pub const KINDS: [&str; 9] =
        ["htb", "pfifo", "bfifo", "sfq", "fq_codel", "pie", "fq_pie", "cake", "dualpi2"];

    /// The features of a kernel that has `kinds`.
    pub fn of(kinds: &[&'static str]) -> Self {
        Self(kinds.iter().copied().collect())
    }

    /// Finds the features of the running kernel. Each kind is tried on the loopback interface of a
    /// new network namespace, so that no existing interface changes.
    ///
    /// A process finds them once: later it may have given up the rights for it.
    ///
    /// # Errors
    /// If this process may not create a namespace and queues.
    pub fn probe() -> Result<Self, Error> {
        static KNOWN: OnceLock<Features> = OnceLock::new();
        if let Some(known) = KNOWN.get() {
            return Ok(known.clone());
        }
        let found = Self::find()?;
        Ok(KNOWN.get_or_init(|| found).clone())
    }

    fn find() -> Result<Self, Error> {
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

    /// Returns the names of the kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }

    /// Checks that the kernel has `discipline` or a replacement for it.
    ///
    /// # Errors
    /// If it has neither; the error lists what the kernel has.
    pub fn check(&self, discipline: &Discipline) -> Result<(), Error> {
        match stands_in(discipline) {
            None if self.lacks(discipline) => Err(self.missing(discipline.kind())),
            _ => Ok(()),
        }
    }

    /// Whether the kernel lacks `discipline` itself.
    pub fn lacks(&self, discipline: &Discipline) -> bool {
        !self.0.contains(discipline.kind())
    }

    /// Checks that the kernel has `kind`.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn require(&self, kind: &str) -> Result<(), Error> {
        if self.0.contains(kind) { Ok(()) } else { Err(self.missing(kind)) }
    }

    /// Makes the error for a missing `kind`, with the kinds that the kernel has.
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

/// Tries whether `device` takes a qdisc of `kind`.
fn tried(socket: &mut Netlink, device: &Device, kind: &str) -> Result<bool, Error> {
    let mut batch = Batch::default();
    encode::new_qdisc(&mut batch, device, Handle::TREE, Handle::ROOT, CREATE, kind);
    if kind == "htb" {
        QdiscKind::Htb.encode(&mut batch);
    }
    let refused = socket.transact(&mut batch)?;
    match refused.first() {
        Some(f) if f.errno == libc::EPERM => Err(Error::Permission("trying queues".to_owned())),
        // An unknown kind is ENOENT; any other error comes from the discipline itself.
        Some(f) => Ok(f.errno != libc::ENOENT),
        None => {
            batch.clear();
            encode::delete_qdisc(&mut batch, device, Handle::TREE, Handle::ROOT);
            socket.transact(&mut batch).map(|_| true)
        }
    }
}
