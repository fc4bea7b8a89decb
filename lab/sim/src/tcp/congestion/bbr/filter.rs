//! The windowed maximum of the bandwidth.

/// The number of rounds after which a bandwidth expires.
const ROUNDS: u64 = 10;

/// A bandwidth and the round in which it was measured.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    round: u64,
    value: u64,
}

/// The maximum of the last rounds: the three best values, each later than the one before (as in
/// Linux's `lib/win_minmax`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    best: [Measured; 3],
}

impl Filter {
    pub(super) fn get(&self) -> u64 {
        self.best[0].value
    }

    pub(super) fn update(&mut self, round: u64, value: u64) {
        let new = Measured { round, value };
        let f = &mut self.best;
        if value >= f[0].value || round - f[2].round > ROUNDS {
            *f = [new; 3];
            return;
        }
        if value >= f[1].value {
            (f[1], f[2]) = (new, new);
        } else if value >= f[2].value {
            f[2] = new;
        }
        let age = round - f[0].round;
        if age > ROUNDS {
            *f = [f[1], f[2], new];
            if round - f[0].round > ROUNDS {
                *f = [f[1], f[2], new];
            }
        } else if f[1].round == f[0].round && age > ROUNDS / 4 {
            (f[1], f[2]) = (new, new);
        } else if f[2].round == f[1].round && age > ROUNDS / 2 {
            f[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_expire() {
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
