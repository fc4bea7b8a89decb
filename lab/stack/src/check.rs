//! What this machine must allow for many connections, and what it allows.
//!
//! The parameters and their values are those of table 5.1 of the thesis. What a table cannot say
//! is computed from the number of flows: open files, ports and memory.

use std::fs;
use std::io;

use forebay_lab::netns::exec;
use forebay_picture::number::count;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::journal::Journal;
use crate::probe::counters::memory;
use crate::sysctl::Tree;

/// The size of a page of memory in bytes, in which the kernel counts the memory of TCP.
pub const PAGE: u64 = 4096;
/// Memory in bytes of the kernel for one flow in this machine's namespaces without its data: two
/// sockets with their inodes, files and places in hash tables. `forebay stack` measures it as
/// "memory per flow", where the data of slow flows is contained.
const KERNEL_PER_FLOW: u64 = 12 << 10;
/// Descriptors beside those of flows.
const OTHER_FILES: u64 = 10_000;

/// A parameter of table 5.1.
struct Parameter {
    name: &'static str,
    value: &'static str,
    /// Whether it is one for the whole machine, not one for each namespace.
    is_global: bool,
}

const fn parameter(name: &'static str, value: &'static str, is_global: bool) -> Parameter {
    Parameter { name, value, is_global }
}

/// Table 5.1, as far as it is about parameters of the kernel. The thesis writes
/// `net.core.tcp_max_syn_backlog` for `net.ipv4.tcp_max_syn_backlog`.
const TABLE: [Parameter; 7] = [
    parameter("net.core.netdev_max_backlog", "65536", true),
    parameter("net.ipv4.tcp_max_syn_backlog", "65536", false),
    parameter("net.ipv4.tcp_rmem", "8192 65536 16777216", false),
    parameter("net.ipv4.tcp_wmem", "8192 87380 16777216", false),
    parameter("net.ipv4.tcp_mem", "768849 1025133 1537698", true),
    parameter("net.core.somaxconn", "65535", false),
    parameter("net.netfilter.nf_conntrack_max", "600000", true),
];

/// How much a check matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The machine has what is wanted.
    Fine,
    /// The machine has less, and the run sets what is wanted meanwhile.
    Set,
    /// The run is possible, and its figures may be worse than they need be.
    Advice,
    /// The run is not possible.
    Stop,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked, such as a parameter's name.
    pub what: String,
    /// What the machine has.
    pub have: String,
    /// What is wanted.
    pub want: String,
    /// How much it matters.
    pub verdict: Verdict,
    /// What to do about it; empty if it is fine.
    pub fix: String,
}

/// What a run will need.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The largest number of flows.
    pub flows: u32,
    /// Source addresses, over which flows are spread evenly.
    pub sources: u32,
    /// Whether both ends are on this machine.
    pub both_ends: bool,
    /// Whether the ports of sources are those of this machine's own namespace. In namespaces of
    /// the run the range is set to all ports.
    pub own_ports: bool,
}

/// What is known about the machine; gathered first, so that judging needs no machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Parameters by name.
    pub parameters: Vec<(String, String)>,
    /// Memory in bytes that is available.
    pub available: u64,
    /// All memory in bytes.
    pub total: u64,
}

impl Check {
    /// Whether an operator has something to do about it.
    pub fn is_open(&self) -> bool {
        matches!(self.verdict, Verdict::Advice | Verdict::Stop)
    }
}

