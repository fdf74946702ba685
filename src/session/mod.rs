//! Sessions and programs: from a graph to steps.
//!
//! A [`Session`] holds the choices (threads, memory budget, precision). [`Session::compile`] makes a [`Program`], which
//! owns one arena and runs steps in it. A [`Handle`] is found by name once; with it, reading and writing a tensor takes
//! no look-up. A step allocates nothing.

mod agp;
mod bindings;
mod budget;
mod choices;
mod chrome_trace;
mod compile;
mod compiled_graph;
mod divided;
mod elem;
pub(crate) mod encoded_readers;
mod export_int8;
mod fresh;
mod gradcheck;
mod handle;
pub(crate) mod html_page;
mod human;
mod leaves_by_name;
pub(crate) mod markup;
mod memory_map;
mod method_source;
mod plan_report;
mod program;
mod published;
mod runner;
mod shared_memory;
mod sized_program;
mod start_values;
mod trace_table;
mod tracer;

#[doc(hidden)]
pub use agp::seal as seal_exported;
pub(crate) use agp::{ExportedHead, FIRST, MAGIC, OpenedHead, check_crc, table_bytes};
pub use bindings::{Binding, Role};
pub use budget::Budget;
pub use elem::Elem;
pub use export_int8::export_int8;
pub use gradcheck::{GradientCheck, GradientReport, LeafGradient, RulesAgreement, check_gradients};
pub use handle::Handle;
pub use human::human;
pub use plan_report::{BufferReport, PlanReport, Recomputed, UpdateReport};
pub use program::Program;
pub use program::method::Method;
pub(crate) use program::short_batches::MarkedInputs;
pub use sized_program::SizedProgram;
pub use tracer::{Call, Event, Trace, WAIT};

use crate::Precision;
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
pub use crate::kernels::conv::Convolutions;
use crate::nodes::Graph;
pub use crate::passes::keep_half::{Keep, KeptHalf};
use crate::passes::lint::find_warnings;
use choices::Choices;
use method_source::MethodSource;
use program::part::Part;
use runner::Runner;
use std::time::Duration;

/// Most threads of one program.
pub const MAX_THREADS: usize = 1024;

/// The name of the only method of a program that [`Session::compile`] makes.
const METHOD: &str = "step";

/// Choices for compiling programs. None of them changes what a program computes, except the precision of products and
/// of what is kept for the backward half, and the way of computing convolutions. Where values are kept in half
/// precision, the memory budget may change the last bits of gradients, too.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("net");
/// let h = nn::linear(&g, "fc1", g.input("x", [256, 8], DType::F32), 64).gelu();
/// let h = nn::linear(&g, "fc2", h, 64).gelu();
/// let loss = nn::linear(&g, "fc3", h, 1).mean(..).named("loss");
/// let step = train(&g.finish([loss])?, "loss", optim::Sgd::new(0.1))?;
///
/// let free = Session::new().plan(&step)?.arena_bytes;
/// let tight = Session::new().threads(2).memory_budget(free * 9 / 10);
/// let program = tight.compile(&step)?; // computes some values twice, to the same bits
/// assert!(program.plan().arena_bytes <= free * 9 / 10);
///
/// // A budget that nothing meets is an error, which names the smallest one that can be met.
/// assert!(Session::new().memory_budget(1000).compile(&step).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Session {
    choices: Choices,
}

/// An arena of `bytes` bytes.
fn allocate_arena(bytes: usize) -> Result<TensorArena> {
    TensorArena::new(bytes).ok_or_else(|| Error::new(Kind::Memory, format!("no memory for an arena of {bytes} bytes")))
}

impl Session {
    /// One thread, all passes, products in f32, no memory budget, no checks while stepping.
    pub fn new() -> Session {
        Session::default()
    }

    /// Runs steps on at most `n` threads, from 1 to [`MAX_THREADS`]; another number is an error when a program is
    /// compiled. Results do not depend on it.
    pub fn threads(mut self, n: usize) -> Session {
        self.choices.threads = n;
        self
    }

