//! The op reference, one page made from the op table. `docs/ops.md` is its output, and `tests/ops/sources.rs`
//! compares them.
//!
//! Most of an entry is copied from the op definition. Three facts come from running the definition on a conformance
//! case: the element types that shape inference and lowering accept, the number of results, and the cost class of the
//! kernel calls.

use crate::kernels::cost_model::CostClass;
use crate::nodes::case_regions::add_case_region;
use crate::nodes::ir::attrs::{Attr, Field, Kind, Owned};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Batch, Case, Deriv, Flags, Lower};
use crate::nodes::ir::pack::packs_of;
use crate::nodes::ir::text::parse_attrs;
use crate::nodes::ir::text::parse_types;
use crate::nodes::ops::lower_any_op;
use crate::nodes::ops::table::{FAMILIES, OPS};
use crate::nodes::{Builder, DType, Op, OpDef, Var};
use std::fmt::Write;

const HEAD: &str = "\
# Op reference

This page is made from the op definitions. Do not edit it: change the definition, then run
`BLESS=1 cargo test --test ops reference_page`, which writes the page again. Without the variable the test fails if the
page is out of date.

An entry says:

* **Computes**: the formula, with conventions at ties, kinks and zeros. A bar (x̄) marks a cotangent, a dot (ẋ) a tangent.
* **Operands**: their number, and the element types that they may have. Operands named together have one type.
  The types are tried on one conformance case; a mask that may be a bool or a float counts with its neighbours there.
* **Attributes**: names and types, as the text form writes them. A node has all of them but optional ones.
* **Derivative**: a *rule* in the definition, *zero*, or that of its *decomposition* into simpler ops.
* **Batch**: how `vmap` runs it for all members of a batch.
* **Runs as**: kernel calls with their cost class, one step of a *tile* program (which fusion joins with its neighbours),
  a *view* of the operand's bytes, or the *decomposition*.
* **Flags**: see [add an op](add-an-op.md#fields-of-opdef).
* **Method**: the builder method. Ops without one are written by passes and in the text form.
";

/// What each family is about, for its heading.
const TITLES: &[(&str, &str)] = &[
    ("leaf", "Values from outside"),
    ("constant", "Constants, fills and counters"),
    ("control", "Calls, custom functions and loops"),
    ("pointwise", "Element by element"),
    ("matmul", "Matrix products"),
    ("grouped", "Products by group: mixture of experts"),
    ("gguf", "Weights in blocks"),
    ("linalg", "Linear algebra"),
    ("splat", "Gaussian splats"),
    ("reduce", "Reductions and running totals"),
    ("complex", "Complex numbers"),
    ("fft", "Fourier transforms"),
    ("audio", "Sound"),
    ("layout", "Moves of elements"),
    ("quant", "Quantised numbers"),
    ("sort", "Order"),
    ("index", "Integer indices"),
    ("random", "Random numbers"),
    ("softmax", "Softmax"),
    ("loss", "Losses"),
    ("conv", "Convolutions"),
    ("pool", "Pools"),
    ("window", "Windows as columns, and resizing"),
    ("norm", "Norms"),
    ("attention", "Attention and rotary embeddings"),
    ("recurrent", "Recurrences"),
    ("optim", "Optimiser steps"),
    ("blocks", "Whole layers"),
];

/// The part of an entry that only the sources have.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// A sentence: the documentation of the constant.
    pub about: String,
    /// The builder method, as `Var::softmax`.
    pub method: Option<String>,
}

