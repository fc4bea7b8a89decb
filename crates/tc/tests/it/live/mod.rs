//! Tests that need root. Each runs as a process of its own.

mod disciplines;
mod multiqueue;
mod privileges;
mod tree;
