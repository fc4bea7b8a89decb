//! Which commands wait for an answer of the loop. It does no IO.

use forebay_units::Nanos;

/// Commands `C` of one kind, each with the time at which it is given up.
///
/// The loop has one request at a time, whose answer is for the commands that had come before it:
/// a command that comes while the loop reads a file gets the answer of the next reading.
#[derive(Debug)]
pub(super) struct Desk<C> {
    /// The commands that came after the loop was asked.
    new: Vec<Waiting<C>>,
    /// The commands for which the loop was asked.
    asked: Vec<Waiting<C>>,
    /// Whether the loop has a request.
    is_asked: bool,
}

/// A command that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting<C> {
    pub(super) command: C,
    /// The time at which it is given up.
    pub(super) until: Nanos,
}

impl<C> Desk<C> {
    /// Makes a desk at which nobody waits.
    pub(super) const fn new() -> Self {
        Self { new: Vec::new(), asked: Vec::new(), is_asked: false }
    }

    /// Returns the number of commands that wait.
    pub(super) fn len(&self) -> usize {
        self.new.len() + self.asked.len()
    }

    /// Notes a command.
    pub(super) fn arrive(&mut self, command: C, until: Nanos) {
        self.new.push(Waiting { command, until });
    }

    /// Returns whether the loop must be asked now. It is then taken for asked.
    pub(super) fn ask(&mut self) -> bool {
        if self.is_asked || self.new.is_empty() {
            return false;
        }
        self.asked = std::mem::take(&mut self.new);
        self.is_asked = true;
        true
    }

    /// Notes that the loop has answered; returns the commands that the answer is for.
    pub(super) fn answered(&mut self) -> Vec<Waiting<C>> {
        self.is_asked = false;
        std::mem::take(&mut self.asked)
    }

    /// Gives up the commands whose time is over.
    pub(super) fn expire(&mut self, now: Nanos) {
        for all in [&mut self.new, &mut self.asked] {
            all.retain(|waiting| now < waiting.until);
        }
    }

    /// Returns the time of the next one that is given up.
    pub(super) fn next_end(&self) -> Option<Nanos> {
        self.new.iter().chain(&self.asked).map(|waiting| waiting.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Nanos = Nanos::from_secs(9);

    fn commands(waiting: Vec<Waiting<u32>>) -> Vec<u32> {
        waiting.into_iter().map(|waiting| waiting.command).collect()
    }

    #[test]
    fn an_answer_is_for_the_commands_that_came_before_the_request() {
        let mut desk = Desk::new();
        assert!(!desk.ask(), "nobody waits");
        desk.arrive(1, LATER);
        desk.arrive(2, LATER);
        assert!(desk.ask());
        desk.arrive(3, LATER);
        assert!(!desk.ask(), "one request at a time");
        assert_eq!(commands(desk.answered()), [1, 2]);
        assert_eq!(desk.len(), 1);
        assert!(desk.ask());
        assert_eq!(commands(desk.answered()), [3]);
        assert!(!desk.ask() && desk.len() == 0);
    }

    #[test]
    fn a_late_answer_is_not_for_those_who_came_after_others_had_been_given_up() {
        let mut desk = Desk::new();
        desk.arrive(1, Nanos::from_secs(1));
        assert!(desk.ask());
        assert_eq!(desk.next_end(), Some(Nanos::from_secs(1)));
        desk.expire(Nanos::from_secs(1));
        assert_eq!((desk.len(), desk.next_end()), (0, None));
        desk.arrive(2, LATER);
        assert!(!desk.ask(), "the loop still has the request");
        assert_eq!(desk.answered(), []);
        assert!(desk.ask());
        assert_eq!(commands(desk.answered()), [2]);
    }
}