/// The page. `notes` gives the notes on an op by the op's name.
pub fn render_page(notes: impl Fn(&str) -> Notes) -> String {
    let mut families: Vec<&str> = Vec::new();
    for f in FAMILIES {
        if !families.contains(f) {
            families.push(f);
        }
    }
    let mut out = HEAD.to_string();
    out += "\n| family | ops |\n|---|---|\n";
    for family in &families {
        let names: Vec<String> = family_ops(family).map(|(_, d)| format!("[`{0}`](#{0})", d.name)).collect();
        let _ = writeln!(out, "| {family} | {} |", names.join(" "));
    }
    for family in &families {
        let title = TITLES.iter().find(|t| t.0 == *family).map_or("", |t| t.1);
        let _ = writeln!(out, "\n## {title} (`{family}`)");
        for (op, def) in family_ops(family) {
            out += &write_entry(op, def, family, notes(def.name));
        }
    }
    out
}

/// The ops of a family, in the order of the table.
fn family_ops(family: &str) -> impl Iterator<Item = (Op, &'static OpDef)> {
    let all = OPS.iter().copied().zip(FAMILIES).enumerate();
    all.filter(move |(_, (_, f))| **f == family).map(|(i, (def, _))| (Op(i as u16), def))
}

fn write_entry(op: Op, def: &'static OpDef, family: &str, notes: Notes) -> String {
    let mut out = format!("\n### {}\n\n{}\n\n", def.name, notes.about);
    let mut line = |what: &str, text: String| {
        let _ = writeln!(out, "* {what}: {text}");
    };
    let sample = ReferenceSample::of(op, def);
    line("Computes", def.doc.to_string());
    line("Operands", describe_operands(def, sample.as_ref()));
    if let Some(n) = sample.as_ref().and_then(|s| s.results(s.case.args, DType::F32)) {
        line("Results", if def.names_region() { "the yields of the body".to_string() } else { n.to_string() });
    }
    if !def.attrs.is_empty() {
        line("Attributes", def.attrs.iter().map(describe_attribute).collect::<Vec<_>>().join(", "));
    }
    line("Derivative", describe_derivative(def));
    line("Batch", describe_batching(def).to_string());
    line("Runs as", describe_execution(def, family, sample.as_ref()));
    let flags: Vec<&str> = Flags::ALL.iter().filter(|f| def.flags.has(f.1)).map(|f| f.0).collect();
    if !flags.is_empty() {
        line("Flags", flags.join(", "));
    }
    if let Some(method) = notes.method {
        line("Method", format!("`{method}`"));
    }
    out
}

/// A conformance case of an op: the one with the most operands.
struct ReferenceSample {
    op: Op,
    def: &'static OpDef,
    case: &'static Case,
}

impl ReferenceSample {
    fn of(op: Op, def: &'static OpDef) -> Option<ReferenceSample> {
        // The first of equals.
        let case = def.cases.iter().rev().max_by_key(|c| c.args.split_whitespace().count())?;
        Some(ReferenceSample { op, def, case })
    }

    /// A graph of one node on operands of types `args`; `None` if shape inference refuses them.
    fn graph(&self, args: &str, float: DType) -> Option<crate::nodes::GraphBuf> {
        let g = Builder::new("case");
        let types = g.with(|e| parse_types(args, float, e)).ok()?;
        let input = |(i, ty): (usize, &crate::nodes::Ty)| {
            let dims = g.with(|e| e.shapes.dims(ty.shape));
            g.input(&format!("x{i}"), dims, ty.dtype)
        };
        let x: Vec<Var<'_>> = types.iter().enumerate().map(input).collect();
        g.with(|e| add_case_region(e, self.case, &types));
        let owned = g.with(|e| parse_attrs(self.def.attrs, self.case.attrs, e)).ok()?;
        let attrs: Vec<Attr<'_>> = owned.iter().map(Owned::as_attr).collect();
        let outs = g.emit(self.op, &x, &attrs);
        g.finish(outs).ok()
    }

    /// The number of results.
    fn results(&self, args: &str, float: DType) -> Option<usize> {
        Some(self.graph(args, float)?.view().outputs().len())
    }

