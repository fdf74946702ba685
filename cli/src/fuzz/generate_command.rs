//! The command `generate`: random graphs, printed or written to a folder.

use crate::args::GenerateArgs;
use crate::fail::{Run, fail_bad_input, fail_io};
use crate::stdout_stderr::emit_stdout;
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, seeded_draws};
use arenagrad::tools::ir::text::print;
use arenagrad::train::write_atomically;

/// Runs `generate`.
pub fn generate_command(a: &GenerateArgs) -> Run {
    let mut options = GraphOptions::default().nodes(a.nodes).depth(a.depth).regions(a.regions);
    if !a.dtypes.is_empty() {
        options = options.dtypes(&a.dtypes);
    }
    if let Some(list) = &a.ops {
        options = options.ops(list).map_err(|e| fail_bad_input(format!("--ops: {e}")))?;
    }
    if a.out.is_none() && a.count > 1 {
        return Err(fail_bad_input(format!("--count {} needs --out, a folder for the graphs", a.count)));
    }
    for i in 0..a.count {
        let seed = a.seed.wrapping_add(i);
        let text = print(draw_graph(&options, &mut seeded_draws(seed))?.view());
        match &a.out {
            None => emit_stdout(text)?,
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(fail_io(dir))?;
                write_atomically(dir.join(format!("drawn-{seed}.ir")), text.as_bytes())?;
            }
        }
    }
    Ok(())
}
