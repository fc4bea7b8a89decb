//! The bundle's inner control loop: it sets the rate at which a sendbox lets an aggregate of flows
//! out, such that the bottleneck's queue stays small but never empties, so that the queue stands at
//! the sendbox, which can schedule it.
//!
//! [`ControlLoop`] is a state machine. It does no I/O and reads no clock: the caller reports packets that
//! left, [`Feedback`] that came and the passing of time, and applies the rate that comes out. The
//! same code runs in the simulator, behind the user-space dataplane and over the kernel's.
//!
//! The parts, in the order in which a packet meets them:
//! - `epoch` chooses which packets are boundaries, and tells the receivebox;
//! - `marks` remembers the boundaries that left and finds them again when feedback names them;
//! - `measure` turns pairs of mark and feedback into round-trip times and rates, `minrtt` keeps the
//!   round-trip time of the empty path, `baseline` notices when the path becomes longer;
//! - a [`RateController`] sets the rate from a [`Measurement`]; [`Forebay`] unless told otherwise;
//! - `cross` tells whether cross traffic is elastic, by pulses on the rate, and whether it still is, by what
//!   becomes of the queue when the bundle leaves room; beside such traffic
//!   `pass_through` lets the bundle's flows compete for themselves;
//! - `multipath` opens the bundle when its packets take several ways, `watchdog` when feedback
//!   ceases.
//!
//! What was decided, and why, comes out as [`Event`]s.
//!
//! ```
//! use forebay_control::{ControlLoop, ControlConfig};
//! use forebay_units::{Bytes, Nanos};
//!
//! let mut bundle = ControlLoop::new(ControlConfig::default(), Nanos::ZERO)?;
//! bundle.on_sent(Nanos::from_millis(3), Bytes(1514), Some(0x5ee0));
//! bundle.on_tick(Nanos::from_millis(10), Bytes::ZERO);
//! assert_eq!(bundle.rate(), None, "open until measured");
//! assert_eq!(bundle.poll_epoch_update(Nanos::from_millis(10)), Some(16));
//! # Ok::<(), forebay_control::ConfigError>(())
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod basic_delay;
mod bbr;
mod config;
mod control_loop;
mod controller;
mod copa;
mod cross;
mod epoch;
mod estimator;
mod event;
mod event_log;
mod feedback;
mod forebay;
mod longer_path;
mod marks;
mod math;
mod min_rtt;
mod multipath;
mod pass_through;
mod recent_max;
mod sent;
mod snapshot;
mod traffic;
mod watchdog;
mod windowed_max;

pub use basic_delay::{BasicDelay, BasicDelayConfig};
pub use bbr::{Bbr, BbrConfig};
pub use config::{ConfigError, ControlConfig, CopaConfig, Detection, EpochConfig, ForebayConfig};
pub use control_loop::ControlLoop;
pub use controller::{ControllerKind, Measurement, RateController};
pub use copa::Copa;
pub use event::{Event, EventValue, ImpossibleClaim, MinRttReason, Mode, ModeReason, Phase};
pub use feedback::Feedback;
pub use forebay::Forebay;
pub use pass_through::PassThroughPolicy;
pub use snapshot::{Counters, Elasticity, Snapshot};
