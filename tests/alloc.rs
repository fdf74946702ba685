//! Steps allocate nothing, on one thread and on several.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{AdamW, train_split};
use arenagrad::session::Session;
use arenagrad::train::{LocalComm, Parallel};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as this function's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as this function's.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as this function's.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A step with products, reductions, point-wise regions and an update.
fn graph() -> GraphBuf {
    let g = Builder::new("g");
    let x = g.input("x", [64, 256], DType::F32);
    let w = g.param("w", [256, 128], DType::F32, Init::Normal(0.1));
    let h = x.matmul(w).tanh();
    let s = g.state("s", [128], DType::F32, Init::Zeros);
    g.update(s, s * 0.9 + h.sum([0]));
    g.update(w, w - x.transpose(&[1, 0]).matmul(h) * 1e-3);
    g.output("loss", (h * h).mean(..));
    // A loop that threads share, with a stacked result and a captured weight.
    let square = g.param("square", [128, 128], DType::F32, Init::Normal(0.05));
    let (last, rows) = g.scan(&[h], &[g.full(0.5, [4, 64, 128], DType::F32)], |h, x| {
        let h = (h[0].matmul(square) + x[0]).tanh();
        (vec![h], vec![h.sum([1])])
    });
    // Factors of matrices, and solves with them.
    #[cfg(feature = "linalg")]
    {
        let part = square.narrow(0, 0, 40).narrow(1, 0, 40);
        let spd = part.matmul_t(part, false, true) + g.full(1.0, [40], DType::F32).diag_embed(0, -2, -1);
        let [values, vectors] = spd.eigh();
        let sums = [spd.solve(part), spd.cholesky(), spd.qr()[0], spd.svd()[2], vectors].map(|y| y.sum(..));
        g.output("factors", sums.into_iter().fold(values.sum(..), |a, b| a + b));
    }
    g.output("last", last[0]);
    g.output("rows", rows[0]);
    // A loop that ends while it runs.
    let (shrunk, trips) = g.while_loop(
        &[h],
        8,
        |c| (c[0] * c[0]).mean(..).greater(1e-3),
        |c| vec![c[0].matmul(square).tanh() * 0.1 + c[0] * 0.4],
    );
    g.output("shrunk", shrunk[0]);
    g.output("trips", trips);
    g.finish([]).unwrap()
}

/// Products of the params that [`graph`] trains, for another batch.
fn smaller() -> GraphBuf {
    let g = Builder::new("smaller");
    let x = g.input("x", [3, 256], DType::F32);
    let w = g.param("w", [256, 128], DType::F32, Init::Normal(0.1));
    g.finish([x.matmul(w).tanh().named("h")]).unwrap()
}

