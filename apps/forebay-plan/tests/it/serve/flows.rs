//! Demands that the service measures from received flow records.

use std::fs;
use std::net::UdpSocket;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_test_support::Dir;
use forebay_test_support::process::until;

use super::client::{Server, files};

/// Two exporters, one of each IP version. Interface 1 leads to the provider `video` at the first,
/// and to `games` at the second.
const EXPORTERS: &str = "[[exporter]]\naddress = \"127.0.0.1\"\nrouter = \"in1\"\nsampling = 10\n\
interface = [{ index = 1, provider = \"video\" }]\n\
[[exporter]]\naddress = \"::1\"\nrouter = \"in1\"\ninterface = [{ index = 1, provider = \"games\" }]\n";

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// An IPFIX message with its template and two flows, one of them from an interface of no provider.
fn message(octets: u64, start: u64, end: u64) -> Vec<u8> {
    let fields = [(1_u16, 8_u16), (10, 4), (12, 4), (152, 8), (153, 8)];
    let mut body = vec![0, 2, 0, 28, 1, 0, 0, 5];
    for (number, length) in fields {
        body.extend([number.to_be_bytes(), length.to_be_bytes()].concat());
    }
    body.extend([1, 0, 0, 4 + 64]);
    for input in [1_u32, 99] {
        body.extend(octets.to_be_bytes());
        body.extend(input.to_be_bytes());
        body.extend([10, 0, 0, 1]);
        body.extend(start.to_be_bytes());
        body.extend(end.to_be_bytes());
    }
    let length = u16::try_from(16 + body.len()).unwrap();
    let exported = u32::try_from(end / 1000).unwrap();
    let words = [exported, 0, 0].map(u32::to_be_bytes).concat();
    [&[0, 10][..], &length.to_be_bytes(), &words, &body].concat()
}

#[test]
fn demands_are_measured_from_received_flow_records() {
    let dir = Dir::new("serve-flows");
    let more = "[flows]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\nexporters = \"e.toml\"\nwindow = \"1 s\"\ndelay = \"2 s\"\n";
    files(&dir, more);
    dir.file("e.toml", EXPORTERS, 0o644);
    let config = fs::read_to_string(dir.0.join("serve.toml")).unwrap();
    dir.file("serve.toml", &config.replace("demands = \"d.csv\"\n", ""), 0o644);
    let server = Server::start(&dir);
    assert_eq!(server.udp.len(), 2);
    let early = server.ask("operator", "POST", "/operator/round", "");
    assert!(early.status != 200 && early.body.contains("flow records"), "{}", early.body);
    let put = server.ask("operator", "PUT", "/operator/demands", "[]");
    assert_eq!(put.status, 409, "{}", put.body);

    let sockets = ["127.0.0.1:0", "[::1]:0"].map(|at| UdpSocket::bind(at).unwrap());
    let mut reported = now() - 10_000;
    let flow = |state: &serde_json::Value, who: &str| {
        let flows = state["flows"].as_array().unwrap().iter();
        flows.filter(|f| f["provider"] == who).map(|f| f["now"].as_f64().unwrap()).sum::<f64>()
    };
    // Each message reports the traffic since the last one. On a busy machine a round may miss a
    // message; then the next round has the right figure.
    until("the demands are those that were sent", || {
        let end = now();
        for (socket, (to, bps)) in
            sockets.iter().zip(server.udp.iter().zip([4_000_000, 10_000_000]))
        {
            let octets = bps * (end - reported) / 8000;
            socket.send_to(&message(octets, reported, end), to).unwrap();
        }
        reported = end;
        if server.ask("operator", "POST", "/operator/round", "").status != 200 {
            return false;
        }
        let state = server.get("operator", "/operator/state");
        let near = |is: f64, should: f64| (is / should - 1.0).abs() < 0.001;
        // The exporter of `video` samples one packet of ten.
        near(flow(&state, "video"), 40e6) && near(flow(&state, "games"), 10e6)
    });
    let metrics = server.ask("operator", "GET", "/metrics", "").body;
    for line in [
        "forebay_plan_flows_messages_total{exporter=\"127.0.0.1\"}",
        "forebay_plan_flows_records_total{exporter=\"::1\"}",
        "forebay_plan_flows_left_out_total{reason=\"interface\"}",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(server.stop());
}
