use super::samples::{Sample, Samples};

/// The best sample of a window that slides, by some order of a value that they have. It is looked for
/// anew only when it leaves the window or the window reaches further back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowExtreme<T> {
    number: u64,
    /// Where the window began.
    from: u64,
    /// Kept here so that the sample itself need not be fetched again.
    value: T,
}

impl<T: Copy> WindowExtreme<T> {
    /// The best value from number `from` to the newest, which is `newest` and was not looked at
    /// before.
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
            // Of equals the newest, which stays the longest.
            if number == from || !is_better(self.value, value) {
                (self.number, self.value) = (number, value);
            }
        }
        self.from = from;
        self.value
    }
}
