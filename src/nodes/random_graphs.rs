//! Random graphs from the op table, random mutations of texts, and the properties of both. Property tests and fuzz
//! targets share them.
//!
//! The source of randomness is any function that takes a bound and returns a number below it. So proptest and libFuzzer
//! can both drive, shrink and replay the graphs. Invariant: a new op needs no change here; its conformance cases are
//! drawn from its definition. Only tests, fuzz targets and the op reference call this.

use crate::arena::rng::SplitMix64;
use crate::arena::{Region, Value};
use crate::error::{Location, Result};
use crate::nodes::ir::attr_types::Choice;
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::graph::GraphBuf;
use crate::nodes::ir::init::LeafInit;
use crate::nodes::ir::leaf::{InitKind, InputAttrs, ParamAttrs, StateAttrs};
use crate::nodes::ir::opdef::{Case, Flags, Op, OpDef};
use crate::nodes::ir::text;
use crate::nodes::ir::text::{parse_attrs, parse_types, print};
use crate::nodes::ir::verify::{Stage, verify};
use crate::nodes::ops::constant::FullAttrs;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::layout::attrs::ToShapeAttrs;
use crate::nodes::ops::pointwise::attrs::CastAttrs;
use crate::nodes::ops::table::OPS;

/// A source of randomness: a number below the bound, which is at least 1.
pub type Draw<'d> = dyn FnMut(u32) -> u32 + 'd;

/// A source with a seed.
pub fn seeded_draws(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut stream = SplitMix64(seed);
    move |bound| (((stream.bits() >> 32) * u64::from(bound.max(1))) >> 32) as u32
}

/// A source that reads `numbers`, and then zeros for ever: shorter inputs are simpler graphs.
pub fn scripted_draws<N: Into<u64>>(numbers: impl IntoIterator<Item = N>) -> impl FnMut(u32) -> u32 {
    let mut numbers = numbers.into_iter();
    move |bound| (numbers.next().map_or(0, Into::into) % u64::from(bound.max(1))) as u32
}

/// Debug names: plain and odd ones, few enough to collide.
const NAMES: &[&str] = &["h", "y", "fc1.weight", "odd name", "7", "q\"uo\\te", "tab\there", "é", "_", "x", "", "\u{1}"];

/// Numbers that lose something in a careless text form.
const NUMBERS: &[f64] =
    &[0.0, -0.0, 1.0, 0.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 5e-324, -1.0 / 3.0, 16777217.0];

/// Such numbers that are scales of start values of any type.
const SCALES: &[f64] = &[0.0, -0.0, 1.0, 0.1, 5e-324, 1.0 / 3.0, 65504.0];

