//! What bundles carry, and what others send beside them.

use std::fmt::Write as _;

use super::base::{Base, set_path};
use crate::cell::{Cell, Workload, packets};
use crate::family::Family;
use crate::random::Random;

/// Adds the bundle's traffic to `cell`: `share` of the path for requests, one site's worth.
pub(super) fn own(cell: &mut Cell, random: &mut Random, site: u32, share: (f64, f64)) {
    let at = if site > 1 { format!("site = {site}\n") } else { String::new() };
    let suffix = if site > 1 { site.to_string() } else { String::new() };
    let load = (100.0 * random.between(share.0, share.1)).round();
    match cell.workload {
        Workload::Requests => requests(cell, &suffix, load, &at),
        Workload::Bulk => bulk(cell, random, &suffix, &at),
        Workload::Mix => {
            requests(cell, &suffix, (load * 0.7).round(), &at);
            bulk(cell, random, &suffix, &at);
        }
        Workload::RealTime => {
            let _ = write!(
                cell.rest,
                "[[traffic]]\nname = \"loops{suffix}\"\nkind = \"udp_rr\"\nflows = 5\n{at}\n"
            );
            requests(cell, &suffix, (load * 0.6).round(), &at);
            bulk(cell, random, &suffix, &at);
        }
        Workload::Thin => {
            let _ = write!(
                cell.rest,
                "[[traffic]]\nname = \"loops{suffix}\"\nkind = \"udp_rr\"\nflows = 2\n{at}\n"
            );
            requests(cell, &suffix, (load * 0.1).round().max(1.0), &at);
        }
    }
}

/// Requests of this load in per cent; none takes longer than some seconds of the whole path.
fn requests(cell: &mut Cell, suffix: &str, load: f64, at: &str) {
    let largest = largest_request(cell.rate);
    let connections = (cell.rate * 4.0).clamp(20.0, 200.0) as u32;
    let _ = write!(
        cell.rest,
        "[[traffic]]\nname = \"web{suffix}\"\nkind = \"requests\"\nload = \"{load} %\"\n\
         connections = {connections}\nmax_size = \"{largest} B\"\n{at}\n"
    );
}

/// The largest request in bytes: it takes less than two seconds of a path of this rate in Mbit/s.
fn largest_request(rate: f64) -> u64 {
    (rate * 1e6 / 8.0 * 1.7).clamp(100e3, 20e6) as u64
}

fn bulk(cell: &mut Cell, random: &mut Random, suffix: &str, at: &str) {
    let flows = if random.chance(0.6) { 1 } else { random.whole(2, 10) };
    let congestion = random.one_of(&["cubic", "cubic", "cubic", "reno", "bbr"]);
    let _ = write!(
        cell.rest,
        "[[traffic]]\nname = \"bulk{suffix}\"\nkind = \"bulk\"\nflows = {flows}\n\
         congestion = \"{congestion}\"\n{at}\n"
    );
}

/// Draws a cell of a family whose bottleneck is shared.
pub(super) fn draw_shared(cell: &mut Cell, random: &mut Random) {
    let base = Base::draw(random, (4.0, 200.0), (8.0, 200.0));
    let buffer = cell_buffer(&base, random);
    let base = Base { buffer, ..base };
    set_path(cell, &base, format!("{buffer} packets"));
    match cell.family {
        Family::Elastic => {
            own(cell, random, 1, (0.2, 0.6));
            let congestion = random.one_of(&["cubic", "cubic", "reno"]);
            others_bulk(cell, random, congestion);
        }
        Family::Bbr => {
            own(cell, random, 1, (0.2, 0.6));
            others_bulk(cell, random, "bbr");
        }
        Family::Inelastic => {
            own(cell, random, 1, (0.2, 0.5));
            others_inelastic(cell, random);
        }
        Family::Nested => {
            cell.sites = random.whole(2, 3);
            cell.nested = true;
            several(cell, random);
        }
        _ => {
            cell.sites = random.whole(2, 6);
            several(cell, random);
        }
    }
}

/// A buffer of 0.3 to 4 bandwidth-delay products.
fn cell_buffer(base: &Base, random: &mut Random) -> u32 {
    (packets(base.rate * base.rtt) * random.log_between(0.3, 4.0)).clamp(20.0, 50_000.0) as u32
}

fn several(cell: &mut Cell, random: &mut Random) {
    let sites = cell.sites;
    let each = 0.85 / f64::from(sites);
    let bulk_at = random.whole(1, sites);
    let workload = cell.workload;
    for site in 1..=sites {
        // One site, and now and then another, has bulk traffic beside its requests.
        let heavy = site == bulk_at || random.chance(0.2);
        cell.workload = match workload {
            Workload::Bulk => Workload::Bulk,
            Workload::RealTime if heavy => Workload::RealTime,
            _ if heavy => Workload::Mix,
            _ => Workload::Requests,
        };
        own(cell, random, site, (0.6 * each, each));
    }
    cell.workload = workload;
    let _ = write!(cell.what, ", {sites} bundles");
}

fn others_bulk(cell: &mut Cell, random: &mut Random, congestion: &str) {
    let flows = random.log_between(1.0, 11.0) as u32;
    cell.shared = true;
    cell.at_least = 20.0;
    let _ = write!(cell.what, ", {flows} {congestion} of others");
    let _ = write!(
        cell.rest,
        "[[traffic]]\nname = \"others\"\nkind = \"bulk\"\nflows = {flows}\n\
         congestion = \"{congestion}\"\nfrom = \"cross\"\n\n"
    );
}

fn others_inelastic(cell: &mut Cell, random: &mut Random) {
    let share = (100.0 * random.between(0.1, 0.5)).round();
    let rate = (cell.rate * 10.0 * share).round();
    cell.shared = true;
    let (kind, text) = match random.whole(0, 4) {
        0 => ("requests", {
            let largest = largest_request(cell.rate);
            format!("load = \"{share} %\"\nconnections = 100\nmax_size = \"{largest} B\"\n")
        }),
        1 => ("cbr", format!("rate = \"{rate} kbit/s\"\n")),
        2 => {
            let on = random.whole(200, 6000);
            let off = random.whole(200, 6000);
            let peak = (2.0 * rate).min(cell.rate * 1e3);
            ("on_off", format!("rate = \"{peak} kbit/s\"\non = \"{on} ms\"\noff = \"{off} ms\"\n"))
        }
        3 => ("video", format!("rate = \"{rate} kbit/s\"\n")),
        // A loss-based flow that comes and goes.
        _ => ("bulk", {
            cell.at_least = 25.0;
            "flows = 1\ncongestion = \"cubic\"\nstart = \"12 s\"\nstop = \"22 s\"\n".to_owned()
        }),
    };
    let _ = write!(cell.what, ", {share} % {kind} of others");
    let _ = write!(
        cell.rest,
        "[[traffic]]\nname = \"others\"\nkind = \"{kind}\"\n{text}from = \"cross\"\n\n"
    );
}
