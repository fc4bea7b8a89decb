//! Reads the input files of a plan; the first byte chooses the kind. A valid topology is also
//! planned for a few steps.
#![no_main]

use std::path::Path;

use forebay_plan::input;
use forebay_plan::paths::k_shortest;
use forebay_plan::topology::{Router, RouterId, Topology};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let lines = 1 + text.lines().count();
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let known = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let own = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }]\n";
    let providers = input::providers("p".as_ref(), own, &known).expect("a good file");
    let error = match kind % 11 {
        kind @ (0..=2 | 7..=9) => {
            let name = match kind {
                0 => "a.gml",
                1 => "a.graphml",
                2 => "a.json",
                7 => "a.txt",
                8 => "a.xml",
                _ => "a.graph",
            };
            match input::topology(Path::new(name), text) {
                Ok(topology) => {
                    check(&topology);
                    None
                }
                Err(e) => Some(e),
            }
        }
        3 => input::demands_csv("d".as_ref(), text, &providers.providers, &known).err(),
        4 => input::demands_json("d".as_ref(), text, &providers.providers, &known).err(),
        10 => input::demands("d.csv".as_ref(), text, &providers.providers, &known).err(),
        5 => input::prefixes("p".as_ref(), text, &known).err(),
        _ => input::providers("p".as_ref(), text, &known).err(),
    };
    // An error names a line of the file.
    if let Some(error) = error {
        assert!(error.line.is_some_and(|line| (1..=lines + 1).contains(&line)), "{error}");
        assert!(!error.message.is_empty());
    }
});

/// Links join routers that are there, once; names are unique; what is near is found first.
fn check(topology: &Topology) {
    let routers = topology.routers().len();
    assert_eq!(topology.by_name().len(), routers);
    for link in topology.links() {
        assert!(link.from.index() < routers && link.to.index() < routers && link.from != link.to);
        assert!(link.metric >= 1);
    }
    if routers < 50 {
        let paths = k_shortest(topology, RouterId(0), RouterId(routers as u32 - 1), 4);
        assert!(paths.windows(2).all(|w| w[0].length <= w[1].length && w[0].links != w[1].links));
    }
}
