use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

#[test]
fn bounds_out_of_range_are_refused() {
    assert!(Chunks::new(0, 1).is_err());
    assert!(Chunks::new(1, 0).is_err());
    assert!(Chunks::new(MAX_BUCKETS + 1, 1).is_err());
    assert!(Chunks::new(1, MAX_ITEMS + 1).is_err());
}

const BUCKETS: u32 = 3;
const ITEMS: u32 = 60;

proptest! {
    /// The model removes by moving the last item, as the structure promises.
    #[test]
    fn it_behaves_like_vectors(
        ops in prop::collection::vec((0..10_u8, 0..BUCKETS, 0..ITEMS), 1..600),
    ) {
        let mut chunks = Chunks::new(BUCKETS, ITEMS).unwrap();
        let mut truth = [const { Vec::<u32>::new() }; BUCKETS as usize];
        let mut positions = [None; ITEMS as usize];
        for (op, bucket, item) in ops {
            match (op, positions[item as usize]) {
                (0..6, None) => {
                    let (position, was_empty) = chunks.push(bucket, item);
                    positions[item as usize] = Some(position);
                    prop_assert_eq!(was_empty, truth[bucket as usize].is_empty());
                    truth[bucket as usize].push(item);
                }
                (6..8, Some(position)) => {
                    let held = truth.iter().position(|b| b.contains(&item)).unwrap();
                    let at = truth[held].iter().position(|&i| i == item).unwrap();
                    let removed = chunks.remove(position);
                    truth[held].swap_remove(at);
                    positions[item as usize] = None;
                    prop_assert_eq!(removed.bucket as usize, held);
                    prop_assert_eq!(removed.emptied, truth[held].is_empty());
                    prop_assert_eq!(removed.moved, truth[held].get(at).copied());
                    if let Some(moved) = removed.moved {
                        positions[moved as usize] = Some(position);
                    }
                }
                _ => {
                    let line = &mut truth[bucket as usize];
                    let first = (!line.is_empty()).then(|| line.remove(0));
                    let popped = chunks.pop(bucket);
                    prop_assert_eq!(popped.map(|popped| popped.item), first);
                    let emptied = first.map(|_| line.is_empty());
                    prop_assert_eq!(popped.map(|popped| popped.emptied), emptied);
                    if let Some(first) = first {
                        positions[first as usize] = None;
                    }
                }
            }
            for bucket in 0..BUCKETS {
                let items: Vec<_> = chunks.iter(bucket).collect();
                prop_assert_eq!(&items, &truth[bucket as usize]);
                prop_assert_eq!(chunks.is_empty(bucket), items.is_empty());
            }
        }
    }
}
