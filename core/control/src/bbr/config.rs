use forebay_units::Nanos;

/// The parameters of [`crate::Bbr`]. The defaults are BBR's, except for `probe_rtt_after`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BbrConfig {
    /// The gain of a cycle's probing phase above one, and of the phase after it below one. Default
    /// 0.25.
    pub probe: f64,
    /// The largest amount in flight, in bandwidth-delay products. Default 2.
    pub window: f64,
    /// Number of round trips for which the highest rate counts. Default 10.
    pub bandwidth_rounds: u32,
    /// The largest age of the minimum RTT before a probe of the RTT. Default 8 s. A bundle forgets
    /// its minimum after nine seconds, so BBR's ten would be too late.
    pub probe_rtt_after: Nanos,
    /// The length of a probe of the RTT. Default 200 ms.
    pub probe_rtt_for: Nanos,
}

impl Default for BbrConfig {
    fn default() -> Self {
        Self {
            probe: 0.25,
            window: 2.0,
            bandwidth_rounds: 10,
            probe_rtt_after: Nanos::from_secs(8),
            probe_rtt_for: Nanos::from_millis(200),
        }
    }
}

impl BbrConfig {
    /// Returns each field with its name, value, minimum and maximum.
    pub(crate) fn ranges(&self) -> [(&'static str, f64, f64, f64); 5] {
        let seconds = Nanos::as_secs_f64;
        [
            ("bbr.probe", self.probe, 0.01, 0.9),
            ("bbr.window", self.window, 1.0, 100.0),
            // A cycle has eight phases, and one of them probes.
            ("bbr.bandwidth_rounds", f64::from(self.bandwidth_rounds), 8.0, 1000.0),
            ("bbr.probe_rtt_after", seconds(self.probe_rtt_after), 0.1, 3600.0),
            ("bbr.probe_rtt_for", seconds(self.probe_rtt_for), 0.01, 10.0),
        ]
    }
}
