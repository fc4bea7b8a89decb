//! Assigns prefixes to entries, so that each entry gets about the part of an aggregate that a plan
//! gives it.
//!
//! A plan splits an aggregate at will, but a prefix comes in at one entry. So the largest prefix
//! goes first, to the entry that lacks most. Where it is far too large for that entry it is halved,
//! as long as the neighbour accepts prefixes of that length. Both halves count as equal, since
//! nothing is known of the traffic within a prefix.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ipnet::IpNet;

/// The excess of an entry, as a part of the aggregate, above which a prefix is halved.
const MAX_EXCESS: f64 = 0.05;

/// A prefix with the entry where it should come in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) prefix: IpNet,
    /// The prefix of the file that `prefix` is equal to or a part of.
    pub(crate) of: IpNet,
    /// The prefix's part of the aggregate.
    pub(crate) share: f64,
    /// The entry that the prefix has, or had.
    pub(crate) entry: Option<usize>,
}

/// A piece in the order of assignment: the largest first, and the first prefix of equals.
struct Open(Piece);

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_share = self.0.share.total_cmp(&other.0.share);
        by_share.then_with(|| other.0.prefix.cmp(&self.0.prefix))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

/// Assigns each of `pieces` to an entry, so that entries get about the parts in `target`.
///
/// The shares of the pieces add up to one, and so does `target`. A piece keeps its entry if there
/// is room for half of it. `may_halve` is asked before a prefix is halved.
pub(crate) fn divide(
    pieces: impl IntoIterator<Item = Piece>,
    target: &[f64],
    mut may_halve: impl FnMut(&IpNet) -> bool,
) -> Vec<Piece> {
    let mut room = target.to_vec();
    let mut open: BinaryHeap<Open> = pieces.into_iter().map(Open).collect();
    let mut done = Vec::with_capacity(open.len());
    while let Some(Open(piece)) = open.pop() {
        let stays = piece.entry.filter(|e| room[*e] >= piece.share / 2.0);
        let most = || (0..room.len()).rev().max_by(|a, b| room[*a].total_cmp(&room[*b]));
        let Some(entry) = stays.or_else(most) else { continue };
        if piece.share - room[entry] > MAX_EXCESS
            && may_halve(&piece.prefix)
            && let Ok(halves) = piece.prefix.subnets(piece.prefix.prefix_len() + 1)
        {
            let half = |prefix| Open(Piece { prefix, share: piece.share / 2.0, ..piece });
            open.extend(halves.map(half));
            continue;
        }
        room[entry] -= piece.share;
        done.push(Piece { entry: Some(entry), ..piece });
    }
    done.sort_by_key(|p| p.prefix);
    done
}

/// Returns the part of the aggregate that comes in at each of `entries` entries.
pub(crate) fn parts(pieces: &[Piece], entries: usize) -> Vec<f64> {
    let mut parts = vec![0.0; entries];
    for piece in pieces {
        if let Some(entry) = piece.entry {
            parts[entry] += piece.share;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(prefix: &str, share: f64, entry: Option<usize>) -> Piece {
        let prefix = prefix.parse().unwrap();
        Piece { prefix, of: prefix, share, entry }
    }

    fn shown(pieces: &[Piece]) -> Vec<String> {
        pieces.iter().map(|p| format!("{} {}", p.prefix, p.entry.unwrap())).collect()
    }

    #[test]
    fn a_prefix_is_halved_until_the_parts_fit() {
        let one = || [piece("10.0.0.0/16", 1.0, Some(0))];
        let to_18 = |p: &IpNet| p.prefix_len() < 18;
        assert_eq!(shown(&divide(one(), &[1.0, 0.0], to_18)), ["10.0.0.0/16 0"]);
        // Three quarters keep their entry.
        let got = divide(one(), &[0.75, 0.25], to_18);
        assert_eq!(shown(&got), ["10.0.0.0/17 0", "10.0.128.0/18 0", "10.0.192.0/18 1"]);
        assert_eq!(parts(&got, 2), [0.75, 0.25]);
        // The prefix may not be halved, and stays where most of it should be.
        assert_eq!(shown(&divide(one(), &[0.75, 0.25], |_| false)), ["10.0.0.0/16 0"]);
    }

    #[test]
    fn pieces_keep_their_entries_if_there_is_room() {
        let pieces = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"];
        let pieces: Vec<_> =
            pieces.iter().zip([1, 0, 1, 0]).map(|(p, e)| piece(p, 0.25, Some(e))).collect();
        let got = divide(pieces.clone(), &[0.5, 0.5], |_| false);
        assert_eq!(got, pieces);
        let got = divide(pieces, &[0.75, 0.25], |_| false);
        let changed = got.iter().filter(|p| p.entry == Some(0)).count();
        assert_eq!(changed, 3, "{got:?}");
    }

    proptest! {
        #[test]
        fn pieces_are_kept_and_parts_are_near_the_target(
            shares in proptest::collection::vec(0.01f64..1.0, 1..20),
            target in proptest::collection::vec(0.0f64..1.0, 1..5),
        ) {
            let all: f64 = shares.iter().sum();
            let sum: f64 = target.iter().sum::<f64>().max(1e-9);
            let target: Vec<f64> = target.iter().map(|t| t / sum).collect();
            prop_assume!(target.iter().sum::<f64>() > 0.99);
            let pieces = shares.iter().enumerate().map(|(n, share)| {
                piece(&format!("10.{n}.0.0/16"), share / all, None)
            });
            let got = divide(pieces, &target, |p| p.prefix_len() < 24);
            let total: f64 = got.iter().map(|p| p.share).sum();
            prop_assert!((total - 1.0).abs() < 1e-9);
            for (part, wanted) in parts(&got, target.len()).iter().zip(&target) {
                prop_assert!(part - wanted <= MAX_EXCESS + 1e-9, "{part} for {wanted}");
            }
            // The pieces cover what was there, and none is within another.
            for (one, other) in got.iter().zip(got.iter().skip(1)) {
                prop_assert!(!one.prefix.contains(&other.prefix) && one.prefix < other.prefix);
            }
        }
    }
}