/// Opens and closes the region that a case names in its attributes, for operands of types `tys`.
pub fn add_case_region(e: &mut Emit, case: &Case, tys: &[Ty]) {
    let mut tys = tys.to_vec();
    add_case_rules(e, case, &tys);
    let name = ["case_body", "case_step", "case_count"].into_iter().find(|n| case.attrs.contains(&format!("@{n}")));
    let Some(name) = name else { return };
    if let (true, Some(last)) = (name != "case_body", tys.last_mut()) {
        // A slice of the stacked input.
        let dims = e.shapes.dims(last.shape);
        last.shape = e.shapes.intern(dims.get(1..).unwrap_or(&[])).unwrap_or(last.shape);
    }
    e.open_region(name);
    let a: Vec<Value> = tys.iter().map(|&ty| e.region_arg(ty)).collect();
    let mut op = |op: Op, args: &[Value], attrs: &[Attr<'_>]| e.emit(op, args, attrs).at(0);
    let at = |i: usize| a.get(i).copied().unwrap_or(Value::NONE);
    let yields = match name {
        "case_body" => {
            let product = op(Op::MUL, &[at(0), at(1)], &[]);
            let bent = op(Op::TANH, &[product], &[]);
            vec![op(Op::ADD, &[bent, at(0)], &[])]
        }
        "case_step" => {
            let product = op(Op::MUL, &[at(0), at(1)], &[]);
            let sum = op(Op::ADD, &[product, at(2)], &[]);
            let next = op(Op::TANH, &[sum], &[]);
            vec![next, op(Op::MUL, &[next, at(2)], &[])]
        }
        _ => {
            let (dtype, shape) = tys.first().map_or((DType::F32, crate::arena::Shape(0)), |t| (t.dtype, t.shape));
            let count = tys.get(1).map_or(shape, |t| t.shape);
            let one = op(Op::FULL, &[], &FullAttrs { value: 1.0, dtype: DType::I32, shape: count }.list());
            let count = op(Op::CAST, &[at(1)], &CastAttrs { to: dtype }.list());
            let wide = op(Op::BROADCAST, &[count], &ToShapeAttrs { shape }.list());
            let bent = op(Op::SIN, &[at(0)], &[]);
            let product = op(Op::MUL, &[bent, at(3)], &[]);
            let next = op(Op::ADD, &[product, wide], &[]);
            vec![next, op(Op::ADD, &[at(1), one], &[]), at(1), op(Op::MUL, &[at(2), at(2)], &[])]
        }
    };
    e.close_region(&yields);
}

/// Opens and closes the derivative rules of `@case_body` that a case names: for y = tanh(ab) + a.
fn add_case_rules(e: &mut Emit, case: &Case, tys: &[Ty]) {
    let &[ty, _] = tys else { return };
    for (name, seeds) in [("case_vjp", 1), ("case_jvp", 2)] {
        if !case.attrs.contains(&format!("@{name}")) {
            continue;
        }
        e.open_region(name);
        let x: Vec<Value> = (0..3 + seeds).map(|_| e.region_arg(ty)).collect();
        let mut op = |op: Op, args: &[Value]| e.emit(op, args, &[]).at(0);
        let bent = op(Op::SUB, &[x[2], x[0]]);
        let square = op(Op::MUL, &[bent, bent]);
        let yields = if seeds == 1 {
            let part = op(Op::MUL, &[x[3], square]);
            let ct = op(Op::SUB, &[x[3], part]);
            let by_a = op(Op::MUL, &[ct, x[1]]);
            vec![op(Op::ADD, &[by_a, x[3]]), op(Op::MUL, &[ct, x[0]])]
        } else {
            let (by_a, by_b) = (op(Op::MUL, &[x[3], x[1]]), op(Op::MUL, &[x[0], x[4]]));
            let t = op(Op::ADD, &[by_a, by_b]);
            let part = op(Op::MUL, &[t, square]);
            let t = op(Op::SUB, &[t, part]);
            vec![op(Op::ADD, &[t, x[3]])]
        };
        e.close_region(&yields);
    }
}

struct RandomGraph<'d, 'f> {
    e: Emit,
    draw: &'f mut Draw<'d>,
    regions: Vec<(Region, Vec<Ty>)>,
    /// Inputs, params and states so far; updates change only these.
    leaves: Vec<Value>,
}

/// A graph of up to `nodes` drawn nodes and the leaves and regions that they need.
pub fn random_graph(nodes: u32, draw: &mut Draw<'_>) -> Result<GraphBuf> {
    random_graph_with(nodes, &[], draw)
}

/// As [`random_graph`], with custom ops beside the built-in ones.
pub fn random_graph_with(nodes: u32, extra_ops: &[&'static OpDef], draw: &mut Draw<'_>) -> Result<GraphBuf> {
    let mut e = Emit::new("drawn");
    for def in extra_ops {
        e.register(def);
    }
    let mut d = RandomGraph { e, draw, regions: Vec::new(), leaves: Vec::new() };
    for _ in 0..(d.draw)(3) {
        d.region();
    }
    for _ in 0..=(d.draw)(nodes.max(1)) {
        d.node(true);
    }
    for leaf in d.leaves.clone() {
        if (d.draw)(3) == 0 {
            let next = d.value(d.e.ty(leaf), true);
            if next != Value::NONE && d.e.def(leaf).is_none_or(|def| def.op != Op::INPUT) {
                d.e.update(leaf, next);
            }
        }
    }
    for i in 0..(d.draw)(4) {
        let v = d.any();
        let name = [format!("out{i}"), format!("odd {i}"), format!("{i}"), format!("a\\\"{i}")];
        d.e.output(&name[(d.draw)(4) as usize], v);
    }
    let e = d.e;
    GraphBuf::make(|bump| e.finish(bump))
}

impl RandomGraph<'_, '_> {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.draw)(from.len() as u32) as usize]
    }

    /// Any value of the open region.
    fn any(&mut self) -> Value {
        if self.e.values() == 0 {
            return self.full(DType::F32, &[2]);
        }
        Value((self.draw)(self.e.values() as u32))
    }

    fn full(&mut self, dtype: DType, dims: &[usize]) -> Value {
        let held: Vec<f64> = NUMBERS.iter().copied().filter(|&x| dtype.holds(x)).collect();
        let value = self.pick(&held);
        match self.e.shapes.intern(dims) {
            Ok(shape) => self.e.emit(Op::FULL, &[], &FullAttrs { value, dtype, shape }.list()).at(0),
            Err(_) => Value::NONE,
        }
    }

    /// Start values of `count` elements: plain ones, a number, or a number for each element.
    fn start(&mut self, dtype: DType, count: usize) -> LeafInit {
        let held: Vec<f64> = NUMBERS.iter().copied().filter(|&x| dtype.can_hold(x)).collect();
        match (self.draw)(6) {
            4 => LeafInit::new(InitKind::Constant, 0.0, Some(vec![self.pick(&held)])),
            5 => LeafInit::new(InitKind::Values, 0.0, Some((0..count).map(|_| self.pick(&held)).collect())),
            kind => LeafInit::new(InitKind::from_index(kind), self.pick(SCALES), None),
        }
    }

    /// A value of type `ty`: one that is there, or a new leaf (outside the entry: a constant).
    fn value(&mut self, ty: Ty, entry: bool) -> Value {
        let fit: Vec<Value> = (0..self.e.values() as u32).map(Value).filter(|&v| self.e.ty(v) == ty).collect();
        if !fit.is_empty() && (self.draw)(4) != 0 {
            return self.pick(&fit);
        }
        let dims = self.e.shapes.dims(ty.shape);
        let kind = (self.draw)(4);
        if !entry || kind == 3 && ty.dtype != DType::C64 {
            return self.full(ty.dtype, &dims);
        }
        let begin = self.start(ty.dtype, dims.numel());
        let (init, scale, start) = (begin.kind, begin.scale, begin.start_attr());
        let called = format!("{}{}", self.pick(&["x", "fc1.weight", "odd name ", "7", "é"]), self.leaves.len());
        let (name, Ty { dtype, shape }) = (self.e.strings.intern(&called), ty);
        let v = match kind {
            0 | 3 => {
                let default = (kind == 3).then_some(1.0);
                let attrs = InputAttrs { name, dtype, shape, default };
                self.e.leaf(Op::INPUT, &called, &attrs.list()[1..])
            }
            1 => {
                let attrs = ParamAttrs { name, dtype, shape, init, scale, frozen: false, start };
                self.e.leaf(Op::PARAM, &called, &attrs.list()[1..])
            }
            _ => {
                let attrs = StateAttrs { name, dtype, shape, init, scale, averages: None, start };
                self.e.leaf(Op::STATE, &called, &attrs.list()[1..])
            }
        };
        self.leaves.push(v);
        v
    }

    /// One node of a conformance case, or a call.
    fn node(&mut self, entry: bool) {
        let rows: Vec<(usize, &'static OpDef)> =
            self.e.ops.iter().copied().enumerate().filter(|(_, d)| !d.cases.is_empty()).collect();
        let (op, def) = self.pick(&rows);
        let outs = if op == Op::CALL.0 as usize {
            self.call(entry)
        } else {
            let i = (self.draw)(def.cases.len() as u32) as usize;
            self.case(op, def, i, entry)
        };
        for v in outs {
            if (self.draw)(4) == 0 {
                let name = self.pick(NAMES);
                let name = self.e.strings.intern(name);
                self.e.set_name(v, name);
            }
        }
    }

    fn case(&mut self, op: usize, def: &'static OpDef, i: usize, entry: bool) -> Vec<Value> {
        let case = &def.cases[i];
        // Fused regions are for passes to make.
        let fused = def.flags.has(Flags::FUSED) && case.attrs.contains('@');
        if fused || !entry && def.flags.has(Flags::EFFECT) {
            return Vec::new();
        }
        let float = self.pick(&[DType::F32, DType::F64]);
        let read = parse_types(case.args, float, &mut self.e).and_then(|tys| {
            add_case_region(&mut self.e, case, &tys);
            Ok((tys, parse_attrs(def.attrs, case.attrs, &mut self.e)?))
        });
        let (tys, attrs) = match read {
            Ok(read) => read,
            Err(e) => {
                self.e.fail(e.context(def.name));
                return Vec::new();
            }
        };
        let args: Vec<Value> = tys.into_iter().map(|ty| self.value(ty, entry)).collect();
        let attrs: Vec<Attr<'_>> = attrs.iter().map(Owned::borrow).collect();
        self.e.emit(Op(op as u16), &args, &attrs).iter().collect()
    }

    fn call(&mut self, entry: bool) -> Vec<Value> {
        if self.regions.is_empty() {
            return Vec::new();
        }
        let i = (self.draw)(self.regions.len() as u32) as usize;
        let (r, tys) = self.regions[i].clone();
        let args: Vec<Value> = tys.into_iter().map(|ty| self.value(ty, entry)).collect();
        self.e.emit(Op::CALL, &args, &CallAttrs { body: r }.list()).iter().collect()
    }

    fn region(&mut self) {
        let name = self.pick(&["body", "twice", "odd body", "", "1"]);
        let Ok(mut tys) = parse_types("f[3,5] f[] i32[4] f[2,3,4] bool[40] u32[4]", DType::F32, &mut self.e) else {
            return;
        };
        tys.truncate((self.draw)(tys.len() as u32 + 1) as usize);
        self.e.open_region(name);
        for &ty in &tys {
            let v = self.e.region_arg(ty);
            if (self.draw)(2) == 0 {
                let name = self.pick(NAMES);
                let name = self.e.strings.intern(name);
                self.e.set_name(v, name);
            }
        }
        for _ in 0..(self.draw)(6) {
            self.node(false);
        }
        let yields: Vec<Value> = (0..=(self.draw)(2)).map(|_| self.any()).collect();
        let r = self.e.close_region(&yields);
        self.regions.push((r, tys));
    }
}

