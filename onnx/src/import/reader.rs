//! The walk over a model's nodes.

use super::cx::{Cx, describe, label, unsupported};
use super::fold::fold;
use super::inputs::declare_inputs;
use super::value::{Held, Val};
use super::{Import, LONGEST_STRING, NEWEST_OPSET, OLDEST_OPSET, Options, Trainable};
use crate::error::{Error, Result, model, quoted};
use crate::ops;
use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::tensor::Tensor;
use arenagrad::graph::{Builder, DType, Init, Var, VarId};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// The most graphs and functions in one another.
const DEEPEST: usize = 32;
/// The most nodes that are read, with those of functions each time that they are called.
const MOST_NODES: usize = 1 << 17;

/// What all scopes share.
pub struct Reader<'a, 'g> {
    pub g: &'g Builder,
    pub options: &'a Options,
    pub folder: Option<&'a Path>,
    functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    params: RefCell<HashMap<Rc<str>, VarId>>,
    weights: RefCell<Vec<(String, Tensor)>>,
    notes: RefCell<Vec<String>>,
    nodes: Cell<usize>,
    /// Of each value: what its node reads.
    reads: RefCell<HashMap<String, Vec<String>>>,
    /// The inputs of the graph.
    pub inputs: RefCell<HashSet<String>>,
}

/// The names that nodes of one graph see.
pub struct Scope<'s, 'g> {
    values: RefCell<HashMap<String, Val<'g>>>,
    parent: Option<&'s Scope<'s, 'g>>,
    opsets: Rc<HashMap<String, i64>>,
    depth: usize,
}

impl<'s, 'g> Scope<'s, 'g> {
    /// The scope of a graph inside of this one.
    pub fn inside(&'s self) -> Result<Scope<'s, 'g>> {
        self.below(Some(self), self.opsets.clone())
    }

    fn below<'t>(&self, parent: Option<&'t Scope<'t, 'g>>, opsets: Rc<HashMap<String, i64>>) -> Result<Scope<'t, 'g>> {
        if self.depth == DEEPEST {
            return model(format!("graphs stand more than {DEEPEST} deep in one another"));
        }
        Ok(Scope { values: RefCell::default(), parent, opsets, depth: self.depth + 1 })
    }

    pub fn get(&self, name: &str) -> Option<Val<'g>> {
        let own = self.values.borrow().get(name).cloned();
        own.or_else(|| self.parent.and_then(|p| p.get(name)))
    }

    /// Gives a value its name. A second value of this name is an error.
    pub fn set(&self, name: &str, val: Val<'g>) -> Result<()> {
        if name.len() > LONGEST_STRING {
            return model(format!("a name has {} bytes; at most {LONGEST_STRING} are allowed", name.len()));
        }
        match self.values.borrow_mut().insert(name.to_string(), val) {
            None => Ok(()),
            Some(_) => model(format!("the name {name:?} is used for two values")),
        }
    }
}

/// The version in which `domain` is imported.
pub fn since(opsets: &HashMap<String, i64>, domain: &str) -> Option<i64> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    opsets.get(domain).copied()
}

