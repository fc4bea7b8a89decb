//! A client for the service: HTTP/1.1 (RFC 9112) with one connection per request, which the server
//! closes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The time limit for an answer: a round may have to tell many speakers first.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is read, above any that the service gives here, in bytes.
const MAX_ANSWER: u64 = 16_000_000;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The body, if it is JSON.
    pub(super) body: Value,
}

/// Sends a request without waiting for the answer.
///
/// # Errors
/// If no server takes it.
pub(super) fn send(
    at: SocketAddr,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes())?;
    Ok(stream)
}

/// Reads the answer to a request.
///
/// # Errors
/// If there is none.
pub(super) fn read(stream: TcpStream) -> io::Result<Reply> {
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut bytes)?;
    parse(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

fn parse(text: &str) -> Option<Reply> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split_whitespace().next()?.parse().ok()?;
    Some(Reply { status, body: serde_json::from_str(body).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn answers_are_parsed() {
        let reply = parse("HTTP/1.1 422 Unprocessable\r\nx: y\r\n\r\n{\"a\": 1}\n").unwrap();
        assert_eq!((reply.status, &reply.body["a"]), (422, &Value::from(1)));
        assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\nok\n").unwrap().body, Value::Null);
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 x\r\n\r\n", "200\r\n\r\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_request_arrives_with_its_headers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let other = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = io::BufReader::new(&stream).lines().map(Result::unwrap);
            let head: Vec<_> = lines.by_ref().take_while(|l| !l.is_empty()).collect();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
            (&stream).write_all(answer).unwrap();
            head
        });
        let reply = read(send(at, "secret", "PUT", "/x", "{}\n").unwrap()).unwrap();
        assert_eq!(reply, Reply { status: 200, body: Value::Bool(true) });
        let head = other.join().unwrap();
        assert_eq!(head[0], "PUT /x HTTP/1.1");
        let rest = ["authorization: Bearer secret".to_owned(), "content-length: 3".to_owned()];
        assert!(rest.iter().all(|l| head.contains(l)), "{head:?}");
    }
}
