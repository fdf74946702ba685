//! For each invariant that the checker proves, a plan that breaks only this one, and the message that refuses it.

use super::ops::{ADD, COLUMNS, FRESH, PICK, REVERSE, TWO, node, one};
use super::random::planned;
use crate::arena::ids::Id;
use crate::arena::tensor::LINE;
use crate::arena::{Node, Value};
use crate::kernels::abi::Split;
use crate::nodes::{Builder, DType, Init};
use crate::sched::checker::check_plan;
use crate::sched::instructions::{BufKind, OUT_OF_PLACE, Operand};
use crate::sched::pack::lines;
use crate::sched::plan::Plan;

/// A sound plan for two threads, and the op and node of each instruction.
#[derive(Clone)]
struct Subject {
    ops: Vec<(&'static str, Node)>,
    plan: Plan,
}

impl Subject {
    fn new() -> Subject {
        let g = Builder::new("g");
        let x = g.input("x", [64], DType::F32);
        let at = g.input("at", [64], DType::I32);
        let w = g.param("w", [64], DType::F32, Init::Ones);
        let c = g.constant(&[1.0; 64], [64]);
        let early = one(&g, &FRESH, &[x]);
        let picked = one(&g, &PICK, &[early, at]);
        let two = node(&g, &TWO, &[one(&g, &REVERSE, &[picked])]);
        let both = one(&g, &ADD, &[two[0], two[0]]);
        g.update(w, one(&g, &ADD, &[w, one(&g, &ADD, &[both, early])]));
        g.output("y", one(&g, &COLUMNS, &[one(&g, &FRESH, &[two[1]])]));
        g.output("z", one(&g, &FRESH, &[c]));
        let graph = g.finish([]).unwrap();
        let plan = planned(graph.view(), 2, lines::pack_lines).plan;
        let ops = plan.code.node.iter().map(|&n| (graph.view().def_of(n).name, n)).collect();
        Subject { ops, plan }
    }

    /// The instruction of the `k`-th node of op `name`.
    fn find(&self, name: &str, k: usize) -> usize {
        let mut all: Vec<usize> = (0..self.ops.len()).filter(|&i| self.ops[i].0 == name).collect();
        all.sort_by_key(|&i| self.ops[i].1.at());
        all[k]
    }

    fn read(&mut self, i: usize, k: usize) -> &mut Operand {
        let at = self.plan.code.reads_at[i] as usize + k;
        &mut self.plan.code.reads[at]
    }

    fn write(&mut self, i: usize, k: usize) -> &mut Operand {
        let at = self.plan.code.writes_at[i] as usize + k;
        &mut self.plan.code.writes[at]
    }

    /// The buffer that instruction `i` writes first.
    fn made(&self, i: usize) -> usize {
        self.plan.code.writes_of(i)[0].buf as usize
    }

    /// Moves buffer `b` behind all others.
    fn apart(&mut self, b: usize) {
        self.plan.offset[b] = self.plan.bytes.next_multiple_of(LINE);
        self.plan.bytes = self.plan.offset[b] + self.plan.code.bytes[b];
    }

    /// A buffer behind all others that nothing uses.
    fn unused(&mut self, bytes: usize) -> u32 {
        let b = self.plan.code.buffer(bytes, BufKind::Scratch, Value(0));
        self.plan.offset.push(0);
        self.apart(b as usize);
        b
    }

    fn leaf(&self, kind: BufKind) -> usize {
        self.plan.code.kind.iter().position(|&k| k == kind).unwrap()
    }

    /// Lets instruction `i` work in place nowhere, and moves its first result behind all other buffers.
    fn part(&mut self, i: usize) -> usize {
        (0..self.plan.code.reads_of(i).len()).for_each(|r| self.set_in_place(i, r, OUT_OF_PLACE));
        self.apart(self.made(i));
        self.made(i)
    }

    fn set_in_place(&mut self, i: usize, read: usize, write: u8) {
        let at = self.plan.code.reads_at[i] as usize + read;
        self.plan.inplace[at] = write;
    }

