//! Downloads 1, 100 and 10 000 kB with quinn-proto over 10 Mbit/s and 40 ms with FQ-CoDel, in
//! simulated time. With a directory, it writes the server's qlog of each download there.
//!
//! `cargo run -p forebay-sim-quic --example download -- [DIRECTORY]`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use forebay_queue::{FqCodel, fq_codel};
use forebay_sim::{Capacity, LinkConfig, Route, Simulation};
use forebay_sim_quic::quinn_proto::TransportConfig;
use forebay_sim_quic::{Download, Files, Quic, qlog};
use forebay_units::{Nanos, Rate};

const RATE: Rate = Rate::from_mbps(10);
const DELAY: Nanos = Nanos::from_millis(20);

fn download(kilobytes: u64, transport: TransportConfig) -> Result<(), Box<dyn Error>> {
    let mut sim = Simulation::new(1, ());
    let bottleneck = sim.add_link(LinkConfig {
        capacity: Capacity::Constant(RATE),
        delay: DELAY,
        queue: Some(Box::new(FqCodel::new(fq_codel::Config::default())?)),
        ..LinkConfig::default()
    })?;
    let back = sim.add_link(LinkConfig { delay: DELAY, ..LinkConfig::default() })?;
    let (down, up) = (sim.add_route(Route::over(bottleneck))?, sim.add_route(Route::over(back))?);
    let (near, far) = ("10.0.0.1:5000".parse()?, "10.0.0.2:443".parse()?);
    let client = Download::new(kilobytes * 1000);
    let client = Quic::client(1, TransportConfig::default(), far, client)?;
    let client = sim.add_endpoint(near, client)?;
    let server = sim.add_endpoint(far, Quic::server(2, transport, Files::default())?)?;
    sim.join(client, server, up, down)?;
    sim.run_until(Nanos::from_secs(60));

    let took = sim.endpoint(client).application().finished.ok_or("the download did not end")?;
    let link = sim.link(bottleneck);
    println!(
        "{kilobytes:>6} kB: {took}, {} packets, {} marked, {} dropped",
        link.received, link.marked, link.dropped
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    for kilobytes in [1, 100, 10_000] {
        let mut transport = TransportConfig::default();
        if let Some(directory) = &directory {
            let file = File::create(directory.join(format!("download-{kilobytes}kB.sqlog")))?;
            transport.qlog_stream(qlog("a simulated download", BufWriter::new(file)));
        }
        download(kilobytes, transport)?;
    }
    Ok(())
}
