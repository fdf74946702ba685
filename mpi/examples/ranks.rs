//! A run of a small net on all ranks, with a fault on one of them: what `tools/check` starts under `mpirun`.
//!
//! `ranks FAULT STEPS FOLDER [BUCKET [behind]]`: the fault is `none`, or happens on rank 1 in step 5: `kill`, `exit`,
//! `return`, `panic`, `error`; from another thread, a moment later, perhaps while gradients are exchanged: `kill-late`,
//! `exit-late`, `panic-late`; at the start: `graph`, `data`, `values`, `overlap`; on rank 0: `disk`, a checkpoint that
//! cannot be written. Rank 0 prints the last loss and the digest of the weights, which is equal on all ranks. With a
//! bucket, the net is wider, and its gradients, 256 KiB, are summed in buckets of BUCKET bytes: beside their
//! computation, or behind it.

use arenagrad::error::Kind;
use arenagrad::prelude::*;
use arenagrad::train::parallel::weights_hash;
use arenagrad::train::{Comm, Parallel};
use arenagrad_mpi::MpiComm;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Examples of a batch, over all ranks.
const BATCH: usize = 24;
/// The step of the faults.
const FAULTY: u64 = 5;

fn example(i: u32) -> ([f32; 2], f32) {
    let x = [(i as f32 * 0.7).sin(), (i as f32 * 1.3).cos()];
    (x, x[0] * x[1] + 0.5)
}

/// The bytes of a bucket, and whether it is exchanged behind the gradients.
type Bucket = Option<(usize, bool)>;

fn trainer(comm: MpiComm, fault: &str, bucket: Bucket) -> Result<Trainer> {
    let (faulty, rows) = (comm.rank() == 1, BATCH / comm.size());
    let g = Builder::new("net");
    let wide = if bucket.is_some() { 1 << 14 } else { 128 };
    let hidden = if faulty && fault == "graph" { wide + 1 } else { wide };
    let h = nn::linear(&g, "fc1", g.input("x", [rows, 2], DType::F32), hidden).tanh();
    let h = nn::linear(&g, "fc2", h, 1);
    let graph = g.finish([(h - g.input("y", [rows, 1], DType::F32)).square().mean(..).named("loss")])?;
    let split = optim::train_split(&graph, "loss", optim::AdamW::new(0.01).clip_norm(1.0).ema(0.9))?;
    let mut program = Session::new().compile_all(&split.methods())?;
    program.init(if faulty && fault == "values" { 8 } else { 7 })?;
    let mut parallel = Parallel::new(&program, comm, &split)?;
    if let Some((bytes, behind)) = bucket {
        let other = faulty && fault == "overlap";
        parallel = parallel.bucket_bytes(&program, bytes)?.overlap(&program, behind == other)?;
    }
    let examples = if faulty && fault == "data" { 241 } else { 240 };
    Trainer::parallel(program, parallel, Schedule::Constant { lr: 0.01 }, Batches::new(examples, BATCH, 7)?, 7)
}

/// How long after the start of a step a late fault happens: while its gradients are computed, or exchanged.
const LATE: Duration = Duration::from_micros(500);

/// What is wrong with rank 1 in step [`FAULTY`].
fn fail(fault: &str) -> Result<()> {
    if let Some(fault) = fault.strip_suffix("-late") {
        let fault = fault.to_string();
        std::thread::spawn(move || {
            std::thread::sleep(LATE);
            fail(&fault)
        });
        return Ok(());
    }
    match fault {
        "kill" => {
            let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
            Ok(())
        }
        "exit" => std::process::exit(0),
        #[allow(clippy::panic, reason = "a fault of this test")]
        "panic" => panic!("a bug of the program"),
        "error" => Err(Error::new(Kind::Data, "batch 5: no such file")),
        _ => Ok(()),
    }
}

fn run(comm: &MpiComm, fault: &str, steps: u64, folder: &Path, bucket: Bucket) -> Result<()> {
    let mut t = trainer(comm.clone(), fault, bucket)?;
    let (faulty, mut loss) = (comm.rank() == 1, f64::NAN);
    let file = folder.join("checkpoint.safetensors");
    while t.steps_done() < steps {
        let fails = faulty && t.steps_done() + 1 == FAULTY;
        if fails && fault == "return" {
            return Ok(());
        }
        let step = t.step(&mut |p, which| {
            if fails {
                fail(fault)?;
            }
            for (k, &i) in which.iter().enumerate() {
                let (x, y) = example(i);
                p.values_mut::<f32>("x")?[2 * k..2 * k + 2].copy_from_slice(&x);
                p.values_mut::<f32>("y")?[k] = y;
            }
            Ok(())
        })?;
        loss = step.loss;
        if step.step == 3 {
            t.save(&file)?;
        }
        if step.step == FAULTY && fault == "disk" {
            t.save(folder.join("full").join("checkpoint.safetensors"))?;
        }
    }
    t.save(&file)?;
    let hash = weights_hash(t.program());
    if let Some(p) = t.parallel_ref() {
        p.agree("weights", hash)?;
    }
    if comm.rank() == 0 {
        println!("loss {loss:.9} weights {hash:016x}");
    }
    comm.finish()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, fault, steps, folder, bucket @ ..] = &args[..] else {
        eprintln!("give a fault, a number of steps and a folder, and the bytes of a bucket, with behind, or nothing");
        return ExitCode::from(2);
    };
    let behind = bucket.get(1).is_some_and(|how| how == "behind");
    let bucket = match bucket.first().map(|bytes| bytes.parse()).transpose() {
        Ok(bucket) => bucket.map(|bytes| (bytes, behind)),
        Err(e) => {
            eprintln!("the bytes of a bucket: {e}");
            return ExitCode::from(2);
        }
    };
    let comm = match MpiComm::join() {
        Ok(comm) => comm,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    match run(&comm, fault, steps.parse().unwrap_or(20), Path::new(folder), bucket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => comm.abort(&e.to_string()),
    }
}
