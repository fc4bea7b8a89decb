use std::ops::{Range, RangeInclusive};

use forebay_config::{ConfigError, DurationValue, RateValue, Spanned};
use forebay_sim::Pattern;
use forebay_units::{Bytes, Nanos, Rate};

use super::file::{FromName, KindName, TrafficTable, TransportName};
use super::grid::Cell;
use super::rules::{Check, MAX_RTT};
use super::traffic::CongestionName;
use super::{Congestion, EcnField, Origin, Scenario, Traffic, TrafficKind, Transport};
use crate::workload::{Arrivals, Requests, Sizes};

/// The largest number of flows of all traffic, which the simulator carries. Real engines have
/// [`MAX_SOCKETS`].
pub(super) const MAX_FLOWS: u32 = 100_000;
/// The largest number of sockets of a traffic in a real engine, each with its own port.
pub(crate) const MAX_SOCKETS: u32 = 1_000;
/// The payload that fits a 1500 B packet with IPv6 and UDP headers; 16 bytes are the datagram's
/// header.
const DATAGRAM: RangeInclusive<u64> = 16..=1_452;
/// The default size of a datagram's payload.
const USUAL_DATAGRAM: Bytes = Bytes(1_200);
/// The default window in packets of the congestion control "fixed": that of the Bundler paper's
/// idealised proxy.
const USUAL_WINDOW: u32 = 450;
const MAX_WINDOW: u32 = 100_000;
const MAX_FPS: u32 = 1_000;
/// The number of classes of strict priority, as in IEEE 802.1Q.
const MAX_CLASS: u8 = 8;

/// Checks the traffic in `table`. The path, times and phases of `scenario` are set already; `bulks`
/// is the number of bulk traffics before this one.
pub(super) fn traffic(
    check: &Check<'_>,
    table: &Spanned<TrafficTable>,
    scenario: &Scenario,
    (cell, bulks): (&Cell<'_>, usize),
) -> Result<Traffic, ConfigError> {
    let span = table.span();
    let table = table.get_ref();
    check.name(&table.name, "traffic.name")?;
    let (kind_name, keys) = table.kind.keys();
    if let Some((key, span)) = table.given().find(|(key, _)| !keys.contains(key)) {
        let what = format!("not a key of \"{kind_name}\" traffic, which has: {}", keys.join(", "));
        return Err(check.0.error_at(span, format!("traffic.{key}"), what));
    }
    let flows = |value, default, key| count(check, value, default, (key, MAX_FLOWS));
    let kind = match table.kind {
        KindName::Requests => TrafficKind::Requests {
            requests: requests(check, table, &span, scenario, cell)?,
            congestion: congestion(check, table, cell)?,
        },
        KindName::Bulk => {
            let udp =
                matches!(table.transport.as_ref().map(Spanned::get_ref), Some(TransportName::Udp));
            let transport = match &table.congestion {
                _ if !udp => Transport::Tcp(congestion(check, table, cell)?),
                None => Transport::Udp,
                Some(given) if *given.get_ref() == CongestionName::Prague => Transport::UdpPrague,
                Some(given) => {
                    let what = "over UDP there is \"prague\", or nothing: remove it";
                    return Err(check.0.error_at(given.span(), "traffic.congestion", what));
                }
            };
            if let (Some(own), Some(_)) = (&table.flows, cell.mix) {
                let what = "stands here and in [grid] as `mix`: remove one";
                return Err(check.0.error_at(own.span(), "traffic.flows", what));
            }
            let mixed =
                cell.mix.and_then(|m| Some(Spanned::new(m.span(), *m.get_ref().get(bulks)?)));
            let own = table.flows.as_ref().or(mixed.as_ref()).or(cell.flows);
            TrafficKind::Bulk { flows: flows(own, 1, "flows")?, transport }
        }
        KindName::UdpRr => TrafficKind::UdpRr { flows: flows(table.flows.as_ref(), 1, "flows")? },
        KindName::Cbr | KindName::OnOff | KindName::Video => {
            let size = table.size.as_ref().map_or(USUAL_DATAGRAM, |s| s.get_ref().0);
            if let (false, Some(given)) = (DATAGRAM.contains(&size.0), &table.size) {
                let what = format!("must be {} to {} B", DATAGRAM.start(), DATAGRAM.end());
                return Err(check.0.error_at(given.span(), "traffic.size", what));
            }
            let rate =
                rate(check, table.rate.as_ref().or(cell.load), &span, "traffic.rate", scenario)?;
            TrafficKind::Datagrams(pattern(check, table, rate, size)?)
        }
    };
    let (start, stop) = times(check, table, scenario)?;
    let from = origin(check, table, scenario)?;
    let class = class(check, table, from)?;
    let ecn = ecn(check, table, &kind)?;
    let bulk = matches!(kind, TrafficKind::Bulk { .. });
    let rtt = if bulk { own_rtt(check, table, scenario, (cell, bulks))? } else { None };
    let name = table.name.get_ref().clone();
    Ok(Traffic { name, from, start, stop, class, ecn, rtt, kind })
}

/// Checks the ECN field of the traffic's data.
fn ecn(
    check: &Check<'_>,
    table: &TrafficTable,
    kind: &TrafficKind,
) -> Result<Option<EcnField>, ConfigError> {
    let Some(given) = &table.ecn else { return Ok(None) };
    let ecn = *given.get_ref();
    let fail = |what: String| Err(check.0.error_at(given.span(), "traffic.ecn", what));
    match kind {
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. }
            if !congestion.may_say(ecn) =>
        {
            fail(format!(
                "not with congestion = \"{}\": \"ect1\" is for dctcp and prague, which cannot do \
                 without ECN, prague not without \"ect1\"",
                congestion.name()
            ))
        }
        TrafficKind::Bulk { transport: Transport::UdpPrague, .. } if ecn == EcnField::Ect1 => {
            Ok(Some(ecn))
        }
        TrafficKind::Bulk { transport: Transport::UdpPrague, .. } => {
            fail("Prague says \"ect1\": remove it".to_owned())
        }
        TrafficKind::Bulk { transport: Transport::Udp, .. } => {
            fail("is for transport \"tcp\": remove it".to_owned())
        }
        _ => Ok(Some(ecn)),
    }
}

