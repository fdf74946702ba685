//! What each op becomes.

use super::nodes::{Given, Nodes, code, declaration};
use super::{index, without};
use crate::error::Result;
use arenagrad::graph::{DType, Graph};
use arenagrad::tools::arena::{Node, Value};
use arenagrad::tools::ir::attrs::Owned;

/// Ops with one node of the same meaning: the op, the op of the format.
const SAME: &[(&str, &str)] = &[
    ("add", "Add"),
    ("sub", "Sub"),
    ("mul", "Mul"),
    ("div", "Div"),
    ("max", "Max"),
    ("min", "Min"),
    ("pow", "Pow"),
    ("neg", "Neg"),
    ("abs", "Abs"),
    ("sign", "Sign"),
    ("floor", "Floor"),
    ("ceil", "Ceil"),
    ("round", "Round"),
    ("exp", "Exp"),
    ("log", "Log"),
    ("sqrt", "Sqrt"),
    ("recip", "Reciprocal"),
    ("sin", "Sin"),
    ("cos", "Cos"),
    ("tan", "Tan"),
    ("asin", "Asin"),
    ("acos", "Acos"),
    ("atan", "Atan"),
    ("sinh", "Sinh"),
    ("cosh", "Cosh"),
    ("asinh", "Asinh"),
    ("acosh", "Acosh"),
    ("atanh", "Atanh"),
    ("tanh", "Tanh"),
    ("sigmoid", "Sigmoid"),
    ("erf", "Erf"),
    ("relu", "Relu"),
    ("gelu", "Gelu"),
    ("softplus", "Softplus"),
    ("isnan", "IsNaN"),
    ("isinf", "IsInf"),
    ("eq", "Equal"),
    ("lt", "Less"),
    ("le", "LessOrEqual"),
    ("gt", "Greater"),
    ("ge", "GreaterOrEqual"),
    ("and", "And"),
    ("or", "Or"),
    ("not", "Not"),
    ("select", "Where"),
    ("checkpoint", "Identity"),
    ("stop_gradient", "Identity"),
];

/// Reductions.
const REDUCED: &[(&str, &str)] = &[
    ("reduce_sum", "ReduceSum"),
    ("reduce_mean", "ReduceMean"),
    ("reduce_max", "ReduceMax"),
    ("reduce_min", "ReduceMin"),
    ("reduce_prod", "ReduceProd"),
    ("logsumexp", "ReduceLogSumExp"),
];

type Rule = fn(&mut Nodes<'_>, &Op<'_>) -> Result<()>;

