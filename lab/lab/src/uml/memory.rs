//! The memory that a guest needs for a job.

use crate::engine::Job;

/// The guest's memory without that for packets, in MiB. Memory is allocated on use.
const MEMORY: u64 = 1_024;
/// Memory in bytes for each full packet that the bottleneck can carry: a record of 16 B and one of
/// 40 B in each of two logs, four records per packet, and the same amount again while they are
/// written.
const PER_PACKET: u64 = 512;
/// The size of a full frame.
const FRAME: u64 = 1_514;

/// The guest's memory for `job` in MiB. It grows in whole steps, since the kernel sizes its network
/// buffers by it.
pub(super) fn mebibytes(job: &Job<'_>) -> u64 {
    let scenario = job.scenario;
    let packets = scenario.highest_rate().bytes_in(scenario.length()).0 / FRAME;
    MEMORY + (packets.saturating_mul(PER_PACKET) >> 20).next_multiple_of(256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{DEMO, parse};

    #[test]
    fn memory_grows_with_the_packets() {
        let demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        let scenario = &demo.cells[0];
        let job = Job { scenario, arm: &scenario.arms[0], seed: 1 };
        assert_eq!(mebibytes(&job), 1_280, "373 thousand packets");
        let mut long = scenario.clone();
        long.duration = forebay_units::Nanos::from_secs(1_000);
        let job = Job { scenario: &long, arm: &long.arms[0], seed: 1 };
        assert_eq!(mebibytes(&job), 1_024 + 4_096, "8 million");
    }
}
