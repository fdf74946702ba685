//! Threads of programs on chosen cores, and how long they wait for a step: what the system says of them.

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::nn;
use arenagrad::session::{Program, Session};

fn net(g: &Builder, rows: usize) -> GraphBuf {
    let h = nn::linear(g, "fc1", g.input("x", [rows, 64], DType::F32), 64).tanh();
    g.finish([nn::linear(g, "fc2", h, 64).named("y")]).unwrap()
}

/// A session whose programs divide even small steps among `n` threads.
fn session(n: usize) -> Session {
    Session::new().threads(n).share(true)
}

/// The bits of a step's output.
fn answer(p: &mut Program) -> Vec<u32> {
    p.init_rest(3).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(0.3);
    p.step().unwrap();
    p.values::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect()
}

#[test]
fn wrong_cores_are_refused() {
    let graph = net(&Builder::new("net"), 64);
    let mut p = session(2).compile(&graph).unwrap();
    assert_eq!(p.threads(), 2);
    for (cores, message) in [
        (&[][..], "threads is 2, and there are fewer cores: []"),
        (&[0], "threads is 2, and there are fewer cores: [0]"),
        (&[0, 1, 0], "core 0 is given twice; each thread has a core of its own"),
    ] {
        let cores = || cores.iter().copied();
        let errors = [
            p.pin(cores()).err().unwrap(),
            session(2).pin(cores()).compile(&graph).err().unwrap(),
            session(2).pin(cores()).compile_sized("net", |g| Ok(net(g, 64))).at(&[]).err().unwrap(),
        ];
        for e in errors {
            assert_eq!(e.kind, Kind::Plan);
            assert!(e.message.ends_with(message), "{e}");
        }
    }
    // The session's threads count, though the program has one.
    let alone = Session::new().threads(2).pin([0]).compile(&net(&Builder::new("net"), 1));
    assert_eq!(alone.err().unwrap().message, "threads is 2, and there are fewer cores: [0]");
    assert!(Session::new().pin([]).compile(&graph).is_err());
    for missing in [8191, 8192, usize::MAX] {
        let e = Session::new().pin([missing]).compile(&graph).err().unwrap();
        assert_eq!(e.kind, Kind::Io);
        assert!(e.message.starts_with(&format!("no thread can be put on core {missing}: ")), "{e}");
    }
    assert_eq!(answer(&mut p), answer(&mut session(1).compile(&graph).unwrap()));
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{answer, net, session};
    use arenagrad::graph::Builder;
    use arenagrad::session::Session;
    use std::fs::read_to_string;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    /// What the system says in field `name` of the status of `task`.
    fn status(task: &Path, name: &str) -> Option<String> {
        let text = read_to_string(task.join("status")).ok()?;
        Some(text.lines().find_map(|l| l.strip_prefix(name))?.trim().to_string())
    }

    fn of_this_thread() -> String {
        status(Path::new("/proc/thread-self"), "Cpus_allowed_list:").unwrap()
    }

    /// The cores that this thread may use.
    fn cores() -> Vec<usize> {
        let number = |text: &str| text.parse::<usize>().unwrap();
        let ranges = of_this_thread();
        let ranges = ranges.split(',').map(|r| r.split_once('-').unwrap_or((r, r)));
        ranges.flat_map(|(from, to)| number(from)..=number(to)).collect()
    }

    /// The first threads of teams of this process that stay on `core`.
    fn workers_on(core: usize) -> Vec<PathBuf> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|t| t.unwrap().path());
        let is = |task: &PathBuf, name: &str, value: &str| status(task, name).is_some_and(|v| v == value);
        tasks.filter(|t| is(t, "Name:", "arenagrad-1") && is(t, "Cpus_allowed_list:", &core.to_string())).collect()
    }

    /// Nanoseconds for which `task` has run.
    fn busy(task: &Path) -> u64 {
        read_to_string(task.join("schedstat")).unwrap().split(' ').next().unwrap().parse().unwrap()
    }

    fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs `f` on a thread that ends: the thread of a test may go on with other tests.
    fn on_a_thread(f: impl FnOnce() + Send) {
        std::thread::scope(|s| s.spawn(f).join().unwrap());
    }

    /// All in one test: no other puts a team's thread on a core, so the thread on this one is that of `p`.
    #[test]
    fn threads_stay_on_their_cores_and_wait_as_told() {
        let (graph, all, before) = (net(&Builder::new("net"), 64), cores(), of_this_thread());
        let (first, last) = (all[0], all[all.len() - 1]);
        let want = answer(&mut session(1).compile(&graph).unwrap());

        let mut p = Session::new().pin([last]).compile(&graph).unwrap();
        assert_eq!(of_this_thread(), before, "compiling moves no thread");
        on_a_thread(|| {
            assert_eq!(answer(&mut p), want);
            assert_eq!(of_this_thread(), last.to_string());
            p.pin([first]).unwrap();
            assert_eq!(answer(&mut p), want);
            assert_eq!(of_this_thread(), first.to_string());
        });
        let mut sized = Session::new().pin([last]).compile_sized("net", |g| Ok(net(g, g.symbol("rows"))));
        on_a_thread(|| {
            answer(sized.at(&[("rows", 3)]).unwrap());
            assert_eq!(of_this_thread(), last.to_string());
        });
        if first == last {
            eprintln!("one core: no team was put on cores");
            return;
        }

        let mut p = session(2).pin([last, first]).spin(Duration::MAX).compile(&graph).unwrap();
        assert_eq!((p.threads(), of_this_thread()), (2, before.clone()));
        let [worker] = &workers_on(first)[..] else { panic!("{:?}", workers_on(first)) };
        on_a_thread(|| {
            assert_eq!(answer(&mut p), want);
            assert_eq!(of_this_thread(), last.to_string());
        });
        let start = busy(worker);
        wait_until("a thread that spins is busy", || busy(worker) > start + 50_000_000);
        // It takes no step to send it to sleep.
        p.spin(Duration::ZERO);
        let asleep = || status(worker, "State:").unwrap().starts_with('S');
        for _ in 0..3 {
            wait_until("a thread that need not wait sleeps", asleep);
            let start = busy(worker);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(busy(worker), start);
            on_a_thread(|| assert_eq!(answer(&mut p), want));
        }
        // Another program's threads are where the system wants them.
        let others = p.share().unwrap();
        assert_eq!((others.threads(), workers_on(first).len()), (2, 1));
        drop((p, others));
        assert!(workers_on(first).is_empty());

        let mut sized = session(2).pin([last, first]).compile_sized("net", |g| Ok(net(g, g.symbol("rows"))));
        on_a_thread(|| {
            for rows in [64, 32, 64] {
                answer(sized.at(&[("rows", rows)]).unwrap());
                assert_eq!((of_this_thread(), workers_on(first).len()), (last.to_string(), 1));
            }
        });
    }
}
