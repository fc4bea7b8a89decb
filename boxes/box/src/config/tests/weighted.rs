//! Weighted classes of a configuration file.

use super::*;

/// A bundle of weighted classes; the lines of the second one begin at line 13.
fn weighted(first: &str, second: &str) -> String {
    format!(
        "{BUNDLE}policy = {{ kind = \"weighted\" }}\n\
         [[bundle.class]]\nname = \"voice\"\ndscp = [46, 34]\n\
         prefixes = [\"10.2.0.0/16\", \"fd00::/16\"]\n{first}\
         [[bundle.class]]\nname = \"web\"\n{second}\
         [[bundle.class]]\nname = \"rest\"\n"
    )
}

#[test]
fn shares_of_classes_are_read() {
    let dir = Dir::new("weighted");
    let text = weighted(
        "rate = \"2 Mbit/s\"\nceil = \"2 Mbit/s\"\npolicy = \"fifo\"\n",
        "ports = [443]\nweight = 100\n",
    );
    let policy = bundles(&dir, &text).unwrap().remove(0).policy;
    assert!(policy.is_weighted());
    let mbps = |n| Some(Rate::from_mbps(n));
    let shares: Vec<_> = policy.classes.iter().map(|class| class.share).collect();
    let voice = Share { weight: 1, rate: mbps(2), ceil: mbps(2) };
    assert_eq!(shares, [voice, Share { weight: 100, ..Share::default() }, Share::default()]);
    let other = |text: &str| bundles(&dir, text).unwrap().remove(0).policy;
    let web = "ports = [443]\n";
    let [same, turned] = ["weight = 1\n", "weight = 7\n"]
        .map(|weight| other(&weighted(&format!("policy = \"fifo\"\n{weight}"), web)));
    assert!(policy.differs_in_shares(&turned) && same.differs_in_shares(&turned));
    assert!(!policy.differs_in_shares(&other(&weighted("", web))), "another discipline");
    assert!(!policy.differs_in_shares(&other(&weighted("policy = \"fifo\"\n", "ports = [80]\n"))));
}

#[test]
fn classes_that_cannot_work_are_refused() {
    let dir = Dir::new("unweighted");
    let web = "ports = [443]\n";
    let first = |keys: &str| weighted(keys, web);
    let second = |keys: &str| weighted("", keys);
    let with = |text: String, more: &str| text.replace("policy = {", &format!("{more}policy = {{"));
    for (text, expected) in [
        (first("weight = 0\n"), "12: bundle.class.weight: 0 is no weight: 1 to 100"),
        (first("weight = 101\n"), "12: bundle.class.weight: 101 is no weight: 1 to 100"),
        (
            first("rate = \"0 bit/s\"\n"),
            "12: bundle.class.rate: a rate of zero guarantees nothing: remove it",
        ),
        (first("ceil = \"0 bit/s\"\n"), "12: bundle.class.ceil: a rate of zero stops the class"),
        (
            first("rate = \"3 Mbit/s\"\nceil = \"2 Mbit/s\"\n"),
            "12: bundle.class.rate: is above ceil (2.000 Mbit/s)",
        ),
        (
            with(first("rate = \"3 Mbit/s\"\n"), "max_rate = \"2 Mbit/s\"\n"),
            "13: bundle.class.rate: the rates of the classes add up to 3.000 Mbit/s, above the \
             bundle's max_rate (2.000 Mbit/s): lower them",
        ),
        (
            with(
                weighted("rate = \"3 Mbit/s\"\n", "ports = [443]\nrate = \"2 Mbit/s\"\n"),
                "ceil = \"4 Mbit/s\"\n",
            ),
            "17: bundle.class.rate: the rates of the classes add up to 5.000 Mbit/s, above the \
             bundle's ceil (4.000 Mbit/s): lower them",
        ),
        (
            second("dscp = [46]\nprefixes = [\"10.2.9.0/24\"]\n"),
            "13: bundle.class: no packet belongs to it, since the class voice before it takes them \
             all: change one of them, or remove it",
        ),
        (
            second("weight = 2\n"),
            "13: bundle.class: needs dscp, ports, prefixes or vlans: without them it would take \
             everything",
        ),
        (
            first("policy = { kind = \"weighted\" }\n"),
            "12: bundle.class.policy: a class cannot have classes of its own",
        ),
        (
            first("").replace("\"weighted\"", "\"strict\"").replace("ports", "weight = 3\nports"),
            "14: bundle.class.weight: goes with policy = { kind = \"weighted\" }: strict priority \
             has no shares",
        ),
        (
            format!("{BUNDLE}policy = \"weighted\"\n[[bundle.class]]\nname = \"all\"\n"),
            "7: bundle.policy: weighted classes need at least two [[bundle.class]]",
        ),
        (
            format!("{BUNDLE}policy = \"drr\"\n"),
            "7: bundle.policy: unknown kind `drr`; did you mean `weighted`?",
        ),
        (
            format!("{BUNDLE}policy = {{ kind = \"htb\" }}\n"),
            "7: bundle.policy.kind: unknown kind `htb`; did you mean `weighted`?",
        ),
    ] {
        let said = bundles(&dir, &text).unwrap_err();
        assert_eq!(said, format!("x.toml:{expected}"), "{text}");
    }
}

/// Some packets of the later class do not fit the earlier one.
#[test]
fn a_class_with_packets_of_its_own_is_taken() {
    let dir = Dir::new("own-packets");
    for keys in [
        "dscp = [46, 8]\nprefixes = [\"10.2.9.0/24\"]\n",
        "dscp = [46]\n",
        "dscp = [34]\nprefixes = [\"10.0.0.0/8\"]\n",
        "prefixes = [\"fd00:9::/32\"]\nports = [22]\n",
    ] {
        assert!(bundles(&dir, &weighted("", keys)).is_ok(), "{keys}");
    }
}

/// The limits of the common rate and of a link's two rates are those of classes too.
#[test]
fn rates_of_classes_are_below_a_common_limit() {
    let dir = Dir::new("weighted-limit");
    let text = weighted("rate = \"11 Mbit/s\"\n", "ports = [443]\n");
    let said = shared(&dir, &text, true).unwrap_err();
    assert!(
        said.ends_with(
            "13: bundle.class.rate: the rates of the classes add up to 11.000 Mbit/s, above the \
             common max_rate (10.000 Mbit/s): lower them"
        ),
        "{said}"
    );
    assert!(shared(&dir, &text, false).is_ok());
}

/// Nothing stands in for a policy that the kernel lacks.
#[test]
fn weighted_classes_over_the_kernels_queues_need_its_policies() {
    let dir = Dir::new("weighted-kernel");
    let text = weighted("", "ports = [443]\n");
    let with = |kinds| {
        let kernel = QueueOwner::Kernel(Some(Features::of(kinds)));
        bundles_of(&dir, &text, &kernel)
    };
    assert!(with(&["htb", "pfifo", "sfq"]).is_ok());
    let said = with(&["htb", "pfifo"]).unwrap_err();
    assert_eq!(
        said,
        "x.toml:9: bundle.class.policy: this kernel has no sfq, and nothing stands in for it in a \
         weighted class: use fifo or another policy"
    );
}
