//! Metadata: values of thirteen types under keys.

use super::bad_gguf;
use super::bounded_reader::{Cursor, escaped_gguf_text};
use crate::error::Result;
use std::fmt;
use std::io::Read;

/// The number of the type of arrays in files.
const ARRAY: u32 = 9;
/// How many arrays an array may stand in.
const DEEPEST: usize = 8;
/// Fewest bytes of an array: the type of its elements and their number.
const LEAST_ARRAY: u64 = 12;
/// The alignment of a file that names none.
const ALIGNMENT: u32 = 32;
/// The largest alignment.
const MOST_ALIGNMENT: u32 = 1 << 20;

macro_rules! numbers {
    ($($variant:ident $t:ident $id:literal)*) => {
        /// A value of the metadata of a GGUF file.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)] // The variants are called as their types.
        pub enum Meta {
            $($variant($t),)*
            Bool(bool),
            String(String),
            /// A text that is not UTF-8.
            Bytes(Vec<u8>),
            Array(MetaArray),
        }

        /// An array of metadata: values of one type.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum MetaArray {
            $($variant(Vec<$t>),)*
            Bool(Vec<bool>),
            String(Vec<String>),
            /// Texts, at least one of which is not UTF-8.
            Bytes(Vec<Vec<u8>>),
            Array(Vec<MetaArray>),
        }

        impl Meta {
            /// The number of the type in files.
            pub fn type_id(&self) -> u32 {
                match self { $(Meta::$variant(_) => $id,)* Meta::Bool(_) => 7, Meta::String(_) | Meta::Bytes(_) => 8, Meta::Array(_) => ARRAY }
            }

            /// Reads a value of type `id`.
            pub(super) fn read<R: Read>(id: u32, from: &mut Cursor<R>) -> Result<Meta> {
                Ok(match id {
                    $($id => Meta::$variant($t::from_le_bytes(from.array()?)),)*
                    7 => Meta::Bool(read_bool(from)?),
                    8 => String::from_utf8(from.text("bytes of a text")?).map_or_else(|e| Meta::Bytes(e.into_bytes()), Meta::String),
                    ARRAY => Meta::Array(MetaArray::read(0, from)?),
                    _ => return Err(from.error(format!("type {id} of a value is not known"))),
                })
            }

            pub(super) fn write(&self, to: &mut Vec<u8>) {
                match self {
                    $(Meta::$variant(x) => to.extend(x.to_le_bytes()),)*
                    Meta::Bool(x) => to.push(u8::from(*x)),
                    Meta::String(x) => append_string(x, to),
                    Meta::Bytes(x) => append_string(x, to),
                    Meta::Array(x) => x.write(to),
                }
            }
        }

        impl MetaArray {
            /// The number of the type of the elements in files.
            pub fn type_id(&self) -> u32 {
                match self { $(MetaArray::$variant(_) => $id,)* MetaArray::Bool(_) => 7, MetaArray::String(_) | MetaArray::Bytes(_) => 8, MetaArray::Array(_) => ARRAY }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(MetaArray::$variant(x) => x.len(),)*
                    MetaArray::Bool(x) => x.len(),
                    MetaArray::String(x) => x.len(),
                    MetaArray::Bytes(x) => x.len(),
                    MetaArray::Array(x) => x.len(),
                }
            }

            /// Whether there is no element.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Element `i` as a value.
            pub fn get(&self, i: usize) -> Option<Meta> {
                match self {
                    $(MetaArray::$variant(x) => x.get(i).map(|x| Meta::$variant(*x)),)*
                    MetaArray::Bool(x) => x.get(i).map(|x| Meta::Bool(*x)),
                    MetaArray::String(x) => x.get(i).map(|x| Meta::String(x.clone())),
                    MetaArray::Bytes(x) => x.get(i).map(|x| Meta::Bytes(x.clone())),
                    MetaArray::Array(x) => x.get(i).map(|x| Meta::Array(x.clone())),
                }
            }

            /// Reads an array that stands inside `depth` others.
            fn read<R: Read>(depth: usize, from: &mut Cursor<R>) -> Result<MetaArray> {
                let (id, count) = (from.u32()?, from.u64()?);
                Ok(match id {
                    $($id => {
                        let bytes = size_of::<$t>() as u64;
                        let n = from.fits(count, bytes, "numbers of an array")? as u64;
                        let all = from.bytes(n * bytes, "bytes of an array")?;
                        MetaArray::$variant(all.as_chunks().0.iter().map(|b| $t::from_le_bytes(*b)).collect())
                    })*
                    7 => {
                        let n = from.fits(count, 1, "bools of an array")?;
                        MetaArray::Bool((0..n).map(|_| read_bool(from)).collect::<Result<_>>()?)
                    }
                    8 => read_texts(count, from)?,
                    ARRAY if depth < DEEPEST => {
                        let n = from.fits(count, LEAST_ARRAY, "arrays of an array")?;
                        MetaArray::Array((0..n).map(|_| MetaArray::read(depth + 1, from)).collect::<Result<_>>()?)
                    }
                    ARRAY => return Err(from.error(format!("arrays in arrays, more than {DEEPEST} deep"))),
                    _ => return Err(from.error(format!("type {id} of an array's elements is not known"))),
                })
            }

            fn write(&self, to: &mut Vec<u8>) {
                to.extend(self.type_id().to_le_bytes());
                to.extend((self.len() as u64).to_le_bytes());
                match self {
                    $(MetaArray::$variant(x) => x.iter().for_each(|x| to.extend(x.to_le_bytes())),)*
                    MetaArray::Bool(x) => to.extend(x.iter().map(|&x| u8::from(x))),
                    MetaArray::String(x) => x.iter().for_each(|x| append_string(x, to)),
                    MetaArray::Bytes(x) => x.iter().for_each(|x| append_string(x, to)),
                    MetaArray::Array(x) => x.iter().for_each(|x| x.write(to)),
                }
            }
        }

        impl fmt::Display for Meta {
            /// A text as it is, with escapes for bytes that are not UTF-8; numbers as Rust prints them; an array as its
            /// elements in brackets.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Meta::$variant(x) => write!(f, "{x}"),)*
                    Meta::Bool(x) => write!(f, "{x}"),
                    Meta::String(x) => f.write_str(x),
                    Meta::Bytes(x) => f.write_str(&escaped_gguf_text(x)),
                    Meta::Array(x) => {
                        f.write_str("[")?;
                        for i in 0..x.len() {
                            let comma = if i == 0 { "" } else { ", " };
                            x.get(i).map_or(Ok(()), |x| write!(f, "{comma}{x}"))?;
                        }
                        f.write_str("]")
                    }
                }
            }
        }
    };
}