/// Checks the round-trip time of the traffic's own path.
fn own_rtt(
    check: &Check<'_>,
    table: &TrafficTable,
    scenario: &Scenario,
    (cell, bulks): (&Cell<'_>, usize),
) -> Result<Option<Nanos>, ConfigError> {
    if let (Some(own), Some(_)) = (&table.rtt, cell.rtts) {
        let what = "stands here and in [grid] as `rtts`: remove one";
        return Err(check.0.error_at(own.span(), "traffic.rtt", what));
    }
    let listed = cell.rtts.and_then(|r| Some((r.get_ref().get(bulks)?.0, r.span())));
    let own = table.rtt.as_ref().map(|r| (r.get_ref().0, r.span()));
    let site = table.site.as_ref().map_or(0, |site| site.get_ref().saturating_sub(1));
    let least = match table.from {
        Some(FromName::Cross) => scenario.path.rtt,
        _ => scenario.conditions.site_rtt(site, &scenario.path),
    };
    match own.or(listed) {
        Some((rtt, span)) if rtt < least || rtt > MAX_RTT => {
            let what = format!("must be {least}, the path's, to 2 s");
            Err(check.0.error_at(span, "traffic.rtt", what))
        }
        found => Ok(found.map(|(rtt, _)| rtt)),
    }
}

fn origin(
    check: &Check<'_>,
    table: &TrafficTable,
    scenario: &Scenario,
) -> Result<Origin, ConfigError> {
    let fail = |given: &Spanned<u32>, what: String| {
        Err(check.0.error_at(given.span(), "traffic.site", what))
    };
    match (table.from, &table.site) {
        (Some(FromName::Cross), None) => Ok(Origin::Cross),
        (Some(FromName::Cross), Some(site)) => fail(
            site,
            "cross traffic comes from no site: remove it, or from = \"cross\"".to_owned(),
        ),
        (_, None) => Ok(Origin::Site(0)),
        (_, Some(site)) if (1..=scenario.sites).contains(site.get_ref()) => {
            Ok(Origin::Site(site.get_ref() - 1))
        }
        (_, Some(site)) => fail(site, format!("must be 1 to {}, the `sites`", scenario.sites)),
    }
}

/// Checks the class; the result counts from zero, the most urgent.
fn class(check: &Check<'_>, table: &TrafficTable, from: Origin) -> Result<u8, ConfigError> {
    let Some(given) = &table.class else { return Ok(0) };
    let what = match given.get_ref() {
        _ if from == Origin::Cross => "cross traffic passes no sendbox: remove it",
        class @ 1..=MAX_CLASS => return Ok(class - 1),
        _ => "must be 1, the most urgent, to 8",
    };
    Err(check.0.error_at(given.span(), "traffic.class", what))
}

fn requests(
    check: &Check<'_>,
    table: &TrafficTable,
    span: &Range<usize>,
    scenario: &Scenario,
    cell: &Cell<'_>,
) -> Result<Requests, ConfigError> {
    let arrivals = table.arrivals.as_ref().map(|a| *a.get_ref()).unwrap_or_default();
    let load_bps = match (arrivals, &table.load, &table.balanced) {
        (Arrivals::Poisson, load, _) => {
            let load = load.as_ref().or(cell.load);
            rate(check, load, span, "traffic.load", scenario)?.as_bps()
        }
        (Arrivals::Closed, None, None) => 0,
        (Arrivals::Closed, load, balanced) => {
            let load = load.as_ref().map(|l| (l.span(), "traffic.load"));
            let balanced = balanced.as_ref().map(|b| (b.span(), "traffic.balanced"));
            let (span, key) = load.or(balanced).unwrap_or((0..0, "traffic"));
            let what =
                "is for arrivals = \"poisson\": a closed loop asks as fast as it is answered";
            return Err(check.0.error_at(span, key, what));
        }
    };
    let sizes = sizes(check, table)?;
    let largest = sizes.max();
    let max_size = table.max_size.as_ref().map_or(largest, |m| m.get_ref().0.0.min(largest));
    let requests = Requests {
        load_bps,
        connections: count(check, table.connections.as_ref(), 200, ("connections", MAX_SOCKETS))?,
        sizes,
        max_size,
        balanced: table.balanced.as_ref().is_some_and(|b| *b.get_ref()),
        arrivals,
        new_connections: table.new_connections.as_ref().is_some_and(|n| *n.get_ref()),
    };
    if let (None, Some(max)) = (requests.mean_size(), &table.max_size) {
        let what = "is below every size of the distribution: raise it";
        return Err(check.0.error_at(max.span(), "traffic.max_size", what));
    }
    Ok(requests)
}

fn pattern(
    check: &Check<'_>,
    table: &TrafficTable,
    rate: Rate,
    size: Bytes,
) -> Result<Pattern, ConfigError> {
    let time = |value: &Option<Spanned<DurationValue>>, key: &str| {
        let time = value.as_ref().map_or(Nanos::from_secs(1), |t| t.get_ref().0);
        match value {
            Some(given) if time < Nanos::from_millis(1) => {
                let key = format!("traffic.{key}");
                Err(check.0.error_at(given.span(), key, "must be at least 1 ms"))
            }
            _ => Ok(time),
        }
    };
    match table.kind {
        KindName::OnOff => {
            let (on, off) = (time(&table.on, "on")?, time(&table.off, "off")?);
            Ok(Pattern::OnOff { rate, size, on, off })
        }
        KindName::Video => match &table.fps {
            None => Ok(Pattern::Video { rate, size, fps: 30 }),
            Some(fps) if (1..=MAX_FPS).contains(fps.get_ref()) => {
                Ok(Pattern::Video { rate, size, fps: *fps.get_ref() })
            }
            Some(fps) => {
                let what = format!("must be 1 to {MAX_FPS}");
                Err(check.0.error_at(fps.span(), "traffic.fps", what))
            }
        },
        _ => Ok(Pattern::Constant { rate, size }),
    }
}

fn congestion(
    check: &Check<'_>,
    table: &TrafficTable,
    cell: &Cell<'_>,
) -> Result<Congestion, ConfigError> {
    let own = table.congestion.as_ref().map(|c| *c.get_ref());
    let congestion = own.or(cell.congestion).unwrap_or_default();
    let window = table.window.as_ref().map_or(USUAL_WINDOW, |w| *w.get_ref());
    let congestion = congestion.with(window);
    match (&table.window, congestion) {
        (Some(given), Congestion::Fixed { .. }) if !(1..=MAX_WINDOW).contains(&window) => {
            let what = format!("must be 1 to {MAX_WINDOW} packets");
            Err(check.0.error_at(given.span(), "traffic.window", what))
        }
        // An axis of the grid may hold "fixed" among other congestion controls.
        (Some(given), c) if own.is_some() && !matches!(c, Congestion::Fixed { .. }) => {
            let what = "is for congestion = \"fixed\": remove it";
            Err(check.0.error_at(given.span(), "traffic.window", what))
        }
        _ => Ok(congestion),
    }
}

fn count(
    check: &Check<'_>,
    value: Option<&Spanned<u32>>,
    default: u32,
    (key, most): (&str, u32),
) -> Result<u32, ConfigError> {
    match value {
        None => Ok(default),
        Some(n) if (1..=most).contains(n.get_ref()) => Ok(*n.get_ref()),
        Some(n) => {
            let what = format!("must be 1 to {most}");
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

/// Checks a rate such as `"48 Mbit/s"`, or `"50 %"` of the path's rate. It must be above zero and
/// at most ten times the path's rate: above that, a source measures only the sender's own host.
/// `span` is the position of the traffic.
fn rate(
    check: &Check<'_>,
    value: Option<&Spanned<String>>,
    span: &Range<usize>,
    key: &str,
    scenario: &Scenario,
) -> Result<Rate, ConfigError> {
    let Some(value) = value else {
        let what = "missing: this traffic needs it, as \"48 Mbit/s\" or \"50 %\"";
        return Err(check.0.error_at(span.clone(), key, what));
    };
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
    if let Some(phase) = &table.phase {
        return of_phase(check, table, phase, scenario);
    }
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

fn of_phase(
    check: &Check<'_>,
    table: &TrafficTable,
    phase: &Spanned<String>,
    scenario: &Scenario,
) -> Result<(Nanos, Nanos), ConfigError> {
    for (key, given) in [("traffic.start", &table.start), ("traffic.stop", &table.stop)] {
        if let Some(given) = given {
            let what = "the phase says when: remove it, or `phase`";
            return Err(check.0.error_at(given.span(), key, what));
        }
    }
    match scenario.phases.iter().find(|p| p.name == *phase.get_ref()) {
        Some(phase) => Ok((phase.start, phase.stop)),
        None => {
            let what = format!("there is no [[phase]] of the name \"{}\"", phase.get_ref());
            Err(check.0.error_at(phase.span(), "traffic.phase", what))
        }
    }
}
