//! What is shown: a row for each peer and direction, and which of them is selected.

use std::collections::{BTreeMap, BTreeSet};

use forebay_records::{ReceiveStatus, SendStatus};
use forebay_status::{Answer, Recent, Verdict};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key press does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The view goes on.
    Stay,
    /// The user leaves.
    Leave,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The worst state first.
    #[default]
    State,
    /// By the name of the peer.
    Name,
    /// The highest rate first.
    Rate,
    /// The longest wait first, here and at the bottleneck.
    Wait,
}

impl Order {
    /// Returns the word for the screen.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Wait => "wait",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::State => Self::Name,
            Self::Name => Self::Rate,
            Self::Rate => Self::Wait,
            Self::Wait => Self::State,
        }
    }
}

/// A bundle of a box in one direction: its box, its name, and whether it is received.
pub(crate) type Key = (String, String, bool);

/// The state of a bundle as its box told it.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Send(Box<SendStatus>),
    Receive(ReceiveStatus),
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) key: Key,
    pub(crate) told: Told,
    pub(crate) verdict: Verdict,
    /// The rate since the state before, in bit/s.
    pub(crate) rate_bps: Option<f64>,
}

impl Line {
    /// Returns the wait here and at the bottleneck in milliseconds.
    pub(crate) fn waits(&self) -> (Option<f64>, Option<f64>) {
        match &self.told {
            // Without a sample in the last second the wait is one of earlier traffic.
            Told::Send(send) => {
                (send.wait_here_ms, send.wait_network_ms.filter(|_| send.rtt_range_ms.is_some()))
            }
            Told::Receive(_) => (None, None),
        }
    }
}

/// The view with its state.
#[derive(Debug, Default)]
pub struct App {
    pub(crate) lines: Vec<Line>,
    /// The boxes that do not answer: process and reason.
    pub(crate) silent: Vec<(u32, String)>,
    pub(crate) boxes: usize,
    pub(crate) order: Order,
    pub(crate) selected: Option<Key>,
    recent: BTreeMap<Key, Recent>,
}

impl App {
    /// Takes in the answers of all boxes at `at`, in seconds of a clock that does not go back.
    pub fn take(&mut self, at: f64, answers: Vec<Answer>) {
        self.lines.clear();
        self.silent.clear();
        self.boxes = answers.len();
        for Answer { process, status } in answers {
            let status = match status {
                Ok(status) => status,
                Err(e) => {
                    self.silent.push((process, e.to_string()));
                    continue;
                }
            };
            let interface = status.interfaces.first().cloned().unwrap_or_default();
            let place = format!("{} at {interface}", status.role);
            for send in status.sends {
                let key = (place.clone(), send.name.clone(), false);
                let recent = self.recent.entry(key.clone()).or_default();
                recent.note_send(at, &send);
                let (verdict, rate_bps) = (recent.judge_send(&send), recent.rate_bps());
                self.lines.push(Line { key, told: Told::Send(Box::new(send)), verdict, rate_bps });
            }
            for receive in status.receives {
                let key = (place.clone(), receive.name.clone(), true);
                let recent = self.recent.entry(key.clone()).or_default();
                recent.note_receive(at, &receive);
                let (verdict, rate_bps) = (recent.judge_receive(&receive), recent.rate_bps());
                self.lines.push(Line { key, told: Told::Receive(receive), verdict, rate_bps });
            }
        }
        // A box that does not answer once keeps its past for a while.
        if self.silent.is_empty() {
            let there: BTreeSet<Key> = self.lines.iter().map(|line| line.key.clone()).collect();
            self.recent.retain(|key, _| there.contains(key));
        }
        self.sort();
    }

    fn sort(&mut self) {
        let order = self.order;
        let wait = |line: &Line| {
            let (here, there) = line.waits();
            here.unwrap_or(0.0) + there.unwrap_or(0.0)
        };
        self.lines.sort_by(|a, b| {
            let name = || {
                let of = |line: &Line| {
                    let (place, name, receives) = line.key.clone();
                    (name, receives, place)
                };
                of(a).cmp(&of(b))
            };
            match order {
                Order::State => a.verdict.state.cmp(&b.verdict.state),
                Order::Name => std::cmp::Ordering::Equal,
                Order::Rate => b.rate_bps.unwrap_or(0.0).total_cmp(&a.rate_bps.unwrap_or(0.0)),
                Order::Wait => wait(b).total_cmp(&wait(a)),
            }
            .then_with(name)
        });
        let is_there = self.position().is_some();
        if !is_there {
            self.selected = self.lines.first().map(|line| line.key.clone());
        }
    }

    /// Returns the index of the selected row.
    pub(crate) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.lines.iter().position(|line| line.key == *selected)
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Action::Leave,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Leave,
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(10),
            KeyCode::PageUp => self.step(-10),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.sort();
            }
            _ => {}
        }
        Action::Stay
    }

    fn step(&mut self, by: isize) {
        let Some(last) = self.lines.len().checked_sub(1) else { return };
        let at = self.position().unwrap_or(0).saturating_add_signed(by).min(last);
        self.selected = Some(self.lines[at].key.clone());
    }
}
