//! JSON Pointers (RFC 6901), all those of a template at once, over JSON that is taken apart only as
//! far as they reach.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::lenient::{Name, raw};

/// How many pointers one tree may hold: what they find lies on the stack.
pub const PLACES_MAX: usize = 32;

/// How far down a pointer may go: no answer is so deep.
const STEPS_MAX: usize = 64;

/// The names and indexes that a pointer goes through.
///
/// # Errors
///
/// What is wrong with it, to be said after the pointer.
pub(super) fn parse(pointer: &str) -> Result<Vec<String>, &'static str> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pointer.strip_prefix('/') else {
        return Err("a JSON Pointer begins with `/`, as in `/choices/0/text`");
    };
    let path: Vec<String> = rest.split('/').map(step).collect::<Result<_, _>>()?;
    if path.len() > STEPS_MAX {
        return Err("it goes more than 64 levels down");
    }
    Ok(path)
}

fn step(written: &str) -> Result<String, &'static str> {
    let mut name = String::with_capacity(written.len());
    let mut rest = written.chars();
    while let Some(character) = rest.next() {
        name.push(match character {
            '~' => match rest.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err("`~` is written `~0`, and `/` inside a name `~1`"),
            },
            other => other,
        });
    }
    Ok(name)
}

/// A place in a JSON text, and those below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The numbers of the pointers that end here.
    ends: Vec<usize>,
    below: Vec<Below>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Below {
    name: String,
    /// The name as the place in an array, if it can be one.
    index: Option<usize>,
    node: Node,
}

/// What the pointers of a tree find: JSON as it is written, empty where there is nothing.
pub(super) struct Values<'a> {
    /// By the number of the pointer.
    pub(super) at: [&'a str; PLACES_MAX],
    /// Strings and numbers of the outermost object that no pointer goes through.
    pub(super) idle: [&'a str; 3],
    idle_known: usize,
}

impl Node {
    /// Adds the pointer with this number, which is below [`PLACES_MAX`].
    pub(super) fn insert(&mut self, path: &[String], number: usize) {
        let [name, rest @ ..] = path else { return self.ends.push(number) };
        let at = match self.below.iter().position(|below| below.name == *name) {
            Some(at) => at,
            None => {
                let node = Self::default();
                self.below.push(Below { name: name.clone(), index: index(name), node });
                self.below.len() - 1
            }
        };
        self.below[at].node.insert(rest, number);
    }

    /// What all the pointers find in a JSON text.
    pub(super) fn find<'a>(&self, json: &'a str) -> Result<Values<'a>, serde_json::Error> {
        let mut values = Values { at: [""; PLACES_MAX], idle: [""; 3], idle_known: 0 };
        // A pointer to the whole needs all that is around it as well.
        let idle = self.ends.is_empty();
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Walk { node: self, values: &mut values, idle }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        self.mark(json.trim_ascii(), &mut values);
        Ok(values)
    }

    /// This value stands here.
    fn mark<'a>(&self, json: &'a str, values: &mut Values<'a>) {
        for number in &self.ends {
            if let Some(value) = values.at.get_mut(*number) {
                *value = json;
            }
        }
    }

    fn clear(&self, values: &mut Values<'_>) {
        self.mark("", values);
        self.below.iter().for_each(|below| below.node.clear(values));
    }
}

/// The place in an array that this name means, if any: digits without a zero before them.
fn index(name: &str) -> Option<usize> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (name == "0" || !name.starts_with('0'));
    plain.then(|| name.parse().ok())?
}

impl<'a> Values<'a> {
    fn note_idle(&mut self, json: &'a str) {
        let plain = json.starts_with(|first: char| first == '"' || first.is_ascii_digit());
        if let Some(free) = self.idle.get_mut(self.idle_known).filter(|_| plain) {
            *free = json;
            self.idle_known += 1;
        }
    }
}

struct Walk<'t, 'v, 'de> {
    node: &'t Node,
    values: &'v mut Values<'de>,
    /// Is what no pointer goes through to be noted?
    idle: bool,
}

/// Walks over the value at hand. It is taken as it is written only where a pointer ends.
impl<'de> DeserializeSeed<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A value that pointers go through or end at. Nothing that an earlier one of the same name held
/// remains.
struct Enter<'t, 'v, 'de> {
    node: &'t Node,
    values: &'v mut Values<'de>,
}

impl<'de> DeserializeSeed<'de> for Enter<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { node, values } = self;
        node.clear(values);
        if node.ends.is_empty() {
            return Walk { node, values, idle: false }.deserialize(deserializer);
        }
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        node.mark(json, values);
        if node.below.is_empty() {
            return Ok(());
        }
        let mut inside = serde_json::Deserializer::from_str(json);
        let walk = Walk { node, values, idle: false };
        walk.deserialize(&mut inside).map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            match self.node.below.iter().find(|below| below.name == *name) {
                Some(below) => {
                    map.next_value_seed(Enter { node: &below.node, values: &mut *self.values })?;
                }
                None if self.idle => self.values.note_idle(raw(&mut map)?),
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for at in 0.. {
            let more = match self.node.below.iter().find(|below| below.index == Some(at)) {
                Some(below) => {
                    let enter = Enter { node: &below.node, values: &mut *self.values };
                    list.next_element_seed(enter)?.is_some()
                }
                None => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
