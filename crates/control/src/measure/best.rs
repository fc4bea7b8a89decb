use super::samples::{Sample, Samples};

/// The best sample of a window that slides, by some order. It is looked for anew only when it leaves
/// the window or the window reaches further back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Best {
    number: u64,
    /// Where the window began.
    from: u64,
}

impl Best {
    /// The best from number `from` to the newest, which is `newest` and was not looked at before.
    /// Of equals, the newest.
    pub(super) fn slide<'a>(
        &mut self,
        samples: &'a Samples,
        from: u64,
        newest: u64,
        is_better: impl Fn(&Sample, &Sample) -> bool,
    ) -> &'a Sample {
        let first = if self.number < from || from < self.from { from } else { newest };
        if first == from {
            self.number = from;
        }
        for number in first..=newest {
            if !is_better(samples.get(self.number), samples.get(number)) {
                self.number = number;
            }
        }
        self.from = from;
        samples.get(self.number)
    }
}
