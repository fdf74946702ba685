//! Activity analysis: a derivative passes through the values that depend on the chosen leaves and on which the chosen
//! results depend, both along differentiable edges. One region at a time; a loop counts as one op.

use super::codes::{Codes, code_ends_derivatives};
use super::inner_values::inner_value_or_leaf;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::nodes::ir::opdef::{Deriv, Lower, planned_regions};
use crate::nodes::ops::control::custom_fn::{CustomFnAttrs, has_derivative_rules};
use crate::nodes::{Graph, OpDef};
use crate::passes::signature::Signature;

/// The direction of a derivative, which decides which rule of a custom function is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From results to operands.
    Reverse,
    /// From operands to results.
    Forward,
}

/// The modes in which a region is differentiated.
#[derive(Clone, Copy, Default)]
struct ActivityModes {
    reverse: bool,
    forward: bool,
}

impl ActivityModes {
    fn add(&mut self, other: ActivityModes) {
        self.reverse |= other.reverse;
        self.forward |= other.forward;
    }

    fn any(self) -> bool {
        self.reverse || self.forward
    }
}

/// True if a derivative can pass through the op. An op of [`Deriv::Error`] passes too: it becomes an error later, not a
/// silent zero.
pub fn is_active_through(def: &OpDef) -> bool {
    !matches!(def.deriv, Deriv::Zero)
}

/// True if the derivative with respect to operand `a` goes through an op of definition `def`. An op of integers alone
/// has the derivative zero, and yet a code goes through: it becomes an error later.
fn derivative_passes_operand(codes: &Codes<'_>, def: &OpDef, a: Value) -> bool {
    is_active_through(def) || (codes.is_code(a) && !code_ends_derivatives(def))
}

/// The values of region `r` that depend differentiably on `roots`, values of `r`.
pub fn active_from(codes: &Codes<'_>, r: Region, roots: &[Value]) -> Window<Value, bool> {
    let g = codes.graph();
    let mut d = Window::filled(g.region_values(r), false);
    for &root in roots {
        d[root] = true;
    }
    for n in g.region_nodes(r) {
        if g.args_of(n).iter().any(|&a| d[a] && derivative_passes_operand(codes, g.def_of(n), a)) {
            for v in g.outs_of(n) {
                d[v] = codes.carries(v);
            }
        }
    }
    d
}

/// The values of region `r` on which `results`, values of `r`, depend differentiably.
pub fn active_towards(codes: &Codes<'_>, r: Region, results: &[Value]) -> Window<Value, bool> {
    let g = codes.graph();
    let mut d = Window::filled(g.region_values(r), false);
    for &result in results {
        d[result] = true;
    }
    for n in g.region_nodes(r).rev() {
        if g.outs_of(n).any(|v| d[v]) {
            for &a in g.args_of(n) {
                if codes.carries(a) && derivative_passes_operand(codes, g.def_of(n), a) {
                    d[a] = true;
                }
            }
        }
    }
    d
}

/// The nodes on the paths from `wrt` to `results`, and all nodes of the bodies of loops and of the rules among them
/// that are differentiated.
pub fn active_nodes(g: Graph<'_>, wrt: &[&str], results: &[&str], mode: Mode) -> Side<Node, bool> {
    let signature = Signature::new(g);
    let leaves: Vec<Value> = wrt.iter().filter_map(|n| inner_value_or_leaf(&signature, n).ok()).collect();
    let outs: Vec<Value> = results.iter().filter_map(|n| signature.output(n).ok()).collect();
    let codes = Codes::of(g);
    let (from, to) = (active_from(&codes, g.entry(), &leaves), active_towards(&codes, g.entry(), &outs));
    let mut active = Side::filled(g.nodes(), false);
    let mut run = Side::<Region, ActivityModes>::filled(g.regions(), ActivityModes::default());
    run[g.entry()] = ActivityModes { reverse: mode == Mode::Reverse, forward: mode == Mode::Forward };
    for r in (0..g.regions()).rev().map(Region::new) {
        let modes = run[r];
        for n in g.region_nodes(r) {
            let here = || g.args_of(n).iter().any(|&a| from[a]) && g.outs_of(n).any(|v| to[v]);
            active[n] = if r == g.entry() { here() } else { modes.any() };
            if !active[n] {
                continue;
            }
            for body in planned_regions(g, n) {
                // Reverse mode also finds what the body of a loop must stack for forward mode.
                let stacks = matches!(g.def_of(n).lower, Lower::Loop);
                run[body].add(ActivityModes { reverse: modes.reverse || stacks, ..modes });
            }
            if let Some(rule) = rule_to_transpose(g, n, modes) {
                run[rule].reverse = true;
            }
        }
    }
    active
}

/// The rule of node `n` that is transposed because the rule for the mode is missing. A rule is transposed in reverse
/// mode.
fn rule_to_transpose(g: Graph<'_>, n: Node, modes: ActivityModes) -> Option<Region> {
    if !has_derivative_rules(g, n) {
        return None;
    }
    match CustomFnAttrs::of(&g.attrs(n)) {
        CustomFnAttrs { vjp: None, jvp, .. } if modes.reverse => jvp,
        CustomFnAttrs { jvp: None, vjp, .. } if modes.forward => vjp,
        _ => None,
    }
}
