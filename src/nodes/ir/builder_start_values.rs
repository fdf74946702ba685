//! Start values that are lists of numbers. The builder keeps them, so that [`Init`] stays small.

use super::builder::Builder;
use super::init::{Init, LeafInit, StartValues};
use crate::error::Kind;

impl Builder {
    /// Start values that are these numbers, one for each element of the leaf, in row-major order. The dtype of the leaf
    /// must hold them. Another number of elements is an error of the leaf. They can be given to leaves of this builder
    /// only.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("kernel");
    /// let blur = g.frozen_param("blur", [1, 1, 3], DType::F32, g.start_values(&[0.25, 0.5, 0.25]));
    /// let mut p = Session::new().compile(&g.finish([blur.named("copy")])?)?;
    /// p.init(0)?;
    /// assert_eq!(p.values::<f32>("blur")?, [0.25, 0.5, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn start_values(&self, values: &[f64]) -> Init {
        let (mut lists, digest) = (self.starts.borrow_mut(), init_digest(values));
        lists.push(values.into());
        Init::Values(StartValues { index: lists.len() - 1, digest })
    }

    /// `init` as attributes of leaf `name`. A list of another builder is an error.
    #[track_caller]
    pub(super) fn leaf_init(&self, name: &str, init: Init) -> Option<LeafInit> {
        let Init::Values(list) = init else { return Some(init.attrs(&[])) };
        let lists = self.starts.borrow();
        let found = lists.get(list.index).filter(|values| init_digest(values) == list.digest);
        if found.is_none() {
            self.fail(Kind::Verify, format!("leaf {name:?}: its start values are of another builder"));
        }
        found.map(|values| init.attrs(values))
    }
}

/// FNV-1a over the bits, so that NaNs of one list are equal to themselves.
pub(super) fn init_digest(values: &[f64]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |h, x| (h ^ x.to_bits()).wrapping_mul(0x100_0000_01b3))
}
