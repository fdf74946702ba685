//! Each test breaks one invariant in columns that are otherwise sound. The verifier must name it.

use super::*;
use crate::fuzz::seeded_draws;
use crate::nodes::ir::attrs::{Attr, Field};
use crate::nodes::ir::graph::GraphBuf;
use crate::nodes::{Builder, DType, Init};

/// A graph with an input, a param, two calls of one region, an update and an output.
fn sound() -> GraphBuf {
    let g = Builder::new("sound");
    let x = g.input("x", [2, 3], DType::F32);
    let w = g.param("w", [3, 3], DType::F32, Init::Uniform(0.5));
    let h = x.matmul(w).relu();
    let twice = g.region("twice", &[h.ty()], |a| vec![a[0] + a[0]]);
    let y = g.call(twice, &g.call(twice, &[h]))[0];
    g.update(w, w - 0.5);
    g.finish([y.sum(..)]).unwrap()
}

/// All columns by value, so that tests can break them.
struct Columns {
    op: Vec<Op>,
    args_at: Vec<u32>,
    outs_at: Vec<u32>,
    attr: Vec<u32>,
    loc: Vec<u32>,
    args: Vec<Value>,
    extra: Vec<u32>,
    def: Vec<Node>,
    dtype: Vec<DType>,
    shape: Vec<Shape>,
    names: Vec<Sym>,
    nodes_at: Vec<u32>,
    yields_at: Vec<u32>,
    yields: Vec<Value>,
    region_names: Vec<Sym>,
    output_names: Vec<Sym>,
    updates: Vec<(Value, Value)>,
    locs: Vec<Location<Sym>>,
}

impl Columns {
    fn of(g: Graph<'_>) -> Columns {
        Columns {
            op: g.op.to_vec(),
            args_at: g.args_at.to_vec(),
            outs_at: g.outs_at.to_vec(),
            attr: g.attr.to_vec(),
            loc: g.loc.to_vec(),
            args: g.args.to_vec(),
            extra: g.extra.to_vec(),
            def: g.def.to_vec(),
            dtype: g.dtype.to_vec(),
            shape: g.shape.to_vec(),
            names: g.names.to_vec(),
            nodes_at: g.nodes_at.to_vec(),
            yields_at: g.yields_at.to_vec(),
            yields: g.yields.to_vec(),
            region_names: g.region_names.to_vec(),
            output_names: g.output_names.to_vec(),
            updates: g.updates.to_vec(),
            locs: g.locs.to_vec(),
        }
    }

    fn verify(&self, g: Graph<'_>, stage: Stage) -> Vec<String> {
        verify(self.in_place_of(g), stage).iter().map(ToString::to_string).collect()
    }

    /// `g` with these columns.
    fn in_place_of<'x>(&'x self, g: Graph<'x>) -> Graph<'x> {
        Graph {
            op: &self.op,
            args_at: &self.args_at,
            outs_at: &self.outs_at,
            attr: &self.attr,
            loc: &self.loc,
            args: &self.args,
            extra: &self.extra,
            def: &self.def,
            dtype: &self.dtype,
            shape: &self.shape,
            names: &self.names,
            nodes_at: &self.nodes_at,
            yields_at: &self.yields_at,
            yields: &self.yields,
            region_names: &self.region_names,
            output_names: &self.output_names,
            updates: &self.updates,
            locs: &self.locs,
            ..g
        }
    }

    /// The first node of `op`.
    fn find(&self, op: Op) -> usize {
        self.op.iter().position(|&o| o == op).unwrap()
    }
}

/// Breaks the sound graph with `f`. One of the errors must contain `want`.
#[track_caller]
fn broken(want: &str, f: impl FnOnce(&mut Columns)) {
    let g = sound();
    let mut c = Columns::of(g.view());
    f(&mut c);
    let found = c.verify(g.view(), Stage::Block);
    assert!(found.iter().any(|e| e.contains(want)), "{want} is not among {found:#?}");
}

#[test]
fn a_sound_graph_breaks_no_invariant() {
    for stage in [Stage::Block, Stage::Core, Stage::Fused] {
        assert_eq!(verify(sound().view(), stage), []);
    }
}

