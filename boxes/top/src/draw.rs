//! Drawing: a table of all rows, and below it the selected one in detail. It fits 80 x 24.

use forebay_picture::number::{duration, figure};
use forebay_records::{ReceiveStatus, SendStatus};
use forebay_status::{State, sentence};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

use crate::app::{App, Line, Told};

/// The height of the details with their border, at the least.
const DETAILS: u16 = 11;
/// The decisions that are shown, if there is room.
const DECISIONS: usize = 10;

impl App {
    /// Draws the table and the details of the selected row.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        // The table takes what its rows need, and at least four lines.
        let rows = u16::try_from(self.lines.len()).unwrap_or(u16::MAX).saturating_add(1);
        let most = frame.area().height.saturating_sub(2 + DETAILS).max(4);
        let [head, table, details, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(rows.clamp(2, most)),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        if self.lines.is_empty() {
            let text = "No box runs in this network namespace that answers.";
            frame.render_widget(Paragraph::new(text), table);
        } else {
            self.table(frame, table);
        }
        if let Some(line) = self.position().and_then(|at| self.lines.get(at)) {
            frame.render_widget(detail(line), details);
        }
        let keys = " up/down select   s sort   q leave";
        frame.render_widget(Paragraph::new(keys).dim(), foot);
    }

    fn head(&self) -> Paragraph<'_> {
        let plural = |n: usize, one: &str, many: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {many}"),
        };
        let bad = self.lines.iter().filter(|line| line.verdict.state == State::Trouble).count();
        let mut spans = vec![
            Span::from(" forebay top").bold(),
            Span::from(format!(
                "  {}, {}, by {}",
                plural(self.boxes, "box", "boxes"),
                plural(self.lines.len(), "direction", "directions"),
                self.order.word()
            )),
        ];
        if bad > 0 {
            spans.push(Span::from(format!("  {bad} in trouble")).fg(Color::Red).bold());
        }
        if let Some((process, why)) = self.silent.first() {
            let text = format!("  process {process}: {why}");
            spans.push(Span::from(text).fg(Color::Red).bold());
        }
        Paragraph::new(Text::from(spans))
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect) {
        let header = ["", "peer", "state", "here ms", "there ms", "limit", "Mbit/s", "lost"];
        let header = header.into_iter().enumerate().map(|(i, text)| aligned(i, text.to_owned()));
        let rows = self.lines.iter().map(|line| {
            let (here, there) = line.waits();
            let (limit, lost) = match &line.told {
                Told::Send(send) => (send.rate_bps.map(|bps| bps as f64 / 1e6), send.loss),
                Told::Receive(_) => (None, None),
            };
            let cells = [
                if line.key.2 { "from" } else { "to" }.to_owned(),
                line.key.1.clone(),
                String::new(),
                number(here),
                number(there),
                number(limit),
                number(line.rate_bps.map(|bps| bps / 1e6)),
                lost.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            ];
            Row::new(cells.into_iter().enumerate().map(|(index, text)| match index {
                2 => Cell::from(state(line.verdict.state)),
                index => aligned(index, text),
            }))
        });
        let widths = [
            Constraint::Length(4),
            Constraint::Min(12),
            Constraint::Length(13),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(7),
        ];
        let table = Table::new(rows, widths)
            .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected(self.position());
        frame.render_stateful_widget(table, area, &mut state);
    }
}

fn aligned(index: usize, text: String) -> Cell<'static> {
    let text = Text::from(text);
    Cell::from(if index > 2 { text.right_aligned() } else { text })
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// Formats a state; words say it too where there are no colours.
fn state(state: State) -> Span<'static> {
    let word = Span::from(state.word());
    match state {
        State::Trouble | State::Gone | State::Open => word.fg(Color::Red).bold(),
        State::BesideOthers | State::Bursty | State::QueueThere => word.fg(Color::Yellow),
        State::Controlled | State::Receiving => word.fg(Color::Green),
        State::Idle => word.dim(),
    }
}

fn detail(line: &Line) -> Paragraph<'_> {
    let (place, name, receives) = &line.key;
    let way = if *receives { "from" } else { "to" };
    let title = format!(" {way} {name}, {place} ");
    let mut lines = vec![Text::from(vec![
        state(line.verdict.state),
        ". ".into(),
        (&line.verdict.why[..]).into(),
    ])];
    match &line.told {
        Told::Send(send) => sending(&mut lines, send),
        Told::Receive(receive) => receiving(&mut lines, receive),
    }
    Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .block(Block::new().borders(Borders::TOP).title(title.bold()))
}

fn sending<'a>(lines: &mut Vec<Text<'a>>, send: &'a SendStatus) {
    let mut mode = format!("{} for {}", sentence_start(&send.mode), duration(send.mode_s));
    if let Some(reason) = &send.reason {
        mode = format!("{mode}: {reason}");
    }
    lines.push(Text::from(mode));
    let mbps = |rate: Option<u64>| number(rate.map(|bps| bps as f64 / 1e6));
    let round_trip = match (send.rtt_ms, send.min_rtt_ms) {
        (Some(rtt), Some(least)) => format!("{} ms (least {})", figure(rtt), figure(least)),
        _ => "not known".to_owned(),
    };
    let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    lines.push(Text::from(format!(
        "Limit {} Mbit/s, sent {}, arrived {}. Round trip {round_trip}.",
        mbps(send.rate_bps),
        mbps(send.send_bps),
        mbps(send.receive_bps)
    )));
    lines.push(Text::from(format!(
        "Dropped here {}, marked {}; refused {} messages. {} bytes wait.",
        count(send.dropped),
        count(send.marked),
        send.refused,
        send.backlog_bytes
    )));
    for decision in send.decisions.iter().take(DECISIONS) {
        let ago = Span::from(format!("{:>11} ago  ", duration(decision.ago_s))).dim();
        lines.push(Text::from(vec![ago, (&decision.text[..]).into()]));
    }
}

fn receiving<'a>(lines: &mut Vec<Text<'a>>, receive: &'a ReceiveStatus) {
    let heard = match receive.heard_s {
        Some(seconds) => format!("The peer was heard {} ago.", duration(seconds)),
        None => "The peer was not heard yet.".to_owned(),
    };
    lines.push(Text::from(heard));
    lines.push(Text::from(format!(
        "{} packets, {:.1} MB; refused {} messages; {} packets got no answer.",
        receive.packets,
        receive.bytes as f64 / 1e6,
        receive.refused,
        receive.unanswered
    )));
}

fn sentence_start(text: &str) -> String {
    let sentence = sentence(text);
    sentence.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
