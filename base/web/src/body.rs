//! Bodies of answers: bytes, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Interval, interval};

use crate::events::Listener;

/// The interval of comments in an idle stream, which keep proxies from closing the connection.
const STILL_HERE: Duration = Duration::from_secs(15);

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Answered {
    /// All bytes of the body; `None` after they were taken.
    Whole(Option<Bytes>),
    /// A stream of events.
    Events(Box<(Listener, Interval)>),
}

impl Answered {
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(crate) fn events(listener: Listener) -> Self {
        Self::Events(Box::new((listener, interval(STILL_HERE))))
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |text: Bytes| Poll::Ready(Some(Ok(Frame::data(text))));
        match self.get_mut() {
            Self::Whole(bytes) => match bytes.take().filter(|b| !b.is_empty()) {
                Some(bytes) => frame(bytes),
                None => Poll::Ready(None),
            },
            Self::Events(inside) => {
                let (listener, still) = &mut **inside;
                match listener.poll_next(context) {
                    Poll::Ready(Some(event)) => frame(event.into()),
                    Poll::Ready(None) => Poll::Ready(None),
                    Poll::Pending => match still.poll_tick(context) {
                        Poll::Ready(_) => frame(Bytes::from_static(b": still here\n\n")),
                        Poll::Pending => Poll::Pending,
                    },
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
