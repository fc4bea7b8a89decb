//! A study with the receiving end on another machine, over a real network.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use forebay_lab::netns::exec;

use crate::check::{self, Machine, Needs};
use crate::journal::{Journal, Undo};
use crate::measure::{Ends, Method, measure};
use crate::point::Point;
use crate::study::{Results, Told, refuse, run_points};
use crate::topology::{HANDLE, discipline};
use crate::{Error, Interrupt};

/// How a study to another machine is run.
#[derive(Clone, Debug)]
pub struct Client {
    /// The points in order.
    pub points: Vec<Point>,
    /// The address of the receiving end.
    pub server: SocketAddr,
    /// The addresses that connections come from; without any the kernel chooses one.
    pub sources: Vec<IpAddr>,
    /// The interface towards the receiving end, if its counters are to be read.
    pub device: Option<String>,
    /// Whether the points' queueing discipline is to be set on it.
    pub set_queue: bool,
    /// The time before each measurement.
    pub settle: Duration,
    /// The time of each measurement.
    pub measure: Duration,
    /// The number of sending threads.
    pub threads: u32,
    /// Whether to set the parameters of table 5.1 meanwhile.
    pub tune: bool,
    /// Whether to sample the kernel's functions.
    pub functions: bool,
}

impl Client {
    /// What the study needs of the machine.
    pub fn needs(&self) -> Needs {
        let flows = self.points.iter().map(|point| point.flows).max().unwrap_or_default();
        let sources = self.sources.len().max(1) as u32;
        Needs { flows, sources, both_ends: false, own_ports: true }
    }

    /// Checks the machine and measures all points. What was set on the machine is restored in any
    /// case.
    ///
    /// # Errors
    /// On an interrupt, without root, if the machine lacks something, or if a measurement fails.
    pub fn run(
        &self,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(Told<'_>) -> Result<(), Error>,
    ) -> Result<Results, Error> {
        self.refuse_what_needs_namespaces()?;
        let mut journal = Journal::begin()?;
        let machine = Machine::gather(false).map_err(Error::io("checking this machine"))?;
        let mut checks = machine.judge(&self.needs());
        if self.tune {
            check::mark_set(&mut checks);
        }
        tell(Told::Checked(&checks))?;
        refuse(&checks)?;
        if self.tune {
            check::tune(&machine, true, &mut journal)?;
        }
        if let (true, Some(device)) = (self.set_queue, &self.device) {
            refuse_own_queue(device)?;
        }
        let method = Method {
            settle: self.settle,
            measure: self.measure,
            threads: self.threads,
            samples: self.functions.then(|| journal.file("perf.data")),
        };
        let ends = Ends {
            sender: None,
            receiver: None,
            servers: vec![self.server],
            sources: self.sources.clone(),
            device: self.device.clone(),
            handle: self.set_queue.then_some(HANDLE),
            connected: &|| Ok(()),
        };
        let outcomes =
            run_points(&self.points, &mut journal, tell, &mut |point, journal, progress| {
                if let Some(device) = &self.device {
                    self.set(device, point, journal)?;
                }
                measure(point, &ends, &method, interrupt, progress)
            })?;
        Ok(Results { checks, outcomes })
    }

    fn refuse_what_needs_namespaces(&self) -> Result<(), Error> {
        let unfit = |what: &str| Err(Error::Unfit(what.to_owned()));
        let any = |wanted: fn(&Point) -> bool| self.points.iter().any(wanted);
        if any(|point| point.loss > 0.0 || point.delay_ms > 0.0) {
            return unfit(
                "--loss and --delay are of the run's own namespaces: over a network, set them at \
                 the receiver with netem",
            );
        }
        let of_device = |point: &Point| !point.offload || point.coalesce_us.is_some();
        if self.device.is_none() && (self.set_queue || any(of_device)) {
            return unfit("--qdisc, --limit, --offload and --coalesce need --device");
        }
        if any(|point| point.paced.is_some() && point.rate_mbps <= 0.0) {
            return unfit("--paced is a share of --rate: give the rate of the interface");
        }
        Ok(())
    }

    /// Sets the interface as the point says. The journal restores it.
    fn set(&self, device: &str, point: &Point, journal: &mut Journal) -> Result<(), Error> {
        if self.set_queue {
            journal.note(Undo::Qdisc { device: device.to_owned() })?;
            let mut command = Command::new("tc");
            command.args(["qdisc", "replace", "dev", device, "root", "handle", HANDLE]);
            exec::run(command.args(discipline(point).split(' ')), "")?;
        }
        if !point.offload {
            let features = exec::output(Command::new("ethtool").args(["-k", device]), "")?;
            let on = |name: &str| value(&features, name).is_some_and(|v| v.starts_with("on"));
            let names =
                [("tso", "tcp-segmentation-offload"), ("gso", "generic-segmentation-offload")];
            let names: Vec<&str> =
                names.into_iter().filter(|(_, long)| on(long)).map(|(short, _)| short).collect();
            let all = |state: &str| {
                names.iter().flat_map(|n| [(*n).to_owned(), state.to_owned()]).collect()
            };
            change(journal, "-K", device, all("on"), all("off"))?;
        }
        if let Some(us) = point.coalesce_us {
            let now = exec::output(Command::new("ethtool").args(["-c", device]), "")?;
            let before = value(&now, "rx-usecs").filter(|v| *v != "n/a").ok_or_else(|| {
                Error::Unfit(format!("{device} has no time of coalescing (rx-usecs) to set"))
            })?;
            let set = |v: String| vec!["rx-usecs".to_owned(), v];
            change(journal, "-C", device, set(before.to_owned()), set(us.to_string()))?;
        }
        Ok(())
    }
}

/// Changes settings of an interface by ethtool, unless there is nothing to change.
fn change(
    journal: &mut Journal,
    option: &str,
    device: &str,
    before: Vec<String>,
    after: Vec<String>,
) -> Result<(), Error> {
    if before.is_empty() {
        return Ok(());
    }
    let (option, device) = (option.to_owned(), device.to_owned());
    let mut command = Command::new("ethtool");
    command.args([&option, &device]).args(after);
    journal.note(Undo::Ethtool { option, device, values: before })?;
    exec::run(&mut command, "")
}

/// The value of a line `name: value` of ethtool's answer.
fn value<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let lines = answer.lines();
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(n, _)| n.trim() == name)
        .map(|(_, v)| v.trim())
}

