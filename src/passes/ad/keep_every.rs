//! Loops that keep few carries: a loop with `keep_every` becomes a loop in stretches before it is differentiated.
//!
//! The outer loop keeps the carries of each of its iterations and nothing else ([`Scan::keeps_carries_only`]), so its
//! derivative runs a stretch again. A loop that ends early becomes a loop in stretches, too. Invariant: gradients have
//! the bits of a loop that keeps the carries of each iteration, because the cotangents of a constant are added in the
//! same order (see [`super::backward`]).

use crate::arena::{Node, Region, Side, ids::Id};
use crate::error::Result;
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::ops::control::{index_check_name, loop_method};
use crate::nodes::{DType, Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::stretches::{StretchYields, Stretches, stretch_levels_above, stretch_levels_inside};

/// `g` with the loops among the `active` nodes in stretches, if they keep the carries of some iterations only. Loops
/// that would stand too deep in one another, and those whose body reads the number of iterations that ends them, keep
/// the carries of each iteration instead.
pub(super) fn write_loops_in_stretches(g: Graph<'_>, active: &Side<Node, bool>) -> Result<GraphBuf> {
    let stretch = |n: Node| match active[n] && matches!(g.def_of(n).lower, Lower::Loop) {
        true => Scan::of(&g.attrs(n)).stretch().filter(|&each| each > 1),
        false => None,
    };
    let levels = |n: Node| if stretch(n).is_some() { 2 } else { 1 };
    let (above, inside) = (stretch_levels_above(g, levels), stretch_levels_inside(g, levels));
    let mut fits = Side::filled(g.nodes(), true);
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).filter(|&n| stretch(n).is_some()) {
            let scan = Scan::of(&g.attrs(n));
            fits[n] = above[r] + 2 + inside[scan.body] <= DEPTH && !body_reads_count(g, &scan);
        }
    }
    rebuild_buf(g, &mut |v| {
        let each = stretch(v.node)?;
        let scan = Scan::of(&v.src.attrs(v.node));
        Some(if fits[v.node] { keep_every(v, &scan, each) } else { write_in_stretches(v, &scan) })
    })
}

/// True if the body of a loop that counts its iterations reads their number: a stretch has another one.
fn body_reads_count(g: Graph<'_>, scan: &Scan) -> bool {
    let Some(n) = g.region_args(scan.body).nth(scan.carries).filter(|_| scan.exit == Some(Exit::Count)) else {
        return false;
    };
    g.region_yields(scan.body).contains(&n) || g.region_nodes(scan.body).any(|node| g.args_of(node).contains(&n))
}

/// Writes the loop `v` so that it keeps the carries of each iteration. Its results.
fn write_in_stretches<'g>(v: &RebuildVisit<'_, 'g>, scan: &Scan) -> Vec<Var<'g>> {
    let each = Scan { keep_every: Some(1), ..*scan };
    v.g.emit(Op::SCAN, v.args, &each.over(v.regions[scan.body.at()], scan.carries, scan.consts).list()).into()
}