/// Two methods that share a param allocate and copy nothing, whichever runs.
fn methods_allocate_nothing() {
    for threads in [1, 2] {
        let (graph, smaller) = (graph(), smaller());
        let mut p = Session::new().threads(threads).compile_all(&[("learn", &graph), ("act", &smaller)]).unwrap();
        p.init(1).unwrap();
        let (act, w) = (p.method("act").unwrap(), p.param::<f32>("w").unwrap());
        let (x, h) = (p.input_of::<f32>(act, "x").unwrap(), p.output_of::<f32>(act, "h").unwrap());
        p.values_mut::<f32>("x").unwrap().fill(0.5);
        p[x].fill(0.25);
        p.step().unwrap();
        p.run(act).unwrap();
        let (address, before) = (p[w].as_ptr(), ALLOCATIONS.load(Ordering::Relaxed));
        let mut last = p[h][0];
        for _ in 0..20 {
            p.step().unwrap();
            p.run(act).unwrap();
            assert_ne!(std::mem::replace(&mut last, p[h][0]), p[h][0]);
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{threads} threads");
        assert_eq!(p[w].as_ptr(), address);
    }
}

/// Going from one size to another whose plan is kept allocates and copies nothing.
fn kept_sizes_allocate_nothing() {
    for threads in [1, 2] {
        let mut net = Session::new().threads(threads).compile_sized("net", |g| {
            let x = g.input("x", [g.symbol("rows"), 256], DType::F32);
            let w = g.param("w", [256, 128], DType::F32, Init::Normal(0.1));
            let h = x.matmul(w).tanh();
            g.update(w, w - x.transpose(&[1, 0]).matmul(h) * 1e-3);
            g.finish([(h * h).mean(..).named("loss")])
        });
        let sizes = [64, 3, 200, 64, 3];
        let mut step = |rows: usize| {
            let p = net.at(&[("rows", rows)]).unwrap();
            p.init_rest(1).unwrap();
            p.values_mut::<f32>("x").unwrap().fill(0.25);
            p.step().unwrap();
            (p.values::<f32>("w").unwrap().as_ptr(), p.values::<f32>("loss").unwrap()[0])
        };
        // Each size is planned, and placed again where the arena has grown meanwhile.
        for rows in sizes {
            step(rows);
        }
        let address = step(200).0;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..5 {
            for rows in sizes {
                let (w, loss) = step(rows);
                assert!(w == address && loss.is_finite());
            }
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{threads} threads");
        assert_eq!(net.plans_made(), 3);
    }
}

/// Fourier transforms of all kinds of lengths: powers of 2, mixed radices, primes, primes through longer transforms.
#[cfg(feature = "signal")]
fn transforms_allocate_nothing() {
    use arenagrad::graph::signal::FftNorm;
    for (n, dtype) in [64, 360, 45, 97, 1009, 2027, 1].into_iter().flat_map(|n| [(n, DType::F32), (n, DType::F64)]) {
        let g = Builder::new("transforms");
        let x = g.input_or("x", [3, n], dtype, 0.5);
        let z = x.rfft(None, -1, FftNorm::Ortho);
        let y = z.irfft(Some(n), -1, FftNorm::Ortho).fft(None, -1, FftNorm::Ortho).ifft(None, -1, FftNorm::Ortho);
        let graph = g.finish([y.abs2().sum(..).cast(DType::F64).named("y")]).unwrap();
        let mut p = Session::new().threads(2).share(true).compile(&graph).unwrap();
        p.step().unwrap();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..3).for_each(|_| p.step().unwrap());
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{n} {dtype}");
    }
}

/// Steps of two ranks, in several buckets, allocate nothing on either.
fn ranks_allocate_nothing() {
    let g = Builder::new("g");
    let w = g.param("w", [256, 128], DType::F32, Init::Normal(0.1));
    let b = g.param("b", [128], DType::F32, Init::Zeros);
    let h = (g.input_or("x", [16, 256], DType::F32, 0.5).matmul(w) + b).tanh();
    let graph = g.finish([(h * h).mean(..).named("loss")]).unwrap();
    let split = &train_split(&graph, "loss", AdamW::new(1e-3).clip_norm(1.0)).unwrap();
    std::thread::scope(|s| {
        for comm in LocalComm::group(2) {
            s.spawn(move || {
                let mut p = Session::new().compile_all(&split.methods()).unwrap();
                p.init(1).unwrap();
                let mut ranks = Parallel::new(&p, comm, split).unwrap().bucket_bytes(&p, 1 << 14).unwrap();
                (0..2).for_each(|_| assert!(ranks.step(&mut p).unwrap().is_finite()));
                ranks.comm().barrier().unwrap();
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                ranks.comm().barrier().unwrap();
                (0..10).for_each(|_| assert!(ranks.step(&mut p).unwrap().is_finite()));
                ranks.comm().barrier().unwrap();
                assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
                ranks.comm().barrier().unwrap();
            });
        }
    });
}

// One test, so that no other allocates meanwhile.
#[test]
fn steps_allocate_nothing() {
    methods_allocate_nothing();
    ranks_allocate_nothing();
    kept_sizes_allocate_nothing();
    #[cfg(feature = "signal")]
    transforms_allocate_nothing();
    let graph = graph();
    for threads in [1, 2] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        assert_eq!(p.threads(), threads);
        p.init(1).unwrap();
        let (x, loss) = (p.input::<f32>("x").unwrap(), p.output::<f32>("loss").unwrap());
        let batch = vec![0.5f32; 64 * 256];
        // The first step lets lazy things settle: the choice of instruction set, the threads' start.
        p.write(x, &batch).unwrap();
        p.step().unwrap();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let mut sum = 0.0;
        for _ in 0..20 {
            p.write(x, &batch).unwrap();
            p.step().unwrap();
            sum += p.get(loss).unwrap()[0];
        }
        let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(made, 0, "{threads} threads");
        assert!(sum.is_finite());
    }
}