/// Reads a parsed model.
pub fn import(m: &ModelProto, options: &Options, folder: Option<&Path>) -> Result<Import> {
    let Some(graph) = &m.graph else { return model("the model has no graph") };
    let opsets = opsets(m.opset_import.iter().map(|o| (o.domain(), o.version())))?;
    let functions = m.functions.iter().map(|f| ((f.domain(), f.name()), f)).collect();
    let g = Builder::new(if graph.name().is_empty() { "onnx" } else { "model" });
    g.training(true);
    let reader = Reader {
        g: &g,
        options,
        folder,
        functions,
        params: RefCell::default(),
        weights: RefCell::default(),
        notes: RefCell::default(),
        nodes: Cell::new(0),
        reads: RefCell::default(),
        inputs: RefCell::default(),
    };
    let scope = Scope { values: RefCell::default(), parent: None, opsets, depth: 0 };
    reader.check_opset(graph, &scope)?;
    reader.initialisers(graph, &scope)?;
    declare_inputs(&reader, graph, &scope)?;
    reader.nodes(&graph.node, &scope)?;
    let none = NodeProto::default();
    for out in &graph.output {
        let name = out.name();
        let Some(val) = scope.get(name) else { return model(format!("output {name:?} is computed by no node")) };
        let cx = Cx { g: &g, node: &none, args: Vec::new(), opset: 0, raw: true, place: None };
        let v = match &val.held {
            Held::Stored(name, t) => reader.param(name, t, false),
            Held::List(_) | Held::Absent => {
                let made = graph.node.iter().find(|n| n.output.iter().any(|o| o == name));
                let node = made.unwrap_or(graph.node.first().unwrap_or(&none));
                return Err(unsupported(node, reader.opset(node, &scope), "a sequence cannot be an output"));
            }
            _ => cx.var(&val, false)?,
        };
        g.output(name, v);
    }
    reader.check_notes(graph);
    let graph = g.finish([])?;
    let values = options.values.iter().map(|(name, _)| name.clone()).collect();
    Ok(Import { graph, weights: reader.weights.into_inner(), values, notes: reader.notes.into_inner() })
}

fn opsets<'m>(all: impl Iterator<Item = (&'m str, i64)>) -> Result<Rc<HashMap<String, i64>>> {
    let named = all.map(|(domain, v)| (if domain == "ai.onnx" { "" } else { domain }.to_string(), v));
    let map: HashMap<String, i64> = named.collect();
    Ok(Rc::new(map))
}

impl<'a, 'g> Reader<'a, 'g> {
    /// Adds a note, once.
    fn note(&self, text: &str) {
        let mut notes = self.notes.borrow_mut();
        if !notes.iter().any(|n| n == text) {
            notes.push(text.to_string());
        }
    }

