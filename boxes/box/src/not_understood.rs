//! Says that frames pass in which no IP packet is found.

/// The direction in which frames pass the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Leaving,
    Arriving,
}

/// Logs once that frames are not understood. `forebay status` has the count.
#[derive(Debug)]
pub(crate) struct NotUnderstoodLog {
    direction: Direction,
    is_said: bool,
}

impl NotUnderstoodLog {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self { direction, is_said: false }
    }

    /// Notes the number of such frames at `interface` so far.
    pub(crate) fn note(&mut self, interface: &str, frames: u64) {
        if let Some(line) = self.line(interface, frames) {
            tracing::warn!("{line}");
        }
    }

    fn line(&mut self, interface: &str, frames: u64) -> Option<String> {
        if frames == 0 || self.is_said {
            return None;
        }
        self.is_said = true;
        let ways = match self.direction {
            Direction::Leaving => "leave by",
            Direction::Arriving => "arrive at",
        };
        Some(format!(
            "frames {ways} {interface} in which no IP packet is found, and which belong to no bundle \
             (malformed packets, or headers that Forebay does not know); `forebay status` counts them"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once() {
        let mut log = NotUnderstoodLog::new(Direction::Leaving);
        assert_eq!(log.line("wan0", 0), None);
        let line = log.line("wan0", 3).unwrap();
        assert!(line.starts_with("frames leave by wan0 in which no IP packet is found"), "{line}");
        assert_eq!(log.line("wan0", 4), None);
    }
}
