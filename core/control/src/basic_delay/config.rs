use forebay_units::Nanos;

/// The parameters of [`crate::BasicDelay`]. The defaults are Nimbus's where it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BasicDelayConfig {
    /// The share of the spare rate that is used at once. Default 0.8.
    pub alpha: f64,
    /// The strength of the response to delay: the share of the bottleneck's rate for a delay as
    /// long as the round-trip time. Default 0.5.
    pub beta: f64,
    /// The queueing delay to hold, as a share of the minimum RTT. Default 0.25.
    pub target: f64,
    /// The lowest rate, as a share of the bottleneck's. Default 0.05.
    pub floor: f64,
    /// How long the highest receive rate counts as the bottleneck's. Default 1 s.
    pub rate_window: Nanos,
    /// The largest age of the minimum RTT before the queue is drained briefly to measure it again.
    /// Default 4 s.
    pub drain_after: Nanos,
}

impl Default for BasicDelayConfig {
    fn default() -> Self {
        Self {
            alpha: 0.8,
            beta: 0.5,
            target: 0.25,
            floor: 0.05,
            rate_window: Nanos::from_secs(1),
            drain_after: Nanos::from_secs(4),
        }
    }
}

impl BasicDelayConfig {
    /// Returns each field with its name, value, minimum and maximum.
    pub(crate) fn ranges(&self) -> [(&'static str, f64, f64, f64); 6] {
        let seconds = Nanos::as_secs_f64;
        [
            ("basic_delay.alpha", self.alpha, 0.0, 1.0),
            // From 1.57 (half of pi) on, a loop with a round trip of dead time is unstable.
            ("basic_delay.beta", self.beta, 0.01, 1.5),
            ("basic_delay.target", self.target, 0.01, 2.0),
            ("basic_delay.floor", self.floor, 0.001, 0.5),
            ("basic_delay.rate_window", seconds(self.rate_window), 0.1, 3600.0),
            ("basic_delay.drain_after", seconds(self.drain_after), 0.1, 3600.0),
        ]
    }
}
