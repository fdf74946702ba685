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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Op;
    use crate::nodes::ir::text;

    /// The first results of the active nodes of `source`, regions first.
    fn active(source: &str, wrt: &[&str], result: &str, mode: Mode) -> String {
        let graph = text::parse(source).unwrap();
        let g = graph.view();
        let active = active_nodes(g, wrt, &[result], mode);
        let nodes = (0..g.nodes()).map(Node::new).filter(|&n| active[n] && g.op[n.at()] != Op::ARG);
        nodes.map(|n| g.str(g.names[g.out(n).at()])).collect::<Vec<_>>().join(" ")
    }

    /// Steps have no derivative, indices carry none, and of a norm one result alone is read.
    const PATHS: &str = "graph @paths {
        %x = input : f64[3]
        %z = input : f64[3]
        %a = exp %x
        %b = exp %z
        %c = mul %a, %b
        %aside = sin %a
        %bend = cos %x
        %step = sign %bend
        %late = exp %step
        %i = cast %x to=i32
        %p = gather %c, %i axis=0
        %n, %mean, %rstd = layer_norm %p, %z, %z eps=0.1
        %y = add %n, %late
        return y=%y, aside=%aside
    }";

    #[test]
    fn nodes_between_a_leaf_and_a_result_are_active() {
        for mode in [Mode::Reverse, Mode::Forward] {
            assert_eq!(active(PATHS, &["x"], "y", mode), "a c step p n y");
            assert_eq!(active(PATHS, &["z"], "y", mode), "b c p n y");
            assert_eq!(active(PATHS, &["x", "z"], "aside", mode), "a aside");
            assert_eq!(active(PATHS, &["z"], "aside", mode), "");
        }
    }

    /// A function and its rules.
    const FUNCTION: &str = "region @f(%x: f64[]) {
        %f = sin %x
        yield %f
    }
    region @vjp(%x: f64[], %y: f64[], %d: f64[]) {
        %back = neg %d
        yield %back
    }
    region @jvp(%x: f64[], %y: f64[], %d: f64[]) {
        %forth = neg %d
        yield %forth
    }";

    /// Functions with one rule, in the entry.
    const RULES: &str = "
    graph @rules {
        %x = input : f64[]
        %a = custom_fn %x body=@f captures=0 vjp=@vjp
        %b = custom_fn %x body=@f captures=0 jvp=@jvp
        %y = add %a, %b
        return y=%y
    }";

    #[test]
    fn a_rule_is_active_where_the_rule_of_the_mode_is_missing() {
        assert_eq!(active(&format!("{FUNCTION}{RULES}"), &["x"], "y", Mode::Reverse), "forth a b y");
        assert_eq!(active(&format!("{FUNCTION}{RULES}"), &["x"], "y", Mode::Forward), "back a b y");
    }

    /// Functions with one rule in the body of a loop and in a branch, and a loop over data.
    const REGIONS: &str = "
    region @branch_jvp(%x: f64[], %y: f64[], %d: f64[]) {
        %branched = neg %d
        yield %branched
    }
    region @body(%c: f64[], %w: f64[]) {
        %in = custom_fn %c body=@f captures=0 jvp=@jvp
        %out = custom_fn %in body=@f captures=0 vjp=@vjp
        %next = mul %out, %w
        yield %next
    }
    region @then(%t: f64[]) {
        %yes = custom_fn %t body=@f captures=0 jvp=@branch_jvp
        yield %yes
    }
    region @otherwise(%t: f64[]) {
        %no = exp %t
        yield %no
    }
    region @data(%c: f64[]) {
        %far = exp %c
        yield %far
    }
    graph @regions {
        %x = input : f64[]
        %z = input : f64[]
        %on = input : bool[]
        %s = scan %x, %z body=@body carries=1 consts=1 length=2 reverse=false
        %k = if %on, %x then=@then otherwise=@otherwise
        %d = scan %z body=@data carries=1 consts=0 length=2 reverse=false
        %e = add %s, %k
        %y = add %e, %d
        return y=%y
    }";

    /// Forward mode reads what a reverse walk over the body finds, so loops are differentiated in both modes.
    #[test]
    fn regions_of_active_nodes_are_active_and_loops_are_so_in_reverse_mode_too() {
        let source = format!("{FUNCTION}{REGIONS}");
        let reverse = active(&source, &["x"], "y", Mode::Reverse);
        assert_eq!(reverse, "forth branched in out next yes no s k e y");
        let forward = active(&source, &["x"], "y", Mode::Forward);
        assert_eq!(forward, "back forth in out next yes no s k e y");
        assert_eq!(active(&source, &["z"], "y", Mode::Reverse), "forth in out next far s d e y");
    }
}
