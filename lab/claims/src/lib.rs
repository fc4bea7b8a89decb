//! Claims of papers, tried again: each claim's runs, its judged figures, and the page that shows
//! them.
//!
//! [`catalogue`] lists all evaluations. [`scenarios`] tries claims by scenario files on the
//! laboratory's engines, and [`rows`] by runs that give rows (simulated machines, kernel guests, a
//! back end, the network stack of this machine). The crate `forebay-study` tries those of the
//! planner, and judges them by the same rules.
//!
//! All of them judge figures alike: a [`band`] says where a figure must lie, and [`judge`] whether
//! it reproduces the source's figure or meets a bar of our own. All pages keep the same record:
//! [`changed`] lists the bands that were changed after a first result, and [`age`] counts what was
//! committed since a result to the code that decides it.

#![forbid(unsafe_code)]

pub mod age;
pub mod band;
pub mod catalogue;
pub mod changed;
pub mod figure;
pub mod judge;
mod page_file;
pub mod rows;
pub mod scenarios;
pub mod text;
