//! What a capture shows, for people and for programs.

use std::fmt;
use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_units::Nanos;
use serde::Serialize;

use super::ace::{Feedback, Marks};
use super::connection::{Connection, Opening};
use super::delay;
use super::half::Codepoints;
use super::others::{OtherPackets, Others};
use super::{Analysis, judge};
use crate::report::{Finding, Verdict};

/// The place of a capture, seen from a direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At the sender of the data.
    Sender,
    /// At the receiver of the data.
    Receiver,
    /// Between both ends.
    Middle,
    /// At both ends, with two captures.
    Both,
    /// The delays do not show it.
    Unknown,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sender => "at the sender",
            Self::Receiver => "at the receiver",
            Self::Middle => "between both ends",
            Self::Both => "at both ends",
            Self::Unknown => "at an unknown place",
        })
    }
}

/// How a sender responds to marks, by the law that its window and the share of marks follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// About two marks in each round trip (RFC 9331 section 4.3).
    Scalable,
    /// The window falls with the square root of the marks (RFC 3168).
    Classic,
}

/// The connections of a capture, or of two.
#[derive(Clone, Debug, Serialize)]
pub struct TcpReport {
    /// Whether L4S works.
    pub verdict: Verdict,
    /// The faults that were found, and what cannot be told.
    pub findings: Vec<Finding>,
    /// The connections, in the order of their first packets.
    pub connections: Vec<ConnectionReport>,
    /// The packets of the captures.
    pub packets: u64,
    /// The TCP segments of these.
    pub segments: u64,
    /// The packets that are no TCP segments, by what they are.
    pub others: Vec<OtherPackets>,
    /// The segments of connections beyond the most that are followed.
    pub not_followed: u64,
    /// Whether the packets were too many to keep the times of all.
    pub is_full: bool,
}

/// A connection of the capture.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionReport {
    /// The end that opened it, or the first that sent in the capture.
    pub client: SocketAddr,
    /// The end that answered the SYN.
    pub server: SocketAddr,
    /// Its handshake, as far as it was captured.
    pub handshake: Handshake,
    /// The ECN feedback that it uses.
    pub feedback: Feedback,
    /// The directions with data.
    pub directions: Vec<Direction>,
}

/// The ECN bits of a handshake, as far as they were captured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Handshake {
    /// The flags AE, CWR and ECE of the SYN, as `111`.
    pub syn: Option<String>,
    /// The ECN field of the SYN here.
    pub syn_ecn: Option<&'static str>,
    /// The ECN field with which the SYN arrived, as the server says.
    pub syn_ecn_arrived: Option<&'static str>,
    /// The flags AE, CWR and ECE of the SYN/ACK.
    pub syn_ack: Option<String>,
    /// The ECN field of the SYN/ACK here.
    pub syn_ack_ecn: Option<&'static str>,
    /// The ECN field with which the SYN/ACK arrived, as the client says.
    pub syn_ack_ecn_arrived: Option<&'static str>,
}

/// The data from one end to the other.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// The sender of the data.
    pub from: SocketAddr,
    /// The receiver of the data.
    pub to: SocketAddr,
    /// Where the capture was taken.
    pub place: Place,
    /// Data segments here by codepoint. Super-packets count as the segments that they become.
    pub segments: Codepoints,
    /// The share of these with CE.
    pub ce_share: f64,
    /// The segments here that were seen before.
    pub retransmitted: u64,
    /// Packets that were captured twice.
    pub twice: u64,
    /// The segments that gave no round trip because too many waited for their acknowledgement.
    pub forgotten: u64,
    /// The bytes that the receiver acknowledged.
    pub acked_bytes: u64,
    /// What the receiver says of marks.
    pub echo: Echo,
    /// The time to the receiver and back.
    pub to_receiver: Option<Quantiles>,
    /// The time to the sender and back, by timestamps.
    pub to_sender: Option<Quantiles>,
    /// The time from sender to receiver beyond the least one, of two captures.
    pub one_way: Option<OneWay>,
    /// How the sender responds to marks; `None` if it cannot be told.
    pub response: Option<Response>,
    /// Whether L4S works for this direction; `None` if it does not try to use it.
    pub verdict: Option<Verdict>,
    /// The faults that were found, and what cannot be told.
    pub findings: Vec<Finding>,
}

