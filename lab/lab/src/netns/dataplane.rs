//! Where packets queue at a sendbox.

use serde::{Deserialize, Serialize};

/// The part of the machine that queues the packets at a sendbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataplane {
    /// The sendbox process, between two ports of its own.
    #[default]
    User,
    /// The kernel, which routes between the same two interfaces.
    Kernel,
}
