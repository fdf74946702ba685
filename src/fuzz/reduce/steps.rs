//! The steps of a reduction: changes of a draft that may make a graph smaller.

use crate::arena::{DType, Node, Region, Side, Value, ids::Id};
use crate::fuzz::draft::{Draft, DraftResize, DraftStandIn, bodies_of_node};
use crate::nodes::ir::attrs::{Kind, Owned};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op};

/// One step. Numbers are positions in the columns of the graph.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Outputs from … to, counted from the first output.
    DropOutputs(usize, usize),
    /// Updates from … to.
    DropUpdates(usize, usize),
    /// An update becomes an output.
    ShowUpdate(usize),
    /// New inputs for all values of the entry from … to.
    CutValues(usize, usize),
    /// A yield goes, with the result of each node that runs the region.
    DropYield(usize),
    /// A yield becomes an operand of the node that makes it.
    Bypass(usize, Value),
    /// Something stands for a value.
    Replace(Value, DraftStandIn),
    /// A node goes whose results nothing reads.
    DropNode(Node),
    /// A region is written where it is run.
    Inline(Region),
    /// An argument of a region goes; with a carry, its yield.
    DropArg(Value, Option<usize>),
    /// A size becomes another.
    DraftResize(DraftResize),
    /// An attribute changes.
    Attr(Node, usize, Owned),
    /// A param or a state becomes an input; an input loses its default.
    PlainLeaf(Node),
    /// An element type becomes another everywhere.
    Retype(DType, DType),
}