/// Properties of any graph, with custom ops or without: it verifies, and its text parses to it.
pub fn check_random_graph(g: &GraphBuf) {
    let broken = verify(g.view(), Stage::Block);
    // A text may hold what only a pass may write, and may use a region twice: reading is not verifying.
    let broken: Vec<String> = broken.iter().map(ToString::to_string).filter(|e| !is_random_pass_error(e)).collect();
    assert!(broken.is_empty(), "{broken:#?}\n{g:?}");
    let printed = print(g.view());
    let again = text::parse_with(&printed, &g.view().ops[OPS.len()..]);
    assert!(again.is_ok(), "{again:?}\n{printed}");
    if let Ok(again) = again {
        assert!(again == *g, "the text is of another graph:\n{printed}\n{again:?}");
        assert!(print(again.view()) == printed, "the text changes:\n{printed}\n{again:?}");
    }
}

fn is_random_pass_error(error: &str) -> bool {
    error.contains("V8: ") || error.contains("V9: ")
}

/// Properties of any text: it is a graph that verifies, or it has errors, each with a location.
pub fn check_random_text(text: &str) {
    match text::parse_all(text, &[]) {
        Ok(g) => check_random_graph(&g),
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= text::MAX_ERRORS);
            for e in errors {
                assert!(matches!(e.location, Location::Text(1.., 1..)), "no location: {e:?}");
                assert!(!e.message.is_empty() && e.message.len() < 1 << 20);
            }
        }
    }
}

