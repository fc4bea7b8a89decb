//! Tests several bundles, one of them with classes and over IPv6.

use forebay_test_support::has_root;

use crate::support::sites::{RECEIVEBOX, SENDBOX, Sites};
use crate::support::transfer::Transfers;
use crate::support::until;

/// Adds a second bundle to a configuration: a copy of the first under another name.
fn second(text: &str) -> String {
    let (_, table) = text.split_once("[[bundle]]").unwrap();
    let table = table.replace("\"b\"", "\"six\"").replace("id = 1", "id = 2");
    format!("{text}[[bundle]]{table}")
}

fn replace_last(text: &str, from: &str, to: &str) -> String {
    let (before, after) = text.rsplit_once(from).unwrap();
    format!("{before}{to}{after}")
}

#[test]
fn bundles_and_classes_of_both_ip_versions_share_the_link() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kb");
    // The IPv6 bundle has classes; the urgent one gets no traffic.
    let destination = "\"fd09:9::2/128\"";
    let text = replace_last(&second(SENDBOX), "\"10.9.9.2/32\"", destination);
    let classes = "policy = { kind = \"strict\" }\n[[bundle.class]]\nname = \"urgent\"\n\
                   ports = [9]\n[[bundle.class]]\nname = \"rest\"\n";
    sites.dir.file("sendbox.toml", &format!("{text}{classes}"), 0o644);
    let text = replace_last(&second(RECEIVEBOX), "\"10.9.9.2/32\"", destination);
    let text = replace_last(&text, "\"10.9.1.0/24\"", "\"fd09:1::/64\"");
    sites.restart_receivebox(&text);
    let mut sendbox = sites.sendbox();

    let transfers = ["10.9.9.2", "fd09:9::2"].map(|to| Transfers::start(&sites, to, 2));
    let bundles = || [1, 2].map(|n| sites.class_of(n).unwrap());
    until("both rates follow the link", || {
        let [a, b] = bundles().map(|class| class.mbps);
        a > 3.0 && b > 3.0 && (16.0..32.0).contains(&(a + b))
    });
    until("both queues are here", || bundles().iter().all(|class| class.waiting > 0));
    transfers.iter().for_each(Transfers::go_on);
    // Each class has up to 256 leaves, so the first leaf of the second class is the 257th.
    let mut sent = [0, 0];
    for leaf in sites.tc("-s class show {}").split("class htb 1001:").skip(1) {
        let minor = u16::from_str_radix(leaf.split(' ').next().unwrap(), 16).unwrap();
        let bytes = leaf.split("Sent ").nth(1).and_then(|s| s.split(' ').next()).unwrap();
        sent[usize::from((minor - 1) / 256)] += bytes.parse::<u64>().unwrap();
    }
    assert!(sent[0] == 0 && sent[1] > 0, "{sent:?}");
    sendbox.signal(libc::SIGTERM);
    assert!(!sites.tc("qdisc show {}").contains("htb"));
    for all in transfers {
        all.end();
    }
}
