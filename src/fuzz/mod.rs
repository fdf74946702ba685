//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.

mod oracle;

pub use oracle::{
    Array, LeafValue, LeafValues, Named, Reference, Stop, array_of_bytes, bytes_of_array, interpret,
};
