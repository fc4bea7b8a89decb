//! The test of the book's page on the simulator: what a user writes for a QUIC stack.

use forebay_queue::{FqCodel, fq_codel};
use forebay_sim::{Capacity, LinkConfig, Route, Simulation};
use forebay_sim_quic::{Download, Files, Quic, quinn_proto::TransportConfig};
use forebay_units::{Nanos, Rate};

#[test]
fn a_megabyte_takes_less_than_1200_ms_at_10_mbps() {
    let mut sim = Simulation::new(1, ());
    let delay = Nanos::from_millis(20);
    let capacity = Capacity::Constant(Rate::from_mbps(10));
    let queue = Some(Box::new(FqCodel::new(fq_codel::Config::default()).unwrap()) as _);
    let down = LinkConfig { capacity, delay, queue, ..LinkConfig::default() };
    let down = sim.add_link(down).unwrap();
    let up = sim.add_link(LinkConfig { delay, ..LinkConfig::default() }).unwrap();
    let down = sim.add_route(Route::over(down)).unwrap();
    let up = sim.add_route(Route::over(up)).unwrap();
    let (near, far) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:443".parse().unwrap());
    let client = Quic::client(1, TransportConfig::default(), far, Download::new(1_000_000));
    let client = sim.add_endpoint(near, client.unwrap()).unwrap();
    let server = Quic::server(2, TransportConfig::default(), Files::default());
    let server = sim.add_endpoint(far, server.unwrap()).unwrap();
    sim.join(client, server, up, down).unwrap();
    sim.run_until(Nanos::from_secs(10));
    let took = sim.endpoint(client).application().finished.unwrap();
    assert!(took < Nanos::from_millis(1200), "{took}");
}