    /// The cost classes of the kernel calls; none if lowering refuses the types.
    fn classes(&self, args: &str, float: DType) -> Option<Vec<CostClass>> {
        let graph = self.graph(args, float)?;
        let view = graph.view();
        let node = view.def[view.outputs().first()?.0 as usize];
        let used = vec![true; view.outputs().len()];
        let mut cx = LowerCx::new(view, node, &used);
        lower_any_op(&mut cx).ok()?;
        Some(cx.calls.iter().map(|c| c.work).collect())
    }

    /// Whether operands of these types are taken.
    fn takes(&self, args: &str, float: DType) -> bool {
        match self.def.lower {
            Lower::Kernel(_) | Lower::Tile(..) => self.classes(args, float).is_some(),
            _ => self.graph(args, float).is_some(),
        }
    }
}

/// The number of operands and their element types: `2; 0: f32 f64; 1: i32 i64`.
fn describe_operands(def: &OpDef, sample: Option<&ReferenceSample>) -> String {
    let Some(s) = sample.filter(|s| !s.case.args.is_empty()) else { return def.arity.to_string() };
    if def.names_region() {
        return format!("{}, of the types that the body takes", def.arity);
    }
    let words: Vec<&str> = s.case.args.split_whitespace().collect();
    let kind = |w: &str| w.split('[').next().unwrap_or_default().to_string();
    let mut groups: Vec<String> = Vec::new();
    for w in words.iter().map(|w| kind(w)) {
        if !groups.contains(&w) {
            groups.push(w);
        }
    }
    let mut parts = vec![def.arity.to_string()];
    for group in &groups {
        let replaced = |to: DType| {
            let swap = |w: &&str| match kind(w) == *group {
                true => w.replacen(group.as_str(), to.name(), 1),
                false => w.to_string(),
            };
            words.iter().map(swap).collect::<Vec<_>>().join(" ")
        };
        // A case of two groups may need one float type in both: try it in each.
        let taken = |to: &DType| [DType::F32, DType::F64].into_iter().any(|float| s.takes(&replaced(*to), float));
        let types: Vec<String> = DType::ALL.iter().filter(|to| taken(to)).map(|to| format!("`{to}`")).collect();
        let at: Vec<usize> = (0..words.len()).filter(|&i| kind(words[i]) == *group).collect();
        let which = if groups.len() > 1 { format!("operand {}: ", join_ranges(&at)) } else { String::new() };
        parts.push(format!("{which}{}", types.join(" ")));
    }
    parts.join("; ")
}

/// Ascending numbers as text: `0 to 3, 5`.
fn join_ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
        _ => run.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    });
    text.collect::<Vec<_>>().join(", ")
}

fn describe_attribute(f: &Field) -> String {
    let kind = match f.kind {
        Kind::Bool => "bool".to_string(),
        Kind::Int => "integer".to_string(),
        Kind::F64 => "number".to_string(),
        Kind::DType => "element type".to_string(),
        Kind::Shape => "shape".to_string(),
        Kind::Ints => "integers".to_string(),
        Kind::Floats => "numbers".to_string(),
        Kind::Sym => "name".to_string(),
        Kind::Region => "region".to_string(),
        Kind::Bytes => "bytes".to_string(),
        Kind::Choice(names) => names.join(" or "),
    };
    format!("`{}` ({kind}{})", f.name, if f.optional { ", optional" } else { "" })
}

fn describe_derivative(def: &OpDef) -> String {
    match def.deriv {
        Deriv::Zero if def.flags.has(Flags::STEP) => "zero: a step function".to_string(),
        Deriv::Zero if def.flags.has(Flags::STOP) => "zero: it is differentiated as a constant".to_string(),
        Deriv::Zero => "zero: no operand carries one".to_string(),
        Deriv::Pointwise(_) => "rule: element by element".to_string(),
        Deriv::Linear(_) => "rule: linear, with its transpose".to_string(),
        Deriv::Multilinear(_) => "rule: linear in each operand, with the transposes".to_string(),
        Deriv::ViaDecompose => "that of its decomposition".to_string(),
        Deriv::Rules(..) => "rules for tangents and cotangents".to_string(),
        Deriv::Loop => "a loop of the derivative of its body".to_string(),
        Deriv::Choice => "a choice of the derivatives of its branches".to_string(),
        Deriv::OwnRules => "its own regions `vjp` and `jvp`, or that of its body".to_string(),
        Deriv::Error(why) => format!("none: {why}"),
    }
}

