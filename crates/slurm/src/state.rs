//! A state as Slurm writes it: one base word and any number of flags. Words that we do not know are kept as they came.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A word of Slurm's that we know.
pub trait StateWord: Copy + Debug + Eq + Hash + 'static {
    /// All of them, with Slurm's spelling.
    const WORDS: &'static [(Self, &'static str)];

    /// Slurm's word for it.
    fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(word, _)| *word == self).map_or("", |(_, name)| *name)
    }

    /// The word of this spelling.
    fn of_name(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(word, _)| *word)
    }

    /// Its place in a set.
    fn bit(self) -> u32 {
        Self::WORDS.iter().position(|(word, _)| *word == self).map_or(0, |place| 1 << place)
    }
}

/// Makes an enum of Slurm's words: `Name = "NAME",` each.
macro_rules! state_words {
    ($(#[$doc:meta])* $type:ident: $($(#[$word_doc:meta])* $word:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is Slurm's word for it")]
        pub enum $type { $($(#[$word_doc])* $word,)* }

        impl $crate::state::StateWord for $type {
            const WORDS: &'static [(Self, &'static str)] = &[$((Self::$word, $name),)*];
        }

        // A set of them is 32 bits.
        const _: () = assert!(<$type as $crate::state::StateWord>::WORDS.len() <= 32);
    };
}
pub(crate) use state_words;

/// One base word and any number of flags.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<Base, Flag> {
    base: Option<Base>,
    flags: u32,
    // Nearly always none, so it costs a pointer and no more.
    unknown: Option<Box<Unknown>>,
    flag: PhantomData<Flag>,
}

/// Words that we do not know, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unknown(Vec<Box<str>>);

impl<Base, Flag> Default for State<Base, Flag> {
    fn default() -> Self {
        Self { base: None, flags: 0, unknown: None, flag: PhantomData }
    }
}

impl<Base: StateWord, Flag: StateWord> State<Base, Flag> {
    /// Reads the words that Slurm writes for a state.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut state = Self::default();
        for word in words {
            state.add(word);
        }
        state
    }

    fn add(&mut self, word: &str) {
        let word = word.trim();
        if word.is_empty() {
            return;
        }
        if let Some(base) = Base::of_name(word) {
            if self.base.is_none_or(|known| known == base) {
                self.base = Some(base);
                return;
            }
            // Two bases contradict each other: the second makes the state one that we cannot read.
        } else if let Some(flag) = Flag::of_name(word) {
            self.flags |= flag.bit();
            return;
        }
        self.unknown.get_or_insert_default().0.push(word.into());
    }

    /// The base state; none when Slurm sent none, or one that we do not know.
    pub fn base(&self) -> Option<Base> {
        self.base
    }

    /// Whether the flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// The flags that are set, in a fixed order.
    pub fn flags(&self) -> impl Iterator<Item = Flag> + '_ {
        Flag::WORDS.iter().map(|(flag, _)| *flag).filter(|flag| self.has(*flag))
    }

    /// The words that we do not know, as they came.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().flat_map(|unknown| &unknown.0).map(AsRef::as_ref)
    }

    /// Whether every word of the state has a meaning to us, and it has a base.
    pub fn is_understood(&self) -> bool {
        self.base.is_some() && self.unknown.is_none()
    }
}

impl<Base: StateWord, Flag: StateWord> fmt::Display for State<Base, Flag> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<&str> = self.base.iter().map(|base| base.name()).collect();
        words.extend(self.flags().map(|flag| flag.name()));
        words.extend(self.unknown());
        f.write_str(&words.join("+"))
    }
}

impl<'de, Base: StateWord, Flag: StateWord> Deserialize<'de> for State<Base, Flag> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StateVisitor(PhantomData))
    }
}

struct StateVisitor<Base, Flag>(PhantomData<(Base, Flag)>);

impl<'de, Base: StateWord, Flag: StateWord> Visitor<'de> for StateVisitor<Base, Flag> {
    type Value = State<Base, Flag>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words of a state")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(State::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(State::from_words(text.split(['+', ','])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut state = State::default();
        while let Some(word) = seq.next_element::<crate::wire::Text<'de>>()? {
            state.add(&word);
        }
        Ok(state)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(State::default())
    }
}
