//! Reads a program from JSON; errors name the field.

use super::{Program, Refusal};
use crate::input::MAX_RATE;

/// The most wishes of a program, and the most inputs that it avoids.
pub const MAX_WISHES: usize = 10_000;

impl Program {
    /// Reads a program from a JSON text.
    ///
    /// # Errors
    /// If the text is not JSON; if a field is unknown, missing, duplicate or of another type; if a
    /// demand is above 10^15 bit/s; or if a list has more than [`MAX_WISHES`] entries. The refusal
    /// names the field.
    pub fn read(text: &[u8]) -> Result<Self, Refusal> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let program: Self = serde_path_to_error::deserialize(&mut json).map_err(|e| {
            let field = e.path().to_string();
            // serde writes an empty path as a point.
            refusal(if field == "." { String::new() } else { field }, e.inner().to_string())
        })?;
        json.end().map_err(|e| refusal(String::new(), e.to_string()))?;
        for (field, length) in [("wishes", program.wishes.len()), ("avoid", program.avoid.len())] {
            if length > MAX_WISHES {
                let message = format!("has {length} entries: write {MAX_WISHES} at most");
                return Err(refusal(field.to_owned(), message));
            }
        }
        let large = program.wishes.iter().position(|w| w.demand.as_bps() as f64 > MAX_RATE);
        match large {
            Some(at) => Err(refusal(
                format!("wishes[{at}].demand"),
                "is above 10^15 bit/s: write a lower rate".to_owned(),
            )),
            None => Ok(program),
        }
    }
}

fn refusal(field: String, message: String) -> Refusal {
    Refusal { field, message }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_name_the_field() {
        let wish = |inside: &str| {
            format!(
                r#"{{"wishes": [{{"output": 0, "input": "a", "demand": 1}}, {{"output": 0, "input": "b"{inside}}}]}}"#
            )
        };
        let cases = [
            (wish(", \"demand\": \"much\""), "wishes[1].demand: invalid type: string \"much\""),
            (wish(", \"demand\": -1"), "wishes[1].demand: invalid value: integer `-1`"),
            (wish(", \"demand\": 1e18"), "wishes[1].demand: invalid type: floating point"),
            (wish(", \"demand\": 1000000000000000000"), "wishes[1].demand: is above 10^15 bit/s"),
            (wish(", \"demand\": 1, \"demand\": 2"), "wishes[1]: duplicate field `demand`"),
            (wish(", \"router\": 1"), "wishes[1].router: unknown field `router`"),
            (wish(""), "wishes[1]: missing field `demand`"),
            (r#"{"wish": []}"#.to_owned(), "wish: unknown field `wish`"),
            ("[1".to_owned(), "[0]: invalid type: integer `1`"),
            ("{} {}".to_owned(), "trailing characters"),
            (String::new(), "EOF while parsing a value"),
            ("[".repeat(100_000), "[0]: invalid type: sequence"),
        ];
        for (text, expected) in cases {
            let error = Program::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}, not {expected}");
        }
        let many = vec![r#"{"output": 0, "input": "a"}"#; MAX_WISHES + 1].join(",");
        let error = Program::read(format!(r#"{{"avoid": [{many}]}}"#).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "avoid: has 10001 entries: write 10000 at most");
        assert_eq!(Program::read(b"{}"), Ok(Program::default()));
    }

    proptest! {
        #[test]
        fn a_written_program_is_read_back(
            wishes in proptest::collection::vec((any::<u32>(), ".{0,8}", 0..=1_000_000_000_000_000u64), 0..5),
            view in proptest::option::of(".{0,20}"),
        ) {
            let wishes = wishes.into_iter().map(|(output, input, bps)| super::super::Wish {
                output, input, demand: forebay_units::Rate::from_bps(bps),
            });
            let program = Program { view, wishes: wishes.collect(), avoid: Vec::new() };
            let text = serde_json::to_string(&program).unwrap();
            prop_assert_eq!(Program::read(text.as_bytes()), Ok(program));
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(refusal) = Program::read(&text) {
                prop_assert!(!refusal.message.is_empty());
            }
        }
    }
}