/// Pieces that a mutation inserts.
const PIECES: &[&str] = &[
    "%",
    "@",
    "\"",
    "\\",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    ":",
    "<-",
    ";",
    "\n",
    "-",
    "0x",
    "\u{e9}",
    "\u{0}",
    "18446744073709551616",
    "4294967296",
    "-1",
    "1e999",
    "nan",
    "-inf",
    "[0,0,0,0,0,0,0,0,0]",
    "[9223372036854775807,2]",
    "f32[]",
    "i64[4]",
    "%0",
    "%x",
    "%0\"x\"",
    "@body",
    "call body=@body",
    "region @r() {",
    "graph @g {",
    "yield ",
    "return ",
    "update ",
    "input",
    "param",
    "arg index=0",
    "constant data=0x",
    " : f32[2]",
    "\\u{110000}",
];

/// `text` with a few random cuts, copies, swaps and insertions.
pub fn mutate_text(text: &[u8], draw: &mut Draw<'_>) -> Vec<u8> {
    let mut t = text.to_vec();
    for _ in 0..=draw(4) {
        let len = t.len() as u32 + 1;
        let at = draw(len) as usize;
        let end = (at + draw(16) as usize).min(t.len());
        match draw(6) {
            0 => drop(t.drain(at..end)),
            1 => {
                let copy = t[at..end].to_vec();
                let to = draw(len) as usize;
                t.splice(to..to, copy);
            }
            2 if at < t.len() => t[at] = draw(256) as u8,
            3 => {
                let mut lines: Vec<Vec<u8>> = t.split(|&c| c == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (draw(lines.len() as u32) as usize, draw(lines.len() as u32) as usize);
                lines.swap(a, b);
                t = lines.join(&b'\n');
            }
            _ => {
                let piece = PIECES[draw(PIECES.len() as u32) as usize];
                t.splice(at..end, piece.bytes());
            }
        }
    }
    t
}