/// Writes the loop `v` in stretches of `each` iterations. Its results.
fn keep_every<'g>(v: &RebuildVisit<'_, 'g>, scan: &Scan, each: usize) -> Vec<Var<'g>> {
    let (g, k) = (v.g, scan.carries);
    // The barrier has the cotangents of two slices joined before others are added.
    let sliced = |x: &Var<'g>| match !scan.length.is_multiple_of(each) && x.dtype().is_differentiable() {
        true => g.emit1(Op::OPTIMIZATION_BARRIER, &[*x], &[]),
        false => *x,
    };
    let (carries, rest) = v.args.split_at(k);
    let (consts, xs) = rest.split_at(scan.consts);
    let mut consts = consts.to_vec();
    if let Some(n) = consts.first_mut().filter(|_| scan.exit == Some(Exit::Count)) {
        // The gather checks the number of iterations.
        let name = index_check_name(loop_method(v.src, scan.body), v.node.at());
        *n = g.iota(0, [scan.length.saturating_add(1)], DType::I64).gather(*n, 0).named(&name);
    }
    let stretches = Stretches {
        g,
        loc: v.src.loc[v.node.at()],
        method: loop_method(v.src, scan.body),
        scan: *scan,
        each,
        plain: 0..0,
        plain_alone: false,
        carries: carries.to_vec(),
        consts,
        xs: xs.iter().map(sliced).collect(),
        rows: Vec::new(),
    };
    let body = v.regions[scan.body.at()];
    let results = stretches.write(|a| {
        let bound = (scan.exit == Some(Exit::Flag)).then_some(0);
        let inner = Scan { length: a.length, keep_every: None, bound, ..*scan };
        let outs = g.emit(Op::SCAN, &[a.carries, a.consts, a.xs].concat(), &inner.over(body, k, scan.consts).list());
        let mut carries = Vec::from(outs);
        let ys = carries.split_off(k.min(carries.len()));
        StretchYields { carries, ys, row: Vec::new() }
    });
    [results.carries, results.ys].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::text;

    /// What is written of `source`, if all its nodes are active.
    fn written(source: &str) -> String {
        let graph = text::parse(source).unwrap();
        let g = graph.view();
        text::print(write_loops_in_stretches(g, &Side::filled(g.nodes(), true)).unwrap().view())
    }

    fn loops(text: &str) -> usize {
        text.matches("= scan ").count()
    }

    /// A loop of `length` iterations over floats and integers.
    fn over_rows(length: usize, keep: usize) -> String {
        format!(
            "region @body(%c: f64[], %x: f64[], %i: i64[]) {{
                %n = mul %c, %x
                yield %n
            }}
            graph @rows {{
                %c = input : f64[]
                %x = input : f64[{length}]
                %i = input : i64[{length}]
                %n = scan %c, %x, %i body=@body carries=1 consts=0 length={length} reverse=false keep_every={keep}
                return n=%n
            }}"
        )
    }

    #[test]
    fn stretches_are_loops_in_loops_and_a_shorter_one_is_a_pair_of_its_own() {
        // Loops, barriers before the slices of floats, and loops that keep their carries alone.
        let counts = |length, keep| {
            let text = written(&over_rows(length, keep));
            (loops(&text), text.matches("= optimization_barrier ").count(), text.matches("keep_every=1").count())
        };
        assert_eq!(counts(9, 4), (4, 1, 2));
        assert_eq!(counts(8, 4), (2, 0, 1));
        assert_eq!(counts(8, 2), (2, 0, 1));
        assert_eq!(counts(8, 9), (2, 0, 1));
        // Nothing to write.
        assert_eq!(counts(8, 1), (1, 0, 1));
        let graph = text::parse(&over_rows(8, 4)).unwrap();
        let still = write_loops_in_stretches(graph.view(), &Side::filled(graph.view().nodes(), false)).unwrap();
        assert_eq!(text::print(still.view()), text::print(graph.view()));
    }

    /// Loops in one another, the outermost first; true: it keeps each second carry.
    fn nest(kept: &[bool]) -> String {
        let mut source = "region @b0(%c: f64[]) {\n  %n = sin %c\n  yield %n\n}\n".to_string();
        for (i, &keep) in kept.iter().rev().enumerate() {
            let keep = if keep { " keep_every=2" } else { "" };
            let node = format!("  %n = scan %c body=@b{i} carries=1 consts=0 length=4 reverse=false{keep}\n");
            source += &match i + 1 == kept.len() {
                true => format!("graph @nest {{\n  %c = input : f64[]\n{node}  return n=%n\n}}\n"),
                false => format!("region @b{}(%c: f64[]) {{\n{node}  yield %n\n}}\n", i + 1),
            };
        }
        source
    }

    /// Sixteen loops may stand in one another, ten of them around each of these, and a loop in stretches is two.
    #[test]
    fn loops_that_would_stand_too_deep_keep_each_carry() {
        let (k, p) = (true, false);
        let nests: [(&[bool], usize); 7] = [
            (&[k, k, k], 3),
            (&[k, k, k, p], 0),
            (&[k, k, p, p], 2),
            (&[p, p, p, p, k], 1),
            (&[p, p, p, p, p, k], 0),
            (&[k, p, p, p, p], 1),
            (&[k, p, p, p, p, p], 0),
        ];
        for (kept, fitting) in nests {
            let kept = &[&[p; 10], kept].concat();
            let text = written(&nest(kept));
            assert_eq!(loops(&text), kept.len() + fitting, "{kept:?}\n{text}");
            // The outer loops of those that fit, and those that do not.
            let all = kept.iter().filter(|&&kept| kept).count();
            assert_eq!(text.matches("keep_every=1").count(), all, "{kept:?}\n{text}");
            assert_eq!(text.matches("keep_every").count(), all, "{kept:?}\n{text}");
        }
    }

    /// A loop of eight iterations with `body` over a carry and an integer, kept by fours.
    fn counted(body: &str, results: &str, exit: &str) -> String {
        let returned: Vec<String> = results.split(", ").map(|r| format!("{}={r}", &r[1..])).collect();
        let returned = returned.join(", ");
        written(&format!(
            "region @body(%c: f64[], %k: i64[]) {{
                {body}
            }}
            graph @counted {{
                %c = input : f64[]
                %k = input : i64[]
                {results} = scan %c, %k body=@body carries=1 consts=1 length=8 reverse=false keep_every=4{exit}
                return {returned}
            }}"
        ))
    }

    #[test]
    fn a_loop_whose_body_reads_its_count_keeps_each_carry() {
        let apart = "%n = sin %c\n yield %n";
        let reads = "%f = cast %k to=f64\n %n = mul %c, %f\n yield %n";
        let hands_on = "%n = sin %c\n yield %n, %k";
        assert_eq!(loops(&counted(apart, "%n", " exit=count")), 2);
        for (body, results) in [(reads, "%n"), (hands_on, "%n, %ks")] {
            let text = counted(body, results, " exit=count");
            assert!(loops(&text) == 1 && text.contains("keep_every=1 exit=count"), "{text}");
            // The integer ends no loop.
            assert_eq!(loops(&counted(body, results, "")), 2);
        }
    }

    #[test]
    fn the_count_of_a_loop_in_stretches_is_checked_against_its_length() {
        let text = counted("%n = sin %c\n yield %n", "%n", " exit=count");
        assert!(text.contains("= iota ") && text.contains(": i64[9]") && text.contains("= gather "), "{text}");
        let text = counted("%n = sin %c\n yield %n", "%n", "");
        assert!(!text.contains("gather"), "{text}");
    }

    /// The outer loop tells the bound; the end of a stretch is no error.
    #[test]
    fn a_stretch_of_a_loop_that_a_carry_ends_has_no_bound() {
        let text = written(
            "region @body(%go: bool[], %c: f64[]) {
                %n = mul %c, %c
                %most = full value=100 : f64[]
                %on = lt %n, %most
                yield %on, %n
            }
            graph @squares {
                %c = input : f64[]
                %t = full value=1 : bool[]
                %e, %n = scan %t, %c body=@body carries=2 consts=0 length=8 reverse=false keep_every=4 exit=flag
                return n=%n
            }",
        );
        let inner = "carries=2 consts=0 length=4 reverse=false exit=flag bound=0 ";
        let outer = "carries=2 consts=0 length=2 reverse=false keep_every=1 exit=flag bound=8 ";
        assert!(loops(&text) == 2 && text.contains(inner) && text.contains(outer), "{text}");
    }
}
