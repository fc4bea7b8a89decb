//! Reports on flow records: demands, their errors, and what is not in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use forebay_units::Rate;
use ipnet::IpNet;
use serde::Serialize;

use crate::flows::collector::{Collector, Measured, rate};
use crate::flows::count::Reason;
use crate::flows::time::{Window, text};
use crate::input::{Place, Users};
use crate::network::{Demand, Provider};
use crate::table::Table;
use crate::topology::{RouterId, Topology};

/// The most rows of a table in the text; the JSON has all of them.
const ROWS: usize = 20;

/// A measured demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredDemand {
    /// The name of the provider.
    pub provider: String,
    /// The router where the traffic comes in.
    pub entry: String,
    /// The router of the users.
    pub router: String,
    /// The rate in bits per second.
    pub demand: f64,
    /// The relative error from sampling, which the true rate is within with a probability of 95 %.
    pub error: f64,
}

/// The statistics of one exporter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FromExporter {
    /// The address of the exporter.
    pub address: IpAddr,
    /// The messages received.
    pub messages: u64,
    /// The flows in them, used or not.
    pub flows: u64,
    /// The part of its messages (NetFlow v9, sFlow) or records (IPFIX, NetFlow v5) that was lost,
    /// by sequence numbers, and of the samples that an sFlow agent dropped itself.
    pub lost: f64,
    /// The lowest and the highest sampling factor.
    pub sampling: Option<(f64, f64)>,
    /// The flows without a known sampling factor: they count unscaled.
    pub unsaid: u64,
    /// The traffic in the demands, in bits per second.
    pub demand: f64,
}

/// What is not in the demands for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The reason, with its name and description.
    pub reason: Reason,
    /// The number of messages, sets or flows, by the reason.
    pub times: u64,
    /// The octets that they stand for, as far as they are known.
    pub octets: f64,
    /// The same traffic in bits per second.
    pub rate: f64,
}

/// The traffic at an interface that is not in the table of exporters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// The address of the exporter.
    pub exporter: IpAddr,
    /// The index of the interface.
    pub index: u32,
    /// The rate in bits per second.
    pub rate: f64,
}

/// The demands of a window and all that is not in them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of the format.
    pub version: u32,
    /// The start of the window, in UTC.
    pub begin: String,
    /// The end of the window, in UTC.
    pub end: String,
    /// The length of the window in seconds.
    pub seconds: f64,
    /// The demands, the largest first.
    pub demands: Vec<MeasuredDemand>,
    /// The exporters of the table.
    pub exporters: Vec<FromExporter>,
    /// What is not in the demands, by reason.
    pub left_out: Vec<LeftOut>,
    /// The interfaces that are not in the table, the busiest first; of the first 256 that occurred.
    pub interfaces: Vec<Unknown>,
    /// The senders that are not in the table; the first 256.
    pub strangers: Vec<IpAddr>,
    /// The entries of providers without an interface: their traffic is not measured.
    pub unmeasured: Vec<(String, String)>,
}

/// Returns measured demands in the form of a plan. Less than half a bit per second is dropped.
pub fn demands(measured: &[Measured]) -> Vec<Demand> {
    let demand = |m: &Measured| Demand {
        provider: m.place.provider,
        entry: m.place.entry,
        egress: m.router,
        rate: Rate::from_bps_f64(m.rate.min(crate::input::MAX_RATE).round()),
    };
    measured.iter().map(demand).filter(|d| d.rate > Rate::ZERO).collect()
}

/// Formats `prefixes` with their shares in `window`, as [`crate::input::prefixes`] reads them. A
/// prefix without traffic has the lowest share that the file may have.
pub fn shares(
    collector: &Collector,
    window: Window,
    prefixes: &BTreeMap<IpNet, Users>,
    topology: &Topology,
) -> String {
    let mut text = "prefix,router,share\n".to_owned();
    for ((prefix, users), share) in prefixes.iter().zip(collector.shares(window)) {
        let router = &topology.routers()[users.router.index()].name;
        // Shares are in Mbit/s, which keeps all rates of a network within the limits of the file.
        text += &format!("{prefix},\"{router}\",{:.6}\n", (share / 1e6).max(1e-6));
    }
    text
}

