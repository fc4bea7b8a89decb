//! What an experiment is: a path, traffic over it, and the arms that are compared.
//!
//! A scenario says nothing of how it is run: the engine may be this machine's Linux in real time or
//! a simulator. An [`Experiment`] is read from a TOML file and checked whole; what is in it can be
//! run.
//!
//! # The file
//!
//! Times, rates, sizes and limits are strings with units: `"50 ms"`, `"96 Mbit/s"`, `"20 MB"`,
//! `"2 bdp"`. Times of traffic and faults count from the start of the run, warm-up included.
//!
//! | key | what | if left out |
//! |---|---|---|
//! | `name`, `title` | for files; for people | title: none |
//! | `duration`, `warmup`, `cooldown` | what is measured; traffic before it, and after it | none, 0, 0 |
//! | `seeds` | every cell and arm is run with each | `[1]` |
//! | `ip` | 4 or 6 | 4 |
//! | `[path]` `rate`, `rtt` | of the bottleneck; of the empty path | in `[grid]` |
//! | `[path]` `queue` | `{ kind, limit }` at the bottleneck: `fifo`, `sfq`, `fq_codel` | |
//! | `[grid]` `rate`, `rtt` | lists: a cell for each combination | no grid |
//! | `[[arm]]` `name`, `sendbox` | `"forward"`, or `{ policy, limit }` as a queue | |
//! | `[[arm]]` `queue` | at the bottleneck in this arm | the path's |
//! | `[[traffic]]` `name`, `kind` | `requests`, `bulk`, `udp_rr`, `cbr` | |
//! | `[[traffic]]` `from` | `site_a`, or `cross`: enters behind the sendbox | `site_a` |
//! | `[[traffic]]` `start`, `stop` | | the whole run |
//! | `requests`: `load` | bits of answers per second, or `"50 %"` of the path's rate | |
//! | `requests`: `connections`, `congestion` | | 200, `cubic` |
//! | `requests`: `sizes`, `max_size` | `"web"` or a CSV file beside this one; larger are redrawn | `"web"`, none |
//! | `requests`: `balanced` | hold the realised load to the offered, see [`crate::workload::Requests`] | `false` |
//! | `bulk`: `flows`, `transport`, `congestion` | `tcp`, `udp`; `cubic`, `reno`, `bbr` | 1, `tcp`, `cubic` |
//! | `udp_rr`: `flows` | closed loops of 40 B | 1 |
//! | `cbr`: `rate`, `size` | UDP payload; as `load` | size: `"1200 B"` |
//! | `[[fault]]` `process` | what is killed: `receivebox`; nothing in arms that have none | |
//! | `[[fault]]` `at`, `back` | when; when it is started again | back: it stays dead |

mod check;
mod fault;
mod file;
mod model;
mod traffic;
mod traffic_check;

pub use check::{load, parse};
pub use fault::{Fault, Process};
pub use model::{Arm, Experiment, IpVersion, Path, Queue, QueueKind, Scenario, Sendbox};
pub use traffic::{Congestion, Origin, Traffic, TrafficKind, Transport};

/// The demonstration's experiment file, `experiments/demo.toml`.
pub const DEMO: &str = include_str!("../../../../experiments/demo.toml");

#[cfg(test)]
mod tests;
