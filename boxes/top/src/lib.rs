//! `forebay top`: the state of all boxes as a live view of the terminal.
//!
//! [`App`] has the state and draws it; [`run`] connects it to the terminal and the boxes.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod app;
mod draw;

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};

pub use app::{Action, App, Order};

/// The time between two readings of the boxes.
const EVERY: Duration = Duration::from_secs(1);
/// The time that boxes have for their answers.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// Shows the boxes of this network namespace until the user leaves.
///
/// # Errors
/// If the terminal or the list of boxes cannot be read.
pub fn run() -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal);
    ratatui::restore();
    shown
}

fn show(terminal: &mut ratatui::DefaultTerminal) -> io::Result<()> {
    let mut app = App::default();
    let start = Instant::now();
    let mut due = start;
    loop {
        if Instant::now() >= due {
            app.take(start.elapsed().as_secs_f64(), forebay_status::read(ANSWER_TIMEOUT)?);
            due = (due + EVERY).max(Instant::now());
        }
        terminal.draw(|frame| app.draw(frame))?;
        if event::poll(due.saturating_duration_since(Instant::now()))?
            && let Event::Key(key) = event::read()?
            && app.press(key) == Action::Leave
        {
            return Ok(());
        }
    }
}
