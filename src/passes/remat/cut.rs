//! Which values to keep so that fewest bytes wait: a minimum cut.
//!
//! Each early value is an edge that costs its bytes. Flow comes from values that must be computed before the turn and
//! ends at values that late nodes read; a node that may run again lets flow pass from its operands to its results. The
//! cut next to the late readers keeps the values, which of all cheapest ways recomputes least. (The idea: H. He and
//! S. Yu, "Transcending runtime-memory tradeoffs in checkpointing by being fusion aware", 2023.)

use super::facts::Facts;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::Graph;

const FOREVER: i64 = i64::MAX / 4;

/// The values to keep, if those of which `again` says so may be computed twice, by the node given with them.
pub fn least(g: Graph<'_>, f: &Facts, again: &dyn Fn(Node, Value) -> bool) -> Side<Value, bool> {
    let mut id = Side::filled(g.values(), u32::MAX);
    let mut values = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
        for v in g.outs_of(n).filter(|&v| !f.free[v]) {
            id[v] = values.len() as u32;
            values.push(v);
        }
    }
    let (source, sink) = (2 * values.len() as u32, 2 * values.len() as u32 + 1);
    let mut net = Net::new(values.len() * 2 + 2);
    for (k, &v) in values.iter().enumerate() {
        let (enter, leave) = (2 * k as u32, 2 * k as u32 + 1);
        // Empty values cost a byte, so that a cut never passes through what nothing reads.
        net.edge(enter, leave, f.bytes[v].clamp(1, 1 << 50) as i64);
        if f.late[v] {
            net.edge(leave, sink, FOREVER);
        }
        let n = g.def[v.at()];
        if !again(n, v) {
            net.edge(source, enter, FOREVER);
            continue;
        }
        for &a in g.args_of(n).iter().filter(|&&a| !f.free[a]) {
            net.edge(2 * id[a] + 1, enter, FOREVER);
        }
    }
    net.freeze();
    net.fill(source, sink);
    let late = net.reaching(sink);
    let mut kept = Side::filled(g.values(), false);
    for (k, &v) in values.iter().enumerate() {
        kept[v] = late[2 * k + 1] && !late[2 * k];
    }
    kept
}

/// A flow network; edge `e ^ 1` is the reverse of edge `e`.
struct Net {
    to: Vec<u32>,
    room: Vec<i64>,
    /// Edges of vertex `v`, once frozen: `edges[at[v]..at[v + 1]]`.
    at: Vec<u32>,
    edges: Vec<u32>,
    level: Vec<u32>,
    next: Vec<u32>,
}

impl Net {
    fn new(vertices: usize) -> Net {
        let zeros = || vec![0; vertices];
        Net {
            to: Vec::new(),
            room: Vec::new(),
            at: vec![0; vertices + 1],
            edges: Vec::new(),
            level: zeros(),
            next: zeros(),
        }
    }

    fn edge(&mut self, from: u32, to: u32, room: i64) {
        self.to.extend([to, from]);
        self.room.extend([room, 0]);
    }

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

    fn of(&self, v: u32) -> std::ops::Range<usize> {
        self.at[v as usize] as usize..self.at[v as usize + 1] as usize
    }

    /// Dinic's algorithm, without recursion.
    fn fill(&mut self, source: u32, sink: u32) {
        let mut path: Vec<u32> = Vec::new();
        while self.levels(source, sink) {
            self.next.copy_from_slice(&self.at[..self.level.len()]);
            let mut v = source;
            loop {
                if v == sink {
                    let flow = path.iter().map(|&e| self.room[e as usize]).min().unwrap_or(0);
                    for &e in &path {
                        self.room[e as usize] -= flow;
                        self.room[e as usize ^ 1] += flow;
                    }
                    let full = path.iter().position(|&e| self.room[e as usize] == 0).unwrap_or(0);
                    v = self.to[path[full] as usize ^ 1];
                    path.truncate(full);
                    continue;
                }
                if let Some(e) = self.onward(v) {
                    path.push(e);
                    v = self.to[e as usize];
                } else if let Some(e) = path.pop() {
                    // A dead end: this round does not come here again.
                    self.level[v as usize] = u32::MAX;
                    v = self.to[e as usize ^ 1];
                } else {
                    break;
                }
            }
        }
    }

    /// The next edge from `v` that has room and leads one level on.
    fn onward(&mut self, v: u32) -> Option<u32> {
        let end = self.at[v as usize + 1];
        while self.next[v as usize] < end {
            let e = self.edges[self.next[v as usize] as usize];
            let to = self.to[e as usize];
            let level = self.level[to as usize];
            if self.room[e as usize] > 0 && level != u32::MAX && level == self.level[v as usize] + 1 {
                return Some(e);
            }
            self.next[v as usize] += 1;
        }
        None
    }

    /// Distances from `source`; whether `sink` is reached.
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
                if self.room[e] > 0 && self.level[to as usize] == u32::MAX {
                    self.level[to as usize] = self.level[v as usize] + 1;
                    queue.push(to);
                }
            }
        }
        self.level[sink as usize] != u32::MAX
    }

    /// Vertices from which more could flow to `sink`.
    fn reaching(&self, sink: u32) -> Vec<bool> {
        let mut yes = vec![false; self.level.len()];
        yes[sink as usize] = true;
        let mut open = vec![sink];
        while let Some(v) = open.pop() {
            for i in self.of(v) {
                let back = self.edges[i] as usize ^ 1;
                let from = self.to[back ^ 1];
                if self.room[back] > 0 && !yes[from as usize] {
                    yes[from as usize] = true;
                    open.push(from);
                }
            }
        }
        yes
    }
}
