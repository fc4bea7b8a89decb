//! Things that keep a number for life. The number of one that has gone is free for another.

/// Things by number.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<Option<T>>);

impl<T> FromIterator<(usize, T)> for Slots<T> {
    fn from_iter<I: IntoIterator<Item = (usize, T)>>(all: I) -> Self {
        let mut slots = Self::new([]);
        all.into_iter().for_each(|(number, thing)| slots.put(number, thing));
        slots
    }
}

impl<T> Slots<T> {
    /// Numbers `all` in their order.
    pub(crate) fn new(all: impl IntoIterator<Item = T>) -> Self {
        Self(all.into_iter().map(Some).collect())
    }

    /// The number of things.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns the number after the highest that was ever in use.
    pub(crate) fn end(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.0.get(number)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.0.get_mut(number)?.as_mut()
    }

    /// Returns all things with their numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.0.iter_mut().enumerate().filter_map(|(number, slot)| Some((number, slot.as_mut()?)))
    }

    /// Returns the numbers that have nothing, the lowest first, without end.
    pub(crate) fn free(&self) -> impl Iterator<Item = usize> {
        (0..).filter(|number| self.get(*number).is_none())
    }

    /// Puts `thing` at `number`, in place of what was there.
    pub(crate) fn put(&mut self, number: usize, thing: T) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = Some(thing);
    }

    /// Takes away the thing at `number`.
    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        self.0.get_mut(number)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_after_its_thing_has_gone() {
        let mut slots = Slots::new(["a", "b", "c"]);
        assert_eq!(slots.remove(1), Some("b"));
        assert_eq!((slots.remove(1), slots.get(1), slots.get(9)), (None, None, None));
        assert_eq!(slots.free().take(3).collect::<Vec<_>>(), [1, 3, 4]);
        slots.put(4, "e");
        slots.put(1, "d");
        let all: Vec<_> = slots.iter().collect();
        assert_eq!(all, [(0, &"a"), (1, &"d"), (2, &"c"), (4, &"e")]);
        assert_eq!((slots.len(), slots.end(), slots.free().next()), (4, 5, Some(3)));
    }
}