    /// Runs all passes (the default), or, with `false`, only those that give every op a kernel.
    pub fn optimise(mut self, on: bool) -> Session {
        self.choices.optimise = on;
        self
    }

    /// Chooses how matrix products of `f32` are computed: `matmul`, `dot_general`, `matmul_bias_act`, `matmul_dact` and
    /// `lora_matmul`, forward and in gradients. The default is [`Precision::F32`]. Params, optimisers and all other ops
    /// stay `f32`. A product also stays `f32` where this CPU would compute it more slowly in `p` ([`Precision::here`]).
    /// Results depend on the CPU's bf16 instructions, not on the number of threads. Sums of products that are written
    /// with broadcasts, which otherwise run as matrix products, stay sums: write them as products if they take long.
    pub fn precision(mut self, p: Precision) -> Session {
        self.choices.precision.base = p;
        self
    }

    /// As [`Session::precision`], but only for the products that read a param whose name matches `pattern`, forward and
    /// backward, and for the product that computes its gradient. The first `*` of a pattern matches any characters. The
    /// first pattern that matches decides. [`Session::compile`] fails if the pattern matches no param, or none that a
    /// product reads. Under [`Session::compile_all`], it must match a param of one of the graphs.
    pub fn precision_of(mut self, pattern: &str, p: Precision) -> Session {
        self.choices.precision.groups.push((pattern.to_string(), p));
        self
    }

