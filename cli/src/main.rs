//! The program `arenagrad`: reads the command line, runs a command, and turns a failure into one line and an exit code.
//!
//! Invariant: exit code 0 is success; 1 is a claim that does not hold, output that cannot be written or memory that ran
//! out; 2 is bad input. No input ends in a backtrace.

mod alloc;
mod args;
mod bench;
mod config;
mod data;
mod fail;
mod ir;
mod measure;
mod model;
mod npy;
mod out;
mod pack;
mod report;
mod run_dir;
mod sample;
mod sys;
mod tensors;
mod trace;
mod train;

use args::{Cli, Command};
use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return ended(args::refused(&e)),
    };
    // A panic is a bug of this program. It is reported in one line, without a backtrace.
    std::panic::set_hook(Box::new(|_| {}));
    ended(catch_unwind(AssertUnwindSafe(|| run(&cli))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Err(fail::expectation_failed(format!("internal error: {text}")))
    }))
}

/// The exit code of a result. Prints a failure as one line.
fn ended(done: fail::Run) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            out::note(format!("arenagrad: {}", fail.message.trim_end().replace('\n', "; ")));
            ExitCode::from(fail.code)
        }
    }
}

/// Runs the command that the user chose.
fn run(cli: &Cli) -> fail::Run {
    match &cli.command {
        Command::Train(a) => train::train(a),
        Command::Sample(a) => sample::sample(a),
        Command::Plan(a) => ir::plan::plan(a),
        Command::Print(a) => ir::show::print_graph(a),
        Command::Opt(a) => ir::show::opt(a),
        Command::Grad(a) => ir::show::gradient(a),
        Command::Jvp(a) => ir::derive::jvp(a),
        Command::Vjp(a) => ir::derive::vjp(a),
        Command::Hvp(a) => ir::derive::hvp(a),
        Command::Jacobian(a) => ir::derive::jacobian(a),
        Command::Nth(a) => ir::derive::nth(a),
        Command::Run(a) => ir::eval::run(a),
        Command::Check(a) => ir::check::check(a),
        Command::Pack(a) => pack::pack(a),
        Command::Bench(a) => bench::bench(a),
        Command::Trace(a) => trace::trace(a),
    }
}
