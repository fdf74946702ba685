//! Options of [`draw_graph`](super::draw_graph): how many nodes, which ops and dtypes, how deep, how large.

use crate::arena::DType;
use crate::error::{Error, Kind, Result};
use crate::names::list_names_instead;
use crate::nodes::OpDef;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::table::OPS;

/// Options of [`draw_graph`](super::draw_graph).
///
/// ```
/// use arenagrad::tools::fuzz::{GraphOptions, draw_graph, seeded_draws};
/// # fn main() -> arenagrad::Result<()> {
/// let options = GraphOptions::default().nodes(20).depth(1).ops("*,matmul=8,scan=0")?;
/// let graph = draw_graph(&options, &mut seeded_draws(7))?;
/// assert!(graph.view().nodes() > 1);
/// assert!(GraphOptions::default().ops("tanhh").unwrap_err().message.ends_with("did you mean tanh?"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GraphOptions {
    /// The largest number of drawn nodes of the entry. Leaves, bodies of regions, and nodes that make an operand fit
    /// are not counted.
    pub nodes: u32,
    /// Operands are taken from this many values before the node: 1 draws chains, large numbers draw bushy graphs.
    pub depth: u32,
    /// The chance, in 16ths, that an operand is a value of the graph. Other operands are new leaves.
    pub connected: u32,
    /// Whether loops, choices, calls and custom functions are drawn.
    pub regions: bool,
    /// The largest axis of a value.
    pub largest_axis: usize,
    /// The largest number of elements of a value.
    pub largest_value: usize,
    /// The element types that values may have.
    pub dtypes: Vec<DType>,
    /// Ops beside the built-in ones.
    extra: Vec<&'static OpDef>,
    /// The weight of each op: of the op table, then of `extra`. An op beyond the end has the weight `others`.
    weights: Vec<u32>,
    /// The weight of an op that no list has named.
    others: u32,
}

impl Default for GraphOptions {
    fn default() -> Self {
        GraphOptions {
            nodes: 24,
            depth: 12,
            connected: 14,
            regions: true,
            largest_axis: 1 << 14,
            largest_value: 1 << 16,
            dtypes: DType::ALL.to_vec(),
            extra: Vec::new(),
            weights: Vec::new(),
            others: 1,
        }
    }
}

setters! {
    [] GraphOptions {
        nodes: u32,
        depth: u32,
        connected: u32,
        regions: bool,
        largest_axis: usize,
        largest_value: usize,
        dtypes: &[DType] => dtypes.to_vec(),
    }
}

impl GraphOptions {
    /// These options with custom ops beside the built-in ones. Each has weight 1, or that of `*` in the list of
    /// [`Self::ops`] if that was given before; 0 if the list has no `*`.
    pub fn extra_ops(mut self, ops: &[&'static OpDef]) -> Self {
        self.extra.extend_from_slice(ops);
        self
    }

    /// These options with the weights in `list`: `"tanh,matmul=8"` draws these two ops, `"*,scan=0"` all but loops.
    ///
    /// A name without a number has weight 1, and `*` stands for all ops that the list does not name; without it they
    /// have weight 0. An op of weight 0 is never drawn, neither to make an operand fit; only `full` may then stand in
    /// a region, where leaves cannot.
    ///
    /// # Errors
    /// An unknown name, with a near one; a weight that is no number; a list without an op.
    pub fn ops(mut self, list: &str) -> Result<Self> {
        let mut weights: Vec<Option<u32>> = vec![None; self.table().count()];
        let mut others = 0;
        for entry in list.split([',', ' ']).filter(|e| !e.is_empty()) {
            let (name, weight) = entry.split_once('=').unwrap_or((entry, "1"));
            let bad = |_| Error::new(Kind::Name, format!("weight {weight:?} of {name} is no number from 0 to 65535"));
            let weight = u32::from(weight.parse::<u16>().map_err(bad)?);
            if name == "*" {
                others = weight;
                continue;
            }
            let named = self.table().position(|def| def.name == name && !def.is_leaf());
            let Some(at) = named else {
                let names = self.table().filter(|d| !d.is_leaf()).map(|d| d.name);
                let text = format!("no op is called {name:?}{}", list_names_instead(name, names));
                return Err(Error::new(Kind::Name, text));
            };
            weights[at] = Some(weight);
        }
        self.weights = weights.into_iter().map(|w| w.unwrap_or(others)).collect();
        self.others = others;
        if self.table().zip(&self.weights).all(|(def, &w)| w == 0 || def.cases.is_empty()) {
            return Err(Error::new(Kind::Name, format!("the list {list:?} leaves no op to draw")));
        }
        Ok(self)
    }

    /// All ops, in the order of the weights.
    fn table(&self) -> impl Iterator<Item = &'static OpDef> + Clone {
        OPS.iter().chain(&self.extra).copied()
    }

    /// The custom ops.
    pub(super) fn extra(&self) -> &[&'static OpDef] {
        &self.extra
    }

    /// The weight of an op that may be drawn.
    pub(super) fn weight(&self, op: usize) -> u32 {
        self.weights.get(op).copied().unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_lists_of_names() {
        let of = |list: &str| GraphOptions::default().ops(list).map(|o| o.weights.iter().sum::<u32>());
        assert_eq!(of("tanh,add=3").unwrap(), 4);
        assert_eq!(of("*=2, scan=0").unwrap() as usize, 2 * (OPS.len() - 1));
        for (list, why) in [
            ("tanhh", "did you mean tanh?"),
            ("add=x", "is no number"),
            ("", "leaves no op"),
            ("input", "no op is called"),
        ] {
            let e = of(list).unwrap_err();
            assert!(e.message.contains(why), "{e}");
        }
    }
}
