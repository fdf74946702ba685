//! Data sets: labelled images and texts, checked before anything trains on them.

pub mod corpus;
pub mod digits;
pub mod idx_folder;
mod labelled_images;
mod vocabulary;

pub use labelled_images::{LabelledImages, LabelledSplit};
pub use vocabulary::Vocabulary;