/// What a receiver says of marks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Echo {
    /// The marks that the ACE field counts; `None` without AccECN.
    pub marks: Option<Marks>,
    /// The acknowledgements with ECE; `None` with AccECN.
    pub ece: Option<u64>,
    /// The bytes by codepoint in the AccECN option; Not-ECT is not reported.
    pub bytes: Option<Codepoints>,
}

/// Quantiles of times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The shortest time in milliseconds.
    pub min_ms: f64,
    /// The median of all.
    pub median_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

impl Quantiles {
    pub(super) fn of(mut times: Vec<Nanos>) -> Option<Self> {
        let mut at = |q| delay::quantile(&mut times, q).map(Nanos::as_millis_f64);
        Some(Self { min_ms: at(0.0)?, median_ms: at(0.5)?, p99_ms: at(0.99)? })
    }
}

/// One-way delays beyond the least one, and what happened on the way, of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OneWay {
    /// The delays of all segments that were found in both.
    pub delay: Quantiles,
    /// The delays of marked segments.
    pub marked: Option<Quantiles>,
    /// The segments that left the sender, by codepoint there.
    pub sent: Codepoints,
    /// The segments of these that arrived, by codepoint at the sender.
    pub arrived: Codepoints,
    /// The segments that left with ECT(1) by the codepoint at the receiver.
    pub ect1_as: Codepoints,
}

/// Returns the name of a codepoint.
pub(super) fn name(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "CE",
    }
}

/// Judges one capture.
pub(super) fn single(analysis: &Analysis) -> TcpReport {
    let connections: Vec<_> = analysis
        .connections
        .iter()
        .map(|connection| {
            let direction = |end: usize| {
                let place = place(connection, end, analysis.at);
                judge::direction(connection, end, place, None)
            };
            connection_report(connection, direction)
        })
        .collect();
    total(connections, &[analysis])
}

/// Returns the place of the capture, seen from the data of `end`.
fn place(connection: &Connection, end: usize, known: Option<Place>) -> Place {
    match known {
        Some(Place::Sender) if end != main_direction(connection) => return Place::Receiver,
        Some(Place::Receiver) if end != main_direction(connection) => return Place::Sender,
        Some(known) => return known,
        None => {}
    }
    match connection.here() {
        Ok(here) if here == end => Place::Sender,
        Ok(_) => Place::Receiver,
        Err(true) => Place::Middle,
        Err(false) => Place::Unknown,
    }
}

/// Returns the number of the end that sends more.
pub(super) fn main_direction(connection: &Connection) -> usize {
    let [a, b] = connection.halves.each_ref().map(|half| half.bytes.all());
    usize::from(b > a)
}

/// Describes a connection with its directions.
pub(super) fn connection_report(
    connection: &Connection,
    direction: impl Fn(usize) -> Direction,
) -> ConnectionReport {
    let flags = |opening: Option<Opening>| opening.map(|o| format!("{:03b}", o.flags));
    let [client, server] = connection.ends;
    let with_data = [0, 1].into_iter().filter(|&end| connection.halves[end].segments.all() > 0);
    ConnectionReport {
        client,
        server,
        handshake: Handshake {
            syn: flags(connection.syn),
            syn_ecn: connection.syn.map(|o| name(o.ecn)),
            syn_ecn_arrived: connection.syn_arrived().map(name),
            syn_ack: flags(connection.syn_ack),
            syn_ack_ecn: connection.syn_ack.map(|o| name(o.ecn)),
            syn_ack_ecn_arrived: connection.syn_ack_arrived().map(name),
        },
        feedback: connection.feedback(),
        directions: with_data.map(direction).collect(),
    }
}

/// Puts the verdicts of all connections together.
pub(super) fn total(connections: Vec<ConnectionReport>, of: &[&Analysis]) -> TcpReport {
    let segments = of.iter().map(|a| a.segments).sum();
    let mut others = Others::default();
    of.iter().for_each(|analysis| others.merge(&analysis.others));
    let nothing = (segments == 0).then(|| others.instead());
    let (verdict, findings) = judge::total(&connections, nothing);
    TcpReport {
        verdict,
        findings,
        connections,
        packets: of.iter().map(|a| a.packets).sum(),
        segments,
        others: others.list(),
        not_followed: of.iter().map(|a| a.not_followed).sum(),
        is_full: of.iter().any(|a| a.room == 0),
    }
}

