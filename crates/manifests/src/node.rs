//! A value of a document, and where it was written.

/// A place in the text, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A value and the place where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of an object. The order is that of the text.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Where the key is, which is where users look for the field.
    pub(crate) mark: Mark,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn new(mark: Mark, data: Data) -> Self {
        Self { mark, data }
    }

    /// The value of a JSON document, as if it were written at `mark`.
    pub(crate) fn from_json(mark: Mark, value: &serde_json::Value) -> Self {
        use serde_json::Value;
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(value) => Data::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(value) => Data::Int(value),
                None => Data::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Data::Text(text.clone()),
            Value::Array(items) => Data::List(items.iter().map(|item| Self::from_json(mark, item)).collect()),
            Value::Object(fields) => Data::Map(
                fields
                    .iter()
                    .map(|(key, value)| Entry { key: key.clone(), mark, value: Self::from_json(mark, value) })
                    .collect(),
            ),
        };
        Self { mark, data }
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Int(value) => Value::from(*value),
            Data::Float(value) => Value::from(*value),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
            ),
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.data {
            Data::Map(entries) => {
                entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
            }
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.data, Data::Null)
    }

    /// What the value is, in the words of a schema.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.data {
            Data::Null => "null",
            Data::Bool(_) => "boolean",
            Data::Int(_) => "integer",
            Data::Float(_) => "number",
            Data::Text(_) => "string",
            Data::List(_) => "array",
            Data::Map(_) => "object",
        }
    }

    /// Whether two values are equal, wherever they are written and however their fields are ordered.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.data, &other.data) {
            (Data::Null, Data::Null) => true,
            (Data::Bool(a), Data::Bool(b)) => a == b,
            (Data::Int(a), Data::Int(b)) => a == b,
            (Data::Float(a), Data::Float(b)) => a == b,
            (Data::Text(a), Data::Text(b)) => a == b,
            (Data::List(a), Data::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Data::Map(a), Data::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|entry| other.get(&entry.key).is_some_and(|value| value.same(&entry.value)))
            }
            _ => false,
        }
    }
}

/// Where a value is inside an object, as the API server writes it: `spec.items[0].path`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn field(&self, key: &str) -> Self {
        let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        // By hand, because every field of every object comes by here several times.
        let mut path = String::with_capacity(self.0.len() + key.len() + 2);
        path.push_str(&self.0);
        match (plain, self.0.is_empty()) {
            (true, true) => path.push_str(key),
            (true, false) => path.extend([".", key]),
            (false, _) => path.extend(["[", key, "]"]),
        }
        Self(path)
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of something that is at `below`, seen from here.
    pub(crate) fn then(&self, below: &str) -> Self {
        match (self.0.is_empty(), below.is_empty()) {
            (true, _) => Self(below.into()),
            (_, true) => self.clone(),
            _ => Self(format!("{}.{below}", self.0)),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
