//! A deserializer around another one, that leaves out the fields a struct does
//! not name and writes them down. Everything else is passed on as it is.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer as _,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::Value;

use super::unknown::{Step, Unknown};

pub(super) fn read<'de, T, D>(reader: D, unknown: &mut Unknown) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let mut place = RecordPath {
        path: Vec::new(),
        unknown,
    };
    T::deserialize(Lenient {
        inner: reader,
        place: &mut place,
    })
}

/// Where in the record the reader is, and what was left out so far.
struct RecordPath<'a> {
    path: Vec<Step>,
    unknown: &'a mut Unknown,
}

/// Around a deserializer, a visitor, a seed or an access.
struct Lenient<'p, 'u, T> {
    inner: T,
    place: &'p mut RecordPath<'u>,
}

impl<'p, 'u, T> Lenient<'p, 'u, T> {
    fn new(inner: T, place: &'p mut RecordPath<'u>) -> Self {
        Self { inner, place }
    }
}

macro_rules! pass_on {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(Lenient::new(visitor, self.place))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<'_, '_, D> {
    type Error = D::Error;

    pass_on! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.place);
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.place);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.place);
        self.inner.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.place);
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    /// Here a type lists the fields it knows, also by their other names.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Fields {
            inner: visitor,
            known: fields,
            place: self.place,
        };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.place);
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit_on {
    ($($method:ident: $type:ty)*) => {$(
        fn $method<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Lenient<'_, '_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit_on! {
        visit_bool: bool visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64
        visit_i128: i128 visit_u8: u8 visit_u16: u16 visit_u32: u32 visit_u64: u64
        visit_u128: u128 visit_f32: f32 visit_f64: f64 visit_char: char visit_str: &str
        visit_borrowed_str: &'de str visit_string: String visit_bytes: &[u8]
        visit_borrowed_bytes: &'de [u8] visit_byte_buf: Vec<u8>
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Lenient::new(reader, self.place))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        let reader = Lenient::new(reader, self.place);
        self.inner.visit_newtype_struct(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Items {
            inner: items,
            next: 0,
            place: self.place,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Entries {
            inner: entries,
            known: None,
            place: self.place,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Lenient::new(variant, self.place))
    }
}

/// Visits a struct, whose fields are known.
struct Fields<'p, 'u, V> {
    inner: V,
    known: &'static [&'static str],
    place: &'p mut RecordPath<'u>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<'_, '_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        Lenient::new(self.inner, self.place).visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Entries {
            inner: entries,
            known: Some(self.known),
            place: self.place,
        })
    }
}

/// The entries of a map, or of a struct without what it does not know.
struct Entries<'p, 'u, A> {
    inner: A,
    known: Option<&'static [&'static str]>,
    place: &'p mut RecordPath<'u>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, '_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.inner.next_key::<String>()? {
            let is_known = self.known.is_none_or(|known| known.contains(&&*name));
            self.place.path.push(Step::Field(name.clone()));
            if is_known {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            let value: Value = self.inner.next_value()?;
            self.place.unknown.add(&self.place.path, value);
            self.place.path.pop();
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let value = self.inner.next_value_seed(Lenient::new(seed, self.place));
        self.place.path.pop();
        value
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The items of a list.
struct Items<'p, 'u, A> {
    inner: A,
    next: usize,
    place: &'p mut RecordPath<'u>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, '_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.place.path.push(Step::Item(self.next));
        self.next += 1;
        let item = self.inner.next_element_seed(Lenient::new(seed, self.place));
        self.place.path.pop();
        item
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Lenient<'_, '_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Lenient::new(reader, self.place))
    }
}

impl<'de, 'p, 'u, A: EnumAccess<'de>> EnumAccess<'de> for Lenient<'p, 'u, A> {
    type Error = A::Error;
    type Variant = Variant<'p, 'u, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        // Its name is how the text has it: `{"variant": …}`.
        let (name, variant) = self.inner.variant_seed(VariantName(seed))?;
        let (name, value) = name;
        let inner = variant;
        let place = self.place;
        Ok((value, Variant { inner, name, place }))
    }
}

/// Reads the name of a variant, and keeps it.
struct VariantName<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for VariantName<S> {
    type Value = (String, S::Value);

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        let name: String = serde::Deserialize::deserialize(reader)?;
        let value = self.0.deserialize(name.clone().into_deserializer())?;
        Ok((name, value))
    }
}

/// What a variant holds.
struct Variant<'p, 'u, A> {
    inner: A,
    name: String,
    place: &'p mut RecordPath<'u>,
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Variant<'_, '_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let Self { inner, name, place } = self;
        place.path.push(Step::Field(name));
        let value = inner.newtype_variant_seed(Lenient::new(seed, place));
        place.path.pop();
        value
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let Self { inner, name, place } = self;
        place.path.push(Step::Field(name));
        let value = inner.tuple_variant(length, Lenient::new(visitor, place));
        place.path.pop();
        value
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let Self { inner, name, place } = self;
        place.path.push(Step::Field(name));
        let visitor = Fields {
            inner: visitor,
            known: fields,
            place: &mut *place,
        };
        let value = inner.struct_variant(fields, visitor);
        place.path.pop();
        value
    }
}
