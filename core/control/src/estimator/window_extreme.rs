use super::samples::{Sample, Samples};

/// The extreme value of a sliding window of samples. The window is searched again only when the
/// extreme sample leaves it, or when the window grows backwards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowExtreme<T> {
    number: u64,
    /// The first number of the window at the last call.
    from: u64,
    /// The extreme value, kept so that the sample need not be fetched again.
    value: T,
}

impl<T: Copy> WindowExtreme<T> {
    /// Returns the extreme value of the samples `from` to `newest`. The newest was not part of the
    /// window at the last call.
    pub(super) fn slide(
        &mut self,
        samples: &Samples,
        from: u64,
        newest: u64,
        value: impl Fn(&Sample) -> T,
        is_better: impl Fn(T, T) -> bool,
    ) -> T {
        let anew = self.number < from || from < self.from;
        let first = if anew { from } else { newest };
        for number in first..=newest {
            let value = value(samples.get(number));
            // Of equal values the newest is kept, since it stays longest.
            if number == from || !is_better(self.value, value) {
                (self.number, self.value) = (number, value);
            }
        }
        self.from = from;
        self.value
    }
}
