//! Steps of several ranks: the numbers of one process, bits that depend on the number of ranks alone, errors on all.

use super::split::{fill, kept, net};
use arenagrad::error::Kind;
use arenagrad::nn;
use arenagrad::optim::{self, Optimiser, Split, train_split};
use arenagrad::prelude::*;
use arenagrad::train::{Comm, LocalComm, Parallel, Reduce, SyncStates, Trainer};
use std::collections::BTreeSet;

const F32: DType = DType::F32;

/// What `f` gives on each of `n` ranks.
pub fn ranks<T: Send>(n: usize, f: impl Fn(LocalComm) -> T + Sync) -> Vec<T> {
    std::thread::scope(|s| {
        let all: Vec<_> = LocalComm::group(n).into_iter().map(|c| s.spawn(|| f(c))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// A net without statistics of a batch, for `rows` rows of `x` and `y`.
fn plain(rows: usize) -> GraphBuf {
    let g = Builder::new("net");
    let h = nn::linear(&g, "fc1", g.input("x", [rows, 2], F32), 8).tanh();
    let h = nn::linear(&g, "fc2", h, 1);
    g.finish([(h - g.input("y", [rows, 1], F32)).square().mean(..).named("loss")]).unwrap()
}

fn example(i: u32) -> ([f32; 2], f32) {
    let x = [(i as f32 * 0.7).sin(), (i as f32 * 1.3).cos()];
    (x, x[0] * x[1] + 0.5)
}

pub fn put(p: &mut Program, which: &[u32]) -> Result<()> {
    for (k, &i) in which.iter().enumerate() {
        let (x, y) = example(i);
        p.values_mut::<f32>("x")?[2 * k..2 * k + 2].copy_from_slice(&x);
        p.values_mut::<f32>("y")?[k] = y;
    }
    Ok(())
}

fn split_of(rows: usize, opt: &Optimiser) -> Split {
    train_split(&plain(rows), "loss", opt).unwrap()
}

/// A trainer of batches of 8 examples, of which this rank takes its share.
fn trainer(comm: LocalComm, opt: &Optimiser, bucket: usize) -> Result<Trainer> {
    let split = split_of(8 / comm.size() / opt.accumulate.max(1), opt);
    let program = Session::new().compile_all(&split.methods())?;
    let parallel = Parallel::new(&program, comm, &split)?.bucket_bytes(&program, bucket)?;
    Trainer::parallel(program, parallel, Schedule::Constant { lr: 0.05 }, Batches::new(40, 8, 1)?, 1)
}

/// Losses, and the bytes of all that is kept, after 12 steps on each of `n` ranks.
fn run(n: usize, opt: &Optimiser, bucket: usize) -> (Vec<f64>, Vec<(String, Vec<u8>)>) {
    let mut all = ranks(n, |comm| {
        let mut t = trainer(comm, opt, bucket).unwrap();
        let losses: Vec<f64> = (0..12).map(|_| t.step(&mut put).unwrap().loss).collect();
        let p = t.parallel_ref().unwrap();
        (p.hash(t.program()).unwrap(), (losses, kept(t.program())))
    });
    let first = all.remove(0);
    assert!(all.iter().all(|r| r.0 == first.0 && r.1 == first.1), "ranks differ");
    first.1
}

#[test]
fn ranks_learn_what_one_process_learns() {
    let all: [Optimiser; 3] = [
        optim::Sgd::new(0.05).momentum(0.9).into(),
        optim::Adam::new(0.05).clip_norm(0.3).ema(0.9).into(),
        optim::AdamW::new(0.05).accumulate(2).grad_norm(true).clip_norm(0.3).into(),
    ];
    for opt in all {
        let step = train(&plain(8 / opt.accumulate.max(1)), "loss", &opt).unwrap();
        let program = Session::new().compile(&step).unwrap();
        let (rate, batches) = (Schedule::Constant { lr: 0.05 }, Batches::new(40, 8, 1).unwrap());
        let mut t = Trainer::new(program, "loss", rate, batches, 1).unwrap();
        let want: Vec<f64> = (0..12).map(|_| t.step(&mut put).unwrap().loss).collect();
        for n in [1, 2, 4] {
            let (losses, bytes) = run(n, &opt, 4 << 20);
            let far = losses.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-6, "{n} ranks: losses are {far} apart");
            assert!(n > 1 || bytes == kept(t.program()), "one rank has other bits than one process");
            // Neither the size of a bucket nor another run changes a bit.
            assert_eq!(run(n, &opt, 8), (losses.clone(), bytes.clone()), "{n} ranks, small buckets");
            assert_eq!(run(n, &opt, 100), (losses, bytes), "{n} ranks, odd buckets");
        }
    }
}

/// Each rank keeps the states of its own params, and all have the bits of whole states; so has the checkpoint.
#[test]
fn states_that_are_shared_out_change_no_bit() {
    let file = std::env::temp_dir().join(format!("arenagrad-shard-{}.safetensors", std::process::id()));
    let all: [Optimiser; 4] = [
        optim::AdamW::new(0.05).clip_norm(0.3).into(),
        optim::NAdam::new(0.05).accumulate(2).grad_norm(true).into(),
        optim::Adafactor::new(0.05).loss_scale(optim::LossScale::dynamic().growth_interval(3)).into(),
        optim::Sgd::new(0.05).momentum(0.9).group("fc1.*", optim::Group::default().rule(optim::Rule::ADAM)).into(),
    ];
    for opt in all {
        let sharded = |comm: LocalComm| {
            let split =
                split_of(8 / comm.size() / opt.accumulate.max(1), &opt).shard(comm.rank(), comm.size()).unwrap();
            let program = Session::new().compile_all(&split.methods()).unwrap();
            let parallel = Parallel::new(&program, comm, &split).unwrap();
            let batches = Batches::new(40, 8, 1).unwrap();
            Trainer::parallel(program, parallel, Schedule::Constant { lr: 0.05 }, batches, 1).unwrap()
        };
        for n in [1, 2, 4] {
            let (losses, whole) = run(n, &opt, 4 << 20);
            let kept_by = ranks(n, |comm| {
                let mut t = sharded(comm);
                let first: Vec<f64> = (0..5).map(|_| t.step(&mut put).unwrap().loss).collect();
                t.save(&file).unwrap();
                let mut rest: Vec<f64> = (5..8).map(|_| t.step(&mut put).unwrap().loss).collect();
                t.restore(&file).unwrap();
                rest.extend((5..12).map(|_| t.step(&mut put).unwrap().loss));
                assert_eq!((&first[..], &rest[3..]), (&losses[..5], &losses[5..]), "{} {n}", opt.rule().name());
                kept(t.program())
            });
            // What a rank has is what it has without shards; each state is on some rank.
            assert!(kept_by.iter().flatten().all(|x| whole.contains(x)), "{} {n}", opt.rule().name());
            assert!(whole.iter().all(|x| kept_by.iter().flatten().any(|y| x == y)), "{} {n}", opt.rule().name());
            let count = |all: &[(String, Vec<u8>)]| all.iter().filter(|x| x.0.starts_with("opt.")).count();
            assert!(n == 1 || kept_by.iter().any(|k| count(k) < count(&whole)), "nothing was shared out");
        }
    }
    std::fs::remove_file(&file).unwrap();
    // The scale of the loss, which gradients read, is on all ranks, whatever they own.
    let g = Builder::new("one");
    let loss = (g.param("w", [2], F32, Init::Ones) * g.input("x", [2], F32)).sum(..).named("loss");
    let opt = optim::Adam::new(0.1).loss_scale(optim::LossScale::dynamic());
    let split = train_split(&g.finish([loss]).unwrap(), "loss", opt).unwrap();
    let names = |rank: usize| {
        let shard = split.shard(rank, 2).unwrap().update;
        shard.view().leaves().map(|l| l.name.to_string()).collect::<BTreeSet<String>>()
    };
    let (first, second) = (names(0), names(1));
    let shared = ["dp.grad.w", "lr", "opt.loss_scale", "opt.loss_scale_steps", "w"].map(String::from);
    assert_eq!(&first & &second, BTreeSet::from(shared));
    let own = ["opt.exp_avg.w", "opt.exp_avg_sq.w", "opt.step"].map(String::from);
    assert_eq!(&first ^ &second, BTreeSet::from(own));
    let split = split_of(8, &optim::Lbfgs::new(0.1).into());
    let why = "shard: lbfgs keeps one history of all params, which cannot be shared out";
    assert_eq!(split.shard(0, 2).unwrap_err().message, why);
    assert_eq!(split.shard(2, 2).unwrap_err().message, "shard: there is no rank 2 of 2");
}

#[test]
fn a_sum_is_that_of_a_loss_that_is_a_sum() {
    let w = |n: usize, how: Reduce| {
        let g = Builder::new("g");
        let w = g.param("w", [], F32, Init::Zeros);
        let loss = (w * g.input("x", [6 / n], F32)).sum(..).named("loss");
        let split = train_split(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(1.0)).unwrap();
        let all = ranks(n, |comm| {
            let rank = comm.rank();
            let mut p = Session::new().compile_all(&split.methods()).unwrap();
            p.init(0).unwrap();
            let own: Vec<f32> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0][rank * 6 / n..][..6 / n].to_vec();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&own);
            Parallel::new(&p, comm, &split).unwrap().reduce(how).step(&mut p).unwrap();
            p.values::<f32>("w").unwrap()[0]
        });
        all[0]
    };
    assert_eq!((w(1, Reduce::Sum), w(2, Reduce::Sum), w(3, Reduce::Sum)), (-21.0, -21.0, -21.0));
    assert_eq!((w(2, Reduce::Mean), w(3, Reduce::Mean)), (-10.5, -7.0));
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let opt: Optimiser = optim::AdamW::new(0.05).ema(0.9).into();
    let dir = std::env::temp_dir().join(format!("arenagrad-parallel-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("run.safetensors");
    let (losses, bytes) = run(2, &opt, 64);
    ranks(2, |comm| {
        let mut t = trainer(comm, &opt, 64).unwrap();
        (0..5).for_each(|_| assert!(t.step(&mut put).unwrap().loss.is_finite()));
        t.save(&file).unwrap();
    });
    let all = ranks(2, |comm| {
        let mut t = trainer(comm, &opt, 64).unwrap();
        t.restore(&file).unwrap();
        let rest: Vec<f64> = (5..12).map(|_| t.step(&mut put).unwrap().loss).collect();
        (rest, kept(t.program()))
    });
    assert_eq!(all, [(losses[5..].to_vec(), bytes.clone()), (losses[5..].to_vec(), bytes)]);
    // Another number of ranks is refused, unless it is asked for. One process reads the file, too.
    let why = ranks(4, |comm| trainer(comm, &opt, 64).unwrap().restore(&file).unwrap_err().message);
    assert!(why[3].ends_with("the checkpoint has number of ranks 2, this run has 4"), "{why:?}");
    let step = train(&plain(8), "loss", &opt).unwrap();
    let whole = || {
        let program = Session::new().compile(&step).unwrap();
        Trainer::new(program, "loss", Schedule::Constant { lr: 0.05 }, Batches::new(40, 8, 1).unwrap(), 1).unwrap()
    };
    assert!(whole().restore(&file).is_err());
    let mut t = whole().rescale(true);
    t.restore(&file).unwrap();
    assert!((t.step(&mut put).unwrap().loss - losses[5]).abs() < 1e-6);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_error_of_one_rank_is_an_error_of_all() {
    let opt: Optimiser = optim::Sgd::new(0.05).into();
    let all = ranks(3, |comm| {
        let rank = comm.rank();
        let split = split_of(2, &opt);
        let mut p = Session::new().compile_all(&split.methods()).unwrap();
        p.init(0).unwrap();
        let mut parallel = Parallel::new(&p, comm, &split).unwrap();
        put(&mut p, &[0, 1]).unwrap();
        parallel.step(&mut p).unwrap();
        let before = kept(&p);
        let ready = match rank {
            1 => Err(Error::new(Kind::Io, "batch 1: no such file")),
            _ => put(&mut p, &[2, 3]),
        };
        let e = parallel.step_after(&mut p, ready).unwrap_err();
        assert!(kept(&p) == before, "a failed step changed something");
        // The next step is whole.
        parallel.step(&mut p).unwrap();
        (e.kind, e.message)
    });
    assert!(all.iter().all(|e| *e == (Kind::Io, "rank 1: batch 1: no such file".to_string())), "{all:?}");
}

#[test]
fn ranks_that_differ_are_refused_at_the_start() {
    let opt: Optimiser = optim::Sgd::new(0.05).into();
    let compiled = |split: &Split| Session::new().compile_all(&split.methods()).unwrap();
    // Another graph.
    let why = ranks(3, |comm| {
        let split = split_of(if comm.rank() == 2 { 3 } else { 4 }, &opt);
        Parallel::new(&compiled(&split), comm, &split).err().unwrap().message
    });
    assert!(why.iter().all(|w| w.starts_with("rank 2 of 3 has another graph of gradients than rank 0")), "{why:?}");
    // Other start values; taking those of rank 0 helps.
    let why = ranks(2, |comm| {
        let (rank, split) = (comm.rank(), split_of(4, &opt));
        let mut p = compiled(&split);
        p.init(rank as u64).unwrap();
        put(&mut p, &[0, 1, 2, 3]).unwrap();
        let mut parallel = Parallel::new(&p, comm, &split).unwrap();
        let e = parallel.step(&mut p).unwrap_err().message;
        parallel.take_from_first(&mut p).unwrap();
        parallel.step(&mut p).unwrap();
        e
    });
    assert!(why[0].starts_with("rank 1 of 2 has another value of params and states than rank 0"), "{why:?}");
    // Other data.
    let why = ranks(2, |comm| {
        let (rank, split) = (comm.rank(), split_of(4, &opt));
        let p = compiled(&split);
        let parallel = Parallel::new(&p, comm, &split).unwrap();
        let batches = Batches::new(40 + rank, 8, 1).unwrap();
        Trainer::parallel(p, parallel, Schedule::Constant { lr: 0.1 }, batches, 1).err().unwrap().message
    });
    assert_eq!(why, ["rank 1 of 2 has another number of examples than rank 0: 41 and 40"; 2]);
    // A rank that leaves.
    let why = ranks(2, |comm| {
        if comm.rank() == 1 {
            return String::new();
        }
        let split = split_of(4, &opt);
        Parallel::new(&compiled(&split), comm, &split).err().unwrap().message
    });
    assert_eq!(why[0], "rank 1 of 2 ended: it left the group");
}

/// Statistics of batch norm are each rank's own until they are made one.
#[test]
fn statistics_of_layers_become_one() {
    let split = train_split(&net(4, F32), "loss", optim::Sgd::new(0.1)).unwrap();
    for how in [SyncStates::Mean, SyncStates::Rank0] {
        let all = ranks(2, |comm| {
            let rank = comm.rank();
            let mut p = Session::new().compile_all(&split.methods()).unwrap();
            p.init(0).unwrap();
            let mut parallel = Parallel::new(&p, comm, &split).unwrap();
            fill(&mut p, rank, F32);
            parallel.step(&mut p).unwrap();
            let own = p.values::<f32>("bn.running_mean").unwrap().to_vec();
            parallel.sync_states(&mut p, how).unwrap();
            (own, p.values::<f32>("bn.running_mean").unwrap().to_vec())
        });
        let [(a, after), (b, other)] = &all[..] else { unreachable!() };
        let mean: Vec<f32> = a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect();
        assert!(a != b && after == other);
        assert_eq!(after, if how == SyncStates::Mean { &mean } else { a });
    }
}

/// Ranks draw different random numbers, and each the same ones in every run.
#[test]
fn each_rank_draws_its_own_numbers() {
    let g = Builder::new("g");
    let w = g.param("w", [4], F32, Init::Ones);
    let drawn = g.uniform([4], F32).named("drawn");
    let graph = g.finish([(w * drawn).sum(..).named("loss"), drawn]).unwrap();
    let split = train_split(&graph, "loss", optim::Sgd::new(0.1)).unwrap();
    let drawn = || {
        ranks(2, |comm| {
            let mut p = Session::new().compile_all(&split.methods()).unwrap();
            p.init(5).unwrap();
            Parallel::new(&p, comm, &split).unwrap().step(&mut p).unwrap();
            p.values::<f32>("drawn").unwrap().to_vec()
        })
    };
    let first = drawn();
    assert!(first[0] != first[1] && first == drawn());
}