/// Ops with a rule of their own.
const RULES: &[(&str, Rule)] = &[
    ("rsqrt", |w, n| {
        let root = w.node("Sqrt", &[&n.args[0]], Vec::new());
        n.done(w, "Reciprocal", &[&root], Vec::new())
    }),
    ("ne", |w, n| {
        let same = w.node("Equal", &[&n.args[0], &n.args[1]], Vec::new());
        n.done(w, "Not", &[&same], Vec::new())
    }),
    ("silu", |w, n| {
        let gate = w.node("Sigmoid", &[&n.args[0]], Vec::new());
        n.done(w, "Mul", &[&n.args[0], &gate], Vec::new())
    }),
    ("gelu_tanh", |w, n| n.done(w, "Gelu", &[&n.args[0]], vec![("approximate", Given::Text("tanh"))])),
    ("leaky_relu", |w, n| n.done(w, "LeakyRelu", &[&n.args[0]], vec![("alpha", Given::Float(n.number("slope")))])),
    ("elu", |w, n| n.done(w, "Elu", &[&n.args[0]], vec![("alpha", Given::Float(n.number("alpha")))])),
    ("clamp", |w, n| {
        let (lo, hi) = (w.number(n.number("lo"), n.dtype(w.g)), w.number(n.number("hi"), n.dtype(w.g)));
        n.done(w, "Clip", &[&n.args[0], &lo, &hi], Vec::new())
    }),
    ("cast", |w, n| n.done(w, "Cast", &[&n.args[0]], vec![("to", Given::Int(code(n.dtype(w.g))))])),
    ("constant", |w, n| {
        let (dtype, dims) = (n.dtype(w.g), n.dims(w.g));
        let made = w.constant(dtype, &dims, n.bytes("data"));
        n.done(w, "Identity", &[&made], Vec::new())
    }),
    ("full", |w, n| {
        let (value, shape) = (w.number(n.number("value"), n.dtype(w.g)), w.ints(&signed(&n.dims(w.g))));
        n.done(w, "Expand", &[&value, &shape], Vec::new())
    }),
    ("iota", index::iota),
    ("reshape", |w, n| {
        let shape = w.ints(&signed(&n.dims(w.g)));
        n.done(w, "Reshape", &[&n.args[0], &shape], vec![("allowzero", Given::Int(1))])
    }),
    ("broadcast", |w, n| {
        let shape = w.ints(&signed(&n.dims(w.g)));
        n.done(w, "Expand", &[&n.args[0], &shape], Vec::new())
    }),
    ("transpose", |w, n| n.done(w, "Transpose", &[&n.args[0]], vec![("perm", Given::Ints(n.ints("perm")))])),
    ("slice", |w, n| {
        let axes: Vec<i64> = (0..n.ints("starts").len() as i64).collect();
        let lists = [n.ints("starts"), n.ints("limits"), axes, n.ints("steps")].map(|list| w.ints(&list));
        n.done(w, "Slice", &[&n.args[0], &lists[0], &lists[1], &lists[2], &lists[3]], Vec::new())
    }),
    ("flip", |w, n| {
        let axes = n.ints("axes");
        let all = |x: i64| vec![x; axes.len()];
        let lists = [all(-1), all(i64::MIN + 1), axes.clone(), all(-1)].map(|list| w.ints(&list));
        n.done(w, "Slice", &[&n.args[0], &lists[0], &lists[1], &lists[2], &lists[3]], Vec::new())
    }),
    ("concat", |w, n| n.all(w, "Concat", vec![("axis", Given::Int(n.int("axis")))])),
    ("pad", |w, n| {
        let pads = w.ints(&[n.ints("low"), n.ints("high")].concat());
        let value = w.number(n.number("value"), n.dtype(w.g));
        n.done(w, "Pad", &[&n.args[0], &pads, &value], Vec::new())
    }),
    ("arg_max", |w, n| index::arg_extreme(w, n, "ArgMax")),
    ("arg_min", |w, n| index::arg_extreme(w, n, "ArgMin")),
    ("matmul", matmul),
    ("softmax", |w, n| n.done(w, "Softmax", &[&n.args[0]], vec![("axis", Given::Int(n.int("axis")))])),
    ("log_softmax", |w, n| n.done(w, "LogSoftmax", &[&n.args[0]], vec![("axis", Given::Int(n.int("axis")))])),
    ("layer_norm", |w, n| {
        let attrs = vec![("axis", Given::Int(-1)), ("epsilon", Given::Float(n.number("eps")))];
        n.first(w, "LayerNormalization", attrs)
    }),
    ("batch_norm_inference", |w, n| n.all(w, "BatchNormalization", vec![("epsilon", Given::Float(n.number("eps")))])),
    ("conv1d", |w, n| n.all(w, "Conv", n.windows(true))),
    ("conv2d", |w, n| n.all(w, "Conv", n.windows(true))),
    ("conv3d", |w, n| n.all(w, "Conv", n.windows(true))),
    ("conv_transpose1d", transposed),
    ("conv_transpose2d", transposed),
    ("conv_transpose3d", transposed),
    ("max_pool2d", |w, n| n.first(w, "MaxPool", n.windows(true))),
    ("avg_pool2d", average),
    ("gather", |w, n| n.all(w, "Gather", vec![("axis", Given::Int(n.int("axis")))])),
    ("remainder", remainder),
    ("cumsum", |w, n| {
        let axis = w.ints(&[n.int("axis")]);
        let attrs = ["exclusive", "reverse"].map(|name| (name, Given::Int(n.int(name))));
        n.done(w, "CumSum", &[&n.args[0], &axis], attrs.into())
    }),
    ("arg_sort", index::arg_sort),
    ("ravel_index", index::ravel),
    ("scatter", index::scatter),
    ("take_along_axis", |w, n| n.all(w, "GatherElements", vec![("axis", Given::Int(n.int("axis")))])),
    ("one_hot", index::one_hot),
    ("scan", scan),
];

