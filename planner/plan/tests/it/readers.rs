//! Readers accept any text without a panic, and errors name the line.

use std::path::Path;

use forebay_config::ConfigError;
use forebay_plan::input;
use forebay_plan::topology::{Router, Topology};
use proptest::prelude::*;

const XML: &str = "<?xml version=\"1.0\"?>\n<network><networkStructure><nodes><node id=\"A\"/><node id=\"B\"/></nodes>\n\
    <links><link id=\"L\"><source>A</source><target>B</target><routingCost>2.5</routingCost>\n<additionalModules><addModule>\
    <capacity>155.0</capacity></addModule></additionalModules></link></links></networkStructure>\n<meta><unit>BITPERSEC</unit>\
    </meta><demands><demand id=\"D\"><source>A</source><target>B</target><demandValue>2.5</demandValue></demand></demands></network>\n";

const GOOD: [(&str, &str); 12] = [
    (
        "a.gml",
        "graph [\n node [ id 0 label \"A &amp; B\" ]\n node [ id 1 hyperedge 1 ]\n edge [ source 0 target 1 LinkSpeedRaw 1e9 ]\n]\n",
    ),
    (
        "a.graphml",
        "<?xml version=\"1.0\"?>\n<graphml><key attr.name=\"label\" id=\"d0\"/><graph>\n<node id=\"0\"><data key=\"d0\">A &amp; &#66;\n</data></node>\n\
         <node id=\"1\"/><edge source=\"0\" target=\"1\"/></graph></graphml>\n",
    ),
    (
        "a.json",
        "{\"nodes\": [{\"id\": 0}, {\"id\": \"b\"}],\n\"links\": [\n{\"source\": 0, \"target\": \"b\", \"capacity\": \"10 Gbit/s\"}]}",
    ),
    (
        "a.txt",
        "?SNDlib native format; type: network; version: 1.0\nNODES (\n A ( 1 2.5 )\n B )\nLINKS (\n L ( A B ) 155.0 0 2.5 1 ( 622 3 )\n)\n\
         DEMANDS ( D ( A B ) 1 2.5 UNLIMITED )\nMETA ( unit = MBITPERSEC )\nADMISSIBLE_PATHS ( D ( P ( L ) ) )\n",
    ),
    ("a.xml", XML),
    (
        "a.graph",
        "NODES 2\nlabel x y\nA 0 0\nB 1 1\n\nEDGES 1\nlabel src dest weight bw delay\ne 0 1 1 1000 5\n",
    ),
    ("a.demands", "DEMANDS 2\nlabel src dest bw\nd 0 1 1000\ne 0 0 2.5\n"),
    ("demands.xml", XML),
    ("demands.csv", "provider,entry,router,demand\nx,A,B,2e6\n\"x\",\"A\",\"B\",3 Mbit/s\n"),
    (
        "demands.json",
        "[{\"provider\":\"x\",\"entry\":\"A\",\"router\":\"B\",\"demand\":2e6},\n{\"provider\":\"x\",\"entry\":\"A\",\"router\":\"A\",\"demand\":\"3 Mbit/s\"}]",
    ),
    ("prefixes", "prefix,router\n10.0.0.0/8,A\n2001:db8::/32,\"B\"\n"),
    (
        "providers.toml",
        "[[provider]]\nname = \"x\"\nweight = 2.0\n[[provider.entry]]\nrouter = \"B\"\ncapacity = \"1 Gbit/s\"\nshare = 2.0\n",
    ),
];

fn read(name: &str, text: &str) -> Result<(), ConfigError> {
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let known = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let own = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }]\n";
    let providers = input::providers("p".as_ref(), own, &known).unwrap().providers;
    let file = Path::new(name);
    match name {
        "demands.csv" => input::demands_csv(file, text, &providers, &known).map(drop),
        "demands.json" => input::demands_json(file, text, &providers, &known).map(drop),
        "a.demands" | "demands.xml" => input::demands(file, text, &providers, &known).map(drop),
        "prefixes" => input::prefixes(file, text, &known).map(drop),
        "providers.toml" => input::providers(file, text, &known).map(drop),
        _ => input::topology(file, text).map(drop),
    }
}

#[test]
fn valid_files_are_read() {
    for (name, text) in GOOD {
        read(name, text).unwrap();
    }
}

/// Some editors put a byte order mark before a text.
#[test]
fn a_byte_order_mark_is_skipped() {
    for (name, text) in GOOD {
        read(name, &format!("\u{feff}{text}")).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn mutated_files_are_read_or_refused_with_a_line(
        which in 0..GOOD.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, "\\PC{0,2}|[\\[\\]<>&;\"{},\n]"), 1..6),
    ) {
        let (name, good) = GOOD[which];
        let mut text: Vec<char> = good.chars().collect();
        for (at, gone, new) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = read(name, &text) {
            let line = error.line.unwrap();
            prop_assert!((1..=text.lines().count() + 1).contains(&line), "{error}");
            prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error}");
        }
    }
}
