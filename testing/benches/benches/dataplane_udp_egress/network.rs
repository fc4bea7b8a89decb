//! Two namespaces with a veth pair between them.

use std::process::Command;

use forebay_test_support::namespace::{Namespace, run};

pub(crate) struct Network {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl Network {
    pub(crate) fn new() -> Self {
        let id = std::process::id();
        let [near, far] = ["a", "b"].map(|end| Namespace::new(format!("fb-bu{id}-{end}")));
        run(&format!("ip -n {} link add eth0 type veth peer name eth0 netns {}", near.0, far.0));
        for (namespace, address) in [(&near, "10.9.1.1/24"), (&far, "10.9.1.2/24")] {
            run(&format!("ip -n {} address add {address} dev eth0", namespace.0));
            run(&format!("ip -n {} link set eth0 up", namespace.0));
        }
        run(&format!("ip -n {} route add 10.9.2.0/24 via 10.9.1.2", near.0));
        // Sources of sockets: a namespace would have too few ports at one address.
        run(&format!("ip -n {} route add local 10.9.3.0/24 dev lo", near.0));
        run(&format!("ip -n {} route add 10.9.3.0/24 via 10.9.1.1", far.0));
        // Every address of this network is the receiver's.
        run(&format!("ip -n {} route add local 10.9.2.0/24 dev lo", far.0));
        Self { near, far }
    }

    /// Puts sch_fq below the sockets, with room for two messages of each flow. Returns whether the
    /// kernel has it.
    pub(crate) fn pace(&self, flows: u32) -> bool {
        let buckets = flows.next_power_of_two().min(1 << 18);
        let limit = 2 * flows + 1000;
        let command = format!(
            "-n {} qdisc replace dev eth0 root fq limit {limit} flow_limit 4 buckets {buckets}",
            self.near.0
        );
        Command::new("tc").args(command.split(' ')).output().unwrap().status.success()
    }
}
