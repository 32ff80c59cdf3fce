//! Texts, lists and switches, read whichever way a version of Slurm writes them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text that borrows from the answer where it can. `null`, a list or an object read as the empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Text<'_>> for Box<str> {
    fn from(text: Text<'_>) -> Self {
        text.0.into()
    }
}

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(if value { "true" } else { "false" })))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

/// A list of texts: a JSON list, or one text with commas, as older versions write it.
///
/// Kept as one text with commas, which is what costs least in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csv<'a>(Cow<'a, str>);

impl Deref for Csv<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Csv<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CsvVisitor)
    }
}

struct CsvVisitor;

impl<'de> Visitor<'de> for CsvVisitor {
    type Value = Csv<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts, or a text with commas")
    }

    fn visit_unit<E>(self) -> Result<Csv<'de>, E> {
        Ok(Csv::default())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Csv<'de>, E> {
        Ok(Csv(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Csv<'de>, E> {
        Ok(Csv(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Csv<'de>, A::Error> {
        let Some(first) = seq.next_element::<Text<'de>>()? else {
            return Ok(Csv::default());
        };
        let mut all = first.0;
        while let Some(text) = seq.next_element::<Text<'de>>()? {
            let all = all.to_mut();
            all.push(',');
            all.push_str(&text);
        }
        Ok(Csv(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Csv<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Csv::default())
    }
}

/// A switch: a JSON boolean, a number or a text. Anything else is neither on nor off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch(pub Option<bool>);

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        Ok(Self(match &*text {
            "true" | "1" | "yes" | "YES" => Some(true),
            "false" | "0" | "no" | "NO" => Some(false),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_from_anything() {
        let read = |json| serde_json::from_str::<Text<'_>>(json).unwrap().to_string();
        assert_eq!(read(r#""a\"b""#), "a\"b");
        assert_eq!(read("5"), "5");
        assert_eq!(read("-5"), "-5");
        assert_eq!(read("true"), "true");
        for json in ["null", "[1]", "{\"a\": {}}"] {
            assert_eq!(read(json), "");
        }
    }

    #[test]
    fn a_plain_text_is_not_copied() {
        let text: Text<'_> = serde_json::from_str("\"plain\"").unwrap();
        assert!(matches!(text.0, Cow::Borrowed(_)));
    }

    #[test]
    fn a_list_and_a_text_with_commas_are_the_same() {
        let read = |json| serde_json::from_str::<Csv<'_>>(json).unwrap().to_string();
        assert_eq!(read(r#"["a", "b", "c"]"#), "a,b,c");
        assert_eq!(read(r#""a,b,c""#), "a,b,c");
        for json in ["null", "[]", "{}"] {
            assert_eq!(read(json), "");
        }
    }

    #[test]
    fn a_switch_that_is_missing_is_not_off() {
        let read = |json| serde_json::from_str::<Switch>(json).unwrap().0;
        assert_eq!(read("true"), Some(true));
        assert_eq!(read("false"), Some(false));
        assert_eq!(read("1"), Some(true));
        assert_eq!(read("null"), None);
    }
}
