//! Joins `map` nodes and lone pointwise ops in the bodies of loops and branches: those of one shape become a few `map`
//! nodes with several results. The tensors of a body are small and stay in cache, so the number of kernel calls counts.
//!
//! Nodes of a body are written in an order that brings pointwise nodes together: first all other nodes whose operands
//! are ready, then all pointwise nodes of one shape that need only those and one another, and so on. The entry is left
//! alone: there, another order would keep more bytes alive. Invariant: the bits stay, because each step of a region
//! rounds on its own.
//!
//! A constant of a loop that is the broadcast of one number, and that joined nodes alone read, becomes that number: the
//! joined nodes broadcast it. Each iteration then reads one element of it.

use super::fuse::{fused_regions, list_readers};
use super::rebuild::{RebuildVisit, rebuild};
use super::region_users::{count_region_users, regions_of_node};
use super::simplify::Hits;
use crate::arena::{Node, Region, Shape, Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::ops::pointwise::map::reduction_of;
use crate::nodes::{Graph, Op, Ty, Var};
use bumpalo::Bump;
use hashbrown::HashMap;

/// The most elements of the results of a joined node.
const MOST_ELEMENTS: usize = 1 << 14;
/// The most steps of a joined node.
const MOST_STEPS: usize = 224;
/// The most inputs of a joined node: what a kernel call takes.
const MOST_INPUTS: usize = crate::kernels::tile::MAX_INPUTS;
/// The most results of a joined node.
const MOST_RESULTS: usize = crate::kernels::tile::MAX_OUTPUTS;
/// The most nodes of a body that is looked at: finding what can be joined takes their number squared.
const MOST_NODES: usize = 1 << 10;

/// Joins pointwise nodes in the bodies of loops and branches of `g`. Counts the nodes saved in `hits`.
pub fn join_maps<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    let facts = JoinFacts { g, readers: list_readers(g), fused: fused_regions(g), users: count_region_users(g) };
    // Region of the source → the region in its place, and its arguments that become one number. A region stands behind
    // those that its nodes run, so the table grows with the regions that are visited.
    let (mut regions, mut made) = (Vec::new(), Side::<Region, bool>::filled(g.regions(), false));
    let mut numbers = vec![Vec::new(); g.regions()];
    rebuild(g, bump, &mut |v| {
        let own: Vec<Region> = regions_of_node(g, v.node).filter(|&r| !facts.fused[r]).collect();
        if own.is_empty() || v.op() == Op::MAP {
            return None;
        }
        if let Some(new) = regions_of_node(g, v.node).max().and_then(|last| v.regions.get(regions.len()..=last.at())) {
            regions.extend_from_slice(new);
        }
        for r in own {
            if !std::mem::replace(&mut made[r], true) {
                let parts = facts.parts_of_body(r, v.live);
                *hits.entry("joined-maps").or_default() += parts.iter().map(|p| p.len() - 1).sum::<usize>();
                numbers[r.at()] = facts.numbers_of_body(v.node, r, &parts, v.live);
                regions[r.at()] = facts.write_body(v, r, &parts, &regions, &numbers);
            }
        }
        let ids: Vec<Value> = facts.operands(v.node, &numbers).map(|a| v.map[a].v).collect();
        v.g.with(|e| e.set_loc(g.loc[v.node.at()]));
        let outs = v.g.with(|e| e.copy(&g, v.node, &ids, &regions));
        Some(outs.iter().map(|o| v.g.var(o)).collect())
    })
}

/// True if `g` has a loop or a choice.
pub fn has_loop_or_choice(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| g.op[n.at()] != Op::MAP && regions_of_node(g, n).next().is_some())
}

/// An input of a pointwise region: a value, and the number of what is read of it: itself, a broadcast or a slice.
type JoinInput = (Value, u32);

/// The steps of a joined node. Equal steps, of which each region that is joined has its own, become one.
struct JoinSteps {
    /// How many there are.
    count: usize,
    /// The number of each value of the region, 0 if it has none yet. Equal values have one number.
    of: Window<Value, u32>,
    /// The number of the result of each step: an op, its attributes, the numbers of its operands.
    known: HashMap<(Op, Vec<u32>, Vec<u32>), u32>,
    last: u32,
}

