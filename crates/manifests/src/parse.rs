//! YAML (and JSON, which is YAML) into nodes that know their lines.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::node::{Data, Entry, Mark, Node};
use crate::scalar;

/// More values in one document come from aliases of aliases, and no API server would take them.
const MAX_NODES: usize = 1_000_000;
/// Deeper documents are refused: walking them would use up the stack.
const MAX_DEPTH: usize = 100;

/// Text that is no YAML, or YAML that is no JSON.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) mark: Mark,
    pub(crate) message: String,
}

/// The documents of a text. As with kubectl, `---` ends a broken one.
pub(crate) fn documents(text: &str) -> Vec<Result<Node, Broken>> {
    let mut found = Vec::new();
    for (line, chunk) in chunks(text) {
        let mut reader = Reader { line, ..Reader::default() };
        let result = reader.read(chunk);
        found.extend(reader.documents.into_iter().map(Ok));
        found.extend(result.err().map(Err));
    }
    found
}

/// The parts between lines of `---`, each with the number of lines before it.
fn chunks(text: &str) -> Vec<(usize, &str)> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        let separator = line.strip_prefix("---").is_some_and(|rest| {
            rest.trim().is_empty() || (rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#'))
        });
        if separator {
            chunks.push((start_line, &text[start..at - line.len()]));
            (start, start_line) = (at, number + 1);
        }
    }
    chunks.push((start_line, &text[start..]));
    chunks
}

/// A collection whose end has not come yet.
enum Open {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<(String, bool, Mark)>),
}

struct Frame {
    open: Open,
    mark: Mark,
    anchor: usize,
    size: usize,
    depth: usize,
}

/// A finished value with what it costs to repeat it.
#[derive(Clone)]
struct Built {
    node: Node,
    size: usize,
    depth: usize,
    /// The key `<<`, when the value is used as a key.
    merge: bool,
    key: Option<String>,
}

#[derive(Default)]
struct Reader {
    line: usize,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    nodes: usize,
    documents: Vec<Node>,
}

impl Reader {
    fn read(&mut self, text: &str) -> Result<(), Broken> {
        for next in Parser::new_from_str(text) {
            let (event, span) = next.map_err(|error| Broken {
                mark: self.mark_at(error.marker()),
                message: format!("broken YAML: {}", error.info()),
            })?;
            self.event(event, &span)?;
        }
        Ok(())
    }

    fn mark_at(&self, marker: &granit_parser::Marker) -> Mark {
        Mark { line: marker.line() + self.line, column: marker.col() + 1 }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Broken> {
        let mark = self.mark_at(&span.start);
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                self.nodes = 0;
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let built = scalar_of(&text, style, tag.as_deref(), mark);
                self.keep(anchor, &built);
                self.add(built)
            }
            Event::SequenceStart(_, anchor, _) => self.open(Open::List(Vec::new()), mark, anchor),
            Event::MappingStart(_, anchor, _) => self.open(Open::Map(Vec::new(), None), mark, anchor),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(built) => self.add(built),
                None => Err(Broken { mark, message: "broken YAML: an alias inside its own anchor".into() }),
            },
            _ => Ok(()),
        }
    }

    fn keep(&mut self, anchor: usize, built: &Built) {
        if anchor > 0 {
            self.anchors.insert(anchor, built.clone());
        }
    }

    fn open(&mut self, open: Open, mark: Mark, anchor: usize) -> Result<(), Broken> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(too_deep(mark));
        }
        self.stack.push(Frame { open, mark, anchor, size: 1, depth: 1 });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Broken> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let data = match frame.open {
            Open::List(items) => Data::List(items),
            Open::Map(entries, _) => Data::Map(entries),
        };
        let node = Node::new(frame.mark, data);
        let built = Built { node, size: frame.size, depth: frame.depth, merge: false, key: None };
        self.keep(frame.anchor, &built);
        self.add(built)
    }

    fn add(&mut self, built: Built) -> Result<(), Broken> {
        let mark = built.node.mark;
        self.nodes += built.size;
        if self.nodes > MAX_NODES {
            let message = format!("a document of more than {MAX_NODES} values; write it without aliases");
            return Err(Broken { mark, message });
        }
        if self.stack.len() + built.depth > MAX_DEPTH {
            return Err(too_deep(mark));
        }
        let Some(frame) = self.stack.last_mut() else {
            self.documents.push(built.node);
            return Ok(());
        };
        frame.size += built.size;
        frame.depth = frame.depth.max(built.depth + 1);
        match &mut frame.open {
            Open::List(items) => items.push(built.node),
            Open::Map(_, slot @ None) => {
                let Some(key) = built.key else {
                    return Err(Broken {
                        mark,
                        message: "a key must be text, not a list or an object".into(),
                    });
                };
                *slot = Some((key, built.merge, mark));
            }
            Open::Map(entries, slot) => {
                if let Some((key, merge, key_mark)) = slot.take() {
                    if merge {
                        merge_into(entries, built.node)?;
                    } else {
                        insert(entries, Entry { key, mark: key_mark, value: built.node })?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn too_deep(mark: Mark) -> Broken {
    Broken { mark, message: format!("lists and objects more than {MAX_DEPTH} deep in each other") }
}

fn scalar_of(text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: Mark) -> Built {
    let plain = style == ScalarStyle::Plain;
    let data = match tag.and_then(Tag::core_suffix) {
        Some("str") => Data::Text(text.to_owned()),
        Some(_) => scalar::resolve(text),
        // The tag `!` says: do not resolve.
        None if plain && tag.is_none() => scalar::resolve(text),
        None => Data::Text(text.to_owned()),
    };
    let key = if plain && tag.is_none() { scalar::key(text) } else { text.to_owned() };
    let merge = plain && text == "<<";
    Built { node: Node::new(mark, data), size: 1, depth: 0, merge, key: Some(key) }
}

/// Marks entries that a merge brought, which a field of the object itself replaces.
fn merge_into(entries: &mut Vec<Entry>, node: Node) -> Result<(), Broken> {
    match node.data {
        Data::Map(merged) => {
            for entry in merged {
                if !entries.iter().any(|own| own.key == entry.key) {
                    // The line 0 says that it is not the object's own; see `insert`.
                    entries.push(Entry { mark: Mark::default(), ..entry });
                }
            }
            Ok(())
        }
        Data::List(items) => items.into_iter().try_for_each(|item| merge_into(entries, item)),
        _ => Err(Broken { mark: node.mark, message: "`<<` needs an object, or a list of objects".into() }),
    }
}

fn insert(entries: &mut Vec<Entry>, entry: Entry) -> Result<(), Broken> {
    match entries.iter_mut().find(|own| own.key == entry.key) {
        Some(merged) if merged.mark == Mark::default() => *merged = entry,
        Some(own) => {
            let message =
                format!("the field `{}` is written twice, first in line {}", entry.key, own.mark.line);
            return Err(Broken { mark: entry.mark, message });
        }
        None => entries.push(entry),
    }
    Ok(())
}

/// The line of an entry: of its key, or, when a merge brought it, of its value.
pub(crate) fn line_of(entry: &Entry) -> Mark {
    if entry.mark == Mark::default() { entry.value.mark } else { entry.mark }
}
