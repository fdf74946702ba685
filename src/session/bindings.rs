//! The named tensors of a program: leaves and outputs, what they stand for, and where they lie.

use super::encoded_readers::{EncodedReader, encoded_readers};
use crate::arena::dims::Dims;
use crate::arena::{Value, ids::Id};
use crate::nodes::ir::leaf::{InputAttrs, LeafInit, ParamAttrs, StateAttrs};
use crate::nodes::{DType, Graph, Leaf, LeafKind};
use crate::sched::Scheduled;
use crate::sched::instructions::Operand;
use std::ops::Range;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Written by the caller.
    Input,
    /// Trained.
    Param,
    /// Kept from step to step.
    State,
    /// Read by the caller.
    Output,
}

impl Role {
    /// The word: `input`, `param`, `state` or `output`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Param => "param",
            Role::State => "state",
            Role::Output => "output",
        }
    }
}

/// A named tensor of a program.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Dims,
    /// First byte in the arena.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// What all elements of an input are until the caller writes it.
    pub default: Option<f64>,
    /// For a state that is a moving average: the name of its param.
    pub averages: Option<String>,
    /// Whether it is a state that belongs to a layer, as the statistics of batch norm do.
    pub buffer: bool,
    pub(super) init: Option<LeafInit>,
    /// As what ops read its bytes, if they are matrices in an encoding.
    pub(crate) encoded: Vec<EncodedReader>,
}

impl Binding {
    /// Whether it is a param or a state.
    pub(super) fn is_persistent(&self) -> bool {
        matches!(self.role, Role::Param | Role::State)
    }

    /// Whether files of weights hold it: a param, or a state of a layer.
    pub fn is_weight(&self) -> bool {
        self.role == Role::Param || self.buffer
    }

    /// The bytes of the arena that it takes.
    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}

/// The bindings of a program: leaves in the graph's order, then outputs.
pub(super) fn bindings(g: &Graph<'_>, s: &Scheduled) -> Vec<Binding> {
    let readers = encoded_readers(g);
    let bind = |name: &str, role, v: Value, offset| Binding {
        name: name.to_string(),
        role,
        dtype: g.dtype[v.at()],
        dims: g.dims(v),
        offset,
        bytes: g.bytes(v),
        default: None,
        averages: None,
        buffer: false,
        init: None,
        encoded: readers.as_ref().map_or(Vec::new(), |readers| readers[v].clone()),
    };
    let leaves = g.leaves().map(|Leaf { value: v, kind, name }| {
        let attrs = g.attrs(g.def[v.at()]);
        let at = s.plan.offset[s.slices[v.at()].buf as usize];
        match kind {
            LeafKind::Input => Binding { default: InputAttrs::of(&attrs).default, ..bind(name, Role::Input, v, at) },
            LeafKind::Param => {
                Binding { init: Some(ParamAttrs::of(&attrs).leaf_init()), ..bind(name, Role::Param, v, at) }
            }
            LeafKind::State => {
                let state = StateAttrs::of(&attrs);
                let averages = state.averages.map(|param| g.str(param).to_string());
                Binding {
                    init: Some(state.leaf_init()),
                    averages,
                    buffer: state.owner.is_some(),
                    ..bind(name, Role::State, v, at)
                }
            }
        }
    });
    let place = |o: &Operand| s.plan.offset[o.buf as usize] + o.off;
    let outputs = g.outputs().iter().zip(g.output_names).zip(&s.plan.code.outputs);
    let outputs = outputs.map(|((&v, &name), o)| bind(g.str(name), Role::Output, v, place(o)));
    leaves.chain(outputs).collect()
}

/// Of each binding of a program, whether a step reads it.
pub(super) fn leaves_read_by_step(g: &Graph<'_>, s: &Scheduled) -> Vec<bool> {
    let code = &s.plan.code;
    let mut read = vec![false; code.bytes.len()];
    code.reads.iter().for_each(|o| read[o.buf as usize] = true);
    let leaves = g.leaves().map(|l| read[s.slices[l.value.at()].buf as usize]);
    leaves.chain(g.outputs().iter().map(|_| false)).collect()
}

/// Indices of bindings of one method, sorted by name. No two leaves share a name, and no two outputs do; a leaf and an
/// output may.
#[derive(Clone)]
pub(super) struct BindingIndex(Vec<u32>);

impl BindingIndex {
    /// An index of the bindings at `order`.
    pub fn new(bindings: &[Binding], mut order: Vec<u32>) -> BindingIndex {
        order.sort_by(|&a, &b| bindings[a as usize].name.cmp(&bindings[b as usize].name));
        BindingIndex(order)
    }

    /// The binding called `name` whose role is `wanted`.
    pub fn find(&self, bindings: &[Binding], name: &str, wanted: &dyn Fn(Role) -> bool) -> Option<usize> {
        let of = |&i: &u32| &bindings[i as usize];
        let first = self.0.partition_point(|i| of(i).name.as_str() < name);
        let called = self.0[first..].iter().take_while(|i| of(i).name == name);
        called.map(|&i| i as usize).find(|&i| wanted(bindings[i].role))
    }
}
