//! Files of `irtt client -o`.

use serde::Deserialize;
use serde_json::Value;

use super::{Builder, parsed};
use crate::results::Run;

#[derive(Deserialize)]
struct Irtt {
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct RoundTrip {
    /// `false`, or `true` with the direction if that is known.
    lost: String,
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delay,
}

#[derive(Deserialize)]
struct Timestamps {
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    send: Clocks,
}

#[derive(Deserialize)]
struct Clocks {
    /// Nanoseconds since the client started.
    monotonic: f64,
}

#[derive(Default, Deserialize)]
struct Delay {
    /// Nanoseconds without the server's own time.
    #[serde(default)]
    rtt: Option<f64>,
}

pub(super) fn runs(value: Value, name: &str) -> Result<Vec<Run>, String> {
    let file: Irtt = parsed(value, "irtt")?;
    let sent = |t: &RoundTrip| t.timestamps.client.send.monotonic;
    let begin = file.round_trips.iter().map(sent).fold(f64::NAN, f64::min);
    let mut run = Builder::new(name, "irtt");
    for trip in &file.round_trips {
        let length = if trip.lost == "false" { trip.delay.rtt.map(|rtt| rtt / 1e9) } else { None };
        run.round_trip("irtt", 0, (sent(trip) - begin) / 1e9, length);
    }
    Ok(vec![run.finish()])
}