/// Refuses to replace a root queueing discipline that somebody configured. The kernel's default
/// ones have the handle 0, and come back when another one is taken off.
fn refuse_own_queue(device: &str) -> Result<(), Error> {
    let mut command = Command::new("tc");
    let answer = exec::output(command.args(["-j", "qdisc", "show", "dev", device]), "")?;
    match own_queue(&answer) {
        None => Ok(()),
        Some(kind) => Err(Error::Unfit(format!(
            "{device} has a queueing discipline of its own ({kind}), which could not be restored: \
             take it off first (`tc qdisc del dev {device} root`), or leave out --qdisc and --limit"
        ))),
    }
}

/// The kind of the root queueing discipline in tc's answer, if somebody configured it.
fn own_queue(answer: &str) -> Option<String> {
    let all: serde_json::Value = serde_json::from_str(answer).ok()?;
    let root = all.as_array()?.iter().find(|qdisc| qdisc["root"] == true)?;
    (root["handle"] != "0:").then(|| root["kind"].as_str().unwrap_or("unknown").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::tests::point;

    #[test]
    fn ethtool_s_answers_are_read() {
        let answer = "Features for eth0:\n\ttcp-segmentation-offload: on\nrx-usecs:\t8\n\
                      generic-segmentation-offload: off [fixed]\n";
        assert_eq!(value(answer, "tcp-segmentation-offload"), Some("on"));
        assert_eq!(value(answer, "rx-usecs"), Some("8"));
        assert_eq!(value(answer, "usecs"), None);
    }

    #[test]
    fn only_a_default_queue_is_replaced() {
        let default = r#"[{"kind":"mq","handle":"0:","root":true},
                          {"kind":"fq","handle":"0:","parent":":1"}]"#;
        assert_eq!(own_queue(default), None);
        let own = r#"[{"kind":"htb","handle":"1:","root":true}]"#;
        assert_eq!(own_queue(own).as_deref(), Some("htb"));
        assert_eq!(own_queue("[]"), None);
    }

    #[test]
    fn what_only_namespaces_have_is_refused() {
        let client = |point: Point| Client {
            points: vec![point],
            server: "192.0.2.1:9".parse().unwrap(),
            sources: Vec::new(),
            device: None,
            set_queue: false,
            settle: Duration::ZERO,
            measure: Duration::ZERO,
            threads: 1,
            tune: false,
            functions: false,
        };
        let error = |point| client(point).refuse_what_needs_namespaces().unwrap_err().to_string();
        assert!(error(Point { loss: 0.1, ..point(1) }).contains("netem"));
        assert!(error(Point { offload: false, ..point(1) }).contains("--device"));
        let paced = Point { paced: Some(0.9), rate_mbps: 0.0, ..point(1) };
        assert!(error(paced).contains("--rate"));
        assert!(client(point(1)).refuse_what_needs_namespaces().is_ok());
        assert_eq!(client(point(5)).needs().sources, 1);
    }
}
