//! The named tensors of all methods of a program.

use super::part::Part;
use crate::session::bindings::{Binding, bindings, leaves_read_by_step};
use hashbrown::HashMap;

/// The named tensors of all methods. A param or a state of several methods is there once.
pub struct BindingTable {
    pub bindings: Vec<Binding>,
    /// Of each method: its bindings.
    pub named: Vec<Vec<u32>>,
    /// Of each method: which bindings its steps read.
    pub read: Vec<Vec<u32>>,
}

impl BindingTable {
    /// The tensors of `parts`, in their order.
    pub fn new(parts: &[Part<'_>]) -> BindingTable {
        let mut table = BindingTable { bindings: Vec::new(), named: Vec::new(), read: Vec::new() };
        let mut kept: HashMap<String, u32> = HashMap::new();
        for p in parts {
            let (g, s) = (p.ready.graph.view(), &p.ready.scheduled);
            let (mut named, mut reads) = (Vec::new(), Vec::new());
            for (b, read) in bindings(&g, s).into_iter().zip(leaves_read_by_step(&g, s)) {
                let next = table.bindings.len() as u32;
                let i = match b.is_persistent() {
                    true => *kept.entry(b.name.clone()).or_insert(next),
                    false => next,
                };
                if i == next {
                    table.bindings.push(b);
                } else {
                    table.bindings[i as usize].encoded.extend(b.encoded);
                }
                named.push(i);
                reads.extend(read.then_some(i));
            }
            table.named.push(named);
            table.read.push(reads);
        }
        table
    }
}