    fn refused(self) -> Option<String> {
        check_plan(self.plan).err().map(|e| e.to_string())
    }
}

type Wrong = fn(&mut Subject);

/// What is wrong with where buffers lie, and the refusal.
const PLACES: &[(&str, Wrong)] = &[
    ("foreign bytes are not in order", |s| {
        let end = s.plan.bytes;
        s.plan.foreign = vec![end + LINE..end + 2 * LINE, end..end + LINE];
    }),
    ("foreign bytes are not in order", |s| {
        s.plan.foreign = std::iter::once(s.plan.bytes + LINE..s.plan.bytes).collect()
    }),
    ("columns do not fit", |s| s.plan.offset.truncate(3)),
    ("columns do not fit", |s| s.plan.inplace.truncate(3)),
    ("overlaps another leaf or constant", |s| {
        let (x, w) = (s.leaf(BufKind::Input), s.leaf(BufKind::Param));
        s.plan.offset[w] = s.plan.offset[x];
    }),
    ("lies outside the arena", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.plan.offset[b] = s.plan.bytes;
    }),
    ("lies outside the arena", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.plan.offset[b] = usize::MAX / LINE * LINE;
    }),
    ("lies in the bytes of another plan", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.apart(b);
        let end = s.plan.bytes;
        s.plan.foreign = std::iter::once(end - 1..end).collect();
    }),
    ("is not aligned", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.plan.bytes += LINE;
        s.apart(b);
        s.plan.offset[b] -= 4;
    }),
];

/// What is wrong with an operand, and the refusal.
const OPERANDS: &[(&str, Wrong)] = &[
    ("an operand that does not exist", |s| s.read(s.find("t_fresh", 0), 0).buf = 9999),
    ("an operand that does not exist", |s| {
        let o = s.read(s.find("t_fresh", 0), 0);
        (o.len, o.size) = (usize::MAX / 2, 4);
    }),
    ("an operand reaches beyond input", |s| s.read(s.find("t_fresh", 0), 0).off += 4),
    ("an operand reaches beyond", |s| s.write(s.find("t_fresh", 0), 0).len += 1),
    ("more than 64 writes", |s| {
        let i = s.find("t_fresh", 0);
        for _ in 0..64 {
            let buf = s.unused(4);
            let at = s.plan.code.writes_at[i] as usize;
            s.plan.code.writes.insert(at, Operand::of_bytes(buf, 0, 4, Split::PerUnit(1)));
            s.plan.code.writes_at[i + 1..].iter_mut().for_each(|at| *at += 1);
        }
    }),
    ("is read before it is written", |s| {
        let buf = s.unused(256);
        s.read(s.find("t_fresh", 0), 0).buf = buf;
    }),
    ("is written in part", |s| s.write(s.find("t_fresh", 0), 0).len -= 4),
    (" is written", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.apart(b);
        s.plan.code.kind[b] = BufKind::Input;
    }),
    ("16 units write one operand whole", |s| s.write(s.find("t_fresh", 0), 0).split = Split::Whole),
    ("15 units of 4 leave a rest", |s| {
        let i = s.find("t_fresh", 0);
        s.plan.code.units[i] -= 1;
    }),
    ("5 units of 3 columns of 16 leave a rest", |s| {
        let i = s.find("t_columns", 0);
        s.plan.code.units[i] -= 1;
    }),
    ("6 units of 3 columns of 15 leave a rest", |s| {
        s.write(s.find("t_columns", 0), 0).split = Split::Columns { row: 15, width: 3 };
    }),
    ("threads leave a rest", |s| s.plan.threads = 3),
    ("threads leave a rest", |s| s.write(s.find("t_fresh", 0), 0).split = Split::PerThread(32)),
];