/// Whether there is a rule for an op.
pub fn has(op: &str) -> bool {
    [SAME, REDUCED].iter().any(|list| list.iter().any(|(name, _)| *name == op)) || RULES.iter().any(|r| r.0 == op)
}

/// Whether the rule takes this node. If not, the op is decomposed.
pub fn fits(g: Graph<'_>, n: Node) -> bool {
    match g.def_of(n).name {
        "batch_norm_inference" => Op::of(g, n).int("axis") == 1,
        _ => true,
    }
}

/// Writes a node.
pub fn write(w: &mut Nodes<'_>, node: Node) -> Result<()> {
    let op = Op { args: w.args(node), outs: w.outs(node), ..Op::of(w.g, node) };
    let name = w.g.def_of(node).name;
    if let Some((_, to)) = SAME.iter().find(|(from, _)| *from == name) {
        return op.all(w, to, Vec::new());
    }
    if let Some((_, to)) = REDUCED.iter().find(|(from, _)| *from == name) {
        let (axes, keep) = (w.ints(&op.ints("axes")), op.int("keep"));
        // Without axes the format reduces all of them.
        let none = Given::Int(1);
        let attrs = vec![("keepdims", Given::Int(keep)), ("noop_with_empty_axes", none)];
        return op.done(w, to, &[&op.args[0], &axes], attrs);
    }
    match RULES.iter().find(|r| r.0 == name) {
        Some((_, rule)) => rule(w, &op),
        None => Err(without(w.g, node, "the op has no counterpart")),
    }
}

pub(super) fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&n| n as i64).collect()
}

/// A node with its attributes by name.
pub(super) struct Op<'g> {
    pub(super) node: Node,
    attrs: Vec<(&'static str, Owned)>,
    pub(super) args: Vec<String>,
    outs: Vec<String>,
    g: Graph<'g>,
}

impl<'g> Op<'g> {
    fn of(g: Graph<'g>, node: Node) -> Op<'g> {
        let attrs = g.attrs(node).iter().map(|(field, value)| (field.name, value)).collect();
        Op { node, attrs, args: Vec::new(), outs: Vec::new(), g }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Owned> {
        self.attrs.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// An integer or a flag.
    pub(super) fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Owned::Int(i)) => *i,
            Some(Owned::Bool(b)) => i64::from(*b),
            _ => 0,
        }
    }

    fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Owned::F64(x)) => *x,
            _ => 0.0,
        }
    }

    pub(super) fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Some(Owned::Ints(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        match self.get(name) {
            Some(Owned::Bytes(b)) => b.clone(),
            _ => Vec::new(),
        }
    }

    fn first_out(&self) -> Value {
        self.g.out(self.node)
    }

    /// The dtype of the first result.
    pub(super) fn dtype(&self, g: Graph<'_>) -> DType {
        g.dtype[self.first_out().0 as usize]
    }

    /// The shape of the first result.
    pub(super) fn dims(&self, g: Graph<'_>) -> Vec<usize> {
        g.dims(self.first_out()).to_vec()
    }

    /// The node that gives the result.
    pub(super) fn done(&self, w: &mut Nodes<'_>, op: &str, inputs: &[&str], attrs: Vec<(&str, Given)>) -> Result<()> {
        w.node_to(op, inputs, self.outs[..1].to_vec(), attrs);
        Ok(())
    }

    /// As [`Op::done`], with all operands.
    fn all(&self, w: &mut Nodes<'_>, op: &str, attrs: Vec<(&str, Given)>) -> Result<()> {
        let inputs: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.done(w, op, &inputs, attrs)
    }

    /// As [`Op::all`], for an op with more results than the format gives. None but the first may be read.
    fn first(&self, w: &mut Nodes<'_>, op: &str, attrs: Vec<(&str, Given)>) -> Result<()> {
        let rest: Vec<Value> = self.g.outs_of(self.node).skip(1).collect();
        if self.g.args.iter().chain(self.g.yields).any(|v| rest.contains(v)) {
            return Err(without(self.g, self.node, "a result after the first is read"));
        }
        self.all(w, op, attrs)
    }

    /// The windows of a convolution or a pool. Pads of the library are in pairs for each axis.
    fn windows(&self, dilated: bool) -> Vec<(&'static str, Given)> {
        let pad = self.ints("pad");
        let sides = [0, 1].map(|side| pad.iter().skip(side).step_by(2).copied().collect::<Vec<_>>());
        let mut attrs = vec![("strides", Given::Ints(self.ints("stride"))), ("pads", Given::Ints(sides.concat()))];
        let dilation = self.ints("dilation");
        if dilated && !dilation.is_empty() {
            attrs.push(("dilations", Given::Ints(dilation)));
        }
        if self.get("groups").is_some() {
            attrs.push(("group", Given::Int(self.int("groups"))));
        }
        if self.get("kernel").is_some() {
            attrs.push(("kernel_shape", Given::Ints(self.ints("kernel"))));
        }
        attrs
    }
}

