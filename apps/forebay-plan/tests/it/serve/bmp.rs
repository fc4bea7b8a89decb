//! Prefixes that the service learns from routers by BMP, and flow records that are matched to them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_test_support::Dir;
use forebay_test_support::process::{HANG_TIMEOUT, until};
use serde_json::{Value, json};

use super::client::{Server, files, from};

/// Two routers, one of each IP version; the second is optional.
const ROUTERS: &str = "listen = [\"127.0.0.1:0\", \"[::1]:0\"]\nnext_hops = \"hops.csv\"\n\
[[bmp.router]]\naddress = \"127.0.0.1\"\nname = \"one\"\n\
[[bmp.router]]\naddress = \"::1\"\nname = \"two\"\noptional = true\n";
const HOPS: &str = "address,router\n192.0.2.1,out\n2001:db8::1,out\n";

/// Makes the files of a service that learns prefixes, with `more` in its configuration.
fn learning(dir: &Dir, settings: &str, more: &str) {
    files(dir, &format!("[bmp]\n{settings}{ROUTERS}{more}"));
    dir.file("hops.csv", HOPS, 0o644);
    let config = fs::read_to_string(dir.0.join("serve.toml")).unwrap();
    dir.file("serve.toml", &config.replace("prefixes = \"x.csv\"\n", ""), 0o644);
}

fn message(kind: u8, peer: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 22];
    header.extend([192, 0, 2, peer]);
    header.extend(64500_u32.to_be_bytes());
    header.extend([0; 12]);
    let length = u32::try_from(6 + header.len() + body.len()).unwrap();
    [&[3][..], &length.to_be_bytes(), &[kind], &header, body].concat()
}

fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 19).unwrap();
    [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

fn up(peer: u8) -> Vec<u8> {
    let open = bgp(1, &[4, 0xfb, 0xf4, 0, 90, 1, 1, 1, 1, 0]);
    message(3, peer, &[vec![0; 20], open.clone(), open].concat())
}

/// An UPDATE that withdraws prefixes, and announces others of AS 64510 through 192.0.2.1.
fn update(peer: u8, withdrawn: &[u8], announced: &[u8]) -> Vec<u8> {
    let attributes: &[u8] = &[
        0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0, 0, 0xfb, 0xfe, 0x40, 3, 4, 192, 0,
        2, 1,
    ];
    let attributes = if announced.is_empty() { &[] } else { attributes };
    let lengths = [withdrawn, attributes].map(|part| u16::try_from(part.len()).unwrap());
    let [gone, there] = lengths.map(u16::to_be_bytes);
    message(0, peer, &bgp(2, &[&gone[..], withdrawn, &there, attributes, announced].concat()))
}

/// An UPDATE that announces 2001:db8::/32 through 2001:db8::1.
fn update_v6(peer: u8) -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4];
    attributes.extend([0x80, 14, 26, 0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0]);
    attributes.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 32, 0x20, 1, 0xd, 0xb8]);
    let length = u16::try_from(attributes.len()).unwrap().to_be_bytes();
    message(0, peer, &bgp(2, &[&[0, 0][..], &length, &attributes].concat()))
}

/// The end of the first routes of both families.
fn end(peer: u8) -> Vec<u8> {
    let v6 = message(0, peer, &bgp(2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]));
    [update(peer, &[], &[]), v6].concat()
}

fn router(at: SocketAddr, octets: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(octets).unwrap();
    stream
}

fn session(server: &Server, at: usize) -> Value {
    server.get("operator", "/operator/state")["learned"]["report"]["sessions"][at].clone()
}

