//! Tests with daemons that most machines do not have.

mod clickhouse;
mod frr;
mod isis;
#[cfg(feature = "kafka")]
mod kafka;
mod ospf;
