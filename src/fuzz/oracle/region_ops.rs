//! Ops that run a region: calls, custom functions, fused regions, and loops.

use super::array::{Array, count};
use super::interpreter::Interpreter;
use super::layout_ops::{slice_of, zeros};
use super::stop::Stop;
use crate::arena::{Node, Region, ids::Id};
use crate::nodes::Op;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::custom_fn::CustomFnAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use std::rc::Rc;

impl Interpreter<'_, '_> {
    /// The results of node `n`, if it runs a region.
    pub(super) fn run_region_op(&mut self, n: Node, args: &[Rc<Array>]) -> Result<Option<Vec<Rc<Array>>>, Stop> {
        let attrs = self.g.attrs(n);
        let body = match self.g.op[n.at()] {
            Op::CALL => CallAttrs::of(&attrs).body,
            Op::CUSTOM_FN => CustomFnAttrs::of(&attrs).body,
            Op::MAP => MapAttrs::of(&attrs).body,
            Op::SCAN => return self.run_loop(n, &Scan::of(&attrs), args).map(Some),
            _ => return Ok(None),
        };
        self.body(body, args).map(Some)
    }

    /// The yields of a region.
    fn body(&mut self, r: Region, args: &[Rc<Array>]) -> Result<Vec<Rc<Array>>, Stop> {
        self.account.enter()?;
        let all = self.region(r, args, self.g.region_yields(r));
        self.account.leave();
        all
    }

    fn run_loop(&mut self, n: Node, s: &Scan, args: &[Rc<Array>]) -> Result<Vec<Rc<Array>>, Stop> {
        let (mut carries, fixed, stacked) = (args[..s.carries].to_vec(), &args[s.carries..s.xs()], &args[s.xs()..]);
        let outs = self.g.outs_of(n).skip(s.carries);
        let mut ys: Vec<Array> = outs.map(|v| zeros(self.g.dtype[v.at()], &self.g.dims(v))).collect();
        for turn in 0..s.length {
            self.account.spend(16)?;
            let i = if s.reverse { s.length - 1 - turn } else { turn };
            let slices = stacked.iter().map(|x| Rc::new(slice_of(x, i)));
            let given: Vec<Rc<Array>> = carries.iter().chain(fixed).cloned().chain(slices).collect();
            let mut yields = self.body(s.body, &given)?;
            for (y, slice) in ys.iter_mut().zip(yields.drain(s.carries..)) {
                let size = count(slice.dims());
                (0..size).for_each(|k| y.put(i * size + k, &slice, k));
            }
            carries = yields;
        }
        Ok(carries.into_iter().chain(ys.into_iter().map(Rc::new)).collect())
    }
}
