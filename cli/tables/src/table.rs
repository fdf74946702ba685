//! Tables that know their keys: `table!` declares a struct for serde, and says of each key what the reference page of
//! configurations does.

/// The default of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowDefault {
    /// A value, as TOML has it.
    Value(&'static str),
    /// Values that depend on the task.
    ByTask {
        /// For task images.
        images: &'static str,
        /// For task chargpt.
        chargpt: &'static str,
    },
    /// What stands in for the key.
    Text(&'static str),
    /// None: the key must be given.
    Required,
    /// The kind of optimiser or schedule has it.
    ByKind,
}

/// A key of a table.
#[derive(Debug)]
pub struct KeyRow {
    /// The key.
    pub key: &'static str,
    /// Its type, in words.
    pub ty: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// Its default.
    pub default: RowDefault,
    /// A value that is not the default.
    pub example: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// A table of a configuration.
pub trait Table {
    /// Its keys, in the order of the reference page.
    const KEYS: &'static [KeyRow];
}

/// The type of a key.
pub trait KeyType {
    /// The type in words.
    const WORDS: &'static str;
    /// That of a list of such values.
    const LIST: &'static str = "list";
}

impl<T: KeyType> KeyType for Option<T> {
    const WORDS: &'static str = T::WORDS;
}

impl<T: KeyType> KeyType for Box<T> {
    const WORDS: &'static str = T::WORDS;
}

impl<T: KeyType> KeyType for Vec<T> {
    const WORDS: &'static str = T::LIST;
}

/// Types and their words; in brackets those of a list.
#[macro_export]
macro_rules! key_types {
    ($($ty:ty = $words:literal $([$list:literal])?,)*) => {$(
        impl $crate::table::KeyType for $ty {
            const WORDS: &'static str = $words;
            $(const LIST: &'static str = $list;)?
        }
    )*};
}

key_types! {
    bool = "true or false",
    f64 = "number",
    u32 = "whole number",
    u64 = "whole number" ["list of whole numbers"],
    usize = "whole number" ["list of whole numbers"],
    (f64, f64) = "list of 2 numbers",
    (f64, f64, f64) = "list of 3 numbers",
    String = "text",
    std::path::PathBuf = "path",
}

/// Declares a [`Table`]. Each key is `/// meaning`, then `key: Type = default, "example" in "unit", #[attribute];`.
/// Unit and attributes may be left out. `Type as "words"` replaces the words of the type. Values are as TOML has them.
#[macro_export]
macro_rules! table {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {$(
        $(#[doc = $meaning:literal])+
        $key_vis:vis $key:ident: $ty:ty $(as $words:literal)? =
            $default:expr, $example:literal $(in $unit:literal)? $(, #[$attr:meta])*;
    )*}) => {
        $(#[$meta])*
        $vis struct $name {$(
            $(#[doc = $meaning])+
            $(#[$attr])*
            $key_vis $key: $ty,
        )*}

        impl $crate::table::Table for $name {
            const KEYS: &'static [$crate::table::KeyRow] = {
                use $crate::table::RowDefault::*;
                &[$($crate::table::KeyRow {
                    key: stringify!($key),
                    ty: $crate::words!($ty $(, $words)?),
                    unit: concat!($($unit)?),
                    default: $default,
                    example: $example,
                    meaning: concat!($($meaning),+),
                }),*]
            };
        }

        $crate::key_types! { $name = "table" ["list of tables"], }
    };
}

/// The words of a type, or those that replace them.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($ty:ty) => {
        <$ty as $crate::table::KeyType>::WORDS
    };
    ($ty:ty, $words:literal) => {
        $words
    };
}
