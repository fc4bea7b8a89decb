//! Outcomes of claims as they are stored: a [`Store`] of JSON files beside a page, and the [`Rows`]
//! of runs that share only labels and values. [`provenance`] has the day and the machine of an
//! outcome, and [`Commit`] the code that it came from.
//!
//! What a claim is, how its figures are judged and how its page is written is in `forebay-claims`.

#![forbid(unsafe_code)]

mod commit;
pub mod provenance;
mod rows;
mod store;

pub use commit::{Commit, KnownBy, git};
pub use rows::{Labels, Row, Rows, SEED};
pub use store::{Store, StoreError};
