use super::*;

/// The local preference, the path, the origin code and the discriminator of a route.
type Given<'a> = (Option<u32>, &'a [u32], u8, Option<u32>);

/// Returns the place of the best of routes in the order of their peers.
fn best_of(all: &[Given<'_>]) -> usize {
    let route = |((local_preference, path, origin_code, med), peer): (&Given<'_>, u32)| {
        let attributes = Attributes {
            local_preference: *local_preference,
            path: (*path).into(),
            origin_code: *origin_code,
            med: *med,
            ..Attributes::default()
        };
        Route { peer: PeerId(peer), path_id: 0, attributes: Arc::new(attributes) }
    };
    let routes: Vec<Route> = all.iter().zip(0..).map(route).collect();
    best(&routes).unwrap().peer.0 as usize
}

#[test]
fn the_best_route_is_decided_step_by_step() {
    assert_eq!(best(&[]), None);
    assert_eq!(best_of(&[(None, &[1, 2], 0, None)]), 0);
    // The default preference is 100, and outweighs the path.
    assert_eq!(best_of(&[(Some(99), &[1], 0, None), (None, &[1, 2], 0, None)]), 1);
    assert_eq!(best_of(&[(None, &[1, 2], 0, None), (None, &[3], 2, None)]), 1, "the shorter path");
    assert_eq!(best_of(&[(None, &[1], 2, None), (None, &[3], 0, None)]), 1, "the lower origin");
    assert_eq!(best_of(&[(None, &[1], 0, None), (None, &[1], 0, None)]), 0, "the first peer");
}

#[test]
fn discriminators_are_compared_within_a_neighbouring_as() {
    assert_eq!(best_of(&[(None, &[1, 9], 0, Some(50)), (None, &[1, 8], 0, Some(10))]), 1);
    assert_eq!(best_of(&[(None, &[1], 0, Some(50)), (None, &[1], 0, None)]), 1, "0 by default");
    assert_eq!(best_of(&[(None, &[1], 0, Some(50)), (None, &[2], 0, Some(10))]), 0, "other ASes");
    // The first is out by the third, and the second is the first of those that are left.
    let three =
        [(None, &[1][..], 0, Some(50)), (None, &[2], 0, Some(90)), (None, &[1], 0, Some(10))];
    assert_eq!(best_of(&three), 1);
    // Routes that begin in the own AS have it as their neighbour.
    assert_eq!(best_of(&[(None, &[], 0, Some(50)), (None, &[], 0, Some(10))]), 1);
    // A route that is worse already takes none out.
    assert_eq!(best_of(&[(None, &[1], 0, Some(50)), (None, &[1, 1], 0, Some(10))]), 0);
}

#[test]
fn a_set_of_ases_counts_as_one() {
    let set = Attributes {
        path: [1, 2, 3, 4].into(),
        aggregated: true,
        surplus: 2,
        ..Attributes::default()
    };
    assert_eq!((set.path_length(), set.origin(), set.neighbour()), (2, None, Some(1)));
    let only = Attributes { begins_with_set: true, ..set };
    assert_eq!(only.neighbour(), None);
}
