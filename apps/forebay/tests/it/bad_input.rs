//! Tests that bad input gives one clear line on standard error and exit status 2, and changes
//! nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use forebay_test_support::Dir;

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

/// The error line that `forebay check` and the box itself both print for a configuration.
fn complaint(dir: &Dir, name: &str, text: &str) -> String {
    let file = dir.file(&format!("{name}.toml"), text, 0o644);
    let file = file.to_str().unwrap();
    let check = forebay(&["check", file]);
    let kinds = ["receivebox", "link", "vhost", "site"];
    let kind = kinds.iter().find(|k| text.contains(&format!("[{k}]"))).unwrap_or(&"sendbox");
    let run = forebay(&[kind, "--config", file]);
    for output in [&check, &run] {
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(output.stdout.is_empty(), "{name}: {output:?}");
    }
    assert_eq!(check.stderr, run.stderr, "{name}: the check says what the box says");
    let text = String::from_utf8(check.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{name}: one line: {text}");
    text.trim_end().replace(&format!("forebay: {}/", dir.0.display()), "")
}

const SENDBOX: &str = r#"[sendbox]
inside = "nowhere"
outside = "lo"
listen = "127.0.0.1:28316"
"#;

fn bundle(name: &str, id: u16, prefixes: &str) -> String {
    format!(
        "[[bundle]]\nname = \"{name}\"\nid = {id}\nprefixes = {prefixes}\n\
         receivebox = \"127.0.0.2:28317\"\nkey_file = \"key\"\n"
    )
}

#[test]
fn each_mistake_is_named_by_line_and_key() {
    let dir = Dir::new("bad");
    dir.file("key", &format!("forebay-key-v1 {}\n", "ab".repeat(32)), 0o600);
    let one = bundle("b", 1, "[\"10.2.0.0/16\"]");
    let cases = [
        ("malformed", "[sendbox\n".to_owned(), "malformed.toml:1: "),
        ("empty", String::new(), "empty.toml:1: missing field `sendbox`"),
        ("typo", format!("{SENDBOX}busy_pol = true\n"), "typo.toml:5: sendbox.busy_pol: unknown field"),
        (
            "no-workers",
            format!("{SENDBOX}workers = 0\n"),
            "no-workers.toml:5: sendbox.workers: is at least 1",
        ),
        (
            "no-machine",
            "[vhost]\ntap = \"fb-tap\"\n".to_owned(),
            "no-machine.toml:1: vm: missing: no virtual machine (`[[vm]]`)",
        ),
        (
            "no-port",
            "[vhost]\ninterface = \"nowhere\"\n[[vm]]\nname = \"a\"\nsocket = \"/tmp/fb-a\"\n".to_owned(),
            "no-port.toml:2: vhost.interface: there is no network interface `nowhere`",
        ),
        (
            "no-interface",
            format!("{SENDBOX}{one}"),
            "no-interface.toml:2: sendbox.inside: there is no network interface `nowhere`",
        ),
        (
            "host-bits",
            format!("{SENDBOX}{}", bundle("b", 1, "[\"10.2.9.9/16\"]")),
            "host-bits.toml:8: bundle.prefixes: \"10.2.9.9/16\" has bits beyond its length: write \
             \"10.2.0.0/16\"",
        ),
        (
            "not-our-address",
            SENDBOX.replace("127.0.0.1:28316", "192.0.2.1:28316") + &one,
            "not-our-address.toml:4: sendbox.listen: this machine has no address 192.0.2.1",
        ),
        (
            "port-zero",
            SENDBOX.replace("28316", "0") + &one,
            "port-zero.toml:4: sendbox.listen: \"127.0.0.1:0\" has no port",
        ),
        (
            "oneself",
            format!("{SENDBOX}{one}").replace("127.0.0.2:28317", "127.0.0.1:28316"),
            "oneself.toml:9: bundle.receivebox: 127.0.0.1:28316 is this box's own `listen`",
        ),
        (
            "a-word-with-a-slip",
            format!("{SENDBOX}{one}policy = \"fqcodel\"\n"),
            "a-word-with-a-slip.toml:11: bundle.policy: unknown variant `fqcodel`",
        ),
        (
            "a-number-for-a-word",
            format!("{SENDBOX}{one}policy = 3\n"),
            "a-number-for-a-word.toml:11: bundle.policy: invalid type: integer `3`, expected a word \
             such as \"fq_codel\", or a table such as { kind = \"fq_codel\" }",
        ),
        (
            "no-receivebox",
            format!("{SENDBOX}{}", one.replace("receivebox = \"127.0.0.2:28317\"\n", "")),
            "no-receivebox.toml:6: bundle.receivebox: a bundle needs the address of its receivebox",
        ),
        (
            "no-address",
            "[site]\ninterface = \"lo\"\nlisten = \"127.0.0.1:28316\"\n[[peer]]\nname = \"b\"\n\
             prefixes = [\"10.2.0.0/16\"]\nkey_file = \"key\"\nreceive = false\n"
                .to_owned(),
            "no-address.toml:5: peer.address: with receive = false nothing can tell it: give it",
        ),
        (
            "same-interface",
            SENDBOX.replace("nowhere", "lo"),
            "same-interface.toml:3: sendbox.outside: is the same interface",
        ),
        (
            "prefix-twice",
            format!("{SENDBOX}{one}{}", bundle("c", 2, "[\"10.3.0.0/16\", \"10.2.0.0/16\"]")),
            "prefix-twice.toml:14: bundle.prefixes: 10.2.0.0/16 stands twice",
        ),
        (
            "id-twice",
            format!("{SENDBOX}{one}{}", bundle("c", 1, "[\"10.3.0.0/16\"]")),
            "id-twice.toml:13: bundle.id: 1 stands twice",
        ),
        (
            "no-prefix",
            format!("{SENDBOX}{}", bundle("b", 1, "[]")),
            "no-prefix.toml:6: bundle.prefixes: a bundle needs at least one",
        ),
        (
            "bad-prefix",
            format!("{SENDBOX}{}", bundle("b", 1, "[\"10.2.0.0/33\"]")),
            "bad-prefix.toml:8: bundle.prefixes: ",
        ),
        (
            "mixed-versions",
            format!("{SENDBOX}{}", one.replace("127.0.0.2:28317", "[::1]:28317")),
            "mixed-versions.toml:9: bundle.receivebox: \"[::1]:28317\" is no IPv4 address; `listen` is",
        ),
        (
            "no-listen",
            format!("{}{one}", SENDBOX.replace("listen = \"127.0.0.1:28316\"\n", "")),
            "no-listen.toml:5: bundle: with bundles, sendbox.listen must say",
        ),
        (
            "policy",
            format!("{SENDBOX}{one}policy = {{ kind = \"sfq\", limit = \"2 bdp\" }}\n"),
            "policy.toml:11: bundle.policy.limit: the round trip is not known",
        ),
        (
            "codel-key",
            format!("{SENDBOX}{one}policy = {{ kind = \"fifo\", target = \"5 ms\" }}\n"),
            "codel-key.toml:11: bundle.policy.target: this goes with",
        ),
        (
            "classless",
            format!("{SENDBOX}{one}policy = {{ kind = \"strict\" }}\n"),
            "classless.toml:11: bundle.policy: strict priority needs at least one",
        ),
        (
            "greedy-class",
            format!(
                "{SENDBOX}{one}policy = {{ kind = \"strict\" }}\n[[bundle.class]]\nname = \"a\"\n\
                 [[bundle.class]]\nname = \"z\"\n"
            ),
            "greedy-class.toml:13: bundle.class: needs dscp, ports, prefixes or vlans",
        ),
        (
            "rates",
            format!("{SENDBOX}{one}min_rate = \"2 Mbit/s\"\nmax_rate = \"1 Mbit/s\"\n"),
            "rates.toml:12: bundle.max_rate: is below min_rate",
        ),
        (
            "receivebox-interface",
            "[receivebox]\ninterface = \"nowhere\"\nlisten = \"127.0.0.2:1\"\n[[bundle]]\n\
             name = \"b\"\nid = 1\nprefixes = [\"10.2.0.0/16\"]\nsendbox = \"127.0.0.1:2\"\n\
             key_file = \"key\"\n"
                .to_owned(),
            "receivebox-interface.toml:2: receivebox.interface: there is no network interface",
        ),
        (
            "ambiguous-prefix",
            "[receivebox]\ninterface = \"lo\"\nlisten = \"127.0.0.2:1\"\n[[bundle]]\nname = \"b\"\n\
             id = 1\nprefixes = [\"10.2.0.0/16\"]\nsendbox = \"127.0.0.1:2\"\nkey_file = \"key\"\n\
             [[bundle]]\nname = \"c\"\nid = 2\nprefixes = [\"10.2.0.0/16\"]\n\
             sendbox = \"127.0.0.1:2\"\nkey_file = \"key\"\n"
                .to_owned(),
            "ambiguous-prefix.toml:13: bundle.prefixes: 10.2.0.0/16 stands twice (set `sources`",
        ),
    ];
    for (name, text, expected) in cases {
        let said = complaint(&dir, name, &text);
        assert!(said.starts_with(expected), "{name}: {said}");
    }
}

const LINK: &str = r#"[link]
inside = "nowhere"
outside = "lo"
rate = "40 Mbit/s"
"#;

#[test]
fn each_mistake_about_a_link_is_named_by_line_and_key() {
    let dir = Dir::new("bad-link");
    let with = |more: &str| format!("{LINK}{more}\n");
    let cases = [
        (
            "no-rate",
            LINK.replace("rate = \"40 Mbit/s\"\n", ""),
            "no-rate.toml:1: link.rate: missing",
        ),
        (
            "unit",
            LINK.replace("40 Mbit/s", "40"),
            "unit.toml:4: link.rate: \"40\" is not a rate: write a number and a unit",
        ),
        (
            "zero",
            LINK.replace("40 Mbit", "0 Mbit"),
            "zero.toml:4: link.rate: a rate of zero stops the link",
        ),
        (
            "both",
            with("inward = \"50 Mbit/s\""),
            "both.toml:4: link.rate: is for both directions: remove it, or `outward` and `inward`",
        ),
        ("typo", with("overheads = 38"), "typo.toml:5: link.overheads: unknown field"),
        (
            "overhead",
            with("overhead = \"dsl\""),
            "overhead.toml:5: link.overhead: invalid value: string \"dsl\", expected a number of bytes",
        ),
        ("much", with("overhead = 257"), "much.toml:5: link.overhead: must be at most 256 bytes"),
        (
            "cells",
            with("cells = \"atm\""),
            "cells.toml:5: link.cells: this goes with link.overhead only",
        ),
        (
            "twice",
            with("overhead = \"docsis\"\ncells = \"atm\""),
            "twice.toml:6: link.cells: the name in link.overhead says that: remove it",
        ),
        (
            "policy",
            with("policy = { kind = \"red\" }"),
            "policy.toml:5: link.policy.kind: unknown variant `red`",
        ),
        (
            "classless",
            with("policy = { kind = \"strict\" }"),
            "classless.toml:5: link.policy: strict priority needs at least one [[link.class]]",
        ),
        (
            "same",
            LINK.replace("nowhere", "lo"),
            "same.toml:3: link.outside: is the same interface as link.inside",
        ),
        (
            "interface",
            LINK.to_owned(),
            "interface.toml:2: link.inside: there is no network interface `nowhere`",
        ),
    ];
    for (name, text, expected) in cases {
        let said = complaint(&dir, name, &text);
        assert!(said.starts_with(expected), "{name}: {said}");
    }
}

#[test]
fn keys_are_kept_from_others() {
    let dir = Dir::new("keys");
    let text = format!("{SENDBOX}{}", bundle("b", 1, "[\"10.2.0.0/16\"]"));
    let said = complaint(&dir, "missing", &text);
    assert!(said.ends_with("key` makes one)"), "it says what to do: {said}");

    let good = format!("forebay-key-v1 {}\n", "ab".repeat(32));
    dir.file("key", &good, 0o640);
    let said = complaint(&dir, "readable", &text);
    assert!(said.starts_with("readable.toml:10: bundle.key_file: "), "{said}");
    assert!(said.contains("can be read by others (mode 640): chmod 600 "), "{said}");

    dir.file("key", "ssh-ed25519 AAAA\n", 0o600);
    let said = complaint(&dir, "foreign", &text);
    assert!(said.contains("is not a key file"), "{said}");
    assert!(!said.contains("AAAA"), "nothing of the file is shown: {said}");
}

#[test]
fn keygen_makes_a_key_that_is_accepted_and_never_overwrites() {
    let dir = Dir::new("keygen");
    let key = dir.0.join("key");
    let key = key.to_str().unwrap();
    assert!(forebay(&["keygen", key]).status.success());
    let first = fs::read_to_string(key).unwrap();
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = forebay(&["keygen", key]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(fs::read_to_string(key).unwrap(), first, "the old key is still there");
    // The key is good: the reported error comes after it.
    let text = format!("{SENDBOX}{}", bundle("b", 1, "[\"10.2.0.0/16\"]"));
    assert!(complaint(&dir, "good-key", &text).contains("no network interface"));
}

#[test]
fn an_mtu_too_large_is_named() {
    // The MTU of the loopback interface is 65536.
    let dir = Dir::new("mtu");
    let text = "[sendbox]\ninside = \"lo\"\noutside = \"nowhere\"\n";
    let said = complaint(&dir, "mtu", text);
    assert!(said.contains("interface `lo` has an MTU of 65536; at most "), "{said}");
}

#[cfg(feature = "watch")]
#[test]
fn a_history_says_what_it_needs() {
    let dir = Dir::new("bad-history");
    let file = dir.0.join("history.db");
    let nowhere = dir.0.join("nowhere.db");
    let (file, nowhere) = (file.to_str().unwrap(), nowhere.to_str().unwrap());
    let hash = format!("sha256:{}", "ab".repeat(32));
    for (args, code, says) in [
        (vec!["watch", "--listen", "0.0.0.0:0", "--history", file], 2, "give --token-hash"),
        (
            vec!["watch", "--listen", "[::]:0", "--history", file, "--token-hash", &hash],
            2,
            "give --certificate and --key",
        ),
        (vec!["explain", "branch", "--history", nowhere], 1, "there is no history at"),
        (vec!["events", "--history", nowhere], 1, "does `forebay watch` run with this file?"),
    ] {
        let output = forebay(&args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{args:?}: {text}");
    }
    for (args, says) in [
        (["watch", "--token-hash", "secret"], "sha256: and 64 hexadecimal digits"),
        (["events", "--since", "soon"], "10min (s, min, h, d)"),
        (["watch", "--certificate", "page.pem"], "--key"),
    ] {
        let output = forebay(&args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(says), "{args:?}: {text}");
    }
    assert!(!std::path::Path::new(file).exists(), "nothing was created");
}
