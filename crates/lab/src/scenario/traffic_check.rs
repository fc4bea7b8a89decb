use std::ops::RangeInclusive;

use forebay_config::{ConfigError, RateValue, Spanned};
use forebay_units::{Bytes, Nanos, Rate};

use super::check::Check;
use super::file::{FromName, KindName, TrafficTable, TransportName};
use super::{Origin, Scenario, Traffic, TrafficKind, Transport};
use crate::workload::{Requests, Sizes};

/// Sockets of one traffic, each with a port of its own.
const MAX_FLOWS: u32 = 1_000;
/// What fits a 1500 B packet with IPv6 and UDP headers; 16 bytes are the datagram's own header.
const DATAGRAM: RangeInclusive<u64> = 16..=1_452;

/// The traffic that `table` describes in `scenario`, whose path and times are set.
pub(super) fn traffic(
    check: &Check<'_>,
    table: &Spanned<TrafficTable>,
    scenario: &Scenario,
) -> Result<Traffic, ConfigError> {
    let span = table.span();
    let table = table.get_ref();
    check.name(&table.name, "traffic.name")?;
    let (kind_name, keys) = table.kind.keys();
    if let Some((key, span)) = table.given().find(|(key, _)| !keys.contains(key)) {
        let what = format!("not a key of \"{kind_name}\" traffic, which has: {}", keys.join(", "));
        return Err(check.0.error_at(span, format!("traffic.{key}"), what));
    }
    let missing = |key: &str| {
        let what =
            format!("missing: \"{kind_name}\" traffic needs it, as \"48 Mbit/s\" or \"50 %\"");
        check.0.error_at(span.clone(), format!("traffic.{key}"), what)
    };
    let flows = |value, default, key| count(check, value, default, key);
    let kind = match table.kind {
        KindName::Requests => {
            let load = table.load.as_ref().ok_or_else(|| missing("load"))?;
            let sizes = sizes(check, table)?;
            let largest = sizes.max();
            let max_size =
                table.max_size.as_ref().map_or(largest, |m| m.get_ref().0.0.min(largest));
            let requests = Requests {
                load_bps: rate(check, load, "traffic.load", scenario)?.as_bps(),
                connections: flows(&table.connections, 200, "connections")?,
                sizes,
                max_size,
                balanced: table.balanced.as_ref().is_some_and(|b| *b.get_ref()),
            };
            if let (None, Some(max)) = (requests.mean_size(), &table.max_size) {
                let what = "is below every size of the distribution: raise it";
                return Err(check.0.error_at(max.span(), "traffic.max_size", what));
            }
            TrafficKind::Requests { requests, congestion: congestion(table) }
        }
        KindName::Bulk => {
            let transport = match table.transport.as_ref().map(Spanned::get_ref) {
                None | Some(TransportName::Tcp) => Transport::Tcp(congestion(table)),
                Some(TransportName::Udp) => Transport::Udp,
            };
            if let (Transport::Udp, Some(given)) = (transport, &table.congestion) {
                let what = "is for transport \"tcp\": remove it";
                return Err(check.0.error_at(given.span(), "traffic.congestion", what));
            }
            TrafficKind::Bulk { flows: flows(&table.flows, 1, "flows")?, transport }
        }
        KindName::UdpRr => TrafficKind::UdpRr { flows: flows(&table.flows, 1, "flows")? },
        KindName::Cbr => {
            let given = table.rate.as_ref().ok_or_else(|| missing("rate"))?;
            let size = table.size.as_ref().map_or(Bytes(1_200), |s| s.get_ref().0);
            if let (false, Some(given)) = (DATAGRAM.contains(&size.0), &table.size) {
                let what = format!("must be {} to {} B", DATAGRAM.start(), DATAGRAM.end());
                return Err(check.0.error_at(given.span(), "traffic.size", what));
            }
            TrafficKind::Cbr { rate: rate(check, given, "traffic.rate", scenario)?, size }
        }
    };
    let (start, stop) = times(check, table, scenario)?;
    let from = match table.from {
        None | Some(FromName::SiteA) => Origin::SiteA,
        Some(FromName::Cross) => Origin::Cross,
    };
    Ok(Traffic { name: table.name.get_ref().clone(), from, start, stop, kind })
}

fn congestion(table: &TrafficTable) -> super::Congestion {
    table.congestion.as_ref().map(|c| *c.get_ref()).unwrap_or_default()
}

fn count(
    check: &Check<'_>,
    value: &Option<Spanned<u32>>,
    default: u32,
    key: &str,
) -> Result<u32, ConfigError> {
    match value {
        None => Ok(default),
        Some(n) if (1..=MAX_FLOWS).contains(n.get_ref()) => Ok(*n.get_ref()),
        Some(n) => {
            let what = format!("must be 1 to {MAX_FLOWS}");
            Err(check.0.error_at(n.span(), format!("traffic.{key}"), what))
        }
    }
}

fn sizes(check: &Check<'_>, table: &TrafficTable) -> Result<Sizes, ConfigError> {
    match table.sizes.as_ref().map(|s| (s.get_ref().as_str(), s.span())) {
        None | Some(("web", _)) => Ok(Sizes::web()),
        Some((file, span)) => {
            let beside = check.0.file().parent().unwrap_or("".as_ref()).join(file);
            Sizes::load(&beside).map_err(|e| check.0.error_at(span, "traffic.sizes", e))
        }
    }
}

/// `"48 Mbit/s"`, or `"50 %"` of the path's rate; above zero and at most ten times the path's rate,
/// above which a source only measures the sender's own host.
fn rate(
    check: &Check<'_>,
    value: &Spanned<String>,
    key: &str,
    scenario: &Scenario,
) -> Result<Rate, ConfigError> {
    let fail = |what: String| check.0.error_at(value.span(), key, what);
    let text = value.get_ref().trim();
    let path_rate = scenario.path.rate;
    let rate = match text.strip_suffix('%').map(|share| share.trim().parse::<f64>()) {
        Some(Ok(share)) => path_rate.scaled(share / 100.0),
        Some(Err(_)) => return Err(fail(format!("\"{text}\" is not a share such as \"50 %\""))),
        None => {
            text.parse::<RateValue>().map_err(|e| fail(format!("{e}; or a share: \"50 %\"")))?.0
        }
    };
    if rate == Rate::ZERO || rate > path_rate.scaled(10.0) {
        return Err(fail(format!(
            "is {rate}: must be above zero and at most ten times {path_rate}"
        )));
    }
    Ok(rate)
}

fn times(
    check: &Check<'_>,
    table: &TrafficTable,
    scenario: &Scenario,
) -> Result<(Nanos, Nanos), ConfigError> {
    let length = scenario.length();
    let start = table.start.as_ref().map_or(Nanos::ZERO, |t| t.get_ref().0);
    let stop = table.stop.as_ref().map_or(length, |t| t.get_ref().0);
    if start < stop && stop <= length {
        return Ok((start, stop));
    }
    let (key, given) = match (&table.stop, &table.start) {
        (Some(stop), _) => ("traffic.stop", stop.span()),
        (None, Some(start)) => ("traffic.start", start.span()),
        (None, None) => ("traffic", table.name.span()),
    };
    let what = format!("traffic must start before it stops, within the run of {length}");
    Err(check.0.error_at(given, key, what))
}
