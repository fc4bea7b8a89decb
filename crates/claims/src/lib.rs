//! Claims of papers, tried again: each claim's runs, its judged figures, and the page that shows them.
//!
//! [`catalogue`] lists all evaluations. [`scenarios`] tries claims by scenario files on the
//! laboratory's engines, [`zd`] by simulated machines, kernel guests and a back end, and `unison` (a
//! feature) by the planner. [`band`] and [`figure`] hold what all of them judge and show alike.

pub mod band;
pub mod catalogue;
pub mod figure;
mod page_file;
pub mod scenarios;
#[cfg(feature = "unison")]
pub mod unison;
pub mod zd;
