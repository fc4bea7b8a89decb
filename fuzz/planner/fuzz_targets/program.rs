//! Reads what neighbours send to the planning service: programs, or tokens in headers. The first
//! byte chooses which.
#![no_main]

use std::collections::BTreeMap;

use forebay_plan::input::{self, Users};
use forebay_plan::network::Network;
use forebay_plan::topology::{Link, Router, RouterId, Topology};
use forebay_plan::vswitch::{self, MAX_WISHES, Program};
use forebay_serve::token;
use forebay_units::Rate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 2 == 1 {
        if let Some((token, _)) = token::from_header(rest) {
            assert!(token.len() <= rest.len());
        }
        if let Ok(text) = std::str::from_utf8(rest)
            && let Ok(hash) = text.parse::<token::Hash>()
        {
            assert_eq!(hash.to_string().parse(), Ok(hash));
        }
        return;
    }
    match Program::read(rest) {
        Ok(program) => {
            assert!(program.wishes.len() <= MAX_WISHES && program.avoid.len() <= MAX_WISHES);
            let again = serde_json::to_vec(&program).expect("what was read is JSON");
            assert_eq!(Program::read(&again).expect("it was read before"), program);
            check(&program);
        }
        Err(refusal) => assert!(!refusal.message.is_empty()),
    }
});

/// Checks that an accepted program changes only its own provider's demands, within plausible
/// bounds.
fn check(program: &Program) {
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let link =
        |from, to| Link { from: RouterId(from), to: RouterId(to), capacity: None, metric: 1 };
    let topology = Topology::new(String::new(), routers, vec![link(0, 1), link(1, 0)], Vec::new());
    let own = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\", capacity = \"1 Mbit/s\" }]\n[[provider]]\nname = \"y\"\nentry = [{ router = \"B\" }]\n";
    let providers = input::providers("p".as_ref(), own, &topology).expect("a good file").providers;
    let text = "provider,entry,router,demand\nx,A,B,5\ny,B,A,7\n";
    let demands =
        input::demands_csv("d".as_ref(), text, &providers, &topology).expect("good demands");
    let network = Network { topology, providers, demands, avoided: Default::default() };
    let map = vswitch::map(&network, 10);
    let prefixes: BTreeMap<_, _> = [("10.0.0.0/8", 0), ("2001:db8::/32", 1)]
        .map(|(p, r)| (p.parse().expect("a prefix"), Users::behind(RouterId(r))))
        .into();
    let checked = vswitch::check(&network, &map, &prefixes, 0, program);
    let programs = [(0, program.clone())].into();
    let (whole, refused) = vswitch::consolidate(&network, &map, &prefixes, &programs);
    assert_eq!(refused.get(&0), checked.as_ref().err());
    let of = |provider| whole.demands.iter().filter(move |d| d.provider == provider);
    assert_eq!(of(1).map(|d| d.rate.as_bps()).collect::<Vec<_>>(), [7]);
    assert!(of(0).map(|d| d.rate).all(|rate| rate <= Rate::from_bps(4_000_000)));
    assert!(whole.avoided.iter().all(|(provider, ..)| *provider == 0));
}
