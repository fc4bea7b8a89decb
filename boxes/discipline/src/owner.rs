//! The owner of the queues that a box uses.

use std::fmt;

use forebay_tc::Features;

use crate::{Discipline, KernelOnly, Kind};

/// The owner of the queues of a box, which decides which disciplines the box can have.
#[derive(Clone, Debug)]
pub enum QueueOwner {
    /// The box itself, with queues in user space.
    Forebay,
    /// The kernel with its features; `None` if this process may not probe them.
    Kernel(Option<Features>),
}

impl QueueOwner {
    /// Returns the reason why the box cannot have `discipline`; `None` if it can.
    pub fn refuses(&self, discipline: &Discipline) -> Option<String> {
        match self {
            Self::Forebay => discipline.check_own().err().map(|e| e.to_string()),
            Self::Kernel(_) if discipline.kind.is_classful() => None,
            Self::Kernel(features) => match (discipline.to_tc(), features) {
                (Some(kernel), Some(features)) => {
                    features.check(&kernel).err().map(|e| e.to_string())
                }
                (Some(_), None) => None,
                (None, _) => Some(format!(
                    "the kernel has no {}: use `dataplane = \"user\"` in [sendbox]",
                    discipline.kind.name()
                )),
            },
        }
    }
}

impl std::error::Error for KernelOnly {}

impl fmt::Display for KernelOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is a queue of the kernel's, which goes with `dataplane = \"kernel\"` in [sendbox]; \
             a box's own are {}",
            self.0,
            own_policies()
        )
    }
}

/// The names of the policies that a box has in user space: `fifo, sfq and strict`.
fn own_policies() -> String {
    let own = Kind::ALL.iter().filter(|kind| kind.is_policy() && !kind.is_kernel_only());
    let names: Vec<&str> = own.map(|kind| kind.name()).collect();
    match names.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        few => few.concat(),
    }
}