/// The most connections that the text lists; the JSON has all.
const LISTED: usize = 20;

impl fmt::Display for TcpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.verdict.headline())?;
        for finding in &self.findings {
            writeln!(f, "- {}", finding.text)?;
        }
        let mut listed: Vec<_> = self.connections.iter().collect();
        let size = |c: &ConnectionReport| {
            std::cmp::Reverse(c.directions.iter().map(|d| d.segments.all()).sum::<u64>())
        };
        listed.sort_by_key(|c| size(c));
        for connection in listed.iter().take(LISTED) {
            write!(f, "\n{connection}")?;
        }
        if let Some(more) = self.connections.len().checked_sub(LISTED).filter(|&n| n > 0) {
            writeln!(f, "\n{more} more connections with fewer segments: see --json.")?;
        }
        if self.not_followed > 0 {
            writeln!(
                f,
                "\n{} segments of further connections were left out: filter the capture.",
                self.not_followed
            )?;
        }
        if self.is_full {
            writeln!(f, "\nThe capture is long: delays are those of its first part.")?;
        }
        write!(f, "\n{} of {} packets were TCP segments.", self.segments, self.packets)
    }
}

impl fmt::Display for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} to {}: {}", self.client, self.server, self.feedback.name())?;
        let Handshake { syn, syn_ack, .. } = &self.handshake;
        let flags = |flags: &Option<String>| flags.clone().unwrap_or_else(|| "not seen".into());
        let arrived = |sent: Option<&str>, arrived: Option<&str>| match (sent, arrived) {
            (Some(sent), Some(arrived)) => format!(", sent as {sent}, arrived as {arrived}"),
            (Some(sent), None) => format!(", {sent} here"),
            _ => String::new(),
        };
        writeln!(
            f,
            "  SYN {}{}; SYN/ACK {}{} (AE CWR ECE)",
            flags(syn),
            arrived(self.handshake.syn_ecn, self.handshake.syn_ecn_arrived),
            flags(syn_ack),
            arrived(self.handshake.syn_ack_ecn, self.handshake.syn_ack_ecn_arrived),
        )?;
        self.directions.iter().try_for_each(|direction| write!(f, "{direction}"))
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Codepoints { not_ect, ect0, ect1, ce } = self.segments;
        writeln!(f, "  data from {}, captured {}:", self.from, self.place)?;
        writeln!(
            f,
            "    segments: {not_ect} Not-ECT, {ect0} ECT(0), {ect1} ECT(1), {ce} CE \
             ({:.1} %); {} retransmitted",
            self.ce_share * 100.0,
            self.retransmitted
        )?;
        write!(f, "    echo: ")?;
        match (self.echo.marks, self.echo.ece) {
            (Some(Marks { least, most }), _) if least == most => write!(f, "{least} marks")?,
            (Some(Marks { least, most }), _) => write!(f, "{least} to {most} marks")?,
            (None, Some(acks)) => write!(f, "{acks} acknowledgements with ECE")?,
            (None, None) => write!(f, "unknown")?,
        }
        if let Some(bytes) = self.echo.bytes {
            let Codepoints { ect0, ect1, ce, .. } = bytes;
            write!(f, "; bytes: {ect0} ECT(0), {ect1} ECT(1), {ce} CE")?;
        }
        writeln!(f)?;
        for (name, times) in [("receiver", self.to_receiver), ("sender", self.to_sender)] {
            let Some(Quantiles { min_ms, median_ms, p99_ms }) = times else { continue };
            writeln!(
                f,
                "    to the {name} and back: {min_ms:.2} ms, median {median_ms:.2} ms, 99 % \
                 {p99_ms:.2} ms"
            )?;
        }
        if let Some(OneWay { delay, sent, arrived, .. }) = self.one_way {
            writeln!(
                f,
                "    one way beyond the least: median {:.2} ms, 99 % {:.2} ms; {} of {} segments \
                 arrived",
                delay.median_ms,
                delay.p99_ms,
                arrived.all(),
                sent.all()
            )?;
        }
        let response = match self.response {
            Some(Response::Scalable) => "scalable",
            Some(Response::Classic) => "classic",
            None => "unknown",
        };
        writeln!(f, "    response of the sender: {response}")
    }
}
