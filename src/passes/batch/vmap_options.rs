//! What `vmap` maps, and what random ops of a batch draw.

/// The random numbers that the members of a batch draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Randomness {
    /// A random op is an error.
    #[default]
    Error,
    /// All members draw the same numbers: those of one example.
    Same,
    /// Each member draws numbers of its own, all from the stream of the op.
    Different,
}

/// What [`vmap`](super::vmap) maps: the size of the batch, the leaves and outputs that have its axis, and where.
///
/// An axis counts in the shape with the batch's axis; a negative one counts from the end.
#[derive(Clone, Debug)]
pub struct Vmap<'n> {
    pub(super) size: usize,
    pub(super) leaves: Vec<(&'n str, i64)>,
    pub(super) outputs: Vec<(&'n str, i64)>,
    pub(super) randomness: Randomness,
}

impl<'n> Vmap<'n> {
    /// A batch of `size` members, without leaves.
    pub fn new(size: usize) -> Self {
        Vmap { size, leaves: Vec::new(), outputs: Vec::new(), randomness: Randomness::Error }
    }

    /// The leaf `name` gets the batch's axis at `axis`: an input, a state or a param. All others are shared.
    pub fn leaf(mut self, name: &'n str, axis: i64) -> Self {
        self.leaves.push((name, axis));
        self
    }

    /// These leaves get the batch's axis in front.
    pub fn leaves(mut self, names: &[&'n str]) -> Self {
        self.leaves.extend(names.iter().map(|&name| (name, 0)));
        self
    }

    /// The output `name` has the batch's axis at `axis`. Other outputs that depend on mapped leaves have it in front.
    pub fn output(mut self, name: &'n str, axis: i64) -> Self {
        self.outputs.push((name, axis));
        self
    }

    /// What random ops draw.
    pub fn randomness(self, randomness: Randomness) -> Self {
        Vmap { randomness, ..self }
    }
}
