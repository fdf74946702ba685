//! The program `arenagrad`: reads the command line, runs a command, and turns a failure into one line and an exit code.
//! It is a library for two reasons. Cargo can compile a library before the engine's machine code is complete, so builds
//! are faster; and fuzz targets can call the parser of configurations.
//!
//! Invariant: exit code 0 is success; 1 is a claim that does not hold, a loss that is not finite, a full disk, or
//! memory that ran out; 2 is bad input, or a file that cannot be read or written. No input ends in a backtrace.

mod alloc;
mod args;
mod bench;
mod config;
mod data;
mod fail;
mod fuzz;
mod inspect_command;
mod ir;
mod latency;
mod measure;
mod model;
mod numbers;
mod pack_command;
mod report;
mod run_dir;
mod sample_command;
mod scale;
mod stdout_stderr;
mod stop_flag;
mod sys;
mod trace;
mod train;
mod weights_file;

pub use alloc::CountingAllocator;
pub use config::check_config_text;

use args::{Cli, Command};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn run_arenagrad() -> ExitCode {
    let cli = match args::parse_args() {
        Ok(cli) => cli,
        Err(e) => return stdout_stderr::exit_code(args::handle_args_error(&e)),
    };
    // A panic is a bug of this program. It is reported in one line, without a backtrace.
    std::panic::set_hook(Box::new(|_| {}));
    stdout_stderr::exit_code(catch_unwind(AssertUnwindSafe(|| run_parsed_command(&cli))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Err(fail::fail_expectation(format!("internal error: {text}")))
    }))
}

/// Runs the command that the user chose.
fn run_parsed_command(cli: &Cli) -> fail::Run {
    match &cli.command {
        Command::Train(a) => train::train_command(a),
        Command::Sample(a) => sample_command::sample_command(a),
        Command::Plan(a) => ir::plan_command::plan_command(a),
        Command::Print(a) => ir::print_opt_grad::print_command(a),
        Command::Opt(a) => ir::print_opt_grad::opt_command(a),
        Command::Grad(a) => ir::print_opt_grad::grad_command(a),
        Command::Jvp(a) => ir::derive_commands::jvp_command(a),
        Command::Vjp(a) => ir::derive_commands::vjp_command(a),
        Command::Hvp(a) => ir::derive_commands::hvp_command(a),
        Command::Jacobian(a) => ir::derive_commands::jacobian_command(a),
        Command::Vmap(a) => ir::derive_commands::vmap_command(a),
        Command::Nth(a) => ir::derive_commands::nth_command(a),
        Command::Run(a) => ir::run_command::run_command(a),
        Command::Export(a) => match &a.c {
            Some(source) => ir::export_c_command::export_c_command(a, source),
            None => ir::exported::export_command(a),
        },
        Command::Check(a) => ir::check_command::check_command(a),
        Command::Compare(a) => ir::compare_command::compare_command(a),
        Command::Generate(a) => fuzz::generate_command::generate_command(a),
        Command::Reduce(a) => fuzz::reduce_command::reduce_command(a),
        Command::Inspect(a) => inspect_command::inspect_command(a),
        Command::Pack(a) => pack_command::pack_command(a),
        Command::Bench(a) => bench::bench_command(a),
        Command::Trace(a) => trace::trace_command(a),
        Command::Scale(a) => scale::scale_command(a),
    }
}