fn matmul(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let mut sides = n.args.clone();
    for i in [0, 1].into_iter().filter(|&i| n.int(["ta", "tb"][i]) != 0) {
        let rank = w.g.dims(w.g.args_of(n.node)[i]).len() as i64;
        let mut perm: Vec<i64> = (0..rank).collect();
        perm.swap(rank as usize - 2, rank as usize - 1);
        sides[i] = w.node("Transpose", &[&sides[i]], vec![("perm", Given::Ints(perm))]);
    }
    n.done(w, "MatMul", &[&sides[0], &sides[1]], Vec::new())
}

/// `Mod` of the format has the sign of the divisor for integers alone.
fn remainder(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let (a, b) = (&n.args[0], &n.args[1]);
    if !matches!(n.dtype(w.g), DType::F32 | DType::F64) {
        return n.done(w, "Mod", &[a, b], Vec::new());
    }
    let (rest, zero) = (w.node("Mod", &[a, b], vec![("fmod", Given::Int(1))]), w.number(0.0, n.dtype(w.g)));
    let below = [&rest, b].map(|x| w.node("Less", &[x, &zero], Vec::new()));
    let differ = w.node("Xor", &[&below[0], &below[1]], Vec::new());
    let none = w.node("Equal", &[&rest, &zero], Vec::new());
    let some = w.node("Not", &[&none], Vec::new());
    let moves = w.node("And", &[&differ, &some], Vec::new());
    let moved = w.node("Add", &[&rest, b], Vec::new());
    n.done(w, "Where", &[&moves, &moved, &rest], Vec::new())
}

fn transposed(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let mut attrs = n.windows(true);
    attrs.push(("output_padding", Given::Ints(n.ints("output_pad"))));
    n.all(w, "ConvTranspose", attrs)
}

fn average(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let mut attrs = n.windows(false);
    attrs.push(("count_include_pad", Given::Int(n.int("count_include_pad"))));
    n.all(w, "AveragePool", attrs)
}

/// A loop over slices. One without slices gets its numbers as slices.
fn scan(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    if !matches!(n.get("exit"), None | Some(Owned::Absent)) {
        return Err(without(w.g, n.node, "the loop may end early"));
    }
    let Some(Owned::Region(body)) = n.get("body") else { return Err(without(w.g, n.node, "the loop has no body")) };
    let (carries, consts) = (n.int("carries") as usize, n.int("consts") as usize);
    let outer: Vec<String> = n.args[carries..carries + consts].to_vec();
    let mut graph = w.body(*body, carries, &outer, n.node)?;
    let mut inputs: Vec<String> = n.args[..carries].iter().chain(&n.args[carries + consts..]).cloned().collect();
    let mut slices = inputs.len() - carries;
    if slices == 0 {
        let numbers: Vec<i64> = (0..n.int("length")).collect();
        inputs.push(w.ints(&numbers));
        slices = 1;
        let name = w.fresh();
        graph.input.push(declaration(&name, DType::I64, &[]));
    }
    let stacked = w.g.outs_of(n.node).len() - carries;
    let back = n.int("reverse");
    let attrs = vec![
        ("body", Given::Graph(Box::new(graph))),
        ("num_scan_inputs", Given::Int(slices as i64)),
        ("scan_input_directions", Given::Ints(vec![back; slices])),
        ("scan_output_directions", Given::Ints(vec![back; stacked])),
    ];
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    w.node_to("Scan", &inputs, n.outs.clone(), attrs);
    Ok(())
}