    /// Refuses versions of the default ops that are not read.
    fn check_opset(&self, graph: &GraphProto, scope: &Scope<'_, 'g>) -> Result<()> {
        match (since(&scope.opsets, ""), graph.node.first()) {
            (Some(v), Some(node)) if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&v) => {
                Err(unsupported(node, v, format!("opset {OLDEST_OPSET} to {NEWEST_OPSET} are read")))
            }
            _ => Ok(()),
        }
    }

    /// The param of an initialiser, which it becomes at its first use.
    pub fn param(&self, name: &Rc<str>, t: &Rc<Tensor>, frozen: bool) -> Var<'g> {
        if let Some(id) = self.params.borrow().get(name) {
            return self.g.var_of(*id);
        }
        let trained = match &self.options.trainable {
            Trainable::All => true,
            Trainable::None => false,
            Trainable::Only(patterns) => patterns.iter().any(|p| matches(p, name)),
        };
        let t = Tensor::clone(t).widened();
        let v = self.g.at_source(name, 0, || match trained && !frozen {
            true => self.g.param(name, &t.dims, t.dtype, Init::Zeros),
            false => self.g.frozen_param(name, &t.dims, t.dtype, Init::Zeros),
        });
        self.weights.borrow_mut().push((name.to_string(), t));
        self.params.borrow_mut().insert(name.clone(), v.id());
        v
    }

    /// The values of a graph's initialisers.
    pub fn initialisers(&self, graph: &GraphProto, scope: &Scope<'_, 'g>) -> Result<()> {
        if !graph.sparse_initializer.is_empty() {
            return model("the model has sparse initialisers, which are not supported");
        }
        for t in &graph.initializer {
            let tensor = Tensor::from_proto(t, self.folder)?;
            let val = match tensor.dtype.is_real_float() && !tensor.dims.is_empty() {
                true => Val { dtype: tensor.dtype, held: Held::Stored(t.name().into(), Rc::new(tensor)) },
                false => Val::known(tensor),
            };
            scope
                .set(t.name(), val)
                .map_err(|_| Error::Model(format!("two initialisers are called {:?}", t.name())))?;
        }
        Ok(())
    }

    /// Reads nodes in order.
    pub fn nodes(&self, nodes: &[NodeProto], scope: &Scope<'_, 'g>) -> Result<()> {
        for (i, node) in nodes.iter().enumerate() {
            self.nodes.set(self.nodes.get() + 1);
            if self.nodes.get() > MOST_NODES {
                return model(format!("the model has more than {MOST_NODES} nodes"));
            }
            let args = self.operands(node, scope, &nodes[i..])?;
            let outs = self.node(node, args, scope)?;
            if let Some(e) = self.g.error() {
                return Err(Error::Graph(e.context(describe(node))));
            }
            let wanted = node.output.iter().enumerate().filter(|(_, name)| !name.is_empty());
            for (k, name) in wanted {
                let Some(val) = outs.get(k) else {
                    return Err(unsupported(node, self.opset(node, scope), format!("result {k} is not supported")));
                };
                scope.set(name, val.clone())?;
                self.reads.borrow_mut().insert(name.clone(), read_by(node));
            }
        }
        Ok(())
    }

    /// The operands of a node. `rest` begins with it.
    fn operands(&self, node: &NodeProto, scope: &Scope<'_, 'g>, rest: &[NodeProto]) -> Result<Vec<Option<Val<'g>>>> {
        let one = |name: &String| match (name.is_empty(), scope.get(name)) {
            (true, _) => Ok(None),
            (_, Some(val)) => Ok(Some(val)),
            (_, None) => {
                let later = rest.iter().any(|n| n.output.contains(name));
                let why =
                    if later { "which this or a later node computes: a circle" } else { "which nothing computes" };
                model(format!("{} reads {name:?}, {why}", describe(node)))
            }
        };
        node.input.iter().map(one).collect()
    }

    pub fn opset(&self, node: &NodeProto, scope: &Scope<'_, '_>) -> i64 {
        since(&scope.opsets, node.domain()).unwrap_or(0)
    }

    /// The results of a node.
    fn node(&self, node: &NodeProto, args: Vec<Option<Val<'g>>>, scope: &Scope<'_, 'g>) -> Result<Vec<Val<'g>>> {
        if let Some(f) = self.functions.get(&(node.domain(), node.op_type())) {
            return self.call(f, node, args, scope);
        }
        let opset = self.opset(node, scope);
        if let Some(a) = node.attribute.iter().find(|a| a.s().len() > LONGEST_STRING) {
            return model(format!("{}: attribute {:?} has {} bytes", describe(node), a.name(), a.s().len()));
        }
        let entry = ops::find(node.domain(), node.op_type());
        let raw = entry.is_some_and(|e| e.raw());
        if let Some(folded) = entry.map(|e| fold(e, node, &args, opset)).transpose()?.flatten() {
            return Ok(folded.into_iter().map(Val::known).collect());
        }
        let cx = Cx { g: self.g, node, args, opset, raw, place: Some((self, scope)) };
        if let Some(outs) = self.structure(&cx, scope)? {
            return Ok(outs);
        }
        let Some(entry) = entry else { return cx.refuse("there is no rule for this op") };
        if !raw && cx.args.iter().flatten().any(|v| v.dtype == DType::U64) {
            self.note("u64 is computed in i64: numbers from 2^63 on are saturated");
        }
        // Locations are names of nodes, with their place in the model; leaves stand at 0.
        let place = u32::try_from(self.nodes.get()).unwrap_or(u32::MAX);
        let outs = self.g.at_source(label(node), place, || entry.run(&cx))?;
        Ok(outs.into_iter().map(Val::live).collect())
    }

    /// A function of the model, inlined.
    fn call(
        &self,
        f: &FunctionProto,
        node: &NodeProto,
        args: Vec<Option<Val<'g>>>,
        scope: &Scope<'_, 'g>,
    ) -> Result<Vec<Val<'g>>> {
        let mut map = (*opsets(f.opset_import.iter().map(|o| (o.domain(), o.version())))?).clone();
        scope.opsets.iter().for_each(|(domain, v)| _ = map.entry(domain.clone()).or_insert(*v));
        let inner = scope.below(None, Rc::new(map))?;
        if args.len() > f.input.len() {
            return model(format!("{}: {} operands; the function takes {}", describe(node), args.len(), f.input.len()));
        }
        for (name, val) in f.input.iter().zip(args) {
            val.map(|val| inner.set(name, val)).transpose()?;
        }
        let mut body = f.node.clone();
        body.iter_mut().for_each(|n| {
            let absent = bind_attributes(n, f, node);
            n.attribute.retain(|a| !absent.contains(a.name()));
            n.input
                .iter_mut()
                .filter(|name| f.input.contains(name) && inner.get(name).is_none())
                .for_each(String::clear);
        });
        self.nodes(&body, &inner)?;
        let out = |name: &String| {
            inner.get(name).ok_or_else(|| Error::Model(format!("{}: nothing computes {name:?}", describe(node))))
        };
        f.output.iter().map(out).collect()
    }

    /// The inputs of the graph that the value `name` is computed from, without what is known.
    pub fn inputs_behind(&self, scope: &Scope<'_, 'g>, name: &str) -> Vec<String> {
        let (reads, inputs) = (self.reads.borrow(), self.inputs.borrow());
        let (mut seen, mut open, mut found) = (HashSet::new(), vec![name.to_string()], Vec::new());
        while let Some(name) = open.pop() {
            let known = scope.get(&name).is_some_and(|v| !matches!(v.held, Held::Live(_) | Held::List(_)));
            if known || !seen.insert(name.clone()) {
                continue;
            }
            match inputs.contains(&name) {
                true => found.push(name),
                false => open.extend(reads.get(&name).into_iter().flatten().cloned()),
            }
        }
        found.sort();
        found
    }

    /// What the whole model says about training it.
    fn check_notes(&self, graph: &GraphProto) {
        let has = |ops: &[&str]| graph.node.iter().any(|n| ops.contains(&n.op_type()));
        let trained = self.options.trainable != Trainable::None;
        if trained && has(&["Conv"]) && !has(&["BatchNormalization", "LayerNormalization", "GroupNormalization"]) {
            let text = "no BatchNormalization found: an exporter may have folded it into the convolutions; to train \
                        the model on, export with `optimize=False`";
            self.note(text);
        }
        let given: Vec<&str> = self.options.values.iter().map(|(name, _)| name.as_str()).collect();
        if !given.is_empty() {
            self.note(&format!("read for the given values of {}", quoted(given)));
        }
    }
}

