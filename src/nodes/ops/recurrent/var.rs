//! Recurrences as methods of [`Var`].

use super::attrs::{GatedDeltaAttrs, SelectiveScanAttrs};
use crate::arena::Value;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// Options of [`Var::selective_scan`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SelectiveScan<'g> {
    /// The factor of x in y, `[channels]`; without it y has no such term.
    pub d: Option<Var<'g>>,
    /// The state before the first step, `[batch, channels, states]`; without it 0.
    pub h0: Option<Var<'g>>,
}

setters! {
    ['g] SelectiveScan<'g> { d: impl Into<Option<Var<'g>>> => d.into(), h0: impl Into<Option<Var<'g>>> => h0.into() }
}

impl<'g> Var<'g> {
    /// The selective scan of S6 layers with this as x, `[batch, steps, channels]`: y of the same shape, and the last
    /// state, `[batch, channels, states]`. Each channel has a state of its own:
    /// h ← exp(Δ·A)∘h + Δ·B·x and y = Σ C·h + D·x at each step, with Δ `delta` of the shape of x, A `[channels,
    /// states]`, B and C `[batch, steps, states]`. All are `f32` or all `f64`.
    ///
    /// A gradient computes the states again, in memory that grows with the square root of the number of steps. In long
    /// sequences the scan of a training step keeps about 2·√steps states for it. A = −∞ forgets the state at a step
    /// with Δ > 0. Source: Gu and Dao, "Mamba".
    ///
    /// ```
    /// use arenagrad::graph::recurrent::SelectiveScan;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // One channel with one number: h ← ½·h + x.
    /// let g = Builder::new("decay");
    /// let x = g.input("x", [1, 3, 1], DType::F64);
    /// let one = x.full_like(1.0);
    /// let a = g.full(0.5f64.ln(), [1, 1], DType::F64);
    /// let [y, _] = x.selective_scan(one, a, one, one, SelectiveScan::default());
    /// let mut p = Session::new().compile(&g.finish([y.named("y")])?)?;
    /// p.values_mut::<f64>("x")?.copy_from_slice(&[8.0, 0.0, 1.0]);
    /// p.step()?;
    /// assert!(p.values::<f64>("y")?.iter().zip([8.0, 4.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn selective_scan(
        self,
        delta: Var<'g>,
        a: Var<'g>,
        b: Var<'g>,
        c: Var<'g>,
        opt: SelectiveScan<'g>,
    ) -> [Var<'g>; 2] {
        let args = [Some(self), Some(delta), Some(a), Some(b), Some(c), opt.d, opt.h0];
        let args: Vec<Var<'g>> = args.into_iter().flatten().collect();
        let attrs = SelectiveScanAttrs { d: opt.d.is_some(), h0: opt.h0.is_some() };
        let all = self.g.emit(Op::SELECTIVE_SCAN, &args, &attrs.list());
        [0, 1].map(|i| all.get(i).copied().unwrap_or_else(|| self.g.var(Value::NONE)))
    }

    /// The gated delta rule with this as the queries, `[batch, steps, heads, keys]`: the outputs `[batch, steps,
    /// heads, values]`, and the last state, `[batch, heads, keys, values]`. At each step the state S of a head fades,
    /// and its key `k` is made to give the value `v`: T = e^g·S, S ← T + k·(β·(v − Tᵀk))ᵀ, and the output is
    /// Sᵀq/√keys. k has the shape of q, v that of the outputs, `g` and `beta` are `[batch, steps, heads]`, and
    /// `state` is S before the first step, else 0. The caller normalises q and k.
    ///
    /// A gradient keeps no states: it computes them again, in scratch that grows with the square root of the number of
    /// steps. A run in two parts, the second from the last state of the first, is the whole run. Source: Yang et al.,
    /// "Gated Delta Networks".
    #[track_caller]
    pub fn gated_delta_net(
        self,
        k: Var<'g>,
        v: Var<'g>,
        g: Var<'g>,
        beta: Var<'g>,
        state: Option<Var<'g>>,
    ) -> [Var<'g>; 2] {
        let args: Vec<Var<'g>> = [self, k, v, g, beta].into_iter().chain(state).collect();
        let all = self.g.emit(Op::GATED_DELTA_NET, &args, &GatedDeltaAttrs { state: state.is_some() }.list());
        [0, 1].map(|i| all.get(i).copied().unwrap_or_else(|| self.g.var(Value::NONE)))
    }
}