fn describe_batching(def: &OpDef) -> &'static str {
    match def.batch {
        Batch::Leading => "one more leading axis",
        Batch::Rule(_) => "a rule",
        Batch::RuleIf(..) => "a rule, or that of its decomposition",
        Batch::ViaDecompose if def.decompose.is_some() => "that of its decomposition",
        Batch::ViaDecompose => "that of its body",
        Batch::Draws(_) => "the same draws for all members, or other ones for each",
        Batch::Regions => "its regions are batched",
        Batch::Members => "one member after another, in a loop",
    }
}

fn describe_execution(def: &OpDef, family: &str, sample: Option<&ReferenceSample>) -> String {
    let also = if def.decompose.is_some() { "; it has a decomposition too" } else { "" };
    match def.lower {
        Lower::Leaf => "no instruction: its bytes are there before the first".to_string(),
        Lower::Tile(..) => format!("a tile step{also}"),
        Lower::Expand => "its decomposition".to_string(),
        Lower::Control => "its body, which is inlined".to_string(),
        Lower::Choice => "one instruction, whose branches are planned apart".to_string(),
        Lower::Loop => "one instruction, whose body is planned once".to_string(),
        Lower::Kernel(_) => {
            let classes = sample.and_then(|s| s.classes(s.case.args, DType::F32)).unwrap_or_default();
            let mut names: Vec<&str> = Vec::new();
            for name in classes.iter().map(|c| name_cost_class(*c, family)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            match names.is_empty() {
                true => format!("a view{also}"),
                false => format!("a kernel, cost class {}{also}", names.join(" and ")),
            }
        }
    }
}

/// The name of a cost class. Of classes with equal times, the one that is called as the family.
fn name_cost_class(class: CostClass, family: &str) -> &'static str {
    let all = [
        ("COPY", CostClass::COPY),
        ("INDEX", CostClass::INDEX),
        ("GATHER", CostClass::GATHER),
        ("PRODUCT", CostClass::PRODUCT),
        ("PRODUCT_F64", CostClass::PRODUCT_F64),
        ("PRODUCT_I8", CostClass::PRODUCT_I8),
        ("DEQUANT", CostClass::DEQUANT),
        ("CONV", CostClass::CONV),
        ("POOL", CostClass::POOL),
        ("ATTENTION", CostClass::ATTENTION),
        ("ATTENTION_BACKWARD", CostClass::ATTENTION_BACKWARD),
        ("SOFTMAX", CostClass::SOFTMAX),
        ("CROSS_ENTROPY", CostClass::CROSS_ENTROPY),
        ("NORM", CostClass::NORM),
        ("REDUCE", CostClass::REDUCE),
        ("RUNNING", CostClass::RUNNING),
        ("SORT", CostClass::SORT),
        ("TOP_K", CostClass::TOP_K),
        ("SAMPLE", CostClass::SAMPLE),
        ("ACTIVATION", CostClass::ACTIVATION),
        ("RANDOM", CostClass::RANDOM),
        ("RARE", CostClass::RARE),
        ("ROWS", CostClass::ROWS),
        ("OPTIMISER", CostClass::OPTIMISER),
        ("TILE", CostClass::TILE),
    ];
    let packs = packs_of(OPS);
    let own = packs.iter().flat_map(|p| p.costs).copied();
    let all: Vec<_> = all.into_iter().chain(own).collect();
    let same = all.iter().filter(|c| c.1 == class);
    let named = same.clone().find(|c| c.0.eq_ignore_ascii_case(family));
    named.or_else(|| same.clone().next()).map_or("COPY", |c| c.0)
}