impl Report {
    /// Creates the report on `window`, with what `collector` counted from the start of `counted` up
    /// to its end.
    pub fn new(
        collector: &Collector,
        window: Window,
        counted: Window,
        providers: &[Provider],
        topology: &Topology,
    ) -> Self {
        let router = |id: RouterId| topology.routers()[id.index()].name.clone();
        let entry = |place: Place| {
            let provider = &providers[place.provider as usize];
            (provider.name.clone(), router(provider.entries[place.entry as usize].router))
        };
        let demand = |m: &Measured| {
            let (provider, entry) = entry(m.place);
            let (demand, error) = (m.rate, m.error);
            MeasuredDemand { provider, entry, router: router(m.router), demand, error }
        };
        let mut demands: Vec<_> = collector.demands(window).iter().map(demand).collect();
        demands.sort_by(|a, b| b.demand.total_cmp(&a.demand));
        let rate = rate(counted);
        let exporters = &collector.table.exporters;
        let from = |(number, heard): (u32, &super::collector::Heard)| FromExporter {
            address: exporters[number as usize].address,
            messages: heard.messages,
            flows: heard.flows,
            lost: collector.lost(number),
            sampling: heard.factors,
            unsaid: heard.unsaid,
            demand: rate(heard.octets),
        };
        let left_out = Reason::ALL.into_iter().filter_map(|reason| {
            let counted = collector.counted(reason);
            let (times, octets) = (counted.times, counted.octets);
            (times > 0).then_some(LeftOut { reason, times, octets, rate: rate(octets) })
        });
        let unknown = collector.interfaces.iter().map(|((exporter, index), counted)| Unknown {
            exporter: exporters[*exporter as usize].address,
            index: *index,
            rate: rate(counted.octets),
        });
        let mut interfaces: Vec<_> = unknown.collect();
        interfaces.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let measured: BTreeSet<Place> = collector.table.places.iter().copied().collect();
        let all = providers.iter().zip(0..).flat_map(|(provider, number)| {
            (0..provider.entries.len() as u32).map(move |entry| Place { provider: number, entry })
        });
        Self {
            version: 1,
            begin: text(window.begin),
            end: text(window.end),
            seconds: window.length() as f64 / 1000.0,
            demands,
            exporters: (0..).zip(&collector.heard).map(from).collect(),
            left_out: left_out.collect(),
            interfaces,
            strangers: collector.strangers.keys().copied().collect(),
            unmeasured: all.filter(|place| !measured.contains(place)).map(entry).collect(),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Writes the number of rows beyond the limit.
fn more(f: &mut fmt::Formatter<'_>, all: usize) -> fmt::Result {
    if all > ROWS {
        writeln!(f, "and {} more", all - ROWS)?;
    }
    writeln!(f)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = Rate::from_bps_f64;
        let total = self.demands.iter().map(|d| d.demand).sum();
        writeln!(
            f,
            "{} to {}, {} s: {} demands, {} in all.\n",
            self.begin,
            self.end,
            self.seconds,
            self.demands.len(),
            bps(total)
        )?;
        let mut table = Table::new(&["provider", "entry", "router", "demand", "sampling error"]);
        for d in self.demands.iter().take(ROWS) {
            let [provider, entry, router] = [&d.provider, &d.entry, &d.router].map(String::clone);
            table.row([provider, entry, router, bps(d.demand).to_string(), percent(d.error)]);
        }
        write!(f, "{table}")?;
        more(f, self.demands.len())?;
        let mut table = Table::new(&["exporter", "messages", "flows", "lost", "one of", "demand"]);
        for e in self.exporters.iter().take(ROWS) {
            let sampling = match e.sampling {
                None => "-".to_owned(),
                Some((least, most)) if least == most => format!("{least:.0}"),
                Some((least, most)) => format!("{least:.0} to {most:.0}"),
            };
            let [messages, flows] = [e.messages, e.flows].map(|n| n.to_string());
            let demand = bps(e.demand).to_string();
            table.row([e.address.to_string(), messages, flows, percent(e.lost), sampling, demand]);
        }
        write!(f, "{table}")?;
        more(f, self.exporters.len())?;
        for exporter in self.exporters.iter().filter(|e| e.unsaid > 0) {
            writeln!(
                f,
                "{} did not say how {} of its flows were sampled: they count as they are. If they were, write its \
                 `sampling` into the table of exporters.",
                exporter.address, exporter.unsaid
            )?;
        }
        for exporter in self.exporters.iter().filter(|e| e.messages == 0) {
            writeln!(f, "{} sent nothing.", exporter.address)?;
        }
        for (provider, entry) in self.unmeasured.iter().take(ROWS) {
            writeln!(
                f,
                "{provider}'s entry {entry} has no interface: add it to the table of exporters."
            )?;
        }
        if self.left_out.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(&["left out", "", ""]);
        for left in &self.left_out {
            let rate = if left.rate > 0.0 { bps(left.rate).to_string() } else { String::new() };
            table.row([left.reason.description().to_owned(), left.times.to_string(), rate]);
        }
        write!(f, "{table}")?;
        for unknown in self.interfaces.iter().take(ROWS) {
            let Unknown { exporter, index, rate } = unknown;
            writeln!(f, "  interface {index} of {exporter}: {}", bps(*rate))?;
        }
        for stranger in self.strangers.iter().take(ROWS) {
            writeln!(f, "  messages from {stranger}")?;
        }
        Ok(())
    }
}
