//! Derivatives of custom functions: the region of the user's rule is written as the derivative.
//!
//! If the function has no rule for the mode (forward or reverse), the rule for the other mode is transposed. A rule is
//! linear in its last arguments, the tangents or cotangents. So a reverse walk over its region, with zeros for these
//! arguments, gives its adjoint. Invariant: [`super::activity`] marks the rules that are transposed, so they are
//! prepared.

use super::backward::Backward;
use super::scan_site::{AdContext, ScanSiteValues, write_context_region};
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Deriv;
use crate::nodes::ops::control::custom_fn::CustomFnAttrs;
use crate::nodes::{Graph, Var};

/// A custom function of the source graph.
pub(super) struct CustomRulesSite<'r, 'x, 'g> {
    context: AdContext<'r, 'x, 'g>,
    node: Node,
    attrs: CustomFnAttrs,
    /// Operands, then results.
    primals: Vec<Var<'g>>,
    /// Positions of the operands that have tangents: floats that are not captured.
    by: Vec<usize>,
    /// Positions of the results that have tangents.
    of: Vec<usize>,
}

/// Whether a rule's region is written as it is, or transposed.
#[derive(Clone, Copy)]
enum Rule {
    Plain(Region),
    Transposed(Region),
}

impl<'r, 'x, 'g> CustomRulesSite<'r, 'x, 'g> {
    /// # Errors
    /// A function without rules, which preparation has not inlined.
    pub(super) fn new(context: AdContext<'r, 'x, 'g>, node: Node) -> Result<Self> {
        let src = context.src;
        let attrs = CustomFnAttrs::of(&src.attrs(node));
        if !attrs.has_rules() {
            let text = format!("{} is not prepared", op_title(src, node));
            return Err(Error::new(Kind::Verify, text).at(src.location(node)));
        }
        let float = |v: Value| src.dtype[v.at()].is_differentiable();
        let operands = src.args_of(node);
        let own = operands.len() - attrs.captures.max(0) as usize;
        let by = (0..own).filter(|&i| float(operands[i])).collect();
        let of = src.outs_of(node).enumerate().filter(|(_, v)| float(*v)).map(|o| o.0).collect();
        let primals = operands.iter().copied().chain(src.outs_of(node)).map(|v| context.map.get(v)).collect();
        Ok(CustomRulesSite { context, node, attrs, primals, by, of })
    }

