//! Decisions from bytes, so that proptest can shrink them: all zeros make the simplest world.

#[derive(Debug)]
pub(crate) struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.next()) % end.max(1)
    }

    /// Yes, in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        usize::from(self.next()) * 100 >= 256 * (100 - percent)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