/// The values that a node reads, with those that graphs inside of it give.
fn read_by(node: &NodeProto) -> Vec<String> {
    let inner = node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs));
    let given = inner.flat_map(|g| g.output.iter().map(|o| o.name().to_string()));
    node.input.iter().cloned().chain(given).collect()
}

/// Attributes of a function's node that refer to attributes of the call become those. Gives the names of the ones that
/// the call does not have.
fn bind_attributes(n: &mut NodeProto, f: &FunctionProto, call: &NodeProto) -> HashSet<String> {
    let mut absent = HashSet::new();
    for a in &mut n.attribute {
        if !a.ref_attr_name().is_empty() {
            let wanted = a.ref_attr_name();
            let given = call.attribute.iter().chain(&f.attribute_proto).find(|given| given.name() == wanted);
            match given {
                Some(given) => *a = AttributeProto { name: a.name.clone(), ..given.clone() },
                None => _ = absent.insert(a.name().to_string()),
            }
        }
        for inner in a.g.iter_mut().chain(&mut a.graphs).flat_map(|g| &mut g.node) {
            let gone = bind_attributes(inner, f, call);
            inner.attribute.retain(|a| !gone.contains(a.name()));
        }
    }
    absent
}

/// Whether `pattern` matches `name`: its first `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == name,
    }
}
