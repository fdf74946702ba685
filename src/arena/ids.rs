//! Ids: dense `u32` newtypes made by one macro. `Display` prints them as in the text form.
//!
//! An id is an index into the columns of the graph that made it. It means nothing in another graph.

/// A dense index type, usable as the key of a [`Side`](super::Side) table.
pub trait Id: Copy + Eq {
    /// The id of index `i`.
    fn new(i: usize) -> Self;
    /// The index of this id.
    fn at(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// "No id". No column has this index.
            pub const NONE: $name = $name(u32::MAX);

            /// Whether this is an id and not [`Self::NONE`].
            #[inline]
            pub fn is_some(self) -> bool {
                self != Self::NONE
            }
        }

        impl Id for $name {
            #[inline]
            fn new(i: usize) -> $name {
                debug_assert!(i < u32::MAX as usize);
                $name(i as u32)
            }
            #[inline]
            fn at(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A node: one application of an op.
    Node,
    "n"
);
id!(
    /// A value: one result of a node.
    Value,
    "%"
);
id!(
    /// A region: a body of nodes that sees only its own arguments.
    Region,
    "@r"
);
id!(
    /// An interned shape.
    Shape,
    "s"
);
id!(
    /// An interned string.
    Sym,
    "$"
);
