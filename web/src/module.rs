//! The objects of a page: graphs and programs, by numbers that are never used twice.
//!
//! Invariant: `objects` is sorted by number, so a freed number is unknown and never names another object.

use crate::compile::{CompileRequest, TrainRequest};
use crate::reply::{Call, bad_call, request_json};
use arenagrad::error::{Error, Kind, Result};
use arenagrad::graph::{GraphBuf, Sizes};
use arenagrad::session::{Binding, Method, Program, Session};
use arenagrad::tools::ir::text;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

enum Object {
    Graph(Box<GraphBuf>),
    Program(Box<Program>),
}

/// All that a page holds.
#[derive(Default)]
pub struct Module {
    objects: Vec<(u32, Object)>,
    next: u32,
    /// What the page wrote for the call.
    pub request: Vec<u8>,
    /// What the call left for the page.
    pub reply: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParseRequest {
    text: String,
    #[serde(default)]
    sizes: BTreeMap<String, usize>,
}

impl Module {
    fn hold(&mut self, object: Object) -> Call {
        let id = self.next;
        // The result of a call is an `i32`, and the negative ones are errors.
        self.next = id.checked_add(1).filter(|n| *n <= i32::MAX as u32).ok_or_else(|| {
            bad_call(Kind::Memory, "the module has made 2147483647 graphs and programs; load it anew")
        })?;
        self.objects.push((id, object));
        Ok(id)
    }

    fn find(&self, id: u32, what: &str) -> Result<usize> {
        let at = self.objects.binary_search_by_key(&id, |o| o.0);
        at.map_err(|_| bad_call(Kind::Name, format!("there is no {what} {id}: it was freed, or never made")))
    }

    fn graph(&self, id: u32) -> Result<&GraphBuf> {
        match &self.objects[self.find(id, "graph")?].1 {
            Object::Graph(g) => Ok(g),
            Object::Program(_) => Err(bad_call(Kind::Name, format!("{id} is a program; a graph is needed"))),
        }
    }

    fn program(&mut self, id: u32) -> Result<&mut Program> {
        let at = self.find(id, "program")?;
        match &mut self.objects[at].1 {
            Object::Program(p) => Ok(p),
            Object::Graph(_) => Err(bad_call(Kind::Name, format!("{id} is a graph; a program is needed"))),
        }
    }

    /// The graph of the text in the request `{"text", "sizes"}`.
    pub fn parse(&mut self) -> Call {
        let r: ParseRequest = request_json("parse", &self.request)?;
        let sizes: Vec<(&str, usize)> = r.sizes.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        let graph = text::parse_with_sizes(&r.text, &[], &Sizes::new(&sizes)?)?;
        self.hold(Object::Graph(Box::new(graph)))
    }

    /// The training step of graph `id` by the request of [`TrainRequest`].
    pub fn train(&mut self, id: u32) -> Call {
        let r: TrainRequest = request_json("train", &self.request)?;
        let step = r.train(self.graph(id)?)?;
        self.hold(Object::Graph(Box::new(step)))
    }

    /// Leaves the text of graph `id`.
    pub fn graph_text(&mut self, id: u32) -> Call {
        self.reply = self.graph(id)?.to_string().into_bytes();
        Ok(0)
    }

    /// The program of the request of [`CompileRequest`].
    pub fn compile(&mut self) -> Call {
        let r: CompileRequest = request_json("compile", &self.request)?;
        let graphs = r.methods.iter().map(|(name, id)| Ok((name.as_str(), self.graph(*id)?)));
        let program = r.compile(&graphs.collect::<Result<Vec<_>>>()?)?;
        self.hold(Object::Program(Box::new(program)))
    }

    /// The program that was exported into the request. One of another engine or processor is compiled again from the
    /// graph inside.
    pub fn open(&mut self) -> Call {
        let program = match Program::open_bytes(&self.request) {
            Err(e) if e.kind == Kind::Plan => Session::new().threads(1).compile_exported_bytes(&self.request)?,
            opened => opened?,
        };
        self.hold(Object::Program(Box::new(program)))
    }

    /// Leaves program `id` as the bytes of an `.agp`.
    pub fn export(&mut self, id: u32) -> Call {
        self.reply = self.program(id)?.export_bytes()?;
        Ok(0)
    }

