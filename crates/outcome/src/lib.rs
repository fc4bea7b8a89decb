//! Outcomes of claims as they are stored: a [`Store`] of JSON files beside a page, the [`Rows`] of
//! runs that have nothing in common but labels and values, and the [`provenance`] of both.
//!
//! What a claim is, how its figures are judged and how its page is written is in `forebay-claims`.

pub mod provenance;
mod rows;
mod store;

pub use rows::{Labels, Row, Rows, SEED};
pub use store::{Store, StoreError};