    /// The cotangents of the operands, given those of the results. `want` says which operands need one.
    pub(super) fn cotangents(&self, cts: &[Option<Var<'g>>], want: &[bool]) -> Result<Vec<Option<Var<'g>>>> {
        self.refuse_captures(want)?;
        let rule = match (self.attrs.vjp, self.attrs.jvp) {
            (Some(vjp), _) => Rule::Plain(vjp),
            (None, jvp) => Rule::Transposed(jvp.unwrap_or(Region::NONE)),
        };
        self.apply(rule, (&self.of, cts), (&self.by, want.len()))
    }

    /// The tangents of the results, given those of the operands.
    pub(super) fn tangents(&self, ts: &[Option<Var<'g>>]) -> Result<Vec<Option<Var<'g>>>> {
        self.refuse_captures(&ts.iter().map(Option::is_some).collect::<Vec<_>>())?;
        let rule = match (self.attrs.jvp, self.attrs.vjp) {
            (Some(jvp), _) => Rule::Plain(jvp),
            (None, vjp) => Rule::Transposed(vjp.unwrap_or(Region::NONE)),
        };
        self.apply(rule, (&self.by, ts), (&self.of, self.context.src.outs_of(self.node).len()))
    }

    /// Applies a rule to seeds at the positions `from`. The results stand at the positions `to` of a list of length
    /// `len`.
    fn apply(
        &self,
        rule: Rule,
        (from, seeds): (&[usize], &[Option<Var<'g>>]),
        (to, len): (&[usize], usize),
    ) -> Result<Vec<Option<Var<'g>>>> {
        let seeds: Vec<Option<Var<'g>>> = from.iter().map(|&i| seeds[i]).collect();
        let found = match rule {
            Rule::Plain(r) => self.plain(r, &seeds),
            Rule::Transposed(r) => self.transposed(r, &seeds)?,
        };
        let mut all = vec![None; len];
        to.iter().zip(found).for_each(|(&i, x)| all[i] = x);
        Ok(all)
    }

    /// The yields of rule `r`. An absent seed is zeros.
    fn plain(&self, r: Region, seeds: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
        let AdContext { src, g, .. } = self.context;
        let args: Vec<Value> = src.region_args(r).collect();
        let zero = |v: &Value| g.full(0.0, src.dims(*v), src.dtype[v.at()]);
        let seeds = seeds.iter().zip(&args[self.primals.len()..]).map(|(s, v)| s.unwrap_or_else(|| zero(v)));
        let values: Vec<Var<'g>> = self.primals.iter().copied().chain(seeds).collect();
        let known: Vec<(Value, Var<'g>)> = args.iter().copied().zip(values).collect();
        let local = write_context_region(AdContext { region: r, ..self.context }, &known);
        src.region_yields(r).iter().map(|&y| Some(local[y])).collect()
    }

    /// The transpose of rule `r`, applied to `seeds`, one for each of its yields.
    fn transposed(&self, r: Region, seeds: &[Option<Var<'g>>]) -> Result<Vec<Option<Var<'g>>>> {
        let AdContext { src, g, .. } = self.context;
        let args: Vec<Value> = src.region_args(r).collect();
        let (primals, linear) = args.split_at(self.primals.len());
        let zero = |&v: &Value| (v, g.full(0.0, src.dims(v), src.dtype[v.at()]));
        let known: Vec<(Value, Var<'g>)> =
            primals.iter().copied().zip(self.primals.iter().copied()).chain(linear.iter().map(zero)).collect();
        let context = AdContext { region: r, ..self.context };
        let local = write_context_region(context, &known);
        let mut back = Backward::new(AdContext { map: ScanSiteValues::Part(&local), ..context }, linear);
        for (&y, seed) in src.region_yields(r).iter().zip(seeds) {
            seed.iter().for_each(|&s| back.add(y, s));
        }
        let name = op_title(src, self.node);
        back.walk().map_err(|e| e.context(format!("{name}, the transpose of its rule")))?;
        Ok(linear.iter().map(|&v| back.cotangent(v)).collect())
    }

    /// An error if the body reads a captured value that has a tangent or needs a cotangent.
    fn refuse_captures(&self, moves: &[bool]) -> Result<()> {
        let src = self.context.src;
        let own = moves.len() - self.attrs.captures.max(0) as usize;
        let read = |v: &Value| {
            let nodes = || src.region_nodes(self.attrs.body);
            nodes().any(|n| src.args_of(n).contains(v)) || src.region_yields(self.attrs.body).contains(v)
        };
        let args: Vec<Value> = src.region_args(self.attrs.body).collect();
        let Some(i) = (own..moves.len()).find(|&i| moves[i] && read(&args[i])) else { return Ok(()) };
        let operand = src.args_of(self.node)[i];
        let text = format!(
            "{} captures operand {i}, {}, which would get no gradient: pass it as an argument or stop its gradient",
            op_title(src, self.node),
            src.ty_text(operand)
        );
        Err(Error::new(Kind::Derivative, text).at(src.location(self.node)))
    }
}

/// The op of node `n` for messages; for a custom function, with its name.
pub(super) fn op_title(src: Graph<'_>, n: Node) -> String {
    let def = src.def_of(n);
    match def.deriv {
        Deriv::OwnRules => {
            let body = CustomFnAttrs::of(&src.attrs(n)).body;
            format!("{} {:?}", def.name, src.str(src.region_names[body.at()]))
        }
        _ => def.name.to_string(),
    }
}
