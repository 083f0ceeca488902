//! Reading JSON for a few fields and forgiving the rest: the wrong type is the same as absent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// What a value of interest takes from whatever JSON stands in its place. Each method that is not
/// written ignores what it is given, so that nothing is ever of the wrong type.
pub(super) trait Take<'de>: Default {
    /// An object's field: must read its value from `map`.
    fn field<A: MapAccess<'de>>(&mut self, _name: &str, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }

    /// An array's next element: must read it from `list`; false at the end.
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        Ok(list.next_element::<IgnoredAny>()?.is_some())
    }

    /// A string.
    fn string(&mut self, _text: &str) {}

    /// A number that is an integer from zero up.
    fn number(&mut self, _number: u64) {}
}

/// Fills a value from any JSON, in place: returned by value it would be copied at every level.
pub(super) struct Fill<'t, T>(pub(super) &'t mut T);

impl<'de, T: Take<'de>> DeserializeSeed<'de> for Fill<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.0 = T::default();
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Take<'de>> Visitor<'de> for Fill<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            self.0.field(&name, &mut map)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.0.element(&mut list)? {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.string(text);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.number(number);
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // 2^53: up to here every integer is exactly itself.
        if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
            self.0.number(number as u64);
        }
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Fills `value` from a whole JSON text.
pub(super) fn fill<'de, T: Take<'de>>(
    json: &'de str,
    value: &mut T,
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    Fill(value).deserialize(&mut deserializer)?;
    deserializer.end()
}

/// A field's name, copied only if it has escapes.
pub(super) struct Name<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

/// The value of the field at hand, as it is written.
pub(super) fn raw<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de str, A::Error> {
    map.next_value::<&'de RawValue>().map(RawValue::get)
}

/// The inside of the field at hand if it is a string, else empty.
pub(super) fn raw_string<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de str, A::Error> {
    raw(map).map(inside)
}

/// The inside of `json` if it is a string, else empty.
pub(super) fn inside(json: &str) -> &str {
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default()
}

/// The field at hand, read leniently.
pub(super) fn lenient<'de, A: MapAccess<'de>, T: Take<'de>>(map: &mut A) -> Result<T, A::Error> {
    let mut value = T::default();
    map.next_value_seed(Fill(&mut value))?;
    Ok(value)
}

/// What is inside a value that was taken as it is written; nothing if it is absent.
pub(super) fn inner<'a, T: Take<'a>>(json: &'a str) -> T {
    let mut value = T::default();
    // An error of the JSON reader takes memory, which what is absent need not.
    match json.is_empty() || fill(json, &mut value).is_ok() {
        true => value,
        false => T::default(),
    }
}

/// The count that `json` is, if it is one.
pub(super) fn count(json: &str) -> Option<u64> {
    inner::<Count>(json).0
}

#[derive(Default)]
struct Count(Option<u64>);

impl Take<'_> for Count {
    fn number(&mut self, number: u64) {
        self.0 = Some(number);
    }
}

/// How many elements an array has; 0 of anything else.
#[derive(Default)]
pub(super) struct Length(pub(super) u32);

impl<'de> Take<'de> for Length {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let more = list.next_element::<IgnoredAny>()?.is_some();
        self.0 = self.0.saturating_add(u32::from(more));
        Ok(more)
    }
}
