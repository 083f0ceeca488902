//! Reading JSON for a few fields and forgiving the rest: the wrong type is the same as absent.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
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

/// Reads a `T` out of any JSON.
pub(super) struct Lenient<T>(pub(super) T);

impl<'de, T: Take<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Taker(PhantomData)).map(Self)
    }
}

struct Taker<T>(PhantomData<T>);

impl<'de, T: Take<'de>> Visitor<'de> for Taker<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut taken = T::default();
        while let Some(Name(name)) = map.next_key()? {
            taken.field(&name, &mut map)?;
        }
        Ok(taken)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let mut taken = T::default();
        while taken.element(&mut list)? {}
        Ok(taken)
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        let mut taken = T::default();
        taken.string(text);
        Ok(taken)
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        let mut taken = T::default();
        taken.number(number);
        Ok(taken)
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        let mut taken = T::default();
        // 2^53: up to here every integer is exactly itself.
        if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
            taken.number(number as u64);
        }
        Ok(taken)
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// A field's name, copied only if it has escapes.
struct Name<'de>(Cow<'de, str>);

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
    map.next_value::<Lenient<T>>().map(|Lenient(taken)| taken)
}

/// A count, where one is given.
#[derive(Default)]
pub(super) struct Count(pub(super) Option<u64>);

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
