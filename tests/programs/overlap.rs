//! Ranks that exchange gradients beside their computation: the bits of an exchange behind it, and errors on all ranks.

use super::parallel::{put, ranks};
use arenagrad::error::Kind;
use arenagrad::nn;
use arenagrad::optim::{self, Optimiser, train_split};
use arenagrad::prelude::*;
use arenagrad::train::parallel::Turn;
use arenagrad::train::{Comm, LocalComm, Parallel, Trainer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const F32: DType = DType::F32;

/// A net of several layers, for `rows` rows of `x` and `y`.
fn deep(rows: usize, width: usize) -> GraphBuf {
    let g = Builder::new("net");
    let mut h = g.input("x", [rows, 2], F32);
    for layer in 0..4 {
        h = nn::linear(&g, &format!("fc{layer}"), h, width).tanh();
    }
    let h = nn::linear(&g, "out", h, 1);
    g.finish([(h - g.input("y", [rows, 1], F32)).square().mean(..).named("loss")]).unwrap()
}

/// In many buckets; what is chosen before, where there is one, holds.
fn parallel(p: &Program, comm: impl Comm + 'static, split: &optim::Split, overlap: bool) -> Result<Parallel> {
    let one = Parallel::new(p, comm, split)?.overlap(p, overlap)?;
    assert_eq!((one.plan().buckets.len(), one.plan().overlaps), (1, false));
    one.bucket_bytes(p, 1 << 12)
}

/// Losses and a digest of params and states after 8 steps on `n` ranks.
fn run(n: usize, opt: &Optimiser, threads: usize, shard: bool, overlap: bool) -> (Vec<f64>, u64) {
    let all = ranks(n, |comm| {
        let mut split = train_split(&deep(8 / n / opt.accumulate.max(1), 40), "loss", opt).unwrap();
        if shard {
            split = split.shard(comm.rank(), n).unwrap();
        }
        let program = Session::new().threads(threads).compile_all(&split.methods()).unwrap();
        let parallel = parallel(&program, comm, &split, overlap).unwrap();
        assert_eq!(parallel.plan().overlaps, overlap);
        let batches = Batches::new(40, 8, 1).unwrap();
        let mut t = Trainer::parallel(program, parallel, Schedule::Constant { lr: 0.05 }, batches, 1).unwrap();
        let losses: Vec<f64> = (0..8).map(|_| t.step(&mut put).unwrap().loss).collect();
        (losses, t.parallel_ref().unwrap().hash(t.program()).unwrap())
    });
    assert!(all.iter().all(|r| *r == all[0]), "ranks differ");
    all[0].clone()
}

#[test]
fn an_exchange_beside_the_gradients_changes_no_bit() {
    let all: [(Optimiser, bool); 4] = [
        (optim::Sgd::new(0.05).momentum(0.9).into(), false),
        (optim::AdamW::new(0.05).clip_norm(0.3).ema(0.9).into(), false),
        (optim::AdamW::new(0.05).accumulate(2).clip_norm(0.3).into(), true),
        (optim::Adam::new(0.05).loss_scale(optim::LossScale::dynamic()).into(), true),
    ];
    for (opt, shard) in &all {
        for n in [2, 4] {
            let behind = run(n, opt, 1, *shard, false);
            for threads in [1, 2] {
                assert_eq!(run(n, opt, threads, *shard, true), behind, "{n} ranks of {threads} threads");
            }
        }
    }
}

/// A communicator that counts calls beside the gradients, or allows none, and delays each exchange of a bucket.
struct Watched {
    comm: LocalComm,
    beside: Option<Arc<AtomicUsize>>,
    delay: Duration,
}

impl Comm for Watched {
    fn rank(&self) -> usize {
        self.comm.rank()
    }
    fn size(&self) -> usize {
        self.comm.size()
    }
    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        std::thread::sleep(self.delay);
        self.comm.all_to_all(send, receive)
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.comm.all_gather(send, receive)
    }
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.comm.broadcast(root, bytes)
    }
    fn barrier(&self) -> Result<()> {
        self.comm.barrier()
    }
    fn works_beside(&self) -> bool {
        self.beside.is_some()
    }
    fn turn(&self, whose: Turn) {
        if let (Some(beside), Turn::Beside) = (&self.beside, whose) {
            beside.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn abort(&self, why: &str) -> ! {
        self.comm.abort(why)
    }
}

#[test]
fn buckets_are_exchanged_once_they_are_ready() {
    let split = train_split(&deep(256, 128), "loss", optim::Sgd::new(0.05)).unwrap();
    let beside = ranks(2, |comm| {
        let mut p = Session::new().threads(1).compile_all(&split.methods()).unwrap();
        p.init(0).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(0.5);
        p.values_mut::<f32>("y").unwrap().fill(0.5);
        let beside = Arc::new(AtomicUsize::new(0));
        let mut ranks =
            parallel(&p, Watched { comm, beside: Some(beside.clone()), delay: Duration::ZERO }, &split, true).unwrap();
        let plan = ranks.plan().clone();
        assert!(plan.overlaps && plan.buckets.len() > 40, "{plan}");
        assert!(plan.to_string().starts_with("exchange: "), "{plan}");
        assert!(plan.to_string().contains("buckets, beside the gradients"), "{plan}");
        // The last layer's gradients are ready first; behind the first layer's nothing is left.
        assert!(ranks.waited() == Duration::ZERO);
        let (first, last) = (&plan.buckets[0], plan.buckets.last().unwrap());
        assert!(first.ready_after < last.ready_after && first.left > 0.3 && last.left < 0.2, "{plan}");
        assert!(plan.buckets.iter().all(|b| b.ready_after < plan.instructions), "{plan}");
        // A thread that has no core comes late, so there are several tries.
        let start = Instant::now();
        while ranks.any(beside.load(Ordering::Relaxed) == 0).unwrap() {
            assert!(start.elapsed() < Duration::from_secs(30), "no bucket was exchanged beside the gradients");
            ranks.step(&mut p).unwrap();
        }
        assert!(ranks.waited() > Duration::ZERO);
        beside.load(Ordering::Relaxed)
    });
    assert!(beside.iter().all(|n| *n > 0), "{beside:?}");
}

/// A link that delays messages, and takes no core meanwhile: its time passes while gradients are computed. How much
/// of it depends on the machine's speed.
#[test]
#[ignore = "for figures: cargo test --release --test programs a_slow_link -- --ignored --nocapture"]
fn a_slow_link_is_hidden() {
    let split = train_split(&deep(1024, 256), "loss", optim::Sgd::new(0.05)).unwrap();
    let waits = ranks(2, |comm| {
        let mut p = Session::new().threads(1).compile_all(&split.methods()).unwrap();
        p.init(0).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(0.5);
        p.values_mut::<f32>("y").unwrap().fill(0.5);
        let delayed = Watched { comm, beside: Some(Arc::default()), delay: Duration::from_millis(2) };
        let mut ranks = Parallel::new(&p, delayed, &split).unwrap().bucket_bytes(&p, 1 << 16).unwrap();
        let mut least = [Duration::MAX; 2];
        for _ in 0..3 {
            for (overlap, least) in [false, true].into_iter().zip(&mut least) {
                ranks = ranks.overlap(&p, overlap).unwrap();
                for _ in 0..4 {
                    ranks.step(&mut p).unwrap();
                    *least = (*least).min(ranks.waited());
                }
            }
        }
        (ranks.plan().buckets.len(), least)
    });
    let (buckets, [behind, beside]) = waits[0];
    println!("{buckets} buckets: waits of {beside:?} beside the gradients, of {behind:?} behind them");
    assert!(behind >= buckets as u32 * Duration::from_millis(2), "{behind:?} for {buckets} buckets");
    assert!(beside < behind, "waits of {beside:?} beside the gradients, of {behind:?} behind them");
}

/// The gradients of rank 1 fail in the middle, where buckets of other ranks are on their way.
#[test]
fn gradients_that_fail_on_one_rank_fail_on_all() {
    let g = Builder::new("table");
    let rows = nn::embedding(&g, "table", g.input("i", [8], DType::I32), 50, 64, F32);
    let h = nn::linear(&g, "fc", rows, 64).tanh();
    let other = nn::embedding(&g, "other", g.input("j", [8], DType::I32), 50, 64, F32);
    let graph = g.finish([(h * other).mean(..).named("loss")]).unwrap();
    let split = train_split(&graph, "loss", optim::AdamW::new(0.1)).unwrap();
    for overlap in [true, false] {
        let all = ranks(3, |comm| {
            let rank = comm.rank();
            let mut p = Session::new().compile_all(&split.methods()).unwrap();
            p.init(0).unwrap();
            for name in ["i", "j"] {
                p.values_mut::<i32>(name).unwrap().fill(rank as i32);
            }
            let mut ranks = parallel(&p, comm, &split, overlap).unwrap();
            ranks.step(&mut p).unwrap();
            let before = ranks.hash(&p).unwrap();
            p.values_mut::<i32>("j").unwrap()[3] = if rank == 1 { 50 } else { 3 };
            let e = ranks.step(&mut p).unwrap_err();
            assert_eq!(ranks.hash(&p).unwrap(), before, "a failed step changed something");
            p.values_mut::<i32>("j").unwrap()[3] = 3;
            ranks.step(&mut p).unwrap();
            (e.kind, e.message)
        });
        let named = |e: &(Kind, String)| e.0 == Kind::Data && e.1.starts_with("rank 1: ") && e.1.contains("50");
        assert!(all.iter().all(named), "{all:?}");
    }
}

#[test]
fn ranks_that_choose_differently_are_refused() {
    let split = train_split(&deep(4, 40), "loss", optim::Sgd::new(0.05)).unwrap();
    let why = ranks(2, |comm| {
        let other = comm.rank() == 1;
        let mut p = Session::new().compile_all(&split.methods()).unwrap();
        p.init(0).unwrap();
        put(&mut p, &[0, 1, 2, 3]).unwrap();
        parallel(&p, comm, &split, !other).unwrap().step(&mut p).unwrap_err().message
    });
    assert_eq!(why, ["rank 1 of 2 has another setting of overlap than rank 0: 0 and 1"; 2]);
    // A communicator that calls may not come to from another thread.
    let overlaps = ranks(2, |comm| {
        let p = Session::new().compile_all(&split.methods()).unwrap();
        parallel(&p, Watched { comm, beside: None, delay: Duration::ZERO }, &split, true).unwrap().plan().overlaps
    });
    assert_eq!(overlaps, [false; 2]);
}