numbers! {
    U8 u8 0  I8 i8 1  U16 u16 2  I16 i16 3  U32 u32 4  I32 i32 5  F32 f32 6  U64 u64 10  I64 i64 11  F64 f64 12
}

impl Meta {
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Meta::String(x) => Some(x),
            _ => None,
        }
    }

    /// The number, if it is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Meta::U8(x) => Some(x.into()),
            Meta::U16(x) => Some(x.into()),
            Meta::U32(x) => Some(x.into()),
            Meta::U64(x) => Some(x),
            Meta::I8(x) => x.try_into().ok(),
            Meta::I16(x) => x.try_into().ok(),
            Meta::I32(x) => x.try_into().ok(),
            Meta::I64(x) => x.try_into().ok(),
            _ => None,
        }
    }
}

/// Reads the texts of an array.
fn read_texts<R: Read>(count: u64, from: &mut Cursor<R>) -> Result<MetaArray> {
    let n = from.fits(count, 8, "texts of an array")?;
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(from.text("bytes of a text")?);
    }
    if !all.iter().all(|text| std::str::from_utf8(text).is_ok()) {
        return Ok(MetaArray::Bytes(all));
    }
    Ok(MetaArray::String(all.into_iter().filter_map(|text| String::from_utf8(text).ok()).collect()))
}

fn read_bool<R: Read>(from: &mut Cursor<R>) -> Result<bool> {
    match from.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [x] => Err(from.error(format!("a bool is {x}; it may be 0 or 1"))),
    }
}

/// Writes a string: its length, then its bytes.
pub(super) fn append_string(x: impl AsRef<[u8]>, to: &mut Vec<u8>) {
    to.extend((x.as_ref().len() as u64).to_le_bytes());
    to.extend(x.as_ref());
}

/// The alignment that metadata names.
pub(super) fn find_alignment(metadata: &[(String, Meta)]) -> Result<u32> {
    match metadata.iter().find(|m| m.0 == "general.alignment").map(|m| &m.1) {
        None => Ok(ALIGNMENT),
        Some(Meta::U32(x)) if x.is_power_of_two() && *x <= MOST_ALIGNMENT => Ok(*x),
        Some(x) => {
            let text =
                format!("general.alignment is {x}; it must be a u32, a power of two, from 1 to {MOST_ALIGNMENT}");
            Err(bad_gguf(text))
        }
    }
}
