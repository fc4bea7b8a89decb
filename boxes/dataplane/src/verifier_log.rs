//! The verifier's log of a program that the kernel refused, which libbpf gives to its printer.

use std::cell::RefCell;

thread_local! {
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// How libbpf's message begins its copy of the log, and how it ends it.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";

/// Lines of the log that an error names.
const LINES: usize = 3;

/// Forgets what an earlier program of this thread was refused for.
pub(crate) fn clear() {
    REASON.set(None);
}

/// Returns why the last program that this thread loaded was refused; `None` if the verifier did not
/// refuse it.
pub(crate) fn reason() -> Option<String> {
    REASON.take()
}

/// Notes the reason if `message`, which libbpf prints, has a log of the verifier.
pub(crate) fn note(message: &str) {
    let Some((_, log)) = message.split_once(BEGIN) else { return };
    let log = log.split_once(END).map_or(log, |(log, _)| log);
    let reason = last_lines(log);
    if !reason.is_empty() {
        REASON.set(Some(reason));
    }
}

/// Returns the log's last lines that explain something, in one line.
fn last_lines(log: &str) -> String {
    // After the reason come figures of the verifier's work, and before it instructions with their
    // numbers and lines of the source.
    let is_figure = |line: &&str| {
        ["processed ", "verification time", "stack depth"].iter().any(|f| line.starts_with(f))
    };
    let is_reason = |line: &&str| !line.starts_with(|c: char| c.is_ascii_digit() || c == ';');
    let lines = log.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let mut lines: Vec<&str> =
        lines.skip_while(is_figure).take_while(is_reason).take(LINES).collect();
    lines.reverse();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as libbpf prints it.
    fn message(log: &str) -> String {
        format!("libbpf: prog 'fb_ingress': {BEGIN}\n{log}{END}\n")
    }

    #[test]
    fn the_reason_is_at_the_end_of_the_log() {
        let log = "; if (bpf_skb_load_bytes(ctx, start, look->window, captured))\n\
                   61: (85) call bpf_skb_load_bytes#26\n\
                   invalid access to map value, value_size=712 off=0 size=0\n\
                   R3 min value is outside of the allowed memory range\n\
                   processed 61 insns (limit 1000000) max_states_per_insn 0\n";
        note(&message(log));
        let expected = "invalid access to map value, value_size=712 off=0 size=0; R3 min value is \
                      outside of the allowed memory range";
        assert_eq!(reason().as_deref(), Some(expected));
        assert_eq!(reason(), None, "it was taken");
    }

    #[test]
    fn other_messages_have_no_reason() {
        for text in ["libbpf: map 'counts': created successfully", &message(""), &message("\n")] {
            note(text);
            assert_eq!(reason(), None, "{text}");
        }
        note(&message("BPF program is too large. Processed 1000001 insn\n"));
        clear();
        assert_eq!(reason(), None, "it belongs to another program");
    }

    #[test]
    fn a_long_explanation_is_cut() {
        note(&message("a\nb\nc\nd\n"));
        assert_eq!(reason().as_deref(), Some("b; c; d"));
    }
}