#[test]
fn prefixes_come_from_routers_and_faults_stay_small() {
    let dir = Dir::new("serve-bmp");
    // A second is enough for the test to see that routes stay, and goes by soon.
    learning(&dir, "hold = \"1 s\"\n", "");
    let server = Server::start(&dir);
    assert_eq!(server.bmp.len(), 2);
    let early = server.ask("operator", "POST", "/operator/round", "");
    assert!(early.status != 200 && early.body.contains("one has not connected"), "{}", early.body);

    let first = [up(1), update(1, &[], &[16, 10, 0]), update_v6(1), end(1)].concat();
    let one = router(server.bmp[0], &first);
    until("all routes are there", || session(&server, 0)["complete"] == true);
    server.round();
    let view = server.get("video", "/v1/vswitch");
    assert_eq!(view["outputs"][0]["prefixes"], json!(["10.0.0.0/16", "2001:db8::/32"]));
    let hints = server.get("video", "/v1/hints");
    assert!(!hints["hints"].as_array().unwrap().is_empty(), "{hints}");

    // The other router, over IPv6, sends a route and then octets that are no BMP.
    let mut two = router(server.bmp[1], &[up(2), update(2, &[], &[16, 10, 2])].concat());
    until("the route is there", || session(&server, 1)["routes"] == 1);
    two.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    two.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    assert_eq!(two.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    let ended = session(&server, 1)["ended"].clone();
    assert!(ended.as_str().unwrap().contains("no BMP: version 3 is needed"), "{ended}");
    assert_eq!(session(&server, 0)["state"], "up");
    // An address that is not listed has no session.
    let mut stranger = from("127.0.0.2", server.bmp[0]).unwrap();
    stranger.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0, "it is turned away");
    until("held routes are gone", || session(&server, 1)["state"] == "down");

    // A router that is cut keeps its routes for a while. Without them rounds fail, and the hints in
    // force stay.
    drop(one);
    until("the routes are gone", || session(&server, 0)["state"] == "down");
    let late = server.ask("operator", "POST", "/operator/round", "");
    assert!(late.status != 200 && late.body.contains("its routes are gone"), "{}", late.body);
    assert_eq!(server.get("video", "/v1/hints"), hints);
    let _one = router(server.bmp[0], &first);
    until("all routes are there again", || session(&server, 0)["complete"] == true);
    server.round();
    assert_eq!(server.get("video", "/v1/vswitch")["view"], view["view"]);
    let metrics = server.ask("operator", "GET", "/metrics", "").body;
    for line in [
        "forebay_plan_bmp_up{router=\"one\"} 1\n",
        "forebay_plan_bmp_cuts_total{router=\"one\"} 1\n",
        "forebay_plan_bmp_up{router=\"two\"} 0\n",
        "forebay_plan_bmp_strangers_total 1\n",
        "forebay_plan_learned_prefixes 2\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let page = server.ask("operator", "GET", "/operator", "");
    assert!(page.status == 200 && page.body.contains("<h2>Routes</h2>"));
    assert!(server.stop());
}

/// The updates of the storm, and the messages of flow records that are sent meanwhile.
const STORM: u32 = 100_000;
const RECORDS: u32 = 20_000;

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// An IPFIX message with its template and one flow through interface 1 or the shared 2.
fn flow(sequence: u32, from: [u8; 4], interface: u32) -> Vec<u8> {
    let mut body = vec![0, 2, 0, 8 + 4 * 4, 1, 0, 0, 4];
    for (number, length) in [(1_u16, 4_u16), (10, 4), (12, 4), (8, 4)] {
        body.extend([number.to_be_bytes(), length.to_be_bytes()].concat());
    }
    body.extend([1, 0, 0, 4 + 16]);
    body.extend([1000, interface].map(u32::to_be_bytes).concat());
    body.extend([[10, 0, 0, 1], from].concat());
    let exported = u32::try_from(now() / 1000).unwrap();
    let length = u16::try_from(16 + body.len()).unwrap();
    let words = [exported, sequence, 0].map(u32::to_be_bytes).concat();
    [&[0, 10][..], &length.to_be_bytes(), &words, &body].concat()
}

#[test]
fn a_storm_of_updates_costs_no_flow_record() {
    let dir = Dir::new("serve-storm");
    let flows = "[flows]\nlisten = [\"127.0.0.1:0\"]\nexporters = \"e.toml\"\n";
    learning(&dir, "", flows);
    let exporters = "[[exporter]]\naddress = \"127.0.0.1\"\nrouter = \"in1\"\n\
                     interface = [{ index = 1, provider = \"games\" }, { index = 2 }]\n";
    dir.file("e.toml", exporters, 0o644);
    let providers = super::client::PROVIDERS
        .replace("name = \"video\"\n", "name = \"video\"\nasns = [64510]\n");
    dir.file("p.toml", &providers, 0o644);
    let config = fs::read_to_string(dir.0.join("serve.toml")).unwrap();
    dir.file("serve.toml", &config.replace("demands = \"d.csv\"\n", ""), 0o644);
    let server = Server::start(&dir);
    // Users in 10.0/16, and the sources of video in 198.51/16.
    let first = [up(1), update(1, &[], &[16, 10, 0, 16, 198, 51]), end(1)].concat();
    let mut one = router(server.bmp[0], &first);
    until("all routes are there", || session(&server, 0)["complete"] == true);

    // Each update changes one of 4096 prefixes, in the users' prefix as in others.
    let storm = std::thread::spawn(move || {
        for number in 0..STORM {
            let [_, _, high, low] = (number % 4096).to_be_bytes();
            let prefix = [24, 10 + u8::from(high & 1 == 1), high, low];
            let octets = match number / 4096 % 2 {
                0 => update(1, &[], &prefix),
                _ => update(1, &prefix, &[]),
            };
            one.write_all(&octets).unwrap();
        }
        one
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let measured = || server.get("operator", "/operator/state")["measured"].clone();
    for sequence in 0..RECORDS {
        let (interface, source) =
            if sequence % 2 == 0 { (1, [203, 0, 113, 1]) } else { (2, [198, 51, 100, 1]) };
        socket.send_to(&flow(sequence, source, interface), server.udp[0]).unwrap();
        // No more are under way than the kernel's smallest buffer takes.
        if sequence % 100 == 99 {
            let sent = sequence + 1;
            until("they have come", || measured()["exporters"][0]["messages"] == sent);
        }
    }
    let one = storm.join().unwrap();
    until("all updates have come", || {
        session(&server, 0)["messages"].as_u64().unwrap() >= u64::from(STORM)
    });
    let measured = measured();
    let exporter = &measured["exporters"][0];
    assert_eq!((&exporter["flows"], &exporter["lost"]), (&json!(RECORDS), &json!(0.0)));
    assert_eq!(measured["left_out"], json!([]), "each is matched to a route and a provider");
    let session = session(&server, 0);
    assert_eq!((&session["malformed"], &session["state"]), (&json!(0), &json!("up")));
    drop(one);
    assert!(server.stop());
}