/// What is wrong with the bytes that instructions share, and the refusal.
const SHARED: &[(&str, Wrong)] = &[
    ("was overwritten", |s| {
        // The first value is read once more after the reversal.
        s.part(s.find("t_two", 0));
        let (early, reversed) = (s.made(s.find("t_fresh", 0)), s.made(s.find("t_reverse", 0)));
        s.plan.offset[reversed] = s.plan.offset[early];
    }),
    ("was overwritten", |s| {
        // The bytes of the reversal belong to the result of `t_two` when another instruction writes to it again.
        let last = s.find("t_columns", 0);
        s.part(last);
        let (reversed, two) = (s.made(s.find("t_reverse", 0)), s.made(s.find("t_two", 0)));
        s.apart(reversed);
        s.plan.offset[two] = s.plan.offset[reversed];
        s.set_in_place(s.find("t_two", 0), 0, 0);
        s.write(last, 0).buf = reversed as u32;
    }),
    ("two writes meet in", |s| {
        let i = s.find("t_two", 0);
        let a = s.part(i);
        let b = s.plan.code.writes_of(i)[1].buf as usize;
        s.plan.offset[b] = s.plan.offset[a];
    }),
    ("it may stop a step after leaves changed, which instruction", |s| {
        let b = s.made(s.find("t_fresh", 0));
        s.apart(b);
        s.plan.code.kind[b] = BufKind::State;
    }),
    ("it may stop a step and changes a leaf", |s| {
        let b = s.made(s.find("t_pick", 0));
        s.apart(b);
        s.plan.code.kind[b] = BufKind::State;
    }),
    ("read 0 is in place, which the kernel cannot do", |s| {
        let i = s.find("t_reverse", 0);
        let (from, to) = (s.made(s.find("t_pick", 0)), s.made(i));
        s.plan.offset[to] = s.plan.offset[from];
        s.set_in_place(i, 0, 0);
    }),
    ("read 256 is in place, which the kernel cannot do", |s| {
        // Empty reads before it: the pair that its kernel declares is now of the first of them.
        let (i, x) = (s.find("t_two", 0), s.leaf(BufKind::Input) as u32);
        let at = s.plan.code.reads_at[i] as usize;
        let empty = [Operand::of_bytes(x, 0, 0, Split::Whole); 256];
        s.plan.code.reads.splice(at..at, empty);
        s.plan.inplace.splice(at..at, [OUT_OF_PLACE; 256]);
        s.plan.code.reads_at[i + 1..].iter_mut().for_each(|at| *at += 256);
        s.set_in_place(i, 256, 0);
    }),
    ("read 0 is in place on another extent", |s| {
        let i = s.find("t_two", 0);
        s.set_in_place(i, 0, 0);
        s.apart(s.made(i));
    }),
    ("read 0 is in place and read twice", |s| {
        let i = s.find("t_add", 0);
        let (from, to) = (s.plan.code.reads_of(i)[0].buf as usize, s.made(i));
        s.plan.offset[to] = s.plan.offset[from];
        s.set_in_place(i, 0, 0);
    }),
    ("write 0 overlaps read 0", |s| {
        let i = s.find("t_reverse", 0);
        let (from, to) = (s.made(s.find("t_pick", 0)), s.made(i));
        s.plan.offset[to] = s.plan.offset[from];
    }),
];

/// What is wrong at the end of a step, and the refusal.
const ENDS: &[(&str, Wrong)] = &[
    ("is not there at the end", |s| {
        let buf = s.unused(64);
        s.plan.code.outputs.push(Operand::of_bytes(buf, 0, 64, Split::Whole));
    }),
    ("is not there at the end", |s| {
        let [y, z] = [s.find("t_columns", 0), s.find("t_fresh", 2)].map(|i| s.part(i));
        s.plan.offset[y] = s.plan.offset[z];
    }),
    ("a next value of what is not kept", |s| s.plan.code.updates[0].leaf = s.leaf(BufKind::Input) as u32),
    ("does not hold its next value", |s| s.plan.code.updates[0].from.buf = s.made(s.find("t_fresh", 2)) as u32),
    ("was overwritten", |s| {
        // The input is read by the first instruction alone.
        let (y, x) = (s.part(s.find("t_columns", 0)), s.leaf(BufKind::Input));
        s.plan.offset[y] = s.plan.offset[x];
    }),
];

#[test]
fn every_refusal_of_the_checker_has_a_plan_that_breaks_one_promise() {
    let right = Subject::new();
    check_plan(right.plan.clone()).unwrap();
    let mut failed = Vec::new();
    for (k, (why, wrong)) in [PLACES, OPERANDS, SHARED, ENDS].concat().into_iter().enumerate() {
        let mut s = right.clone();
        wrong(&mut s);
        match s.refused() {
            Some(e) if e.contains(why) => {}
            other => failed.push(format!("{k}, {why}: {other:?}")),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The next value is made in the bytes of its leaf, and then something else is written there.
#[test]
fn a_next_value_that_does_not_last_is_refused() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [64], DType::F32), g.param("w", [64], DType::F32, Init::Ones));
    let next = one(&g, &ADD, &[w, x]);
    g.update(w, next);
    g.output("y", one(&g, &FRESH, &[one(&g, &FRESH, &[next])]));
    let mut plan = planned(g.finish([]).unwrap().view(), 1, lines::pack_lines).plan;
    check_plan(plan.clone()).unwrap();
    let (update, y) = (plan.code.updates[0], plan.code.outputs[0].buf as usize);
    let leaf = plan.offset[update.leaf as usize];
    assert_eq!(plan.offset[update.from.buf as usize], leaf);
    plan.offset[y] = leaf;
    let e = check_plan(plan).unwrap_err().to_string();
    assert!(e.contains("does not hold its next value"), "{e}");
}
