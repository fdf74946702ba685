//! Programs of one net at many sizes: a recipe, one set of params and states, and a plan for each size in use.
//!
//! Invariant: params and states live once, in the one arena. Only the program of the size in use, the *current* one,
//! holds the arena and the team of threads; switching hands these over and copies no tensor. A size that fails leaves
//! everything as it was.

mod kept_plan;
mod layout;

use super::budget::{self, Fit};
use super::choices::Choices;
use super::compiled_graph::CompiledGraph;
use super::divided::Divided;
use super::leaves_by_name::LeafTable;
use super::program::Program;
use super::program::part::Part;
use super::runner::Runner;
use super::{Keep, METHOD, Session, allocate_arena, compile};
use crate::arena::tensor::{LINE, TensorArena};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::{Builder, Graph, GraphBuf, Sizes};
use crate::sched::team::Team;
use kept_plan::{KeptPlan, bytes_of_lines};
use layout::{Layout, LayoutPlanLines};
use std::fmt;

/// Builds the graph for the sizes that the builder's symbols have.
type Recipe = dyn Fn(&Builder) -> Result<GraphBuf> + Send;

/// A net at many sizes, with one set of params and states: what [`Session::compile_sized`] makes.
///
/// [`SizedProgram::at`] gives the [`Program`] of one size.
pub struct SizedProgram {
    choices: Choices,
    name: String,
    recipe: Box<Recipe>,
    leaves: LeafTable,
    /// Of each param and state: whether it was initialised, loaded or written.
    set: Vec<bool>,
    layout: Layout,
    plans: Vec<KeptPlan>,
    /// The plan whose program holds the arena and the team.
    current: Option<usize>,
    /// Empty while a program holds it.
    arena: TensorArena,
    team: Option<Team>,
    /// Threads of the team; 1 without one.
    threads: usize,
    /// Counts calls of [`SizedProgram::at`].
    clock: u64,
    made: u64,
}

impl Session {
    /// A net at sizes that vary: batches of any size, a short last batch, buckets of lengths. `recipe` builds the graph
    /// for the sizes that [`Builder::symbol`] gives; it runs once for each size, when [`SizedProgram::at`] first asks
    /// for that size. `name` is the graph's name.
    ///
    /// Params and states are matched by name and live once: what one size learns, the next sees, and nothing is copied.
    /// Inputs and outputs are each size's own. All sizes use one workspace, which is as large as the largest size
    /// needs.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let mut net = Session::new().compile_sized("net", |g| {
    ///     let batch = g.symbol("batch");
    ///     let (x, y) = (g.input("x", [batch, 2], DType::F32), g.input("y", [batch, 1], DType::F32));
    ///     let loss = nn::linear(g, "fc", x, 1).mse(y).named("loss");
    ///     train(&g.finish([loss])?, "loss", optim::AdamW::new(1e-2))
    /// });
    /// net.at(&[("batch", 32)])?.init(0)?;
    /// for examples in [32, 32, 7] {
    ///     let p = net.at(&[("batch", examples)])?; // planned on first use
    ///     p.values_mut::<f32>("x")?.fill(0.5);
    ///     p.values_mut::<f32>("y")?.fill(1.0);
    ///     p.step()?;
    ///     println!("{}", p.values::<f32>("loss")?[0]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn compile_sized(
        &self,
        name: &str,
        recipe: impl Fn(&Builder) -> Result<GraphBuf> + Send + 'static,
    ) -> SizedProgram {
        SizedProgram {
            choices: self.choices.clone(),
            name: name.to_string(),
            recipe: Box::new(recipe),
            leaves: LeafTable::default(),
            set: Vec::new(),
            layout: Layout::default(),
            plans: Vec::new(),
            current: None,
            arena: TensorArena::default(),
            team: None,
            threads: 1,
            clock: 0,
            made: 0,
        }
    }
}

/// What errors call a size: `at batch=7`.
fn describe_sizes(sizes: &Sizes) -> String {
    if sizes.iter().next().is_none() { "without symbols".to_string() } else { format!("at {sizes}") }
}

impl SizedProgram {
    /// The program of the net at these sizes, in any order: a [`Program`] with its own inputs and outputs, and with
    /// params and states as the last size left them. The first call for a size builds, plans and proves the program.
    /// Later calls find it ready, unless other plans have moved it: then it is placed and proved again. A handle
    /// belongs to the program of one size.
    ///
    /// Errors: a symbol is bound twice; the recipe asks for a symbol that is not bound, or does not ask for one that
    /// is; the recipe fails, as at a size that an op refuses; a param or a state differs from the one of its name at an
    /// earlier size in kind, dtype, shape or start values (the error names both places); those of
    /// [`Session::compile`]. Each names the sizes. Params and states stay as they were, and so do kept plans,
    /// except one that cannot be placed again: it is dropped.
    pub fn at(&mut self, sizes: &[(&str, usize)]) -> Result<&mut Program> {
        self.clock += 1;
        let k = match self.plans.iter().position(|p| p.sizes.are(sizes)) {
            Some(k) if self.plans[k].version == self.layout.version => k,
            Some(k) => self.place_again(k)?,
            None => {
                let sizes = Sizes::new(sizes)?;
                let label = describe_sizes(&sizes);
                self.plan(sizes).map_err(|e| e.context(label))?
            }
        };
        self.switch_to(k)?;
        let plan = &mut self.plans[k];
        plan.used = self.clock;
        Ok(&mut plan.program)
    }