    /// Leaves what program `id` holds: `{"methods": [NAME…], "tensors": [{…}]}`. Params and states stand with the first
    /// method that has them; their `method` is `null`.
    pub fn tensors(&mut self, id: u32) -> Call {
        let p = &*self.program(id)?;
        let (mut tensors, methods) = (Vec::new(), p.methods().collect::<Vec<_>>());
        let mut shared: Vec<&str> = Vec::new();
        for (at, name) in methods.iter().enumerate() {
            for b in p.bindings_of(p.method(name)?)? {
                let own = matches!(b.role.name(), "input" | "output");
                if !own && shared.contains(&b.name.as_str()) {
                    continue;
                }
                if !own {
                    shared.push(&b.name);
                }
                tensors.push(tensor_json(p, b, own.then_some(at)));
            }
        }
        self.reply = json!({ "methods": methods, "tensors": tensors }).to_string().into_bytes();
        Ok(0)
    }

    /// Fills the params and states of program `id` with start values.
    pub fn init(&mut self, id: u32, seed: u64) -> Call {
        self.program(id)?.init(seed)?;
        Ok(0)
    }

    /// The input, param or state of method `at` whose name the request holds counts as written.
    pub fn mark(&mut self, id: u32, at: u32) -> Call {
        let name: String = request_json("mark", &self.request)?;
        let p = self.program(id)?;
        p.mark_written_of(nth_method(p, at)?, &name)?;
        Ok(0)
    }

    /// Runs method `at` of program `id` once.
    pub fn run(&mut self, id: u32, at: u32) -> Call {
        let p = self.program(id)?;
        if at == 0 {
            p.step()?;
        } else {
            let m = nth_method(p, at)?;
            p.run(m)?;
        }
        Ok(0)
    }

    /// Leaves the plan of method `at` of program `id`, as a text or as an SVG picture.
    pub fn plan(&mut self, id: u32, at: u32, svg: bool) -> Call {
        let p = self.program(id)?;
        let plan = p.plan_of(nth_method(p, at)?)?;
        self.reply = if svg { plan.svg() } else { plan.to_string() }.into_bytes();
        Ok(0)
    }

    /// Leaves a safetensors file of program `id`: all params and states, or the weights alone.
    pub fn save(&mut self, id: u32, weights: bool) -> Call {
        self.reply = crate::weights::saved(self.program(id)?, weights)?;
        Ok(0)
    }

    /// Reads params and states of program `id` from the safetensors file in the request.
    pub fn load(&mut self, id: u32) -> Call {
        let file = std::mem::take(&mut self.request);
        crate::weights::load(self.program(id)?, file)?;
        Ok(0)
    }

    /// Leaves the numbers below `n` in the order of an epoch, as `u32`.
    pub fn permutation(&mut self, n: u32, seed: u64, epoch: u64) -> Call {
        let mut order = Vec::new();
        let full = |_| bad_call(Kind::Memory, format!("no memory for an order of {n} numbers"));
        order.try_reserve_exact(n as usize).map_err(full)?;
        order.resize(n as usize, 0);
        arenagrad::train::permutation(seed, epoch, &mut order);
        self.reply = order.iter().flat_map(|i| i.to_le_bytes()).collect();
        Ok(0)
    }

    /// Frees graph or program `id`.
    pub fn free(&mut self, id: u32) -> Call {
        let at = self.find(id, "graph or program")?;
        self.objects.remove(at);
        Ok(0)
    }
}

/// A tensor as the page needs it: `address` is that of its first byte in the module's memory.
fn tensor_json(p: &Program, b: &Binding, method: Option<usize>) -> serde_json::Value {
    let bytes = p.bytes_of(b);
    json!({
        "name": b.name,
        "role": b.role.name(),
        "method": method,
        "dtype": b.dtype.name(),
        "dims": &b.dims[..],
        "address": bytes.as_ptr().addr(),
        "bytes": bytes.len(),
    })
}

fn nth_method(p: &Program, at: u32) -> Result<Method, Error> {
    let name = p.methods().nth(at as usize).map(str::to_string);
    let missing = || bad_call(Kind::Name, format!("there is no method number {at}"));
    p.method(&name.ok_or_else(missing)?)
}
