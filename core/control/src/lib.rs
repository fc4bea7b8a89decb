//! The inner control loop of a bundle: it sets the rate at which a sendbox sends the traffic
//! between two sites.
//!
//! The rate keeps the queue at the network's bottleneck short without leaving the bottleneck idle.
//! The rest of the queue then builds at the sendbox, which can schedule it (Bundler, EuroSys 2021,
//! section 4.1).
//!
//! Start from two types:
//! - [`ControlLoop`] is the state machine of one bundle. It does no I/O and reads no clock: the
//!   caller reports the packets it sent, the [`Feedback`] it received and the passing of time, and
//!   applies the rate that the loop returns.
//! - [`ControlConfig`] holds the parameters, which have usable defaults.
//!
//! The simulator, the user-space dataplane and the kernel dataplane all run this code.
//!
//! ```
//! use forebay_control::{ControlConfig, ControlLoop};
//! use forebay_units::{Bytes, Nanos};
//!
//! let mut control = ControlLoop::new(ControlConfig::default(), Nanos::ZERO)?;
//! control.on_sent(Nanos::from_millis(3), Bytes(1514), Some(0x5ee0), None);
//! control.on_tick(Nanos::from_millis(10), Bytes::ZERO);
//! assert_eq!(control.rate(), None, "no limit before the first measurement");
//! assert_eq!(control.poll_epoch_update(Nanos::from_millis(10)), Some(16));
//! # Ok::<(), forebay_control::ConfigError>(())
//! ```
//!
//! # Modules
//! The modules, in the order in which a packet meets them:
//! - `epoch` selects the boundary packets and announces the epoch size to the receivebox.
//! - `marks` stores the boundary packets that were sent and matches feedback to them.
//! - `estimator` computes round-trip times and rates from pairs of mark and feedback. `min_rtt`
//!   estimates the round-trip time of the empty path, and `longer_path` detects that it has grown.
//!   `excess` notices that a stranger sends to the bundle's prefixes.
//! - A [`RateController`] computes the rate from a [`Measurement`]. The default is [`Forebay`].
//! - `cross` detects elastic cross traffic by pulses on the rate. While there is some, the bundle
//!   uses `pass_through`, and drain probes show when the cross traffic has ended.
//! - A guard within `control_loop` tests whether the limit helps, and `shares` tells it what the
//!   other bundles of the receivebox receive.
//! - `multipath` lifts the limit while packets take several paths, and `watchdog` does so when
//!   feedback stops.
//!
//! Each decision is reported as an [`Event`] with its reason.
#![forbid(unsafe_code)]
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
mod excess;
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
mod shares;
mod snapshot;
mod traffic;
mod transfers;
mod watchdog;
mod windowed_max;

pub use basic_delay::{BasicDelay, BasicDelayConfig};
pub use bbr::{Bbr, BbrConfig};
pub use config::{ConfigError, ControlConfig, CopaConfig, Detection, EpochConfig, ForebayConfig};
pub use control_loop::{ControlLoop, Remembered, Resumed};
pub use controller::{ControllerKind, Measurement, RateController};
pub use copa::Copa;
pub use event::{Event, EventValue, ImpossibleClaim, MinRttReason, Mode, ModeReason, Phase};
pub use feedback::Feedback;
pub use forebay::Forebay;
pub use pass_through::PassThroughPolicy;
pub use shares::{Others, Shares};
pub use snapshot::{Counters, Elasticity, Snapshot};
pub use transfers::{FlowPosition, Noted, Transfers};
