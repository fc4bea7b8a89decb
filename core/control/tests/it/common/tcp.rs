//! A TCP sender: slow start with HyStart's delay test, Cubic, one reduction per round trip.

use forebay_units::Nanos;

/// The payload of a full-size packet in bytes.
pub(crate) const PAYLOAD: u64 = 1448;
/// The length of Ethernet, IPv4 and TCP headers with timestamps in bytes.
pub(crate) const HEADERS: u64 = 66;

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) bundle: usize,
    /// Bytes still to send, including retransmissions; `None` for a backlogged flow.
    remaining: Option<u64>,
    cwnd: f64,
    ssthresh: f64,
    in_flight: u64,
    w_max: f64,
    epoch_start: Option<f64>,
    min_rtt: f64,
    srtt: f64,
    recent: [f64; 8],
    recovery_until: f64,
    pub(crate) delivered: u64,
    pub(crate) started: Nanos,
    pub(crate) finished: Option<Nanos>,
    pub(crate) size: u64,
}

const C: f64 = 0.4;
const BETA: f64 = 0.7;

impl Flow {
    pub(crate) fn new(bundle: usize, size: Option<u64>, now: Nanos) -> Self {
        Self {
            bundle,
            remaining: size,
            cwnd: 10.0,
            ssthresh: f64::MAX,
            in_flight: 0,
            w_max: 0.0,
            epoch_start: None,
            min_rtt: f64::MAX,
            srtt: 0.0,
            recent: [0.0; 8],
            recovery_until: 0.0,
            delivered: 0,
            started: now,
            finished: None,
            size: size.unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn stop(&mut self) {
        self.remaining = Some(0);
    }

    /// Returns the payload of the next packet, if the window allows one.
    pub(crate) fn next_packet(&mut self) -> Option<u64> {
        if self.in_flight as f64 >= self.cwnd {
            return None;
        }
        let payload = match &mut self.remaining {
            None => PAYLOAD,
            Some(0) => return None,
            Some(left) => {
                let n = PAYLOAD.min(*left);
                *left -= n;
                n
            }
        };
        self.in_flight += 1;
        Some(payload)
    }

    pub(crate) fn on_ack(&mut self, now: Nanos, sent_at: Nanos, payload: u64) {
        self.in_flight -= 1;
        self.delivered += payload;
        if self.delivered >= self.size && self.finished.is_none() {
            self.finished = Some(now);
        }
        let now = now.as_secs_f64();
        let rtt = now - sent_at.as_secs_f64();
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt = if self.srtt == 0.0 { rtt } else { self.srtt + (rtt - self.srtt) / 8.0 };
        if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
            self.recent.rotate_right(1);
            self.recent[0] = rtt;
            // HyStart: the smallest of eight samples is an eighth above the minimum.
            let recent = self.recent.iter().copied().fold(f64::MAX, f64::min);
            if self.cwnd > 16.0 && recent > self.min_rtt + (self.min_rtt / 8.0).clamp(0.004, 0.016)
            {
                self.ssthresh = self.cwnd;
            }
            return;
        }
        if now < self.recovery_until {
            return;
        }
        let start = *self.epoch_start.get_or_insert_with(|| {
            self.w_max = self.w_max.max(self.cwnd);
            now
        });
        let k = (self.w_max * (1.0 - BETA) / C).cbrt();
        let target = C * (now - start + self.srtt - k).powi(3) + self.w_max;
        let reno = self.w_max * BETA + 0.53 * (now - start) / self.srtt;
        let target = target.max(reno).min(1.5 * self.cwnd);
        self.cwnd += ((target - self.cwnd) / self.cwnd).max(0.01 / self.cwnd);
    }

    pub(crate) fn on_loss(&mut self, now: Nanos, payload: u64) {
        self.in_flight -= 1;
        if let Some(left) = &mut self.remaining {
            *left += payload;
        }
        let now = now.as_secs_f64();
        if now < self.recovery_until {
            return;
        }
        self.w_max = self.cwnd;
        self.cwnd = (self.cwnd * BETA).max(2.0);
        self.ssthresh = self.cwnd;
        self.epoch_start = None;
        self.recovery_until = now + self.srtt.max(0.001);
    }

    pub(crate) fn srtt(&self) -> Nanos {
        Nanos::from_secs_f64(self.srtt.max(0.001))
    }
}