#[test]
fn the_first_error_tells_how_many_others_there_are() {
    let told = |f: &dyn Fn(&mut Columns)| {
        let g = sound();
        let mut c = Columns::of(g.view());
        f(&mut c);
        (c.verify(g.view(), Stage::Block), check(c.in_place_of(g.view()), Stage::Block).unwrap_err().to_string())
    };
    let (all, first) = told(&|c| c.locs.truncate(0));
    assert!(all.len() > 1 && first.contains(&format!(" (and {} more)", all.len() - 1)), "{first}");
    let (all, first) = told(&|c| c.region_names.push(Sym::NONE));
    assert_eq!(all, [first], "one error is told as it is");
}

#[test]
fn v1_ids_are_in_range() {
    broken("V1: op 9999 is not in the table of ", |c| c.op[3] = Op(9999));
    broken("V1: operand 0 is value %4000, and there are ", |c| c.args[0] = Value(4000));
    broken("V1: result %2 is said to be defined by ", |c| c.def[2] = Node(0));
    broken(", names what is no value of the entry", |c| c.updates[0].0 = Value(4000));
}

#[test]
fn v2_references_point_backwards_inside_the_region() {
    broken("V2: operand 0", |c| {
        let n = c.find(Op::MATMUL);
        c.args[c.args_at[n] as usize] = Value(c.outs_at[n]);
    });
    // Value %0 is the region's argument, which the entry must not read.
    broken("V2: operand 0 is value %0, which does not stand before it in its region", |c| {
        let n = c.find(Op::MATMUL);
        c.args[c.args_at[n] as usize] = Value(0);
    });
}

#[test]
fn v3_offsets_are_monotone_and_columns_fit() {
    broken("V3: offsets args_at do not rise from 0 to ", |c| c.args_at.swap(2, 5));
    broken("V3: offsets outs_at", |c| c.outs_at[0] = 1);
    broken("V3: offsets nodes_at", |c| c.nodes_at[1] = 77);
    broken("V3: column dtype has 1 entries, not ", |c| c.dtype.truncate(1));
    broken("V3: column outs_at", |c| c.outs_at.clear());
    broken("V3: there is no entry region", |c| c.nodes_at.clear());
}

#[test]
fn v4_arity() {
    broken("V4: relu takes 1 operands, not 2: %3 = relu %x, %2 : f32[2,3]", |c| {
        let n = c.find(Op::RELU);
        c.args.insert(c.args_at[n] as usize, Value(2));
        c.args_at[n + 1..].iter_mut().for_each(|at| *at += 1);
    });
}

#[test]
fn v5_attribute_words_follow_the_schema() {
    broken("V5: its attributes lie outside the pool", |c| {
        let n = c.find(Op::MATMUL);
        c.attr[n] = u32::MAX;
    });
    broken("V5: attribute ta is out of range: 7", |c| {
        let n = c.find(Op::MATMUL);
        c.extra[c.attr[n] as usize + 1] = 7;
    });
    broken("V5: attribute tb is missing", |c| {
        let n = c.find(Op::MATMUL);
        let at = c.attr[n] as usize;
        c.extra[at] = 1;
    });
}

#[test]
fn v6_types_are_those_of_inference() {
    broken("V6: result 0 is i32[2,3], and f32[2,3] by inference", |c| {
        let n = c.find(Op::MATMUL);
        c.dtype[c.outs_at[n] as usize] = DType::I32;
    });
    broken("V6: it has 2 results, and 1 by inference", |c| {
        let n = c.find(Op::MATMUL);
        c.def[c.outs_at[n + 1] as usize] = Node(n as u32);
        c.outs_at[n + 1] += 1;
    });
    broken("V6: inner dimensions 2 and 3 differ", |c| {
        let n = c.find(Op::MATMUL);
        c.extra[c.attr[n] as usize + 1] = 1;
    });
}

