//! The egress engine with many flows: cost of a packet, pacing error, fairness across cores.
//!
//! `cargo bench -p forebay-benches --bench queue_egress` prints three tables. Arguments select
//! tables: `cost`, `engine` (the first without rivals), `pacing`, `cores`. With
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` the same memory lies in huge pages.
//!
//! * `cost`: a packet's enqueue, scheduling and dequeue, by the number of flows. Half of the flows
//!   wait and half are idle. The flow that has been idle for the longest time gets a packet, so
//!   that neither its state nor that of the flow that sends is in a near cache. Calls come in
//!   batches of 32. Rivals get the same arrivals: `heap` is a binary heap by time or start tag,
//!   `btree` a B-tree by the same, `fq` works in the manner of Linux's sch_fq. `fifo` is one queue
//!   without an order of flows that counts a packet in its flow's state at either end, prefetched:
//!   the least for any scheduler.
//! * `pacing`: by a real clock, how late flows are that are paced each at a rate of its own.
//! * `cores`: the spread of rates over 30 000 flows, of which one core has 20 000 and the other
//!   10 000.
//!
//! `count STRUCTURE FLOWS PACKETS` runs packets of paced flows through one structure of the first
//! table and prints nothing. `scripts/egress-misses` counts their cache misses with it, in a
//! simulated cache.
#![allow(missing_docs, reason = "a benchmark")]

mod cores;
mod cost;
mod pacing;
mod rivals;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if let [first, structure, numbers @ ..] = &arguments[..]
        && first == "count"
    {
        let numbers: Vec<u32> = numbers.iter().filter_map(|text| text.parse().ok()).collect();
        let [flows, packets] = numbers[..] else { panic!("count STRUCTURE FLOWS PACKETS") };
        return cost::count(structure, flows, packets);
    }
    let selects = |table: &str| arguments.is_empty() || arguments.iter().any(|a| a == table);
    if selects("cost") {
        cost::run(&[]);
    }
    if arguments.iter().any(|a| a == "engine") {
        cost::run_alone();
    }
    if selects("pacing") {
        pacing::run();
    }
    if selects("cores") {
        cores::run();
    }
}

/// A random number below `bound` (xorshift64, Marsaglia 2003).
fn random(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((*state >> 32) * bound) >> 32
}