    /// The sizes whose plans are kept, those used most recently first.
    pub fn kept(&self) -> impl Iterator<Item = &Sizes> {
        let mut order: Vec<&KeptPlan> = self.plans.iter().collect();
        order.sort_by_key(|p| std::cmp::Reverse(p.used));
        order.into_iter().map(|p| &p.sizes)
    }

    /// How many plans have been made, those of dropped plans included. If it grows in the steady state, more sizes are
    /// in use than [`Session::plans_kept`] keeps.
    pub fn plans_made(&self) -> u64 {
        self.made
    }

    /// Bytes of the arena: params, states, the inputs, outputs and constants of all kept plans, and one workspace. When
    /// a size needs more, the arena grows by more than that size needs, so that it seldom grows; under
    /// [`Session::memory_budget`] it never exceeds the budget.
    pub fn arena_bytes(&self) -> usize {
        self.current.map_or(self.arena.len(), |k| self.plans[k].program.arena.len())
    }

    /// The graph at `sizes`.
    fn build(&self, sizes: &Sizes) -> Result<GraphBuf> {
        let g = Builder::at_sizes(&self.name, sizes.clone());
        let graph = (self.recipe)(&g);
        if let Some(e) = g.error() {
            return Err(e);
        }
        let graph = graph?;
        if let Some(name) = g.asked_sizes().unused() {
            let used = g.asked_sizes().used();
            let known = match used.is_empty() {
                true => "it asks for none".to_string(),
                false => format!("it asks for {}", names::list_names(used)),
            };
            let text = format!("symbol {name:?} is bound, but the recipe does not ask for it; {known}");
            return Err(Error::new(Kind::Name, text));
        }
        Ok(graph)
    }

    /// Plans the net at `sizes` and makes its program the current one. Returns the plan's number.
    fn plan(&mut self, sizes: Sizes) -> Result<usize> {
        self.park()?;
        let graph = self.build(&sizes)?;
        let ready = compile::graph(graph.view(), &Choices { budget: None, ..self.choices.clone() })?;
        // A clone, where there are new leaves: an error further down must not leave them behind.
        let more_leaves = match self.leaves.has_all(&ready.graph.view()) {
            true => None,
            false => {
                let mut leaves = self.leaves.clone();
                leaves.add(&[(&format!("the graph {}", describe_sizes(&sizes)), ready.graph.view())])?;
                Some(leaves)
            }
        };
        let leaves = more_leaves.as_ref().unwrap_or(&self.leaves);
        let divided = self.within_budget(graph.view(), ready, leaves.lines())?;
        let new = LayoutPlanLines::of(&divided.areas);
        let staying = self.staying(leaves.lines(), &new);
        let kept: Vec<LayoutPlanLines> = staying.iter().map(|&k| self.plans[k].lines.clone()).collect();
        let placed = self.layout.with(leaves.lines(), &kept, &new, self.most_lines());
        let own = placed.own.last().cloned().unwrap_or_default();
        let places = leaves.places(&divided.ready);
        let mut divided = divided.place(&placed.layout.frame(&places, own.start), &self.choices)?;
        let Divided { ready, .. } = &mut divided;
        let (exec, part) = Part::new((METHOD, graph.view()), ready, &self.choices, false)?;
        self.start_threads(exec.threads())?;
        let mut runner = Runner::on_this_thread(vec![exec], self.choices.poison);
        self.choices.settle(&mut runner)?;
        let larger = self.larger_arena(&placed.layout)?;
        // Nothing fails from here on.
        if let Some(leaves) = more_leaves {
            self.set.resize(leaves.count(), false);
            self.leaves = leaves;
        }
        self.move_plans(larger, placed.layout, &staying, &placed.own);
        self.arena.bytes_mut()[bytes_of_lines(&own)].fill(0);
        let program = Program::new(vec![part], runner, std::mem::take(&mut self.arena));
        let mut plan = KeptPlan::new(sizes, program, divided, own, &self.leaves);
        plan.version = self.layout.version;
        self.arena = std::mem::take(&mut plan.program.arena);
        self.plans.push(plan);
        self.made += 1;
        Ok(self.plans.len() - 1)
    }

    /// Most lines of the arena.
    fn most_lines(&self) -> Option<u64> {
        self.choices.budget.map(|bytes| (bytes / LINE) as u64)
    }

