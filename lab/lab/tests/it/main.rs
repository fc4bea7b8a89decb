//! Tests of the laboratory: runs in the simulator, their pages, and what an engine says without
//! rights.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod capture;
mod controllers;
mod elastic;
mod figures;
mod pages;
mod rights;
mod sim;
mod start;
