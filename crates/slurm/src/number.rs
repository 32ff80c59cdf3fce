//! Slurm's number that may be missing or endless: `{"set": true, "infinite": false, "number": 5}`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A number as Slurm's REST API writes it.
///
/// Older data parsers write a plain number (or a text) where newer ones write the object, so all of them are
/// read. What is no number at all reads as [`Number::Unset`].
///
/// ```
/// use slurm::Number;
///
/// let limit: Number = serde_json::from_str(r#"{"set": true, "infinite": false, "number": 60}"#)?;
/// assert_eq!(limit, Number::Value(60));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Number {
    /// Slurm says nothing.
    #[default]
    Unset,
    /// No limit.
    Infinite,
    /// This many.
    Value(u64),
}

impl Number {
    /// The number, if there is one.
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Value(number) => Some(number),
            Self::Unset | Self::Infinite => None,
        }
    }

    /// The number, or 0.
    pub const fn or_zero(self) -> u64 {
        match self {
            Self::Value(number) => number,
            Self::Unset | Self::Infinite => 0,
        }
    }

    /// The number as 32 bits, or 0; a greater one becomes the greatest.
    pub fn or_zero_u32(self) -> u32 {
        u32::try_from(self.or_zero()).unwrap_or(u32::MAX)
    }

    /// The number as 32 bits, if there is one that fits.
    pub fn value_u32(self) -> Option<u32> {
        self.value().and_then(|number| u32::try_from(number).ok())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("unset"),
            Self::Infinite => f.write_str("infinite"),
            Self::Value(number) => write!(f, "{number}"),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or an object with set, infinite and number")
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Unset)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Number, E> {
        Ok(Number::Value(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
        Ok(Number::Value(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
        Ok(u64::try_from(value).map_or(Number::Unset, Number::Value))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float to an integer saturates, and only what is not negative gets here"
    )]
    fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
        Ok(if value == f64::INFINITY {
            Number::Infinite
        } else if value >= 0.0 {
            Number::Value(value as u64)
        } else {
            Number::Unset
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Number, E> {
        let value = value.trim();
        if value.eq_ignore_ascii_case("infinite") || value.eq_ignore_ascii_case("unlimited") {
            return Ok(Number::Infinite);
        }
        Ok(value.parse().map_or(Number::Unset, Number::Value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        let (mut set, mut infinite, mut number) = (true, false, Number::Unset);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Set => set = map.next_value()?,
                Key::Infinite => infinite = map.next_value()?,
                Key::Number => number = map.next_value()?,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // Slurm writes `set: true, infinite: true` in some versions and `set: false, infinite: true` in others.
        Ok(if infinite {
            Number::Infinite
        } else if set {
            number
        } else {
            Number::Unset
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number::Unset)
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Set,
    Infinite,
    Number,
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Number {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_object_has_three_meanings() {
        assert_eq!(read(r#"{"set": true, "infinite": false, "number": 7}"#), Number::Value(7));
        assert_eq!(read(r#"{"set": false, "infinite": false, "number": 0}"#), Number::Unset);
        assert_eq!(read(r#"{"set": true, "infinite": true, "number": 0}"#), Number::Infinite);
        assert_eq!(read(r#"{"set": false, "infinite": true, "number": 0}"#), Number::Infinite);
    }

    #[test]
    fn the_order_of_the_keys_and_new_keys_do_not_matter() {
        assert_eq!(read(r#"{"number": 7, "new": [1], "infinite": false, "set": true}"#), Number::Value(7));
    }

    #[test]
    fn plain_numbers_and_texts_of_older_versions_are_read() {
        assert_eq!(read("7"), Number::Value(7));
        assert_eq!(read("7.9"), Number::Value(7));
        assert_eq!(read("\"7\""), Number::Value(7));
        assert_eq!(read("\"UNLIMITED\""), Number::Infinite);
    }

    #[test]
    fn what_is_no_number_is_unset_and_no_error() {
        for json in ["null", "-1", "-1.5", "\"\"", "\"x\"", "[]", "{}", "[{\"set\": true}]"] {
            assert_eq!(read(json), Number::Unset, "{json}");
        }
    }
}
