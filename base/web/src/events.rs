//! Server-sent events (the HTML standard, section 9.2) for groups of listeners, with a bounded
//! queue for each listener.
//!
//! An event has the whole state, so a missed event is no loss: the next event, or the first of a
//! new connection, has the state again. So a listener that does not keep up is disconnected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// The most listeners of one group.
pub const MAX_LISTENERS: usize = 4;
/// The most events that wait for one listener.
const MAX_WAITING: usize = 16;

type Listeners = BTreeMap<u64, (usize, mpsc::Sender<String>)>;

#[derive(Debug, Default)]
struct Inside {
    listeners: Listeners,
    next: u64,
}

/// The listeners of all groups.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Mutex<Inside>>);

/// A listener, registered until it is dropped.
#[derive(Debug)]
pub struct Listener {
    hub: Hub,
    number: u64,
    queue: mpsc::Receiver<String>,
}

impl Hub {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        // No operation on this state can panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener of group `who`, with `first` as its first event; `None` if the group has too
    /// many.
    pub fn listen(&self, who: usize, first: String) -> Option<Listener> {
        let mut inside = self.inside();
        if inside.listeners.values().filter(|(of, _)| *of == who).count() >= MAX_LISTENERS {
            return None;
        }
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        // The queue is empty, so the event fits.
        let _ = sender.try_send(first);
        let number = inside.next;
        inside.next += 1;
        inside.listeners.insert(number, (who, sender));
        Some(Listener { hub: self.clone(), number, queue })
    }

    /// Sends `event` to all listeners of group `who`, and disconnects those whose queue is full.
    pub fn send(&self, who: usize, event: &str) {
        self.inside()
            .listeners
            .retain(|_, (of, sender)| *of != who || sender.try_send(event.to_owned()).is_ok());
    }

    /// Returns the groups that have listeners.
    pub fn groups(&self) -> BTreeSet<usize> {
        self.inside().listeners.values().map(|(of, _)| *of).collect()
    }

    /// Disconnects all listeners.
    pub fn end(&self) {
        self.inside().listeners.clear();
    }

    /// Returns the number of listeners.
    pub fn len(&self) -> usize {
        self.inside().listeners.len()
    }

    /// Whether there are no listeners.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Listener {
    /// Returns the next event; ready with `None` when the queue has ended.
    pub fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<String>> {
        self.queue.poll_recv(context)
    }

    /// Returns the next event without waiting.
    pub fn try_next(&mut self) -> Option<String> {
        self.queue.try_recv().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.inside().listeners.remove(&self.number);
    }
}

/// Formats an event; JSON text has no line breaks.
pub fn event(name: &str, id: &str, data: &str) -> String {
    format!("event: {name}\nid: {id}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_get_their_own_events_and_are_limited() {
        let hub = Hub::default();
        let mut own: Vec<Listener> =
            (0..MAX_LISTENERS).map(|_| hub.listen(0, "first".to_owned()).unwrap()).collect();
        assert!(hub.listen(0, String::new()).is_none());
        let mut other = hub.listen(1, "other".to_owned()).unwrap();
        hub.send(0, "x");
        for listener in &mut own {
            let heard: Vec<_> = std::iter::from_fn(|| listener.try_next()).collect();
            assert_eq!(heard, ["first", "x"]);
        }
        assert_eq!((other.try_next().as_deref(), other.try_next()), (Some("other"), None));
        assert_eq!(hub.groups(), [0, 1].into());
        own.pop();
        assert!(hub.listen(0, String::new()).is_some(), "one has gone");
    }

    #[test]
    fn a_slow_listener_is_disconnected_and_others_are_not() {
        let hub = Hub::default();
        let mut slow = hub.listen(0, "first".to_owned()).unwrap();
        let mut quick = hub.listen(0, "first".to_owned()).unwrap();
        for at in 0..100 {
            hub.send(0, &at.to_string());
            while quick.try_next().is_some() {}
        }
        assert_eq!(hub.len(), 1);
        let heard = std::iter::from_fn(|| slow.try_next()).count();
        assert_eq!(heard, MAX_WAITING, "and then its queue ends");
        drop((slow, quick));
        assert!(hub.is_empty());
    }
}
