//! Metrics of OSPF at routers that run FRR: traffic takes the other way when they are carried out,
//! and everything is as before when they are withdrawn.

use super::frr::{self, PLACES, Protocol, neighbours};

/// OSPFv2 and OSPFv3 side by side.
static OSPF: Protocol = Protocol {
    name: "ospf",
    daemons: &["ospfd", "ospf6d"],
    configure,
    file: "",
    router: "ospf6 = true\n",
};

/// The link to `b` of `a` has no metric in the configuration of OSPFv2: FRR's default for it is 10.
fn configure(number: usize) -> Vec<String> {
    let (mut v2, mut v3) = (String::new(), String::new());
    for (other, metric) in neighbours(number) {
        let device = format!("interface fb-{}\n", PLACES[other]);
        let metric_v2 = match (number, other) {
            (0, 1) => String::new(),
            _ => format!(" ip ospf cost {metric}\n"),
        };
        v2 += &format!(
            "{device} ip ospf area 0\n ip ospf network point-to-point\n{metric_v2} \
             ip ospf hello-interval 1\n ip ospf dead-interval 10\n"
        );
        v3 += &format!(
            "{device} ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 cost {metric}\n \
             ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 10\n"
        );
    }
    if PLACES[number] == "d" {
        v2 += "interface fb-users\n ip ospf area 0\n ip ospf passive\n";
        v3 += "interface fb-users\n ipv6 ospf6 area 0\n ipv6 ospf6 passive\n";
    }
    let id = number + 1;
    v2 += &format!("router ospf\n ospf router-id 10.9.0.{id}\n");
    v3 += &format!("router ospf6\n ospf6 router-id 10.9.0.{id}\n");
    vec![v2, v3]
}

#[test]
fn metrics_move_routes_of_real_routers_and_are_withdrawn() {
    frr::metrics_move_routes_and_are_withdrawn(&OSPF);
}
