//! Answers, before they are bytes on a connection.

use serde::Serialize;
use serde_json::json;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub kind: &'static str,
    /// Other headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// JSON, with status 200.
    pub fn json<T: Serialize>(value: &T) -> Self {
        // There is nothing in it that JSON has no words for.
        let mut body = serde_json::to_vec(value).unwrap_or_default();
        body.push(b'\n');
        Self { status: 200, kind: "application/json", headers: Vec::new(), body }
    }

    /// A text of some media type, with status 200.
    pub fn text(kind: &'static str, text: impl Into<String>) -> Self {
        Self { status: 200, kind, headers: Vec::new(), body: text.into().into_bytes() }
    }

    /// An error: `code` for programs, `message` for people, and the field that it is about, if it is about one.
    pub fn error(status: u16, code: &str, field: Option<&str>, message: &str) -> Self {
        let mut error = json!({"code": code, "message": message});
        if let Some(field) = field {
            error["field"] = field.into();
        }
        Self { status, ..Self::json(&json!({"error": error})) }
    }

    /// The same, to be tried again after so many milliseconds.
    #[must_use]
    pub fn later(mut self, millis: u64) -> Self {
        self.headers.push(("retry-after", millis.div_ceil(1000).max(1).to_string()));
        self
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Of another media type.
    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }
}
