//! What starts and ends a link.

use std::io::{self, BufRead};
use std::os::fd::{AsRawFd, RawFd};

use forebay_system::signals::Signals;
use forebay_units::Nanos;

use crate::traffic::Start;

/// What starts and ends a link.
pub(super) enum Control {
    /// The process of a run, through standard input: a line starts the run, and its end ends it.
    Parent,
    /// SIGTERM or SIGINT ends the link, which has started itself.
    Signals(Signals),
}

/// What a link is told to do.
pub(super) enum Instruction {
    /// The run starts at this time.
    Start(Nanos),
    /// Asks the link to end.
    End,
    /// The link goes on as before.
    Continue,
}

impl Control {
    /// Returns the descriptor that becomes readable when there may be an instruction.
    pub(super) fn descriptor(&self) -> RawFd {
        match self {
            Self::Parent => io::stdin().as_raw_fd(),
            Self::Signals(signals) => signals.descriptor(),
        }
    }

    /// Returns the next instruction, for which it may wait.
    pub(super) fn read(&self) -> io::Result<Instruction> {
        match self {
            Self::Signals(signals) if signals.came() => Ok(Instruction::End),
            Self::Signals(_) => Ok(Instruction::Continue),
            Self::Parent => {
                let mut line = String::new();
                if io::stdin().lock().read_line(&mut line)? == 0 {
                    return Ok(Instruction::End);
                }
                let Start { start } = serde_json::from_str(&line)?;
                Ok(Instruction::Start(Nanos(start)))
            }
        }
    }
}
