//! Compiles a graph and runs it on tensors of numbers.

use super::tensor::{Tensor, read_named_numbers, write_named_numbers};
use crate::arena::ids::Id;
use crate::arena::{Sym, Value};
use crate::error::Result;
use crate::nodes::GraphBuf;
use crate::session::{Program, Session};

/// How to run a graph.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Number of threads.
    pub threads: usize,
    /// Whether all passes run, or only those that lowering needs.
    pub optimise: bool,
    /// Whether dead bytes are filled with NaN.
    pub poison: bool,
    /// Whether threads share all that has two units, whatever it is worth.
    pub share: bool,
}

/// One thread, through all passes.
pub const PLAIN: How = How { threads: 1, optimise: true, poison: false, share: false };

/// A compiled graph, to run on several inputs.
pub(super) struct ConformRun<'g> {
    graph: &'g GraphBuf,
    program: Program,
}

impl ConformRun<'_> {
    pub(super) fn new(graph: &GraphBuf, how: How) -> Result<ConformRun<'_>> {
        let session = Session::new().threads(how.threads).optimise(how.optimise).poison(how.poison).share(how.share);
        Ok(ConformRun { graph, program: session.compile(graph)? })
    }

    /// The outputs on `inputs`, in the order of the leaves.
    pub(super) fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (v, p) = (self.graph.view(), &mut self.program);
        for (l, t) in v.leaves().zip(inputs) {
            write_named_numbers(p, l.name, t)?;
        }
        p.step()?;
        let outs = v.outputs().iter().zip(v.output_names);
        let tensor = |(&o, &name): (&Value, &Sym)| {
            let data = read_named_numbers(p, v.str(name), v.dtype[o.at()])?;
            Ok(Tensor { dtype: v.dtype[o.at()], dims: v.dims(o).to_vec(), data })
        };
        outs.map(tensor).collect()
    }
}

/// Runs `g` once on its inputs, in the order of the leaves; the outputs in order.
///
/// # Errors
/// Those of compiling and of the step; a tensor of another length than its leaf, or of a dtype without numbers here.
pub fn try_run_once(g: &GraphBuf, inputs: &[Tensor], how: How) -> Result<Vec<Tensor>> {
    ConformRun::new(g, how)?.run(inputs)
}