impl Machine {
    /// Asks the kernel, for parameters of namespaces in a new one if `fresh`.
    ///
    /// # Errors
    /// If no namespace can be made.
    pub fn gather(fresh: bool) -> io::Result<Self> {
        let tree = Tree::of_kernel();
        let read = |name: &str| tree.read(name).map(|value| (name.to_owned(), value));
        let here = |global: bool| -> Vec<_> {
            let wanted = TABLE.iter().filter(|p| p.is_global == global);
            wanted.filter_map(|p| read(p.name)).collect()
        };
        let mut parameters = here(true);
        let others = if fresh { exec::in_new_namespace(|| here(false))? } else { here(false) };
        parameters.extend(others);
        let more = ["fs.file-max", "fs.file-nr", "net.ipv4.ip_local_port_range"];
        parameters.extend(more.iter().filter_map(|name| read(name)));
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let (available, total) = (memory(&text, "MemAvailable"), memory(&text, "MemTotal"));
        Ok(Self {
            parameters,
            available: available.unwrap_or_default(),
            total: total.unwrap_or_default(),
        })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    fn number(&self, name: &str, index: usize) -> Option<u64> {
        self.parameter(name)?.split_whitespace().nth(index)?.parse().ok()
    }

    /// The value that a parameter of the table should have here: TCP gets at most half of the
    /// machine's memory.
    fn wanted(&self, parameter: &Parameter) -> String {
        let most = self.total / PAGE / 2;
        let table: u64 = 1_537_698;
        if parameter.name != "net.ipv4.tcp_mem" || most >= table {
            return parameter.value.to_owned();
        }
        let part = |value: u64| value * most / table;
        format!("{} {} {most}", part(768_849), part(1_025_133))
    }

    /// Judges whether the machine has what `needs` says.
    pub fn judge(&self, needs: &Needs) -> Vec<Check> {
        let mut checks = vec![self.files(needs), self.ports(needs), self.memory(needs)];
        for parameter in &TABLE {
            // Connection tracking may not be in this kernel.
            let Some(have) = self.parameter(parameter.name) else { continue };
            let want = self.wanted(parameter);
            let is_fine = at_least(have, &want);
            let where_to = if parameter.is_global { "" } else { " (set in each namespace)" };
            checks.push(Check {
                what: parameter.name.to_owned(),
                have: have.to_owned(),
                want: format!("{want}{where_to}"),
                verdict: if is_fine { Verdict::Fine } else { Verdict::Advice },
                fix: if is_fine {
                    String::new()
                } else {
                    format!("--tune, or `sysctl -w {}=\"{want}\"`", parameter.name)
                },
            });
        }
        checks
    }

    fn files(&self, needs: &Needs) -> Check {
        let ends = if needs.both_ends { 2 } else { 1 };
        let want = u64::from(needs.flows) * ends + OTHER_FILES;
        let all = self.number("fs.file-max", 0).unwrap_or(u64::MAX);
        let open = self.number("fs.file-nr", 0).unwrap_or(0);
        // What one process may open decides only the number of threads: each has its own table.
        let fix = format!("`sysctl -w fs.file-max={}`", want + open);
        judged("open files", all.saturating_sub(open), want, fix)
    }

    fn ports(&self, needs: &Needs) -> Check {
        let range = if needs.own_ports {
            let at = |index| self.number("net.ipv4.ip_local_port_range", index);
            at(1).zip(at(0)).map_or(28_232, |(last, first)| last.saturating_sub(first) + 1)
        } else {
            65_535 - 1024 + 1
        };
        let have = range * u64::from(needs.sources.max(1));
        let fix = "more source addresses, or a larger net.ipv4.ip_local_port_range".to_owned();
        judged("ports of all sources", have, u64::from(needs.flows), fix)
    }

    fn memory(&self, needs: &Needs) -> Check {
        let point = u64::from(crate::point::unsent(needs.flows));
        let want = u64::from(needs.flows) * (KERNEL_PER_FLOW + point);
        let fix = "fewer flows (--flows), or a machine with more memory".to_owned();
        judged("memory in MiB", self.available >> 20, want >> 20, fix)
    }
}

/// The parameters of table 5.1 that a run's own namespaces get, with their values.
pub fn of_namespaces() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().filter(|p| !p.is_global).map(|p| (p.name, p.value))
}

/// Notes that the run sets what `checks` find too low.
pub fn mark_set(checks: &mut [Check]) {
    for check in checks.iter_mut().filter(|check| check.verdict == Verdict::Advice) {
        check.verdict = Verdict::Set;
        check.fix = "set for this run (--tune)".to_owned();
    }
}

/// Sets the parameters of table 5.1 that are too low: those of the whole machine and, unless the
/// run has namespaces of its own, those of this namespace too. The journal restores them.
///
/// # Errors
/// If the kernel refuses a value.
pub fn tune(machine: &Machine, own: bool, journal: &mut Journal) -> Result<(), Error> {
    for parameter in TABLE.iter().filter(|p| p.is_global || own) {
        let want = machine.wanted(parameter);
        if machine.parameter(parameter.name).is_some_and(|have| !at_least(have, &want)) {
            journal.set(parameter.name, &want)?;
        }
    }
    Ok(())
}

/// Whether each number of `have` is at least that of `want`.
fn at_least(have: &str, want: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
    };
    let (have, want) = (numbers(have), numbers(want));
    have.len() == want.len() && have.iter().zip(&want).all(|(a, b)| a >= b)
}