impl JoinSteps {
    /// None yet of region `r`.
    fn new(g: Graph<'_>, r: Region) -> JoinSteps {
        JoinSteps { count: 0, of: Window::filled(g.region_values(r), 0), known: HashMap::new(), last: 0 }
    }

    /// Forgets all steps. Values keep their numbers.
    fn clear(&mut self) {
        self.count = 0;
        self.known.clear();
    }

    /// The number of value `v`.
    fn number(&mut self, v: Value) -> u32 {
        if self.of[v] == 0 {
            self.last += 1;
            self.of[v] = self.last;
        }
        self.of[v]
    }

    /// Adds step `n` of `g`, whose operands have the numbers `args`. The number of its result.
    fn add(&mut self, g: Graph<'_>, n: Node, args: Vec<u32>) -> u32 {
        let (last, count) = (&mut self.last, &mut self.count);
        *self.known.entry((g.op[n.at()], g.attrs(n).words.to_vec(), args)).or_insert_with(|| {
            // Operands are read as broadcasts, slices and reshapes of them.
            *count += usize::from(!matches!(g.op[n.at()], Op::BROADCAST | Op::SLICE | Op::RESHAPE));
            *last += 1;
            *last
        })
    }
}

struct JoinFacts<'x> {
    g: Graph<'x>,
    readers: Side<Value, Vec<Node>>,
    fused: Side<Region, bool>,
    users: Side<Region, usize>,
}

