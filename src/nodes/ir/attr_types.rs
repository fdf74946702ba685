//! Typed attributes: one struct for each op. Its fields, in order, are the op's schema.
//!
//! ```text
//! attrs! {
//!     /// Which operands are transposed.
//!     pub struct MatmulAttrs { ta: bool, tb: bool }
//! }
//! // MatmulAttrs::FIELDS is the schema, MatmulAttrs::of(&attrs) reads, MatmulAttrs { .. }.list() writes.
//! ```
//!
//! Invariant: no other code reads an attribute by its position. Debug builds check that the struct fits the op's
//! schema.

use super::attrs::{Attr, Attrs, Field, Kind};
use super::dtype::DType;
use crate::arena::{Region, Shape, Sym};

/// A Rust type of an attribute.
pub trait AttrType: Sized {
    /// The kind in the schema.
    const KIND: Kind;

    /// True if a node may omit the attribute.
    const OPTIONAL: bool = false;

    /// Reads field `i`.
    fn read_attr(attrs: &Attrs<'_>, i: usize) -> Self;

    /// The attribute as [`Emit::emit`](super::emit::Emit::emit) takes it.
    fn write_attr(&self) -> Attr<'_>;
}

impl Field {
    /// The field of an attribute of type `T`.
    pub const fn of<T: AttrType>(name: &'static str) -> Field {
        if T::OPTIONAL { Field::optional(name, T::KIND) } else { Field::new(name, T::KIND) }
    }
}

macro_rules! attr_types {
    ($($ty:ty: $kind:ident, $read:ident, |$x:ident| $write:expr;)*) => {$(
        impl AttrType for $ty {
            const KIND: Kind = Kind::$kind;

            fn read_attr(attrs: &Attrs<'_>, i: usize) -> $ty {
                attrs.$read(i)
            }

            fn write_attr(&self) -> Attr<'_> {
                let $x = self;
                Attr::$kind($write)
            }
        }
    )*};
}

attr_types! {
    bool: Bool, bool, |x| *x;
    i64: Int, int, |x| *x;
    f64: F64, f64, |x| *x;
    DType: DType, dtype, |x| *x;
    Shape: Shape, shape, |x| *x;
    Sym: Sym, sym, |x| *x;
    Region: Region, region, |x| *x;
    Vec<i64>: Ints, ints, |x| x;
    Vec<f64>: Floats, floats, |x| x;
    Vec<u8>: Bytes, bytes, |x| x;
}

impl<T: AttrType> AttrType for Option<T> {
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;

    fn read_attr(attrs: &Attrs<'_>, i: usize) -> Option<T> {
        attrs.has(i).then(|| T::read_attr(attrs, i))
    }

    fn write_attr(&self) -> Attr<'_> {
        self.as_ref().map_or(Attr::Absent, T::write_attr)
    }
}

/// An enum whose variants have names in the text form. [`choice!`](crate::nodes::ir::attr_types::choice) writes it.
pub trait Choice: Copy + 'static {
    /// The names, in the order of the variants.
    const NAMES: &'static [&'static str];

    /// The variant with this index; the last if there is none.
    fn from_choice_index(i: u32) -> Self;

    /// The index of the variant.
    fn choice_index(self) -> u32;
}

impl<T: Choice> AttrType for T {
    const KIND: Kind = Kind::Choice(T::NAMES);

    fn read_attr(attrs: &Attrs<'_>, i: usize) -> T {
        T::from_choice_index(attrs.choice(i))
    }

    fn write_attr(&self) -> Attr<'_> {
        Attr::Choice(self.choice_index())
    }
}

/// Declares an enum of named variants: `choice! { pub enum Mask { None = "none", Causal = "causal" } }`.
#[macro_export]
macro_rules! op_choice {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$vmeta])* $variant),* }

        impl $crate::op::Choice for $name {
            const NAMES: &'static [&'static str] = &[$($text),*];

            fn from_choice_index(i: u32) -> $name {
                const ALL: &[$name] = &[$($name::$variant),*];
                ALL[(i as usize).min(ALL.len() - 1)]
            }

            fn choice_index(self) -> u32 {
                self as u32
            }
        }
    };
}

pub use crate::op_choice as choice;

/// Declares the attributes of an op: `attrs! { pub struct SoftmaxAttrs { axis: i64 } }`. `FIELDS` is their schema, `of`
/// reads them from a node, `list` gives them to a node.
#[macro_export]
macro_rules! op_attrs {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name { $($(#[$fmeta])* pub $field: $ty),* }

        #[allow(dead_code)] // Some ops are read only, some are written only.
        impl $name {
            /// The schema.
            pub const FIELDS: &'static [$crate::op::Field] = &[$(
                $crate::op::Field::of::<$ty>(stringify!($field))
            ),*];

            /// The attributes of a node of the op, or of an op whose schema begins with these fields.
            pub fn of(attrs: &$crate::op::Attrs<'_>) -> $name {
                debug_assert!(
                    attrs.fields.starts_with(Self::FIELDS),
                    "{} does not begin the schema {:?}",
                    stringify!($name),
                    attrs.fields
                );
                let mut next = 0..;
                let mut field = || next.next().unwrap_or_default();
                $name { $($field: <$ty as $crate::op::AttrType>::read_attr(attrs, field())),* }
            }

            /// The attributes as `Emit::emit` takes them.
            pub fn list(&self) -> [$crate::op::Attr<'_>; [$(stringify!($field)),*].len()] {
                [$($crate::op::AttrType::write_attr(&self.$field)),*]
            }
        }
    };
}

pub use crate::op_attrs as attrs;

#[cfg(test)]
mod tests {
    use super::{attrs, choice};
    use crate::nodes::ir::attrs::Attrs;

    choice! {
        enum Side { Left = "left", Right = "right" }
    }

    attrs! {
        struct Example { axis: i64, sizes: Vec<i64>, side: Side, keep: bool, scale: Option<f64> }
    }

    #[test]
    fn attributes_come_back_as_they_were_written() {
        for scale in [None, Some(0.5)] {
            round_trip(Example { axis: -1, sizes: vec![3, 1 << 40], side: Side::Right, keep: true, scale });
        }
    }

    fn round_trip(want: Example) {
        let mut words = Vec::new();
        for (attr, field) in want.list().iter().zip(Example::FIELDS) {
            attr.encode(field, &mut words).unwrap();
        }
        let attrs = Attrs { fields: Example::FIELDS, words: &words };
        assert_eq!(Example::of(&attrs), want);
        let names: Vec<&str> = Example::FIELDS.iter().map(|f| f.name).collect();
        assert_eq!(names, ["axis", "sizes", "side", "keep", "scale"]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Example does not begin the schema")]
    fn attributes_of_another_op_are_refused() {
        let fields = &Example::FIELDS[1..];
        Example::of(&Attrs { fields, words: &[0; 16] });
    }
}