fn judged(what: &str, have: u64, want: u64, fix: String) -> Check {
    let is_fine = have >= want;
    Check {
        what: what.to_owned(),
        have: count(have),
        want: count(want),
        verdict: if is_fine { Verdict::Fine } else { Verdict::Stop },
        fix: if is_fine { String::new() } else { fix },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let values = [
            ("net.core.netdev_max_backlog", "1000"),
            ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
            ("net.ipv4.tcp_mem", "100 200 300"),
            ("net.core.somaxconn", "65535"),
            ("fs.file-max", "1000000"),
            ("fs.file-nr", "1000 0 1000000"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
        ];
        Machine {
            parameters: values.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            available: 8 << 30,
            total: 16 << 30,
        }
    }

    fn needs() -> Needs {
        Needs { flows: 100_000, sources: 8, both_ends: true, own_ports: false }
    }

    fn find(checks: &[Check], what: &str) -> Check {
        checks.iter().find(|check| check.what == what).unwrap().clone()
    }

    #[test]
    fn what_is_too_low_is_named_with_its_remedy() {
        let checks = machine().judge(&needs());
        let backlog = find(&checks, "net.core.netdev_max_backlog");
        assert_eq!(backlog.verdict, Verdict::Advice);
        assert!(backlog.fix.contains("sysctl -w net.core.netdev_max_backlog=\"65536\""));
        // One of three numbers is too low.
        assert_eq!(find(&checks, "net.ipv4.tcp_rmem").verdict, Verdict::Advice);
        assert_eq!(find(&checks, "net.core.somaxconn").verdict, Verdict::Fine);
        assert!(!checks.iter().any(|c| c.what.contains("conntrack")), "this kernel has none");
        assert!(checks.iter().all(|c| c.verdict != Verdict::Stop), "{checks:?}");
    }

    #[test]
    fn too_many_flows_stop_the_run() {
        let stop = |machine: Machine, needs: Needs, what: &str| {
            let check = find(&machine.judge(&needs), what);
            assert_eq!(check.verdict, Verdict::Stop, "{check:?}");
            assert!(!check.fix.is_empty());
        };
        let little = Machine { available: 1 << 30, ..machine() };
        stop(little, needs(), "memory in MiB");
        // 2 x 499 001 + 10 000 files; 999 000 are left.
        stop(machine(), Needs { flows: 499_001, ..needs() }, "open files");
        // Four sources with 28 232 ports each.
        let few = Needs { sources: 3, own_ports: true, ..needs() };
        stop(machine(), few, "ports of all sources");
    }

    #[test]
    fn tcp_gets_at_most_half_of_the_memory() {
        let small = Machine { total: 4 << 30, ..machine() };
        let parameter = TABLE.iter().find(|p| p.name == "net.ipv4.tcp_mem").unwrap();
        // Half of 4 GiB are 524 288 pages; the other two keep their ratio to the last.
        assert_eq!(small.wanted(parameter), "262144 349525 524288");
        assert_eq!(machine().wanted(parameter), parameter.value);
    }

    #[test]
    fn tuning_sets_what_is_too_low_and_restores_it() {
        let mut checks = machine().judge(&needs());
        mark_set(&mut checks);
        assert!(!checks.iter().any(Check::is_open));
        assert_eq!(find(&checks, "net.core.netdev_max_backlog").verdict, Verdict::Set);
        let dir = std::env::temp_dir().join(format!("fb-tune-{}", std::process::id()));
        fs::create_dir_all(dir.join("sys/net/core")).unwrap();
        let file = dir.join("sys/net/core/netdev_max_backlog");
        fs::write(&file, "1000\n").unwrap();
        let own = dir.join("sys/net/core/somaxconn");
        fs::write(&own, "128\n").unwrap();
        let parameters = vec![
            ("net.core.netdev_max_backlog".to_owned(), "1000".to_owned()),
            ("net.core.somaxconn".to_owned(), "128".to_owned()),
        ];
        let machine = Machine { parameters, ..Machine::default() };
        let tree = Tree::at(&dir.join("sys"));
        let mut journal = Journal::begin_at(&dir.join("base"), tree).unwrap();
        tune(&machine, false, &mut journal).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "65536\n");
        assert_eq!(fs::read_to_string(&own).unwrap(), "128\n", "a namespace's is left alone");
        tune(&machine, true, &mut journal).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "65535\n");
        drop(journal);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1000\n");
        assert_eq!(fs::read_to_string(&own).unwrap(), "128\n");
        fs::remove_dir_all(&dir).unwrap();
    }
}
