//! The schema of attributes: kinds and named fields.

/// The kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`; 1 word.
    Bool,
    /// A signed integer; 2 words.
    Int,
    /// A double; 2 words.
    F64,
    /// An element type; 1 word.
    DType,
    /// A shape; 1 word.
    Shape,
    /// A list of signed integers; 1 word and 2 for each.
    Ints,
    /// A list of doubles; 1 word and 2 for each.
    Floats,
    /// A string; 1 word.
    Sym,
    /// A region; 1 word.
    Region,
    /// Raw bytes, padded to whole words; 1 word and the words.
    Bytes,
    /// One of a few names; 1 word.
    Choice(&'static [&'static str]),
}

/// A named attribute of an op.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The name in text.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// True if a node may omit the attribute. A word before the words of the kind then says whether it is present.
    pub optional: bool,
}

impl Field {
    /// A field.
    pub const fn new(name: &'static str, kind: Kind) -> Field {
        Field { name, kind, optional: false }
    }

    /// A field that a node may omit. Optional fields come last; the text form shows those that are present.
    pub const fn optional(name: &'static str, kind: Kind) -> Field {
        Field { name, kind, optional: true }
    }
}

/// True if the attributes are one word, which the node stores itself.
pub fn attrs_are_inline(fields: &[Field]) -> bool {
    match fields {
        [f] if !f.optional => {
            matches!(f.kind, Kind::Bool | Kind::DType | Kind::Shape | Kind::Sym | Kind::Region | Kind::Choice(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stores_one_word_that_is_always_there() {
        for kind in [Kind::Bool, Kind::DType, Kind::Shape, Kind::Sym, Kind::Region, Kind::Choice(&["a"])] {
            assert!(attrs_are_inline(&[Field::new("x", kind)]), "{kind:?}");
            assert!(!attrs_are_inline(&[Field::optional("x", kind)]), "{kind:?}");
            assert!(!attrs_are_inline(&[Field::new("x", kind); 2]), "{kind:?}");
        }
        for kind in [Kind::Int, Kind::F64, Kind::Ints, Kind::Floats, Kind::Bytes] {
            assert!(!attrs_are_inline(&[Field::new("x", kind)]), "{kind:?}");
        }
        assert!(!attrs_are_inline(&[]));
    }
}
