//! The windowed maximum of the bandwidth.

/// A bandwidth is forgotten after so many rounds.
const ROUNDS: u64 = 10;

/// The largest value of the last rounds: its three best, each later than the one before
/// (as in Linux's `lib/win_minmax`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter([(u64, u64); 3]);

impl Filter {
    pub(super) fn get(&self) -> u64 {
        self.0[0].1
    }

    pub(super) fn update(&mut self, round: u64, value: u64) {
        let new = (round, value);
        let f = &mut self.0;
        if value >= f[0].1 || round - f[2].0 > ROUNDS {
            *f = [new; 3];
            return;
        }
        if value >= f[1].1 {
            (f[1], f[2]) = (new, new);
        } else if value >= f[2].1 {
            f[2] = new;
        }
        let age = round - f[0].0;
        if age > ROUNDS {
            *f = [f[1], f[2], new];
            if round - f[0].0 > ROUNDS {
                *f = [f[1], f[2], new];
            }
        } else if f[1].0 == f[0].0 && age > ROUNDS / 4 {
            (f[1], f[2]) = (new, new);
        } else if f[2].0 == f[1].0 && age > ROUNDS / 2 {
            f[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_forgets() {
        let mut filter = Filter::default();
        filter.update(1, 100);
        for round in 2..=11 {
            filter.update(round, 50);
            assert_eq!(filter.get(), 100, "round {round}");
        }
        filter.update(12, 50);
        assert_eq!(filter.get(), 50);
        filter.update(13, 70);
        assert_eq!(filter.get(), 70);
    }
}
