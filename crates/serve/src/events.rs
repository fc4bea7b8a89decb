//! Who listens for changes: server-sent events (the HTML standard, section 9.2), a bounded queue for each.
//!
//! An event says how all stands, so that one that is missed is no loss: the next, or the first after a new connection,
//! says it again. So a listener that does not keep up is let go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// Listeners of one neighbour.
pub const MOST_LISTENERS: usize = 4;
/// Events that wait for one listener.
const MOST_WAITING: usize = 16;

type Listeners = BTreeMap<u64, (usize, mpsc::Sender<String>)>;

#[derive(Debug, Default)]
struct Inside {
    listeners: Listeners,
    next: u64,
}

/// All listeners.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Mutex<Inside>>);

/// One of them. It is one until it is dropped.
#[derive(Debug)]
pub struct Listener {
    hub: Hub,
    number: u64,
    queue: mpsc::Receiver<String>,
}

impl Hub {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing in here panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new listener of neighbour `who`, to whom `first` is said; `None` if it has as many as it may.
    pub fn listen(&self, who: usize, first: String) -> Option<Listener> {
        let mut inside = self.inside();
        if inside.listeners.values().filter(|(of, _)| *of == who).count() >= MOST_LISTENERS {
            return None;
        }
        let (sender, queue) = mpsc::channel(MOST_WAITING);
        // The queue is empty.
        let _ = sender.try_send(first);
        let number = inside.next;
        inside.next += 1;
        inside.listeners.insert(number, (who, sender));
        Some(Listener { hub: self.clone(), number, queue })
    }

    /// Says `event` to all listeners of neighbour `who`. Those whose queue is full hear no more: their queue ends.
    pub fn say(&self, who: usize, event: &str) {
        self.inside()
            .listeners
            .retain(|_, (of, sender)| *of != who || sender.try_send(event.to_owned()).is_ok());
    }

    /// Lets all go.
    pub fn end(&self) {
        self.inside().listeners.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inside().listeners.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Listener {
    /// What is said next; ready with `None` when nothing ever will be.
    pub fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<String>> {
        self.queue.poll_recv(context)
    }

    /// The same without waiting.
    #[cfg(test)]
    pub(crate) fn try_next(&mut self) -> Option<String> {
        self.queue.try_recv().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.inside().listeners.remove(&self.number);
    }
}

/// An event as it is written: lines of JSON text have no line breaks.
pub fn event(name: &str, id: &str, data: &str) -> String {
    format!("event: {name}\nid: {id}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hears_its_own_and_no_more_listen_than_may() {
        let hub = Hub::default();
        let mut own: Vec<Listener> =
            (0..MOST_LISTENERS).map(|_| hub.listen(0, "first".to_owned()).unwrap()).collect();
        assert!(hub.listen(0, String::new()).is_none());
        let mut other = hub.listen(1, "other".to_owned()).unwrap();
        hub.say(0, "x");
        for listener in &mut own {
            let heard: Vec<_> = std::iter::from_fn(|| listener.try_next()).collect();
            assert_eq!(heard, ["first", "x"]);
        }
        assert_eq!((other.try_next().as_deref(), other.try_next()), (Some("other"), None));
        own.pop();
        assert!(hub.listen(0, String::new()).is_some(), "one has gone");
    }

    #[test]
    fn who_does_not_listen_is_let_go_and_others_never_notice() {
        let hub = Hub::default();
        let mut slow = hub.listen(0, "first".to_owned()).unwrap();
        let mut quick = hub.listen(0, "first".to_owned()).unwrap();
        for at in 0..100 {
            hub.say(0, &at.to_string());
            while quick.try_next().is_some() {}
        }
        assert_eq!(hub.len(), 1);
        let heard = std::iter::from_fn(|| slow.try_next()).count();
        assert_eq!(heard, MOST_WAITING, "and then its queue ends");
        drop((slow, quick));
        assert!(hub.is_empty());
    }
}
