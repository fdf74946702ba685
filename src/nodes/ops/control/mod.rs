//! Loops, choices, calls and custom functions: ops that run a region.

pub mod batch;
pub mod call;
pub mod cond;
pub mod custom_fn;
pub mod scan;
pub mod while_loop;

use crate::arena::{Node, Region, ids::Id};
use crate::nodes::{Graph, Op};

/// The method of the builder that wrote a loop over `body`, as the name of the body tells: `scan`, unless that is
/// `fori` or `while_loop`, alone or before a dot.
pub fn loop_method(g: Graph<'_>, body: Region) -> &'static str {
    let name = g.region_names.get(body.at()).map_or("", |&s| g.str(s));
    match name.split('.').next() {
        Some("fori") => "fori",
        Some("while_loop") => "while_loop",
        _ => scan::SCAN.name,
    }
}

/// The name of a gather that does no more than check an index of method `what`.
pub fn index_check_name(what: &str, number: usize) -> String {
    format!("{what}{INDEX_CHECK}{number}")
}

const INDEX_CHECK: &str = ".index";

/// What errors of a step call node `n`: the method of the builder that wrote it, or its op.
pub fn written_by(g: Graph<'_>, n: Node) -> &'static str {
    let checks = |what: &str| {
        let name = g.str(g.names[g.out(n).at()]);
        name.strip_prefix(what).is_some_and(|rest| rest.starts_with(INDEX_CHECK))
    };
    let checked = ["switch", "fori", "scan"].into_iter().find(|what| g.op[n.at()] == Op::GATHER && checks(what));
    match g.op[n.at()] {
        Op::SCAN => loop_method(g, scan::Scan::of(&g.attrs(n)).body),
        _ => checked.unwrap_or(g.def_of(n).name),
    }
}
