//! States that a builder makes for others than the caller: buffers of layers and moving averages of params.

use super::builder::{Builder, Var};
use super::dtype::DType;
use super::leaf::{Init, LeafInit, StateAttrs, StateOwner};
use super::opdef::Op;
use crate::arena::{Sym, Value};

impl Builder {
    /// A state that belongs to a layer, as torch's buffers do: files of weights hold it, and copies of params take it
    /// along.
    #[track_caller]
    pub fn buffer(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType, init: Init) -> Var<'_> {
        self.any_state(name, dims.as_ref(), dtype, init, (None, Some(StateOwner::Layer)))
    }

    /// A state that is the moving average of `param`, zeros at first. Files of averaged weights store it under the
    /// param's name. The caller adds its update.
    #[track_caller]
    pub fn average(&self, name: &str, param: &str, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        self.any_state(name, dims.as_ref(), dtype, Init::Zeros, (Some(self.sym(param)), None))
    }

    #[track_caller]
    pub(super) fn any_state(
        &self,
        name: &str,
        dims: &[usize],
        dtype: DType,
        init: Init,
        (averages, owner): (Option<Sym>, Option<StateOwner>),
    ) -> Var<'_> {
        let Some(shape) = self.shape(dims) else { return self.var(Value::NONE) };
        let Some(init) = self.leaf_init(name, init) else { return self.var(Value::NONE) };
        let (name_id, start, LeafInit { kind, scale, .. }) = (self.sym(name), init.start_attr(), init);
        let attrs = StateAttrs { name: name_id, dtype, shape, init: kind, scale, averages, owner, start };
        self.leaf(Op::STATE, name, &attrs.list())
    }
}