/// Lists of single steps, those first that make a graph much smaller.
pub(super) const ALL: &[fn(Graph<'_>) -> Vec<Step>] =
    &[dropped_outputs, value_replacements, smaller_regions, smaller_sizes, plainer_details];

impl Step {
    /// Writes the step into `d`. False if it is none for this graph.
    pub(super) fn apply(&self, d: &mut Draft<'_>) -> bool {
        let g = d.src;
        match self {
            &Step::DropOutputs(from, to) => {
                let first = g.yields_at[g.entry().at()] as usize;
                let count = g.outputs().len();
                (from..to.min(count)).for_each(|i| d.yields[first + i] = None);
                from < count
            }
            &Step::DropUpdates(from, to) => {
                (from..to.min(g.updates.len())).for_each(|i| d.updates[i] = None);
                from < g.updates.len()
            }
            &Step::ShowUpdate(i) => {
                d.outputs.extend(d.updates[i].take());
                true
            }
            &Step::CutValues(from, to) => {
                let entry = g.region_values(g.entry());
                let cut = values_between(g, from, to).filter(|v| entry.contains(&v.0) && g.leaf(*v).is_none());
                cut.map(|v| d.stand[v.at()] = DraftStandIn::Input).count() > 0
            }
            &Step::DropYield(i) => {
                d.yields[i] = None;
                true
            }
            &Step::Bypass(i, v) => {
                d.yields[i] = Some(v);
                true
            }
            &Step::Replace(v, stand) => {
                d.stand[v.at()] = stand;
                true
            }
            &Step::DropNode(n) => {
                g.outs_of(n).for_each(|v| d.stand[v.at()] = DraftStandIn::Full(0.0));
                true
            }
            &Step::Inline(r) => {
                d.inlined[r.at()] = true;
                // Chains of calls that call twice double with each region.
                let body = g.region_nodes(r).len();
                nodes_running(g, r).count().saturating_mul(body) < 1000 + 4 * g.nodes()
            }
            &Step::DropArg(v, carry) => {
                d.dropped_args[v.at()] = true;
                carry.into_iter().for_each(|i| d.yields[i] = None);
                true
            }
            &Step::DraftResize(resize) => {
                d.resize = Some(resize);
                true
            }
            Step::Attr(n, i, new) => {
                d.attrs.push((*n, *i, new.clone()));
                true
            }
            &Step::PlainLeaf(n) => {
                d.as_input[n.at()] = true;
                true
            }
            &Step::Retype(from, to) => {
                d.dtype = Some((from, to));
                true
            }
        }
    }
}

/// The nodes that run region `r`.
fn nodes_running(g: Graph<'_>, r: Region) -> impl Iterator<Item = Node> {
    (0..g.nodes()).map(Node::new).filter(move |&n| bodies_of_node(g, n).any(|body| body == r))
}

/// Outputs and updates one by one, and outputs of what their nodes read.
fn dropped_outputs(g: Graph<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..g.outputs().len()).rev().map(|i| Step::DropOutputs(i, i + 1)).collect();
    steps.extend((0..g.updates.len()).rev().map(|i| Step::DropUpdates(i, i + 1)));
    steps.extend((0..g.updates.len()).map(Step::ShowUpdate));
    let first = g.yields_at[g.entry().at()] as usize;
    for (i, &v) in g.outputs().iter().enumerate() {
        let mut args = g.args_of(g.def[v.at()]).to_vec();
        args.dedup();
        steps.extend(args.into_iter().map(|a| Step::Bypass(first + i, a)));
    }
    steps
}

/// For each value, from the last: an operand of its node, the first value of its type, a new input, a fill; and no node
/// where nothing reads its results.
fn value_replacements(g: Graph<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut read = Side::<Value, bool>::filled(g.values(), false);
    g.args.iter().chain(g.yields).for_each(|&v| read[v] = true);
    for v in (0..g.values()).rev().map(Value::new) {
        let n = g.def[v.at()];
        let r = g.region_of(n);
        let (leaf, plain) = (g.leaf(v).is_some() || g.op[n.at()] == Op::ARG, g.args_of(n).is_empty());
        let range = g.region_values(r);
        let same = |w: &Value| g.ty(*w) == g.ty(v);
        let operands = g.args_of(n).iter().copied().filter(same);
        let first = (range.start..g.outs_at[n.at()]).map(Value).find(same);
        let mut others: Vec<Value> = operands.chain(first).collect();
        others.dedup();
        steps.extend(others.into_iter().map(|w| Step::Replace(v, DraftStandIn::Other(w))));
        if r == g.entry() && !plain {
            steps.push(Step::Replace(v, DraftStandIn::Input));
        }
        if g.out(n) == v && g.outs_of(n).all(|v| !read[v]) {
            steps.push(Step::DropNode(n));
        } else if !plain || leaf {
            steps.extend([0.0, 1.0].map(|fill| Step::Replace(v, DraftStandIn::Full(fill))));
        }
    }
    steps
}

/// Inlined regions, and regions with fewer arguments and yields.
fn smaller_regions(g: Graph<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for r in (0..g.regions() - 1).rev().map(Region::new) {
        let runs: Vec<Node> = nodes_running(g, r).collect();
        if runs.iter().all(|&n| matches!(g.op[n.at()], Op::CALL | Op::SCAN | Op::IF | Op::CUSTOM_FN)) {
            steps.push(Step::Inline(r));
        }
        let yields = g.region_yields(r);
        let first = g.yields_at[r.at()] as usize;
        for (i, &v) in yields.iter().enumerate().rev() {
            let same = g.args_of(g.def[v.at()]).iter().filter(|&&a| g.ty(a) == g.ty(v));
            steps.extend(same.map(|&a| Step::Bypass(first + i, a)));
        }
        // The other branch has the same arguments and yields.
        if runs.iter().any(|&n| g.op[n.at()] == Op::IF) {
            continue;
        }
        let scans = || runs.iter().filter(|&&n| g.op[n.at()] == Op::SCAN);
        let carries = scans().map(|&n| Scan::of(&g.attrs(n)).carries).max().unwrap_or(0);
        for (i, v) in g.region_args(r).enumerate().collect::<Vec<_>>().into_iter().rev() {
            steps.push(Step::DropArg(v, (i < carries).then_some(first + i)));
        }
        steps.extend((carries..yields.len()).rev().map(|i| Step::DropYield(first + i)));
    }
    for n in (0..g.nodes()).map(Node::new) {
        // A derivative rule of a custom function is optional, and what ends a loop early.
        let fields = g
            .def_of(n)
            .attrs
            .iter()
            .enumerate()
            .filter(|(_, f)| f.optional && matches!(f.kind, Kind::Region | Kind::Choice(_)));
        let here = fields.filter(|(i, _)| g.attrs(n).has(*i));
        steps.extend(here.map(|(i, _)| Step::Attr(n, i, Owned::Absent)));
    }
    steps
}

/// Smaller sizes, everywhere at once, and axes that go.
fn smaller_sizes(g: Graph<'_>) -> Vec<Step> {
    let mut sizes: Vec<usize> = (0..g.values()).flat_map(|v| g.dims(Value::new(v)).to_vec()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut steps = Vec::new();
    for &n in sizes.iter().rev() {
        let mut to = vec![1, 2, n / 2, n.saturating_sub(1)];
        to.retain(|&to| to < n && to > 0);
        to.dedup();
        for to in to {
            let rules = [DraftResize::Exactly(n, to), DraftResize::Multiples(n, to), DraftResize::AxesOnly(n, to)];
            steps.extend(rules.map(Step::DraftResize));
        }
    }
    for n in sizes {
        steps.extend([DraftResize::DropFirst(n), DraftResize::DropLast(n)].map(Step::DraftResize));
    }
    steps
}

/// Plainer leaves, types and attributes.
fn plainer_details(g: Graph<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for n in (0..g.nodes()).map(Node::new).filter(|&n| g.op[n.at()] != Op::ARG) {
        if g.op[n.at()].is_named_leaf() {
            steps.push(Step::PlainLeaf(n));
        }
        for (i, (field, value)) in g.attrs(n).iter().enumerate() {
            let optional = field.optional.then_some(Owned::Absent);
            let plainer = optional.into_iter().chain(plainer_attributes(&value));
            steps.extend(plainer.map(|new| Step::Attr(n, i, new)));
        }
    }
    for d in DType::ALL.iter().copied().filter(|&d| d != DType::F32 && g.dtype.contains(&d)) {
        steps.push(Step::Retype(d, DType::F32));
    }
    steps
}

/// Values of an attribute that are plainer than `a`.
fn plainer_attributes(a: &Owned) -> Vec<Owned> {
    match a {
        Owned::Bool(true) => vec![Owned::Bool(false)],
        Owned::Int(i) => [0, 1, i / 2, i - i.signum()].map(Owned::Int).to_vec(),
        Owned::F64(x) => [0.0, 1.0, x.trunc()].map(Owned::F64).to_vec(),
        Owned::Choice(c) => (0..*c).map(Owned::Choice).collect(),
        Owned::Ints(list) => {
            let one = |at: usize, to: i64| {
                let mut list = list.clone();
                list[at] = to;
                Owned::Ints(list)
            };
            (0..list.len()).flat_map(|at| [0, 1, list[at] / 2].map(|to| one(at, to))).collect()
        }
        Owned::Floats(list) => {
            let plain = list.iter().map(|x| x.trunc().clamp(-1.0, 1.0)).collect();
            vec![Owned::Floats(vec![0.0; list.len()]), Owned::Floats(vec![1.0; list.len()]), Owned::Floats(plain)]
        }
        Owned::Bytes(bytes) => vec![Owned::Bytes(vec![0; bytes.len()])],
        _ => Vec::new(),
    }
}

/// Those of the values `from..to` that there are.
fn values_between(g: Graph<'_>, from: usize, to: usize) -> impl Iterator<Item = Value> {
    (from as u32..to.min(g.values()) as u32).map(Value)
}
