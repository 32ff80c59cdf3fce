//! Keeps one copy of each text that many records share.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

// A fixed hasher: no randomness in this crate, and nobody ever sees the order.
type Set<T> = HashSet<Arc<T>, BuildHasherDefault<DefaultHasher>>;

/// Texts that are there once, however many records name them.
///
/// A snapshot of 100,000 jobs has few users, partitions and reasons.
#[derive(Debug, Default)]
pub struct Interner {
    /// Most texts of most records are empty.
    empty: Arc<str>,
    texts: Set<str>,
    origins: Set<crate::JobOrigin>,
}

impl Interner {
    /// The one copy of the text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return Arc::clone(&self.empty);
        }
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// The one copy of where jobs come from.
    pub(crate) fn origin(&mut self, origin: crate::JobOrigin) -> Arc<crate::JobOrigin> {
        one_copy(&mut self.origins, origin)
    }

    /// Forgets what no record uses any more.
    pub fn shrink(&mut self) {
        self.origins.retain(|origin| Arc::strong_count(origin) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }
}

fn one_copy<T: Hash + Eq>(set: &mut Set<T>, value: T) -> Arc<T> {
    if let Some(known) = set.get(&value) {
        return Arc::clone(known);
    }
    let new = Arc::new(value);
    set.insert(Arc::clone(&new));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_the_same_memory() {
        let mut interner = Interner::default();
        let (one, two) = (interner.text("gpu"), interner.text("gpu"));
        assert!(Arc::ptr_eq(&one, &two));
        assert!(!Arc::ptr_eq(&one, &interner.text("cpu")));
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let mut interner = Interner::default();
        let kept = interner.text("kept");
        drop(interner.text("gone"));
        interner.shrink();
        assert_eq!(interner.texts.len(), 1);
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
    }
}
