//! The engine's parts, for those who measure, fuzz or extend it.
//!
//! This module may change between minor versions; the other modules of the crate may not. `docs/architecture.md` says
//! how the parts fit together.

/// Ids, interned shapes and strings, tensor memory.
pub mod arena {
    pub use crate::arena::{Node, Region, Shape, Side, Sym, Value, Window};
    pub use crate::arena::{dims, ids, philox, pool, rng, shapes, strings, tensor};
}

/// Loops over slices that instructions run: products, vector math, instruction sets.
pub mod kernels {
    #[cfg(feature = "gguf")]
    pub use crate::kernels::gguf;
    pub use crate::kernels::{abi, cost_model, fault, gemm, machine_limits, simd, vmath};
}

/// The graph: columns, op definitions, the text form, the verifier.
pub mod ir {
    pub use crate::nodes::ir::{
        attr_types, attrs, batch, builder, call, cost_cx, dtype, emit, graph, infer, leaf, lower_cx, opdef, site,
        sizes, text, verify,
    };
}

/// Op definitions, one module a family, their table, and the reference page that is made from it.
pub mod ops {
    pub use crate::nodes::ops::{
        attention, blocks, common, constant, control, conv, index, layout, loss, matmul, norm, optim, pointwise, pool,
        random, reduce, softmax, sort, table, window,
    };
    pub use crate::nodes::reference;
}

/// Transforms from graph to graph, each alone, and the pipeline that compiling runs.
pub mod passes {
    pub use crate::passes::extend::continued;
    pub use crate::passes::splice::splice;
    pub use crate::passes::{
        Fusion, FusionPolicy, GradOptions, Missing, Outcome, ad, copier, expand_blocks, fold, fuse, fusion_notes, grad,
        hvp, inline, jacobian, jvp, nth_grad, patterns, pipeline, product_precision, promote_f64, rebuild, remat,
        report_pipeline, signature, simplify, trim, unfuse, vjp, vmap,
    };
}

/// The scheduler: order, lifetimes, packing, the plan and its checker, the executor.
pub mod sched {
    pub use crate::sched::{
        Scheduled, alias, areas, arithmetic, checker, exec, faults, instructions, intervals, link, lower,
        modelled_time, order, pack, plan, plan_with_arithmetic, plan_with_red_zones, plan_without_thread_scratch,
        planned_body, planned_offsets, planner, races, schedule, share, tape, team, track,
    };
}

/// Markup that reports share, and the page of a plan with a section of one's own.
pub mod report {
    pub use crate::session::html_page::{Page, render_html};
    pub use crate::session::markup::{escape, round_ticks};
}

/// Finite differences.
pub mod differences {
    pub use crate::differences::{slope, slope_of_values, try_slope};
}

/// Conformance of op definitions, and files of expectations.
pub mod testing {
    pub use crate::conform::{
        Conformance, ShapeAnswer, bless, conform, conformance, is_blessing, shape_answers, tensor,
    };
    pub use crate::nodes::case_regions::add_case_region;
    pub use crate::session::seal_exported;
}

/// The fuzzing kit: random graphs and mutations, an oracle that shares no numbers with the engine, and checks of the
/// engine against it.
#[cfg(feature = "testing")]
pub mod fuzz {
    #[allow(unused_imports)]
    pub use crate::fuzz::*;
}

/// Compiles a safe function for each instruction set and dispatches at run time: [`kernels::simd!`].
#[macro_export]
macro_rules! simd {
    ($($function:tt)*) => { $crate::tools::kernels::simd! { $($function)* } };
}
