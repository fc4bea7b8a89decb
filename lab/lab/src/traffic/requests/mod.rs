//! Requests and answers over TCP.
//!
//! A request has 16 bytes: its id and the size of its answer, big-endian. Requests are sent by a
//! schedule or in a closed loop, over lasting connections or one per request. All of it has the
//! same meaning as in the simulator.

mod caller;
mod schedule;
mod server;

use std::io;
use std::thread;

use forebay_units::Nanos;

use self::caller::{Caller, Line};
pub(super) use self::server::serve;
use super::cue::{WindowCue, write_records};
use super::meter::Meter;
use super::sockets;
use super::spec::{Role, Spec};
use crate::results::Request;
use crate::workload::Arrivals;

/// Sends the requests of the specification, and writes a record of every request and of received
/// bytes.
pub(super) fn ask(spec: &Spec, cue: WindowCue<'_>) -> io::Result<Nanos> {
    let Role::RequestClient { server, requests, tcp, measured } = &spec.role else {
        return Err(io::Error::other("not a request client"));
    };
    let schedule = match requests.arrivals {
        Arrivals::Closed => Vec::new(),
        Arrivals::Poisson => {
            // The schedule counts from the traffic's own start.
            let own = |t: u64| Nanos(t.clamp(spec.begin, spec.stop) - spec.begin);
            let measured = own(measured.0)..own(measured.1);
            let schedule = requests.schedule(spec.seed, spec.stream, own(spec.stop), measured);
            schedule.map_err(io::Error::other)?
        }
    };
    let streams = if requests.new_connections {
        Vec::new()
    } else {
        sockets::connect(*server, requests.connections, tcp)?
    };
    let window = cue()?;
    let meter = Meter::new(1);
    let (asked, progress) = thread::scope(|scope| {
        let recorder = scope.spawn(|| meter.record(&spec.traffic, window));
        let count = meter.count(0);
        let caller = |line| Caller::new(line, window.end, count);
        let anew = || caller(Line::Anew(*server, tcp.clone()));
        let asked = match requests.arrivals {
            Arrivals::Closed => {
                let sizes = requests.closed(spec.seed, spec.stream);
                let callers = if requests.new_connections {
                    (0..requests.connections).map(|_| anew()).collect()
                } else {
                    streams.into_iter().map(|stream| caller(Line::Open(stream))).collect()
                };
                caller::closed(callers, &sizes, window).map(|records| (Nanos::ZERO, records))
            }
            Arrivals::Poisson if requests.new_connections => {
                let callers = (0..requests.connections).map(|_| anew()).collect();
                caller::scheduled(callers, &schedule, window)
            }
            Arrivals::Poisson => schedule::converse(streams, &schedule, window, count),
        };
        (asked, recorder.join())
    });
    let (late, mut records): (Nanos, Vec<Request>) = asked?;
    records.sort_by_key(|request| request.id);
    write_records(&spec.output, &records)?;
    let progress = progress.map_err(|_| io::Error::other("the meter failed"))?;
    write_records(&spec.progress(), &progress)?;
    Ok(late)
}
