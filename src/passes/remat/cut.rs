//! The values to keep so that the fewest bytes are kept for the backward half: a minimum cut.
//!
//! Each forward value is an edge whose capacity is its bytes. Flow enters at values that must not be computed again and
//! leaves at values that backward nodes read; a node that may run again passes flow from its operands to its results.
//! The values on the minimum cut are kept. Of several minimum cuts, the one nearest to the backward readers recomputes
//! least. Source: H. He and S. Yu, "Transcending runtime-memory tradeoffs in checkpointing by being fusion aware",
//! 2023.

use super::facts::RematFacts;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::Graph;

/// Capacity of an edge that no cut may use.
const INFINITE: i64 = i64::MAX / 4;

/// The set of values with fewest bytes that must be kept. `recomputable(n, v)` says that value `v`, made by node `n`,
/// may be computed twice.
pub fn least_cut(g: Graph<'_>, f: &RematFacts, recomputable: &dyn Fn(Node, Value) -> bool) -> Side<Value, bool> {
    let mut id = Side::filled(g.values(), u32::MAX);
    let mut values = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
        for v in g.outs_of(n).filter(|&v| !f.free[v]) {
            id[v] = values.len() as u32;
            values.push(v);
        }
    }
    let (source, sink) = (2 * values.len() as u32, 2 * values.len() as u32 + 1);
    let mut net = CutNet::new(values.len() * 2 + 2);
    for (k, &v) in values.iter().enumerate() {
        let (enter, leave) = (2 * k as u32, 2 * k as u32 + 1);
        // Empty values cost one byte, so that no cut contains a value that nothing reads.
        net.edge(enter, leave, f.bytes[v].clamp(1, 1 << 50) as i64);
        if f.read_by_backward[v] {
            net.edge(leave, sink, INFINITE);
        }
        let n = g.def[v.at()];
        if !recomputable(n, v) {
            net.edge(source, enter, INFINITE);
            continue;
        }
        for &a in g.args_of(n).iter().filter(|&&a| !f.free[a]) {
            net.edge(2 * id[a] + 1, enter, INFINITE);
        }
    }
    net.freeze();
    net.max_flow(source, sink);
    let reaching = net.reaching(sink);
    let mut kept = Side::filled(g.values(), false);
    for (k, &v) in values.iter().enumerate() {
        kept[v] = reaching[2 * k + 1] && !reaching[2 * k];
    }
    kept
}

/// A flow network in compressed rows. Edge `e ^ 1` is the reverse of edge `e`.
struct CutNet {
    /// Target of each edge.
    to: Vec<u32>,
    /// Residual capacity of each edge.
    capacity: Vec<i64>,
    /// Edges of vertex `v`, once frozen: `edges[at[v]..at[v + 1]]`.
    at: Vec<u32>,
    edges: Vec<u32>,
    /// Distance of each vertex from the source.
    level: Vec<u32>,
    /// The next edge to try of each vertex.
    next: Vec<u32>,
}

impl CutNet {
    fn new(vertices: usize) -> CutNet {
        let zeros = || vec![0; vertices];
        CutNet {
            to: Vec::new(),
            capacity: Vec::new(),
            at: vec![0; vertices + 1],
            edges: Vec::new(),
            level: zeros(),
            next: zeros(),
        }
    }

    fn edge(&mut self, from: u32, to: u32, capacity: i64) {
        self.to.extend([to, from]);
        self.capacity.extend([capacity, 0]);
    }

    /// Sorts the edges by their source.
    fn freeze(&mut self) {
        let from = |e: usize| self.to[e ^ 1] as usize;
        for e in 0..self.to.len() {
            self.at[from(e) + 1] += 1;
        }
        for v in 1..self.at.len() {
            self.at[v] += self.at[v - 1];
        }
        let mut next = self.at.clone();
        self.edges = vec![0; self.to.len()];
        for e in 0..self.to.len() {
            let v = from(e);
            self.edges[next[v] as usize] = e as u32;
            next[v] += 1;
        }
    }

    /// Positions of the edges of `v` in `edges`.
    fn of(&self, v: u32) -> std::ops::Range<usize> {
        self.at[v as usize] as usize..self.at[v as usize + 1] as usize
    }

    /// Maximum flow by Dinic's algorithm, without recursion (Y. Dinitz, 1970).
    fn max_flow(&mut self, source: u32, sink: u32) {
        let mut path: Vec<u32> = Vec::new();
        while self.levels(source, sink) {
            self.next.copy_from_slice(&self.at[..self.level.len()]);
            let mut v = source;
            loop {
                if v == sink {
                    let flow = path.iter().map(|&e| self.capacity[e as usize]).min().unwrap_or(0);
                    for &e in &path {
                        self.capacity[e as usize] -= flow;
                        self.capacity[e as usize ^ 1] += flow;
                    }
                    let saturated = path.iter().position(|&e| self.capacity[e as usize] == 0).unwrap_or(0);
                    v = self.to[path[saturated] as usize ^ 1];
                    path.truncate(saturated);
                    continue;
                }
                if let Some(e) = self.onward(v) {
                    path.push(e);
                    v = self.to[e as usize];
                } else if let Some(e) = path.pop() {
                    // A dead end: no path of this round goes through `v`.
                    self.level[v as usize] = u32::MAX;
                    v = self.to[e as usize ^ 1];
                } else {
                    break;
                }
            }
        }
    }

    /// The next edge from `v` with capacity left that leads to the next level.
    fn onward(&mut self, v: u32) -> Option<u32> {
        let end = self.at[v as usize + 1];
        while self.next[v as usize] < end {
            let e = self.edges[self.next[v as usize] as usize];
            let to = self.to[e as usize];
            let level = self.level[to as usize];
            if self.capacity[e as usize] > 0 && level != u32::MAX && level == self.level[v as usize] + 1 {
                return Some(e);
            }
            self.next[v as usize] += 1;
        }
        None
    }

    /// Computes the distances from `source`. True if `sink` is reached.
    fn levels(&mut self, source: u32, sink: u32) -> bool {
        self.level.fill(u32::MAX);
        self.level[source as usize] = 0;
        let mut queue = vec![source];
        let mut done = 0;
        while done < queue.len() {
            let v = queue[done];
            done += 1;
            for i in self.of(v) {
                let (e, to) = (self.edges[i] as usize, self.to[self.edges[i] as usize]);
                if self.capacity[e] > 0 && self.level[to as usize] == u32::MAX {
                    self.level[to as usize] = self.level[v as usize] + 1;
                    queue.push(to);
                }
            }
        }
        self.level[sink as usize] != u32::MAX
    }

    /// The vertices that reach `sink` through edges with capacity left.
    fn reaching(&self, sink: u32) -> Vec<bool> {
        let mut yes = vec![false; self.level.len()];
        yes[sink as usize] = true;
        let mut open = vec![sink];
        while let Some(v) = open.pop() {
            for i in self.of(v) {
                let back = self.edges[i] as usize ^ 1;
                let from = self.to[back ^ 1];
                if self.capacity[back] > 0 && !yes[from as usize] {
                    yes[from as usize] = true;
                    open.push(from);
                }
            }
        }
        yes
    }
}
