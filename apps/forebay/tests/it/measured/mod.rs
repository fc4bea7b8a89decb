//! Tests that judge shares, rates and times on this machine, or need more than a gate has.

mod delayed;
mod link;
mod local_users;
mod outages;
mod repeated;
mod shares;
mod stranger;
mod workers;
