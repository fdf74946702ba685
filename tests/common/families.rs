//! The families of ops that this build has.

/// The features of families, and whether each is on.
pub const FAMILIES: [(&str, bool); 5] = [
    ("gguf", cfg!(feature = "gguf")),
    ("linalg", cfg!(feature = "linalg")),
    ("recurrent", cfg!(feature = "recurrent")),
    ("signal", cfg!(feature = "signal")),
    ("splat", cfg!(feature = "splat")),
];

/// Whether the family called `name` is on; `None` if there is none.
pub fn has_family(name: &str) -> Option<bool> {
    FAMILIES.iter().find(|family| family.0 == name).map(|family| family.1)
}
