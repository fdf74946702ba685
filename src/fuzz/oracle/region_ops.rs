//! Ops that run a region: calls, custom functions, fused regions, and loops.

use super::array::{Array, count_elements};
use super::interpreter::{Interpreter, Results};
use super::layout_ops::{oracle_slice_layout, oracle_zeros_layout};
use super::stop::Stop;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::custom_fn::CustomFnAttrs;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use std::rc::Rc;

impl Interpreter<'_, '_> {
    /// The results of node `n`, if it runs a region. Results that are not `read` are none: the engine does not compute
    /// them, so they cannot fault.
    pub(super) fn run_region_op(
        &mut self,
        n: Node,
        args: &[Rc<Array>],
        read: &[bool],
    ) -> Result<Option<Results>, Stop> {
        let attrs = self.g.attrs(n);
        let body = match self.g.op[n.at()] {
            Op::CALL => CallAttrs::of(&attrs).body,
            Op::CUSTOM_FN => CustomFnAttrs::of(&attrs).body,
            Op::MAP => MapAttrs::of(&attrs).body,
            Op::IF => {
                let IfAttrs { then, otherwise } = IfAttrs::of(&attrs);
                match args[0].whole(0) {
                    Some(0) => otherwise,
                    Some(_) => then,
                    None => return self.run_either_region(then, otherwise, &args[1..], read).map(Some),
                }
            }
            Op::SCAN => return self.run_loop_region(n, &Scan::of(&attrs), args, read).map(Some),
            _ => return Ok(None),
        };
        let operands = if self.g.op[n.at()] == Op::IF { &args[1..] } else { args };
        self.run_region_body(body, operands, read).map(Some)
    }

    /// The results of a choice whose predicate is unknown: elements that both branches have, in bounds that hold for
    /// either. A branch that faults makes all unknown.
    fn run_either_region(&mut self, a: Region, b: Region, args: &[Rc<Array>], read: &[bool]) -> Result<Results, Stop> {
        let (first, second) = match (self.run_region_body(a, args, read), self.run_region_body(b, args, read)) {
            (Ok(first), Ok(second)) => (first, second),
            (Ok(known), Err(Stop::Fault(_))) | (Err(Stop::Fault(_)), Ok(known)) => {
                return Ok(self.unknown_region_results(known.into_iter()));
            }
            (Err(stop @ Stop::Fault(_)), Err(Stop::Fault(_))) => return Err(stop),
            (Err(stop), Err(Stop::Fault(_)) | Ok(_)) | (_, Err(stop)) => return Err(stop),
        };
        let either = |(a, b): (Option<Rc<Array>>, Option<Rc<Array>>)| Some(Rc::new(a?.or_else(&*b?)));
        Ok(first.into_iter().zip(second).map(either).collect())
    }

    /// The yields of a region that are read.
    fn run_region_body(&mut self, r: Region, args: &[Rc<Array>], read: &[bool]) -> Result<Results, Stop> {
        self.account.enter()?;
        let wanted: Vec<Value> = self.g.region_yields(r).iter().zip(read).filter(|y| *y.1).map(|y| *y.0).collect();
        let all = self.region(r, args, &wanted);
        self.account.leave();
        let mut all = all?.into_iter();
        Ok(read.iter().map(|&read| if read { all.next() } else { None }).collect())
    }

    /// The results of a loop. All carries are computed: one may decide the next of another.
    fn run_loop_region(&mut self, n: Node, s: &Scan, args: &[Rc<Array>], read: &[bool]) -> Result<Results, Stop> {
        let read: Vec<bool> = read.iter().enumerate().map(|(i, &read)| read || i < s.carries).collect();
        let (mut carries, fixed, stacked) = (args[..s.carries].to_vec(), &args[s.carries..s.xs()], &args[s.xs()..]);
        let outs = self.g.outs_of(n).skip(s.carries);
        let mut ys: Vec<Array> = outs.map(|v| oracle_zeros_layout(self.g.dtype[v.at()], &self.g.dims(v))).collect();
        let length = match s.exit {
            Some(Exit::Count) => self.region_iterations(&fixed[0], s.length)?,
            Some(Exit::Flag) if s.is_unbounded() => Some(usize::MAX),
            _ => Some(s.length),
        };
        let going = |carries: &[Rc<Array>]| match s.exit {
            Some(Exit::Flag) => carries[0].whole(0).map(|flag| flag != 0),
            _ => Some(true),
        };
        // None if rounding decides how often the body runs.
        let mut on = length.and(going(&carries));
        let length = length.unwrap_or(0);
        for turn in 0..length {
            if on != Some(true) {
                break;
            }
            self.account.spend(16)?;
            let i = if s.reverse { length - 1 - turn } else { turn };
            let slices = stacked.iter().map(|x| Rc::new(oracle_slice_layout(x, i)));
            let given: Vec<Rc<Array>> = carries.iter().chain(fixed).cloned().chain(slices).collect();
            let mut yields = self.run_region_body(s.body, &given, &read)?;
            for (y, slice) in ys.iter_mut().zip(yields.drain(s.carries..)) {
                let Some(slice) = slice else { continue };
                let size = count_elements(slice.dims());
                (0..size).for_each(|k| y.put(i * size + k, &slice, k));
            }
            carries = yields.into_iter().flatten().collect();
            on = going(&carries);
        }
        if s.exit == Some(Exit::Flag) && on == Some(true) && s.bound != Some(0) {
            return Err(Stop::fault(format!("still going after {} iterations", s.bound.unwrap_or(length))));
        }
        let stacks = ys.into_iter().map(Rc::new).zip(&read[s.carries..]).map(|(y, &read)| read.then_some(y));
        let results = carries.into_iter().map(Some).chain(stacks);
        Ok(if on.is_some() { results.collect() } else { self.unknown_region_results(results) })
    }

    /// The number of iterations of a loop that counts them, at most `most`; `None` if it is unknown.
    fn region_iterations(&self, number: &Array, most: usize) -> Result<Option<usize>, Stop> {
        match number.whole(0).map(usize::try_from) {
            Some(Ok(n)) if n <= most => Ok(Some(n)),
            Some(_) => Err(Stop::fault(format!("a number of iterations is not in 0..={most}"))),
            None => Ok(None),
        }
    }

    /// Results of an op that may fault, all unknown.
    fn unknown_region_results(&mut self, results: impl Iterator<Item = Option<Rc<Array>>>) -> Results {
        self.account.may_fault = true;
        results.map(|y| y.map(|y| Rc::new(Array::clone(&y).unknown()))).collect()
    }
}
