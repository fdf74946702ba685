//! Metadata: values of thirteen types under keys.

use super::cursor::Cursor;
use super::write::write_gguf_string;
use crate::error::Result;
use std::fmt;
use std::io::Read;

/// The number of the type of arrays in files.
const ARRAY: u32 = 9;

macro_rules! numbers {
    ($($variant:ident $t:ident $id:literal)*) => {
        /// A value of the metadata of a GGUF file.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)] // The variants are called as their types.
        pub enum Meta { $($variant($t),)* Bool(bool), String(String), Array(MetaArray) }

        /// An array of metadata: values of one type, which is no array.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum MetaArray { $($variant(Vec<$t>),)* Bool(Vec<bool>), String(Vec<String>) }

        impl Meta {
            /// The number of the type in files.
            pub fn type_id(&self) -> u32 {
                match self { $(Meta::$variant(_) => $id,)* Meta::Bool(_) => 7, Meta::String(_) => 8, Meta::Array(_) => ARRAY }
            }

            /// Reads a value of type `id`.
            pub(super) fn read<R: Read>(id: u32, from: &mut Cursor<R>) -> Result<Meta> {
                Ok(match id {
                    $($id => Meta::$variant($t::from_le_bytes(from.array()?)),)*
                    7 => Meta::Bool(read_metadata_bool(from)?),
                    8 => Meta::String(from.string("bytes of a text")?),
                    ARRAY => {
                        let id = from.u32()?;
                        Meta::Array(MetaArray::read(id, from)?)
                    }
                    _ => return Err(from.error(format!("type {id} of a value is not known"))),
                })
            }

            pub(super) fn write(&self, to: &mut Vec<u8>) {
                match self {
                    $(Meta::$variant(x) => to.extend(x.to_le_bytes()),)*
                    Meta::Bool(x) => to.push(u8::from(*x)),
                    Meta::String(x) => write_gguf_string(x, to),
                    Meta::Array(x) => x.write(to),
                }
            }
        }

        impl MetaArray {
            /// The number of the type of the elements in files.
            pub fn type_id(&self) -> u32 {
                match self { $(MetaArray::$variant(_) => $id,)* MetaArray::Bool(_) => 7, MetaArray::String(_) => 8 }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(MetaArray::$variant(x) => x.len(),)* MetaArray::Bool(x) => x.len(), MetaArray::String(x) => x.len() }
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
                }
            }

            fn read<R: Read>(id: u32, from: &mut Cursor<R>) -> Result<MetaArray> {
                let count = from.u64()?;
                Ok(match id {
                    $($id => {
                        let bytes = size_of::<$t>() as u64;
                        let n = from.fits(count, bytes, "numbers of an array")? as u64;
                        let all = from.bytes(n * bytes, "bytes of an array")?;
                        MetaArray::$variant(all.as_chunks().0.iter().map(|b| $t::from_le_bytes(*b)).collect())
                    })*
                    7 => {
                        let n = from.fits(count, 1, "bools of an array")?;
                        MetaArray::Bool((0..n).map(|_| read_metadata_bool(from)).collect::<Result<_>>()?)
                    }
                    8 => {
                        let n = from.fits(count, 8, "texts of an array")?;
                        let mut all = Vec::new();
                        for _ in 0..n {
                            all.push(from.string("bytes of a text")?);
                        }
                        MetaArray::String(all)
                    }
                    ARRAY => return Err(from.error("an array of arrays, which is not supported")),
                    _ => return Err(from.error(format!("type {id} of an array's elements is not known"))),
                })
            }

            fn write(&self, to: &mut Vec<u8>) {
                to.extend(self.type_id().to_le_bytes());
                to.extend((self.len() as u64).to_le_bytes());
                match self {
                    $(MetaArray::$variant(x) => x.iter().for_each(|x| to.extend(x.to_le_bytes())),)*
                    MetaArray::Bool(x) => to.extend(x.iter().map(|&x| u8::from(x))),
                    MetaArray::String(x) => x.iter().for_each(|x| write_gguf_string(x, to)),
                }
            }
        }

        impl fmt::Display for Meta {
            /// A text as it is, numbers as Rust prints them, an array as its elements in brackets.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Meta::$variant(x) => write!(f, "{x}"),)*
                    Meta::Bool(x) => write!(f, "{x}"),
                    Meta::String(x) => f.write_str(x),
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

fn read_metadata_bool<R: Read>(from: &mut Cursor<R>) -> Result<bool> {
    match from.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [x] => Err(from.error(format!("a bool is {x}; it may be 0 or 1"))),
    }
}
