//! Requests that make training steps and programs.

use crate::reply::bad_call;
use arenagrad::Precision;
use arenagrad::error::{Kind, Result};
use arenagrad::graph::GraphBuf;
use arenagrad::session::{Keep, Program, Session};
use arenagrad_tables::optimiser::OptimiserTable;
use serde::Deserialize;

/// `{"loss": "loss", "optimiser": {"kind": "adamw", "lr": 1e-3}}`: the optimiser has the keys of a configuration's
/// table `[optimiser]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainRequest {
    loss: String,
    optimiser: OptimiserTable,
}

impl TrainRequest {
    /// The step that lowers the loss of `graph`.
    pub fn train(&self, graph: &GraphBuf) -> Result<GraphBuf> {
        let missing = || bad_call(Kind::Syntax, "optimiser.lr is missing; it is the learning rate");
        let optimiser = self.optimiser.build(self.optimiser.lr.ok_or_else(missing)?);
        let optimiser = optimiser.map_err(|fault| bad_call(Kind::Syntax, fault.message))?;
        arenagrad::optim::train(graph, &self.loss, optimiser)
    }
}

/// `{"methods": [["step", GRAPH], …], "max_memory": BYTES, "precision": "f32", "keep": "bf16", "find_nan": true}`: all
/// but the methods may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileRequest {
    pub methods: Vec<(String, u32)>,
    max_memory: Option<usize>,
    precision: Option<String>,
    keep: Option<String>,
    #[serde(default)]
    find_nan: bool,
}

impl CompileRequest {
    /// The program of these methods.
    pub fn compile(&self, graphs: &[(&str, &GraphBuf)]) -> Result<Program> {
        let mut session = Session::new().threads(1).find_nan(self.find_nan);
        if let Some(word) = &self.precision {
            let known = Precision::ALL.iter().map(|p| p.1);
            session = session.precision(Precision::named(word).ok_or_else(|| unknown("precision", word, known))?);
        }
        if let Some(word) = &self.keep {
            let known = Keep::ALL.iter().map(|k| k.1);
            session = session.keep(Keep::named(word).ok_or_else(|| unknown("keep", word, known))?);
        }
        if let Some(bytes) = self.max_memory {
            session = session.memory_budget(bytes);
        }
        session.compile_all(graphs)
    }
}

#[cold]
fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> arenagrad::Error {
    let known: Vec<&str> = known.collect();
    bad_call(Kind::Syntax, format!("{what} is {word:?}; it may be {}", known.join(", ")))
}
