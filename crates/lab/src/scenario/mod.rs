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
//! | `ecn` | whether hosts ask for ECN | `false` |
//! | `sites` | how many send to site B, each through its own sendbox, over one bottleneck | 1 |
//! | `[path]` `queue` | `{ kind, limit }` at the bottleneck: `fifo`, `sfq`, `codel`, `fq_codel`, `pie`, `pi2`, `dualpi2`, `cake` | in `[grid]` |
//! | its `by`, `ecn` | `forebay`, or `kernel`: Linux's own; whether it marks | `forebay`; as in Linux |
//! | its `target`, `interval` | of `codel` and `fq_codel`; `target` of `pie`, `pi2` and `dualpi2` too | the kind's own |
//! | its `profile` | of `pie` and `dualpi2`: `rfc`, `paper`: Table 1 of De Schepper et al., 2017, or `linux`: that of 6.17 | `rfc` |
//! | its `coupling` | of `dualpi2`: k, from 1 | the profile's, 2 |
//! | its `l4s_threshold` | of `codel` and `fq_codel`: ECT(1) is marked above this wait | none |
//! | `[path]` `steps` | `[{ at, rate }]`: other rates from then on | |
//! | `[path]` `trace` | instead of `rate`: a file in mahimahi's format beside this one | |
//! | `[path]` `loss` | `"0.1 %"` at random, or bursts: `{ begin, end }`, per packet | none |
//! | `[path]` `feedback_loss` | `"30 %"` of the receiveboxes' messages, at random | none |
//! | `[path]` `jitter` | `"2 ms"` at most, or `{ up_to, reorders }` | none |
//! | `[[path.way]]` `rate`, `rtt` | parallel ways, each with its own bottleneck | one: the path |
//! | `[path]` `ways` | so many equal ones, which have the path's rate together | 1 |
//! | `[path]` `spread` | over ways: by `flow`, or by `packet` | `flow` |
//! | `[grid]` `rate`, `rtt`, `queue` | lists: a cell for each combination | no grid |
//! | `[grid]` `flows`, `congestion`, `load` | of the traffic that does not say; `load` is the `rate` of datagrams too | |
//! | `[grid]` `mix`, `rtts` | lists of lists: `flows`, and `rtt`, of each `bulk` traffic in order | |
//! | `[grid]` `ways` | as the path's | |
//! | `[[arm]]` `name`, `sendbox` | `"forward"`, or `{ policy, limit }`: `fifo`, `sfq`, `fq_codel`, `pie`, `dualpi2`; `strict`: by class, each with `sfq` of this limit | |
//! | its `controller` | what sets the bundle's rate: `forebay`, `copa`, `basic_delay`, `bbr` | `forebay` |
//! | its `cross_traffic`, `multipath` | whether elastic cross traffic and several ways are heeded: `detect`, `ignore` | `ignore`, `detect` |
//! | `[[arm]]` `link` | instead of `sendbox`: `forebay link`, as `{ rate, policy, limit }`; `busy_poll` with engines in real time | |
//! | `[[arm]]` `queue` | at the bottleneck in this arm | the path's |
//! | `[[arm]]` `outer` | as `sendbox`'s table, of a second pair of boxes around all others | none |
//! | `[[phase]]` `name`, `start`, `stop` | a part of the run, for traffic and figures | the end before; the end |
//! | `[[traffic]]` `name`, `kind` | `requests`, `bulk`, `udp_rr`, `cbr`, `on_off`, `video` | |
//! | `[[traffic]]` `from`, `site` | `site_a`, or `cross`: enters behind the sendbox; which site | `site_a`, 1 |
//! | `[[traffic]]` `class` | 1, the most urgent, to 8, for the policy `strict` | 1 |
//! | `[[traffic]]` `ecn` | TCP, `cbr`, `on_off`, `video`: data says `not_ect`, `ect0`, or `ect1`, which is for `dctcp`, `dctcp_exact` and `prague` | as `ecn` above; `dctcp`: `ect0`, `prague`: `ect1` |
//! | `[[traffic]]` `start`, `stop` | or the `phase` that it is on in; its flows begin within the path's RTT from `start`, by the seed | the whole run |
//! | `requests`: `load` | bits of answers per second, or `"50 %"` of the path's rate | |
//! | `requests`: `arrivals` | `poisson`; or `closed`: each connection asks again once answered, no `load` | `poisson` |
//! | `requests`: `connections`, `congestion` | | 200, `cubic` |
//! | `requests`: `new_connections` | a new connection for each request | `false` |
//! | `requests`: `sizes`, `max_size` | `"web"` or a CSV file beside this one; larger are redrawn | `"web"`, none |
//! | `requests`: `balanced` | hold the realised load to the offered, see [`crate::workload::Requests`] | `false` |
//! | `bulk`: `flows`, `transport`, `congestion` | `tcp`, `udp`; `cubic`, `reno`, `bbr`, `dctcp`, `dctcp_exact` (its average of marks not rounded as in Linux), `prague`, `fixed` | 1, `tcp`, `cubic` |
//! | `bulk`: `rtt` | of its own empty path, at least the path's | the path's |
//! | congestion `fixed`: `window` | packets in flight, whatever happens | 450 |
//! | `udp_rr`: `flows` | closed loops of 40 B | 1 |
//! | `cbr`: `rate`, `size` | UDP payload; as `load` | size: `"1200 B"` |
//! | `on_off`: `rate`, `size`, `on`, `off` | `rate` for `on`, nothing for `off`, and so on | 1 s each |
//! | `video`: `rate`, `fps` | frames, each a burst of datagrams | 30 |
//! | `[[fault]]` `at` | when something goes wrong, one of the following | |
//! | `[[fault]]` `process`, `back` | what is killed: `receivebox`; when it is started again | back: it stays dead |
//! | `[[fault]]` `clock`, `ahead`, `behind` | whose clock jumps: `sendbox`, `receivebox`; one of the two | |
//! | `[[fault]]` `rtt` | of the path from then on | |

mod check;
mod conditions;
mod fault;
mod file;
mod grid;
mod model;
mod phase;
mod queue;
mod rules;
mod traffic;
mod traffic_check;

pub use check::{load, parse};
pub use conditions::{Conditions, Spread};
pub use fault::{Clock, Fault, FaultKind, Process};
pub(crate) use model::in_words;
pub use model::{Arm, Bundle, Experiment, IpVersion, LinkBox, Path, Scenario, Sendbox};
pub use phase::Phase;
pub use queue::{Maker, Queue};
pub use traffic::{Congestion, EcnField, Origin, Traffic, TrafficKind, Transport};

pub use forebay_discipline::{Kind as QueueKind, Profile};

use traffic::CongestionName;

/// The demonstration's experiment file, `experiments/demo.toml`.
pub const DEMO: &str = include_str!("../../../../experiments/demo.toml");

#[cfg(test)]
mod tests;
