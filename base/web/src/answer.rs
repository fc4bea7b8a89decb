//! Answers to requests, before they are written to a connection.

use serde::Serialize;
use serde_json::json;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub kind: &'static str,
    /// The other headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the answer.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns an answer with JSON and status 200.
    pub fn json<T: Serialize>(value: &T) -> Self {
        // All values that are answered have a form in JSON.
        let mut body = serde_json::to_vec(value).unwrap_or_default();
        body.push(b'\n');
        Self { status: 200, kind: "application/json", headers: Vec::new(), body }
    }

    /// Returns an answer with text of a media type and status 200.
    pub fn text(kind: &'static str, text: impl Into<String>) -> Self {
        Self { status: 200, kind, headers: Vec::new(), body: text.into().into_bytes() }
    }

    /// Returns an error with a `code` for programs, a `message` for people, and the field that is
    /// wrong, if it is one.
    pub fn error(status: u16, code: &str, field: Option<&str>, message: &str) -> Self {
        let mut error = json!({"code": code, "message": message});
        if let Some(field) = field {
            error["field"] = field.into();
        }
        Self { status, ..Self::json(&json!({"error": error})) }
    }

    /// Returns an error for a client without a valid credential. A browser asks for a password if
    /// the answer is for a page.
    pub fn unauthorized(is_page: bool) -> Self {
        let scheme = match is_page {
            true => "Basic realm=\"forebay\", charset=\"UTF-8\"",
            false => "Bearer",
        };
        let message = "show a valid token: Authorization: Bearer TOKEN";
        Self::error(401, "unauthorized", None, message).with("www-authenticate", scheme)
    }

    /// Adds a header that asks to retry after this number of milliseconds.
    #[must_use]
    pub fn later(mut self, millis: u64) -> Self {
        self.headers.push(("retry-after", millis.div_ceil(1000).max(1).to_string()));
        self
    }

    /// Adds an HTTP header to the answer.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Changes the media type.
    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }
}
