//! Families of ops that the oracle has functions for, found by the op's name. A user's op has one by its
//! [`Pack`](crate::op::Pack).

use super::account::InterpreterAccount;
use super::array::Array;
use super::oracle_node::{OracleNode, OracleOps};
use super::stop::Stop;
use crate::arena::{Node, ids::Id};
use crate::nodes::Graph;
use std::rc::Rc;

/// The engine's own families.
const FAMILIES: &[OracleOps] = &[
    super::coded_ops::OPS,
    #[cfg(feature = "signal")]
    super::fourier_ops::OPS,
    #[cfg(feature = "gguf")]
    super::gguf_ops::OPS,
    #[cfg(feature = "gguf")]
    super::grouped_ops::OPS,
    #[cfg(feature = "linalg")]
    super::matrix_ops::OPS,
    #[cfg(feature = "splat")]
    super::splat_ops::OPS,
];

/// The results of node `n` by the function for its op; `None` if there is none.
pub(super) fn run_oracle_family(
    g: Graph<'_>,
    n: Node,
    args: &[Rc<Array>],
    account: &mut InterpreterAccount,
) -> Result<Option<Vec<Array>>, Stop> {
    let def = g.def_of(n);
    let own = def.pack.and_then(|pack| pack.oracle).and_then(|o| o.downcast_ref::<OracleOps>());
    let knows = |family: &&OracleOps| family.names.contains(&def.name);
    let Some(family) = own.into_iter().chain(FAMILIES).find(knows) else { return Ok(None) };
    let mut node = OracleNode {
        op: g.op[n.at()],
        attrs: g.attrs(n),
        args: args.iter().map(Rc::as_ref).collect(),
        dtypes: g.outs_of(n).map(|v| g.dtype[v.at()]).collect(),
        dims: g.outs_of(n).map(|v| g.dims(v).to_vec()).collect(),
        account,
    };
    let all = (family.run)(&mut node)?;
    let shapes = all.iter().map(|y| (y.dtype, y.dims.clone(), y.len()));
    let asked = g.outs_of(n).map(|v| (g.dtype[v.at()], g.dims(v).to_vec(), g.numel(v)));
    match shapes.eq(asked) {
        true => Ok(Some(all)),
        false => Err(Stop::broken(format!("the oracle's function of {} gives results of other types", def.name))),
    }
}
