//! Reads untrusted routes. The first byte chooses a table dump, or a BMP session whose octets come
//! in pieces of that size. The table's numbers stay consistent, and a closed session leaves
//! nothing.
#![no_main]

use std::time::Duration;

use forebay_routes::bmp::Session;
use forebay_routes::mrt;
use forebay_routes::table::{Limits, Table};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { peers: 8, routes: 500 };

fn check(table: &Table) {
    let routes: usize = table.iter().map(|(_, routes)| routes.len()).sum();
    assert_eq!(routes, table.routes());
    assert_eq!(routes, table.peers().map(|(_, peer)| peer.routes).sum::<usize>());
    assert!(routes <= LIMITS.routes && table.distinct() <= routes);
    for (net, routes) in table.iter() {
        assert!(table.longest(net.addr()).is_some_and(|(found, _)| found.contains(&net.addr())));
        assert!(routes.iter().all(|r| table.peer(r.peer).is_some()));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let mut table = Table::new(LIMITS);
    if kind % 2 == 0 {
        let _ = mrt::load(rest, "dump", &mut table);
        return check(&table);
    }
    let mut session = Session::new("router", Duration::ZERO);
    for piece in rest.chunks(usize::from(*kind)) {
        if session.receive(Duration::ZERO, piece, &mut table).is_err() {
            break;
        }
    }
    check(&table);
    let graph = table.graph();
    assert!(graph.routers().len() <= graph.len());
    let routers = graph.adjacencies().into_iter().flat_map(|(from, to)| [from, to]);
    assert!(routers.into_iter().all(|router| router.len() <= data.len()));
    // The router connects again and sends the same once more.
    let before = table.routes();
    session.cut(&mut table);
    assert_eq!(table.routes(), before);
    for piece in rest.chunks(usize::from(*kind)) {
        if session.receive(Duration::ZERO, piece, &mut table).is_err() {
            break;
        }
    }
    check(&table);
    session.expire(&mut table);
    check(&table);
    session.close(&mut table);
    assert_eq!((table.routes(), table.distinct(), table.peers().count()), (0, 0, 0));
    assert!(table.graph().is_empty());
});