#[test]
fn v7_signatures() {
    broken("V7: yield 0 of region @r0 is %5, which is no value of it", |c| c.yields[0] = Value(5));
    broken("V7: the entry has no arguments", |c| {
        let n = c.find(Op::INPUT);
        c.op[n] = Op::ARG;
    });
    broken("V7: an argument stands after other nodes", |c| {
        (c.op[0], c.op[1]) = (Op::RELU, Op::ARG);
    });
    broken("V7: a leaf stands outside the entry", |c| c.op[1] = Op::INPUT);
    broken("V7: this is argument 0", |c| c.extra[c.attr[0] as usize + 1] = 3);
    broken("V7: 1 outputs have 0 names", |c| c.output_names.clear());
    broken("V7: two leaves are called \"x\"", |c| {
        let (x, w) = (c.find(Op::INPUT), c.find(Op::PARAM));
        c.extra[c.attr[w] as usize + 1] = c.extra[c.attr[x] as usize + 1];
    });
}

#[test]
fn v7_outputs_have_names_of_their_own() {
    let g = Builder::new("two");
    let x = g.input("x", [2], DType::F32);
    let g = g.finish([x.relu().named("a"), x.tanh().named("b")]).unwrap();
    let mut c = Columns::of(g.view());
    c.output_names[1] = c.output_names[0];
    assert_eq!(c.verify(g.view(), Stage::Block), ["V7: two outputs are called \"a\""]);
}

#[test]
fn v8_regions_have_their_users() {
    broken("V8: region @r1 does not stand before its user, in region ", |c| {
        let n = c.find(Op::CALL);
        c.attr[n] = 1;
    });
    let g = Builder::new("unused");
    let x = g.input("x", [2], DType::F32);
    g.region("dead", &[x.ty()], |a| vec![a[0]]);
    let g = g.finish([x]).unwrap();
    assert_eq!(verify(g.view(), Stage::Block), [], "a graph of stage Block may have unused regions");
    assert_eq!(verify(g.view(), Stage::Core)[0].to_string(), "V8: region @r0 has no user");
    let g = Builder::new("shared");
    let x = g.input("x", [2], DType::F32);
    let body = g.region("body", &[x.ty()], |a| vec![a[0]]);
    let fused = |x| g.custom(&FUSED_BODY, &[x], &[Attr::Region(body.region)])[0];
    let g = g.finish([fused(fused(x))]).unwrap();
    let found = verify(g.view(), Stage::Block);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].to_string(), "V8: region @r0 has 2 users; only calls and loops share a region");
}

/// The op definition of `relu` with another name and other flags.
const fn flagged(name: &'static str, flags: Flags) -> OpDef {
    OpDef { name, flags, ..crate::nodes::ops::pointwise::math::RELU }
}

static FUSED: OpDef = flagged("fused_op", Flags::PURE.and(Flags::FUSED));
static FUSED_BODY: OpDef = OpDef { attrs: &[Field::new("body", FieldKind::Region)], ..FUSED };
static BLOCK: OpDef = flagged("block_op", Flags::PURE.and(Flags::BLOCK));
static EFFECT: OpDef = flagged("effect_op", Flags::EFFECT);
static PLAIN: OpDef = flagged("plain_op", Flags::PURE);

#[test]
fn v9_ops_belong_to_the_stage() {
    let fused = " is a fused op: it may stand in stages Block and Fused, and this is ";
    let block = " is a block op: it may stand in stage Block, and this is ";
    for (def, text, fails) in [(&FUSED, fused, [false, true, false]), (&BLOCK, block, [false, true, true])] {
        let g = Builder::new("stage");
        let x = g.input("x", [2], DType::F32);
        let g = g.finish(g.custom(def, &[x], &[])).unwrap();
        for (stage, fails) in [Stage::Block, Stage::Core, Stage::Fused].into_iter().zip(fails) {
            let errors = verify(g.view(), stage);
            assert_eq!(errors.len(), fails as usize, "{def:?} in {stage:?}: {errors:?}");
            let named = |e: &Error| e.message.contains(&format!("{}{text}{stage:?}", def.name));
            assert!(errors.iter().all(|e| e.kind == Kind::Stage && e.message.starts_with("V9: ") && named(e)));
        }
    }
}