    /// The plan of `ready`, which was made of `g`, divided into areas. If it does not fit the memory budget together
    /// with `leaves` lines of params and states, some of its values are computed twice.
    fn within_budget(&self, g: Graph<'_>, ready: CompiledGraph, leaves: u64) -> Result<Divided> {
        let divided = Divided::new(ready, &self.choices)?;
        // In half precision, what is computed again must not depend on the scratch of this number of threads.
        let halves = self.choices.keep != Keep::F32;
        match self.choices.budget.filter(|&bytes| halves || divided.bytes_beside(leaves) > bytes) {
            None => Ok(divided),
            Some(bytes) => match Divided::within(g, &self.choices, bytes, leaves)? {
                Fit::Fits(fitted) => Ok(fitted),
                Fit::Needs(least) => Err(budget::too_small_error(bytes, least)),
            },
        }
    }

    /// The plans that stay when one that takes `new` comes: the most recently used, as many as are kept and fit the
    /// budget, by number.
    fn staying(&self, leaves: u64, new: &LayoutPlanLines) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.plans.len()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(self.plans[k].used));
        order.truncate(self.choices.plans_kept - 1);
        let own = |p: &LayoutPlanLines| p.own.end - p.own.start;
        let (mut sum, mut widest) = (leaves + own(new), new.workspace);
        let fit = order.iter().take_while(|&&k| {
            let lines = &self.plans[k].lines;
            (sum, widest) = (sum + own(lines), widest.max(lines.workspace));
            self.most_lines().is_none_or(|most| sum + widest <= most)
        });
        let fit = fit.count();
        order.truncate(fit);
        order.sort_unstable();
        order
    }

    /// A larger arena, if the present one cannot hold `layout`, or if own areas move in it.
    fn larger_arena(&self, layout: &Layout) -> Result<Option<TensorArena>> {
        let bytes = layout.lines as usize * LINE;
        if self.arena.len() >= bytes && layout.version == self.layout.version {
            return Ok(None);
        }
        // Room for workspaces half as large again, so that rising sizes move params a logarithmic number of times.
        let workspace = (layout.lines - layout.workspace) as usize * LINE;
        let room = if self.plans.is_empty() { 0 } else { workspace / 2 };
        let most = self.choices.budget.map_or(usize::MAX, |b| b / LINE * LINE).max(bytes);
        allocate_arena(bytes.saturating_add(room).min(most)).or_else(|_| allocate_arena(bytes)).map(Some)
    }

    /// Drops the plans that do not stay, and gives the others the own areas of `layout`.
    fn move_plans(
        &mut self,
        larger: Option<TensorArena>,
        layout: Layout,
        staying: &[usize],
        own: &[std::ops::Range<u64>],
    ) {
        let mut number = 0;
        self.plans.retain(|_| {
            number += 1;
            staying.binary_search(&(number - 1)).is_ok()
        });
        if let Some(mut arena) = larger {
            let (old, new) = (self.arena.bytes(), arena.bytes_mut());
            let leaves = bytes_of_lines(&(0..self.layout.leaves));
            new[leaves.clone()].copy_from_slice(&old[leaves]);
            for (plan, own) in self.plans.iter().zip(own) {
                new[bytes_of_lines(own)].copy_from_slice(&old[plan.own_bytes()]);
            }
            self.arena = arena;
        }
        self.plans.iter_mut().zip(own).for_each(|(plan, own)| plan.lines.own = own.clone());
        self.layout = layout;
    }

    /// Gives plan `k` its places under the present layout. Returns its new number. A plan that cannot be placed is
    /// dropped.
    fn place_again(&mut self, k: usize) -> Result<usize> {
        self.park()?;
        let plan = self.plans.swap_remove(k);
        let label = describe_sizes(&plan.sizes);
        let (plan, threads) =
            plan.placed_again(&self.layout, &self.leaves, &self.choices).map_err(|e| e.context(label))?;
        self.start_threads(threads)?;
        self.plans.push(plan);
        Ok(self.plans.len() - 1)
    }

    /// Makes sure that the team has `threads` threads. No program holds it.
    fn start_threads(&mut self, threads: usize) -> Result<()> {
        if threads > self.threads {
            let team = Team::new(threads)?;
            self.choices.settle_team(&team)?;
            self.team = Some(team);
            self.threads = threads;
        }
        Ok(())
    }

    /// Makes the program of plan `k` the current one.
    fn switch_to(&mut self, k: usize) -> Result<()> {
        if self.current != Some(k) {
            self.park()?;
            self.plans[k].lend(std::mem::take(&mut self.arena), self.team.take(), &self.set);
            self.current = Some(k);
        }
        Ok(())
    }

    /// Takes arena and team back from the current program.
    fn park(&mut self) -> Result<()> {
        let Some(k) = self.current else { return Ok(()) };
        let plan = &mut self.plans[k];
        let Some((arena, team)) = plan.give_back(&mut self.set) else {
            let text = format!(
                "the program {} was replaced by another one, and its params with it",
                describe_sizes(&plan.sizes)
            );
            return Err(Error::new(Kind::Data, text));
        };
        (self.arena, self.team, self.current) = (arena, team, None);
        Ok(())
    }
}

impl fmt::Debug for SizedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept: Vec<String> = self.kept().map(Sizes::to_string).collect();
        f.debug_struct("SizedProgram").field("name", &self.name).field("kept", &kept).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn sized_program_is_send<T: Send>() {}
    sized_program_is_send::<SizedProgram>();
};
