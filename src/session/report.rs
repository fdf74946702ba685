//! What a plan is, for tools: sizes, and a row for each buffer.

use crate::arena::tensor::LINE;
use crate::arena::{Value, ids::Id};
use crate::error::Place;
use crate::nodes::Graph;
use crate::sched::Scheduled;
use crate::sched::code::BufKind;

/// One buffer of a plan.
#[derive(Clone, Debug)]
pub struct BufferReport {
    /// The value's name, or the value itself as text; "scratch" for a temporary.
    pub name: String,
    /// The value.
    pub value: Value,
    /// What it holds.
    pub kind: BufKind,
    /// First byte in the arena.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// First instruction that needs it.
    pub first: u32,
    /// Last instruction that needs it.
    pub last: u32,
    /// The buffer (by index in the report) whose bytes it takes over; itself if none.
    pub root: u32,
    /// Where the value was asked for.
    pub place: Place,
}

/// A memory plan.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Bytes that no plan for this order can do without.
    pub lower_bound_bytes: usize,
    /// Bytes that no plan for any order can do without.
    pub order_bound_bytes: usize,
    /// Bytes of params, states, inputs and constants.
    pub pinned_bytes: usize,
    /// Number of instructions.
    pub instructions: usize,
    /// The order of instructions that was kept.
    pub order: &'static str,
    /// The buffers.
    pub buffers: Vec<BufferReport>,
}

/// The report of `s`.
pub fn report(g: &Graph<'_>, s: &Scheduled) -> PlanReport {
    let code = &s.plan.code;
    let buffer = |b: usize| {
        let (v, root) = (code.value[b], s.alias.class[b]);
        let named = v.is_some() && g.names[v.at()].is_some();
        BufferReport {
            name: match v.is_some() {
                true if named => g.str(g.names[v.at()]).to_string(),
                true => v.to_string(),
                false => "scratch".to_string(),
            },
            value: v,
            kind: code.kind[b],
            offset: s.plan.place[b],
            size: code.bytes[b],
            first: s.live.first[root as usize],
            last: s.live.end[root as usize].saturating_sub(1),
            root,
            place: if v.is_some() { g.place(g.def[v.at()]) } else { Place::Nowhere },
        }
    };
    let pinned = (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned());
    PlanReport {
        arena_bytes: s.plan.bytes,
        lower_bound_bytes: s.bound as usize * LINE,
        order_bound_bytes: s.order_bound as usize * LINE,
        pinned_bytes: pinned.map(|b| code.bytes[b].div_ceil(LINE) * LINE).sum(),
        instructions: code.len(),
        order: s.order,
        buffers: (0..code.bytes.len()).map(buffer).collect(),
    }
}