    /// Chooses how convolutions are computed. The default is [`Convolutions::Direct`]. With [`Convolutions::Winograd`],
    /// those of 3 × 3 kernels with stride 1 take about half the time where there are 64 channels or more, and 0.8 of it
    /// with 16, at about twice the error. [`PlanReport::winograd`] tells how many those are.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// use arenagrad::session::Convolutions;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let x = g.input("x", [8, 32, 16, 16], DType::F32);
    /// let y = nn::conv2d(&g, "conv", x, 32, [3, 3], Conv2d::default().pad([1; 4]));
    /// let plan = Session::new().convolutions(Convolutions::Winograd).plan(&g.finish([y.named("y")])?)?;
    /// assert_eq!(plan.winograd, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn convolutions(mut self, c: Convolutions) -> Session {
        self.choices.convolutions = c;
        self
    }

    /// Chooses the type in which a training step keeps `f32` values of its forward half for its backward half. The
    /// default is [`Keep::F32`]. All ops still compute in `f32`: a value is rounded after its last reader in the
    /// forward half, and widened right before each reader in the backward half. So the loss and all other outputs keep
    /// their bits, and gradients get the error of one rounding of each kept value. The arena shrinks if kept values are
    /// most of it. [`PlanReport::kept`] tells how many values and bytes are kept in half precision.
    ///
    /// Not rounded are: leaves and outputs; types other than `f32`; statistics, sums and factors of matrices; values
    /// that the backward half compares with others; values of fewer than 1024 bytes; and values that are needed again
    /// at once. `docs/memory.md` has the rules. [`Keep::F16`] has a small range: numbers beyond 65504 become infinite.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// use arenagrad::session::Keep;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let mut h = g.input("x", [256, 64], DType::F32);
    /// for i in 0..8 {
    ///     h = nn::linear(&g, &format!("fc{i}"), h, 64).tanh();
    /// }
    /// let step = train(&g.finish([h.mean(..).named("loss")])?, "loss", optim::Sgd::new(0.1))?;
    /// let full = Session::new().plan(&step)?;
    /// let half = Session::new().keep(Keep::Bf16).plan(&step)?;
    /// assert!(half.kept.values > 0 && half.arena_bytes < full.arena_bytes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep(mut self, keep: Keep) -> Session {
        self.choices.keep = keep;
        self
    }

    /// Looks for NaN and infinities while stepping (the default is not to). A step fails at the first op that makes
    /// one: a NaN from operands without NaN, or an infinity from finite operands. The error names the op and its line,
    /// how many elements are not finite, and the range of each operand; it also tells how many later ops merely carry
    /// the numbers on, and which outputs they reach. A leaf that holds a NaN, or a param that holds an infinity, fails
    /// the step before any op runs. Infinities that an op asks for itself, as a mask of −∞ does, are no failure.
    ///
    /// A failed step leaves params and states as they were; outputs can be read. For debugging, not for speed: it runs
    /// on one thread, without fusion, so that each op stands alone, and keeps a copy of params and states.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let x = g.input("x", [2], DType::F32);
    /// let loss = (x - 1.0).log().sum(..).named("loss");
    /// let mut p = Session::new().find_nan(true).compile(&g.finish([loss])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[3.0, 0.5]);
    /// let e = p.step().unwrap_err().to_string();
    /// assert!(e.starts_with("log: 1 of 2 elements of its result f32[2] are not finite (1 NaN, 0 infinite)"), "{e}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_nan(mut self, on: bool) -> Session {
        self.choices.find_nan = on;
        self
    }

    /// Checks plans and kernels while stepping: fills dead bytes with NaN, and checks that no kernel writes the red
    /// zone behind a buffer. Runs on one thread, and slowly.
    #[doc(hidden)]
    pub fn poison(mut self, on: bool) -> Session {
        self.choices.poison = on;
        self
    }

    /// Divides every instruction of two units or more among all threads, even where one thread is faster. For tests of
    /// plans and kernels on small graphs. Results do not depend on it.
    #[doc(hidden)]
    pub fn share(mut self, on: bool) -> Session {
        self.choices.share = on;
        self
    }

    /// Limits the arena to `bytes` bytes. To fit, values of the forward pass are computed a second time in the backward
    /// pass, as few as the budget allows. [`Session::compile`] fails if nothing fits, and says which budget would. A
    /// larger budget never repeats more operations; a smaller one never gives a larger arena. Results do not change,
    /// except for the rounding of [`Session::keep`]. With `keep`, the values to recompute are chosen as for one thread.
    /// If that choice fits the budget, but not together with the scratch of all threads, compiling fails and names a
    /// budget that would do.
    pub fn memory_budget(mut self, bytes: usize) -> Session {
        self.choices.budget = Some(bytes);
        self
    }

    /// Most plans that a [`SizedProgram`] keeps, at least 1; 64 unless set. Beyond it, the plan that was used least
    /// recently is dropped: its size is planned anew when it is asked for again, with inputs that were never written.
    pub fn plans_kept(mut self, n: usize) -> Session {
        self.choices.plans_kept = n.max(1);
        self
    }

    /// Puts each thread of a program on a core of its own: the thread that runs steps on the first of `cores`, the
    /// others on the next ones. The default leaves threads to the system. [`Program::pin`] says more, and does it for a
    /// program that no session made.
    ///
    /// Compiling fails if there are fewer cores than [`Session::threads`], if a core is given twice or does not exist,
    /// and if the system refuses.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("double");
    /// let graph = g.finish([(g.input("x", [4], DType::F32) * 2.0).named("y")])?;
    /// let e = Session::new().threads(2).pin([1]).compile(&graph).err().unwrap();
    /// assert_eq!(e.message, "threads is 2, and there are fewer cores: [1]");
    /// # Ok(())
    /// # }
    /// ```
    pub fn pin(mut self, cores: impl IntoIterator<Item = usize>) -> Session {
        self.choices.cores = Some(cores.into_iter().collect());
        self
    }

    /// How long the threads of a program look for the next step before they sleep: see [`Program::spin`].
    pub fn spin(mut self, time: Duration) -> Session {
        self.choices.spin = Some(time);
        self
    }

    /// Optimises and plans `graph`, checks the plan, and allocates the arena.
    ///
    /// Errors: the graph is not valid; no plan fits the memory budget; a pattern of [`Session::precision_of`] matches
    /// no product; the arena cannot be allocated, or threads cannot be started.
    pub fn compile<'a>(&self, graph: impl Into<Graph<'a>>) -> Result<Program> {
        self.program(&[(METHOD, graph.into())], false)
    }

    /// Optimises and plans several graphs, the *methods* of one program, and gives them one arena. Params and states
    /// are matched by name and live once, so what one method learns, the next sees, and nothing is copied. Inputs and
    /// outputs are each method's own. Activations of different methods share bytes: the arena has room for the largest
    /// method's, not for their sum. [`Program::step`] runs the first method, [`Program::run`] any.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// fn net(g: &Builder, rows: usize) -> Var<'_> {
    ///     nn::linear(g, "fc", g.input("x", [rows, 2], DType::F32), 1)
    /// }
    /// let g = Builder::new("learn");
    /// let y = g.input("y", [32, 1], DType::F32);
    /// let learn = train(&g.finish([net(&g, 32).mse(y).named("loss")])?, "loss", optim::Sgd::new(0.1))?;
    /// let g = Builder::new("act");
    /// let act = g.finish([net(&g, 1).named("p")])?;
    ///
    /// let mut program = Session::new().compile_all(&[("learn", &learn), ("act", &act)])?;
    /// program.init(0)?;
    /// let act = program.method("act")?;
    /// let (x, p) = (program.input_of::<f32>(act, "x")?, program.output_of::<f32>(act, "p")?);
    /// program[x].copy_from_slice(&[1.0, 2.0]);
    /// program.run(act)?; // with the params that `program.step()` trains
    /// println!("{}", program[p][0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: those of [`Session::compile`]; there is no graph; two methods have one name; a param or a state has
    /// another kind, dtype, shape or other start values in one graph than in another, or is an input there; two
    /// training steps of other params advance one count of steps (`opt.step`), which
    /// [`rename`](crate::graph::rename()) divides.
    pub fn compile_all<'a, G: Into<Graph<'a>> + Clone>(&self, graphs: &[(&str, G)]) -> Result<Program> {
        let graphs: Vec<(&str, Graph<'a>)> = graphs.iter().map(|(name, g)| (*name, g.clone().into())).collect();
        let mut names: Vec<&str> = graphs.iter().map(|g| g.0).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::new(Kind::Name, format!("two methods are called {:?}", twice[0])));
        }
        match graphs.is_empty() {
            true => Err(Error::new(Kind::Name, "a program has at least one method; no graph was given")),
            false => self.program(&graphs, false),
        }
    }

    fn program(&self, graphs: &[(&str, Graph<'_>)], traced: bool) -> Result<Program> {
        let ready = match graphs {
            [(_, g)] => vec![compile::graph(*g, &self.choices)?],
            _ => shared_memory::compile_into_one_arena(&self.choices, graphs)?,
        };
        let (mut execs, mut parts) = (Vec::new(), Vec::new());
        for (ready, graph) in ready.iter().zip(graphs) {
            let (exec, part) = Part::new(*graph, ready, &self.choices, traced)?;
            execs.push(exec);
            parts.push(part);
        }
        let mut runner = Runner::new(execs, self.choices.poison)?;
        self.choices.settle(&mut runner)?;
        let bytes = parts.iter().map(|p| p.ready.scheduled.plan.bytes).max().unwrap_or(0);
        let mut program = Program::new(parts, runner, allocate_arena(bytes)?);
        if !traced && !self.choices.poison && !self.choices.find_nan {
            program.sources = ready.into_iter().zip(graphs).map(|(r, g)| MethodSource::of(g.1, r)).collect();
        }
        Ok(program)
    }

    /// As [`Session::compile`], but the program's steps can be recorded with [`Program::step_traced`]. The program
    /// takes more memory; steps that are not recorded take no longer. Errors are those of `compile`, and
    /// [`Session::find_nan`], which records nothing.
    pub fn compile_traced<'a>(&self, graph: impl Into<Graph<'a>>) -> Result<Program> {
        if self.choices.find_nan {
            let text = "a program that looks for NaN records no steps: choose find_nan or compile_traced";
            return Err(Error::new(Kind::Plan, text));
        }
        self.program(&[(METHOD, graph.into())], true)
    }

    /// The plan of the program that [`Session::compile`] would make. Allocates no arena. Fails as `compile` does.
    pub fn plan<'a>(&self, graph: impl Into<Graph<'a>>) -> Result<PlanReport> {
        let g = graph.into();
        Ok(PlanReport { warnings: find_warnings(g), ..compile::graph(g, &self.choices)?.report() })
    }
}

#[cfg(test)]
mod tests;