#[test]
fn v10_effects_stand_in_the_entry() {
    let errors = |inside: &'static OpDef, outside: &'static OpDef| {
        let g = Builder::new("effects");
        let x = g.input("x", [2], DType::F32);
        let body = g.region("body", &[x.ty()], |a| g.custom(inside, a, &[]).into());
        let y = g.custom(outside, &g.call(body, &[x]), &[]);
        let g = g.finish(y).unwrap();
        verify(g.view(), Stage::Block)
    };
    assert!(errors(&PLAIN, &EFFECT).is_empty());
    for outside in [&PLAIN, &EFFECT] {
        let errors = errors(&EFFECT, outside);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].message.starts_with("V10: an effect must stand in the entry, and is not pure"), "{errors:?}");
    }
}

#[test]
fn v11_updates_fit_their_leaf() {
    broken("V11: update 0 is of %2, which is neither a param nor a state", |c| c.updates[0].0 = Value(2));
    broken("V11: update 0: %3 and %2 are of different types", |c| c.updates[0].1 = Value(2));
    broken("V11: update 1: %3 has an update already", |c| c.updates.push(c.updates[0]));
}

#[test]
fn v12_interned_ids_exist() {
    broken("V12: shape s900 of result %2 does not exist", |c| c.shape[2] = Shape(900));
    broken("V12: name $900 of result %2 does not exist", |c| c.names[2] = Sym(900));
    broken("V12: output name $900 does not exist", |c| c.output_names[0] = Sym(900));
    broken("V12: the name of region @r0 does not exist", |c| c.region_names[0] = Sym(900));
    let found = verify(Graph { name: Sym(900), ..sound().view() }, Stage::Block);
    assert!(found.iter().any(|e| e.message == "V12: the name of the graph does not exist"), "{found:?}");
    broken("V12: place 900 does not exist", |c| c.loc[2] = 900);
    broken("V12: the file of place 0 does not exist", |c| c.locs[0] = Location::Source(Sym(900), 1));
}

#[test]
fn every_error_is_collected_and_names_its_node() {
    let g = sound();
    let mut c = Columns::of(g.view());
    let n = c.find(Op::MATMUL);
    c.dtype[c.outs_at[n] as usize] = DType::F64;
    c.updates.push(c.updates[0]);
    let found = c.verify(g.view(), Stage::Block);
    assert!(found.len() >= 2 && found[0].contains("%2 = matmul %x, %w ta=false tb=false : f64[2,3]"), "{found:#?}");
    let e = check(Graph { dtype: &c.dtype, updates: &c.updates, ..g.view() }, Stage::Block).unwrap_err();
    assert!(e.message.contains(&format!(" (and {} more)", found.len() - 1)), "{e}");
}

fn put<T>(column: &mut [T], i: usize, item: T) {
    let len = column.len();
    column[i % len] = item;
}

#[test]
fn no_broken_columns_make_it_panic() {
    let g = sound();
    let mut draw = seeded_draws(7);
    for _ in 0..4000 {
        let mut c = Columns::of(g.view());
        for _ in 0..=draw(3) {
            let word = [0, 1, 2, 5, 9, 100, u32::MAX, u32::MAX - 1][draw(8) as usize];
            let Columns { args_at, outs_at, attr, loc, extra, nodes_at, .. } = &mut c;
            let (column, i) = (draw(12) as usize, draw(1 << 16) as usize);
            match column {
                5 => put(&mut c.op, i, Op(word as u16)),
                6 => put(&mut c.args, i, Value(word)),
                7 => put(&mut c.def, i, Node(word)),
                8 => put(&mut c.shape, i, Shape(word)),
                9 => put(&mut c.yields, i, Value(word)),
                10 => put(&mut c.updates, i, (Value(word), Value(word / 2))),
                _ => put([args_at, outs_at, attr, loc, extra, nodes_at][column % 6], i, word),
            }
        }
        // Some writes break no invariant. None may cause a panic.
        c.verify(g.view(), Stage::Fused);
    }
}