impl JoinFacts<'_> {
    /// The value that operand `a` of a loop repeats, if it repeats one number.
    fn number(&self, a: Value) -> Option<Value> {
        let n = self.g.def[a.at()];
        let repeats = self.g.op[n.at()] == Op::BROADCAST && self.g.numel(a) > 1;
        repeats.then(|| self.g.args_of(n)[0]).filter(|&x| self.g.numel(x) == 1)
    }

    /// What node `n` reads when its body takes the arguments `numbers` as one number.
    fn operands<'s>(&'s self, n: Node, numbers: &'s [Vec<usize>]) -> impl Iterator<Item = Value> + 's {
        let looped = self.g.op[n.at()] == Op::SCAN;
        let own = if looped { &numbers[Scan::of(&self.g.attrs(n)).body.at()][..] } else { &[] };
        let args = self.g.args_of(n).iter().enumerate();
        args.map(|(i, &a)| self.number(a).filter(|_| own.contains(&i)).unwrap_or(a))
    }

    /// The arguments of the body `r` of `n` that become one number: constants of a loop that repeat one, and that only
    /// joined nodes of their shape read.
    fn numbers_of_body(&self, n: Node, r: Region, parts: &[Vec<Node>], live: &Side<Node, bool>) -> Vec<usize> {
        let g = self.g;
        if g.op[n.at()] != Op::SCAN || self.users[r] != 1 {
            return Vec::new();
        }
        let scan = Scan::of(&g.attrs(n));
        let joined = |reader: Node| {
            g.op[reader.at()] == Op::MAP || parts.iter().any(|part| part.len() > 1 && part.contains(&reader))
        };
        let fits = |a: Value, reader: Node| {
            joined(reader) && self.joinable(reader) == Some(g.shape[a.at()]) && !self.broadcasts(reader, |x| x == a)
        };
        let args = g.region_args(r).enumerate().take(scan.xs()).skip(scan.carries);
        let args = args.filter(|&(i, a)| {
            let repeats = scan.exit_operand() != Some(i) && self.number(g.args_of(n)[i]).is_some();
            let readers = || self.readers[a].iter().filter(|&&reader| live[reader]);
            repeats && !g.region_yields(r).contains(&a) && readers().all(|&reader| fits(a, reader))
        });
        args.map(|(i, _)| i).collect()
    }

    /// The shape of the results of `n`, if it can be joined with others.
    fn joinable(&self, n: Node) -> Option<Shape> {
        let g = self.g;
        let pointwise = match g.op[n.at()] {
            Op::MAP => reduction_of(g, MapAttrs::of(&g.attrs(n)).body).is_none(),
            _ => g.def_of(n).is_pointwise(),
        };
        let v = g.out(n);
        (pointwise && (1..=MOST_ELEMENTS).contains(&g.numel(v))).then(|| g.shape[v.at()])
    }

    /// The inputs of `n`. Adds its steps to `steps`.
    fn reads(&self, n: Node, steps: &mut JoinSteps) -> Vec<JoinInput> {
        let g = self.g;
        if g.op[n.at()] != Op::MAP {
            let args: Vec<u32> = g.args_of(n).iter().map(|&a| steps.number(a)).collect();
            let reads = g.args_of(n).iter().copied().zip(args.iter().copied()).collect();
            let own = steps.add(g, n, args);
            steps.of[g.out(n)] = own;
            return reads;
        }
        let mut inputs = Vec::new();
        let region = MapAttrs::of(&g.attrs(n)).body;
        let to = g.shape[g.out(n).at()];
        let mut numbers = Window::filled(g.region_values(region), 0);
        for inner in g.region_nodes(region) {
            let v = g.out(inner);
            let arg = |v: Value| g.args_of(n)[ArgAttrs::of(&g.attrs(g.def[v.at()])).index as usize];
            numbers[v] = match g.op[inner.at()] {
                Op::ARG => steps.number(arg(v)),
                _ => steps.add(g, inner, g.args_of(inner).iter().map(|&a| numbers[a]).collect()),
            };
            match g.op[inner.at()] {
                Op::ARG if g.shape[v.at()] == to => inputs.push((arg(v), numbers[v])),
                Op::BROADCAST | Op::SLICE => inputs.push((arg(g.args_of(inner)[0]), numbers[v])),
                _ => {}
            }
        }
        for (v, y) in g.outs_of(n).zip(g.region_yields(region)) {
            steps.of[v] = numbers[*y];
        }
        inputs
    }

    /// True if the region of `n` broadcasts or slices a result of `others`. It cannot be joined with them then: a
    /// region does that to its arguments only.
    fn broadcasts_any(&self, n: Node, others: &[Node]) -> bool {
        self.broadcasts(n, |a| others.contains(&self.g.def[a.at()]))
    }

    /// True if the region of `n` broadcasts or slices an operand that `picked` picks.
    fn broadcasts(&self, n: Node, picked: impl Fn(Value) -> bool) -> bool {
        let g = self.g;
        if g.op[n.at()] != Op::MAP {
            return false;
        }
        let parts = |step: &Node| matches!(g.op[step.at()], Op::BROADCAST | Op::SLICE);
        let mut steps = g.region_nodes(MapAttrs::of(&g.attrs(n)).body).filter(parts);
        steps.any(|step| {
            let arg = g.def[g.args_of(step)[0].at()];
            picked(g.args_of(n)[ArgAttrs::of(&g.attrs(arg)).index as usize])
        })
    }

    /// The nodes of body `r` in the order in which they are written. Those of one part become one node.
    fn parts_of_body(&self, r: Region, live: &Side<Node, bool>) -> Vec<Vec<Node>> {
        let g = self.g;
        let nodes: Vec<Node> = g.region_nodes(r).filter(|&n| live[n] && g.op[n.at()] != Op::ARG).collect();
        if nodes.len() > MOST_NODES {
            return nodes.into_iter().map(|n| vec![n]).collect();
        }
        let mut there = Window::filled(g.region_values(r), false);
        g.region_args(r).for_each(|a| there[a] = true);
        let (mut parts, mut left, mut steps) = (Vec::new(), nodes, JoinSteps::new(g, r));
        while !left.is_empty() {
            let ready = |n: Node, there: &Window<Value, bool>| g.args_of(n).iter().all(|&a| there[a]);
            left.retain(|&n| {
                let takes = self.joinable(n).is_none() && ready(n, &there);
                if takes {
                    g.outs_of(n).for_each(|v| there[v] = true);
                    parts.push(vec![n]);
                }
                !takes
            });
            let (mut shape, mut sweep) = (None, Vec::new());
            left.retain(|&n| {
                let fits = self.joinable(n).filter(|&s| shape.is_none_or(|first| first == s) && ready(n, &there));
                let fits = fits.filter(|_| !self.broadcasts_any(n, &sweep));
                if fits.is_some() {
                    shape = fits;
                    g.outs_of(n).for_each(|v| there[v] = true);
                    sweep.push(n);
                }
                fits.is_none()
            });
            parts.extend(self.chunks(r, sweep, live, &mut steps));
        }
        parts
    }

    /// Cuts `sweep`, in order, into parts that a kernel can compute.
    fn chunks(
        &self,
        r: Region,
        mut sweep: Vec<Node>,
        live: &Side<Node, bool>,
        steps: &mut JoinSteps,
    ) -> Vec<Vec<Node>> {
        let mut parts = Vec::new();
        while !sweep.is_empty() {
            steps.clear();
            let (mut inputs, mut count) = (Vec::<JoinInput>::new(), 0);
            for &n in &sweep {
                let reads = self.reads(n, steps);
                let inside = |v: Value| sweep[..count].contains(&self.g.def[v.at()]);
                let mut with = inputs.clone();
                for read in reads.into_iter().filter(|read| !inside(read.0)) {
                    if !with.contains(&read) {
                        with.push(read);
                    }
                }
                if count > 0 && (with.len() > MOST_INPUTS || steps.count > MOST_STEPS) {
                    break;
                }
                (inputs, count) = (with, count + 1);
            }
            while count > 1 && self.results(r, &sweep[..count], live).len() > MOST_RESULTS {
                count -= 1;
            }
            let rest = sweep.split_off(count);
            parts.push(std::mem::replace(&mut sweep, rest));
        }
        parts
    }

    /// The values of `part` that others read. Fusion leaves dead readers behind, which do not count.
    fn results(&self, r: Region, part: &[Node], live: &Side<Node, bool>) -> Vec<Value> {
        let g = self.g;
        let read = |v: Value| self.readers[v].iter().any(|&n| live[n] && !part.contains(&n));
        let all = part.iter().flat_map(|&n| g.outs_of(n));
        all.filter(|&v| g.region_yields(r).contains(&v) || read(v)).collect()
    }

    /// The arguments of the body `r` of loop `n` that `part` reads and that the loop stacks. As results of the joined
    /// node they need no call that copies them. One whose next value is stacked, too, is left out: both stacks
    /// are parts of one buffer.
    fn stacked_args(&self, n: Node, r: Region, part: &[Node]) -> Vec<Value> {
        let g = self.g;
        let Some(shape) = part.iter().find_map(|&n| self.joinable(n)).filter(|_| g.op[n.at()] == Op::SCAN) else {
            return Vec::new();
        };
        let (carries, stacked) =
            g.region_yields(r).split_at(Scan::of(&g.attrs(n)).carries.min(g.region_yields(r).len()));
        let twice = |k: usize| carries.get(k).is_some_and(|next| stacked.contains(next));
        let read = |a: Value| part.iter().any(|&n| g.args_of(n).contains(&a));
        let args = g.region_args(r).enumerate();
        let fits = args.filter(|&(k, a)| stacked.contains(&a) && !twice(k) && g.shape[a.at()] == shape && read(a));
        fits.map(|(_, a)| a).collect()
    }

    /// Writes body `r` part by part. `numbers` are the arguments of bodies that become one number.
    fn write_body(
        &self,
        v: &RebuildVisit<'_, '_>,
        r: Region,
        parts: &[Vec<Node>],
        regions: &[Region],
        numbers: &[Vec<usize>],
    ) -> Region {
        let (src, g, own) = (self.g, v.g, &numbers[r.at()]);
        let operands: Vec<Value> = self.operands(v.node, numbers).collect();
        let given = |(i, a): (usize, Value)| src.ty(if own.contains(&i) { operands[i] } else { a });
        let tys: Vec<Ty> = src.region_args(r).enumerate().map(given).collect();
        let repeated: Vec<Value> = src.region_args(r).enumerate().filter(|a| own.contains(&a.0)).map(|a| a.1).collect();
        let body = g.region(src.str(src.region_names[r.at()]), &tys, |args| {
            let mut map = Window::filled(src.region_values(r), Value::NONE);
            src.region_args(r).zip(args).for_each(|(a, x)| map[a] = x.v);
            let mut stacked = Window::filled(src.region_values(r), Value::NONE);
            for part in parts {
                g.with(|e| e.set_loc(src.loc[part[part.len() - 1].at()]));
                let results = self.results(r, part, v.live);
                let mut copied = self.stacked_args(v.node, r, part);
                copied.retain(|&a| stacked[a] == Value::NONE);
                copied.truncate(MOST_RESULTS.saturating_sub(results.len()));
                let plain = || !part.iter().any(|&n| src.args_of(n).iter().any(|a| repeated.contains(a)));
                if let (&[n], [], true) = (&part[..], &copied[..], plain()) {
                    let ops: Vec<Value> = self.operands(n, numbers).map(|a| map[a]).collect();
                    let outs = g.with(|e| e.copy(&src, n, &ops, regions));
                    src.outs_of(n).zip(outs.iter()).for_each(|(o, new)| map[o] = new);
                    continue;
                }
                let both = [&results[..], &copied].concat();
                let made = self.write_joined(v, part, &both, &map, &repeated);
                for (o, new) in results.iter().zip(&made) {
                    g.with(|e| e.set_name(new.v, src.names[o.at()]));
                    map[*o] = new.v;
                }
                copied.iter().zip(&made[results.len()..]).for_each(|(a, new)| stacked[*a] = new.v);
            }
            let carries = if src.op[v.node.at()] == Op::SCAN { Scan::of(&src.attrs(v.node)).carries } else { 0 };
            let yields = src.region_yields(r).iter().enumerate();
            let given = |(k, &y): (usize, &Value)| match stacked[y] {
                copy if k >= carries && copy != Value::NONE => g.var(copy),
                _ => g.var(map[y]),
            };
            yields.map(given).collect()
        });
        body.region
    }

    /// Writes `part` as one `map` node, which broadcasts the operands `repeated`. Its results.
    fn write_joined<'g>(
        &self,
        v: &RebuildVisit<'_, 'g>,
        part: &[Node],
        results: &[Value],
        map: &Window<Value, Value>,
        repeated: &[Value],
    ) -> Vec<Var<'g>> {
        let (src, g) = (self.g, v.g);
        let mut inputs: Vec<Value> = Vec::new();
        for &a in part.iter().flat_map(|&n| src.args_of(n)) {
            if !part.contains(&src.def[a.at()]) && !inputs.contains(&a) {
                inputs.push(a);
            }
        }
        let operands: Vec<Var<'g>> = inputs.iter().map(|&a| g.var(map[a])).collect();
        let tys: Vec<Ty> = operands.iter().map(|x| x.ty()).collect();
        let body = g.region("map", &tys, |args| {
            let whole = |a: Value, x: Var<'g>| if repeated.contains(&a) { x.broadcast(src.dims(a)) } else { x };
            let mut local: Vec<(Value, Value)> = inputs.iter().zip(args).map(|(&a, &x)| (a, whole(a, x).v)).collect();
            let find =
                |local: &[(Value, Value)], a: Value| local.iter().find(|l| l.0 == a).map_or(Value::NONE, |l| l.1);
            for &n in part {
                let ops: Vec<Value> = src.args_of(n).iter().map(|&a| find(&local, a)).collect();
                if src.op[n.at()] == Op::MAP {
                    let region = MapAttrs::of(&src.attrs(n)).body;
                    let mut inner = Window::filled(src.region_values(region), Value::NONE);
                    src.region_args(region).zip(&ops).for_each(|(a, &x)| inner[a] = x);
                    for step in src.region_nodes(region).filter(|m| src.op[m.at()] != Op::ARG) {
                        let ops: Vec<Value> = src.args_of(step).iter().map(|&a| inner[a]).collect();
                        inner[src.out(step)] = g.with(|e| e.copy(&src, step, &ops, &[])).at(0);
                    }
                    let yields = src.region_yields(region).iter().map(|&y| inner[y]);
                    local.extend(src.outs_of(n).zip(yields));
                } else {
                    let out = g.with(|e| e.copy(&src, n, &ops, &[])).at(0);
                    local.push((src.out(n), out));
                }
            }
            results.iter().map(|&v| g.var(find(&local, v))).collect()
        });
        g.emit(Op::MAP, &operands, &MapAttrs { body: body.region }.list()).to_vec()
    }
}
