//! Stacks of loops that end early, of which no slice is read that no iteration made.
//!
//! The slices that such a loop does not reach are zeros. To write them costs the loop's bound, not its iterations. The
//! adjoint of a loop reads a stack slice by slice, in as many iterations as the loop ran. If nothing else reads it, it
//! needs no zeros: the stack is *partial*. The stack of a loop in the body of another one is stacked once more, beside
//! its numbers of iterations; the adjoint of the outer loop hands a slice of both to that of the inner one. The checker
//! proves for each plan that all readers of a partial stack keep to this.

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::trips::trips_carry;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::{Graph, Op};
use hashbrown::{HashMap, HashSet};

/// An argument or a yield of a loop's body that is a partial stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartialSlice {
    /// The body.
    pub body: Region,
    /// True for a yield.
    pub is_yield: bool,
    /// Its position among the arguments or the yields.
    pub stack: usize,
    /// That of the numbers of iterations.
    pub trips: usize,
    /// How many loops stand between the slice and the loop whose iterations are counted.
    pub depth: usize,
}

/// A reader of a stack.
#[derive(Clone, Copy)]
enum Reader {
    /// Operand `.1` of a loop.
    Loop(Node, usize),
    /// Yield `.1` of a loop's body.
    Yield(Node, usize),
    /// Any other.
    Other,
}

/// The partial stacks of a graph.
#[derive(Default)]
pub struct PartialStacks {
    stacks: HashSet<Value>,
    slices: HashMap<Region, Vec<PartialSlice>>,
}

impl PartialStacks {
    pub fn of(g: Graph<'_>) -> PartialStacks {
        let loops = || (0..g.nodes()).map(Node::new).filter(|&n| matches!(g.def_of(n).lower, Lower::Loop));
        let scan = |n: Node| Scan::of(&g.attrs(n));
        let stacks = |n: Node| g.outs_of(n).skip(scan(n).carries);
        let mut all = PartialStacks::default();
        if !loops().any(|n| scan(n).exit.is_some() && stacks(n).any(|v| g.bytes(v) > 0)) {
            return all;
        }
        let find = PartialFinder::new(g);
        for n in loops() {
            let s = scan(n);
            let trips = match s.exit {
                None => None,
                Some(Exit::Flag) => trips_carry(g, n).map(|carry| Value::new(g.out(n).at() + carry)),
                Some(Exit::Count) => Some(g.args_of(n)[s.carries]),
            };
            let Some(trips) = trips else { continue };
            for v in stacks(n).filter(|&v| g.bytes(v) > 0) {
                let mut slices = Vec::new();
                if find.keeps_to(v, trips, 0, &mut slices) {
                    all.stacks.insert(v);
                    slices.into_iter().for_each(|p| all.add(p));
                }
            }
        }
        all
    }

    fn add(&mut self, slice: PartialSlice) {
        let of = self.slices.entry(slice.body).or_default();
        if !of.contains(&slice) {
            of.push(slice);
        }
    }

    /// True if the stack `v` needs no zeros.
    pub fn has(&self, v: Value) -> bool {
        self.stacks.contains(&v)
    }

    /// The arguments and yields of `body` that are partial stacks.
    pub fn slices(&self, body: Region) -> &[PartialSlice] {
        self.slices.get(&body).map_or(&[], Vec::as_slice)
    }
}

struct PartialFinder<'g> {
    g: Graph<'g>,
    readers: HashMap<Value, Vec<Reader>>,
    /// The loop of each body that only one loop runs.
    owner: Side<Region, Option<Node>>,
}

impl<'g> PartialFinder<'g> {
    fn new(g: Graph<'g>) -> PartialFinder<'g> {
        let mut owner = Side::<Region, Option<Node>>::filled(g.regions(), None);
        let mut runs = Side::<Region, usize>::filled(g.regions(), 0);
        let mut readers: HashMap<Value, Vec<Reader>> = HashMap::new();
        let mut read = |v: Value, by: Reader| {
            let n = g.def[v.at()];
            if g.op[n.at()] == Op::ARG || matches!(g.def_of(n).lower, Lower::Loop) {
                readers.entry(v).or_default().push(by);
            }
        };
        for n in (0..g.nodes()).map(Node::new) {
            let is_loop = matches!(g.def_of(n).lower, Lower::Loop);
            if is_loop {
                let body = Scan::of(&g.attrs(n)).body;
                runs[body] += 1;
                owner[body] = Some(n).filter(|_| runs[body] == 1);
            }
            for (i, &v) in g.args_of(n).iter().enumerate() {
                read(v, if is_loop { Reader::Loop(n, i) } else { Reader::Other });
            }
        }
        for r in (0..g.regions()).map(Region::new) {
            for (j, &v) in g.region_yields(r).iter().enumerate() {
                read(v, owner[r].map_or(Reader::Other, |n| Reader::Yield(n, j)));
            }
        }
        g.outputs().iter().chain(g.updates.iter().map(|u| &u.1)).for_each(|&v| read(v, Reader::Other));
        PartialFinder { g, readers, owner }
    }

    /// True if all readers of `stack` are loops that read as many slices as `trips` says, `depth` loops further in.
    /// Adds the slices that loops hand on between them.
    fn keeps_to(&self, stack: Value, trips: Value, depth: usize, slices: &mut Vec<PartialSlice>) -> bool {
        let g = self.g;
        let readers = self.readers.get(&stack).map_or(&[][..], Vec::as_slice);
        readers.iter().all(|&reader| match reader {
            Reader::Other => false,
            Reader::Loop(n, i) => {
                let s = Scan::of(&g.attrs(n));
                if i < s.xs() {
                    return false;
                }
                let Some(depth) = depth.checked_sub(1) else {
                    return s.exit == Some(Exit::Count) && g.args_of(n)[s.carries] == trips;
                };
                let beside = (s.xs()..g.args_of(n).len()).find(|&k| g.args_of(n)[k] == trips);
                let Some(beside) = beside.filter(|_| self.owner[s.body] == Some(n)) else { return false };
                slices.push(PartialSlice { body: s.body, is_yield: false, stack: i, trips: beside, depth });
                let arg = |i: usize| g.region_args(s.body).nth(i);
                let inner = arg(i).zip(arg(beside));
                inner.is_some_and(|(stack, trips)| self.keeps_to(stack, trips, depth, slices))
            }
            Reader::Yield(n, j) => {
                let s = Scan::of(&g.attrs(n));
                let yields = g.region_yields(s.body);
                let beside = (s.carries..yields.len()).find(|&k| yields[k] == trips);
                // What is a carry, too, may be a window of another stack.
                let carried = |v: Value| yields[..s.carries].contains(&v);
                let own = |v: Value| matches!(g.def_of(g.def[v.at()]).lower, Lower::Loop) && !carried(v);
                let Some(beside) = beside.filter(|_| j >= s.carries && own(stack) && own(trips)) else { return false };
                slices.push(PartialSlice { body: s.body, is_yield: true, stack: j, trips: beside, depth });
                let result = |j: usize| Value::new(g.out(n).at() + j);
                self.keeps_to(result(j), result(beside), depth + 1, slices)
            }
        })
    }
}
