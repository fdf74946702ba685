//! The table of a recorded step: time by op.
//!
//! Invariant: the times of all rows, those of waiting and of the gaps between instructions included, add up to the
//! duration of the step times the number of threads.

use super::tracer::{Trace, WAIT};
use std::collections::BTreeMap;
use std::fmt;

/// The totals of one op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    /// Runs of instructions. A run that threads share counts once.
    runs: u64,
    /// Nanoseconds of all threads.
    ns: u64,
    flops: f64,
    bytes: f64,
    /// Nanoseconds of all runs, by the cost model.
    modelled: f64,
}

/// The ops by time, longest first, and the nanoseconds that threads waited.
fn sum_by_op(t: &Trace) -> (Vec<(&'static str, Sum)>, u64) {
    let mut ops: BTreeMap<&'static str, Sum> = BTreeMap::new();
    let mut runs = vec![0u64; t.calls.len()];
    let mut waits = 0;
    for thread in &t.threads {
        let mut here = vec![0u64; t.calls.len()];
        for e in thread {
            if e.instr == WAIT {
                waits += e.to - e.from;
                continue;
            }
            here[e.instr as usize] += 1;
            ops.entry(t.calls[e.instr as usize].op).or_default().ns += e.to - e.from;
        }
        // Threads share instructions: the largest count of a thread is the number of runs.
        runs.iter_mut().zip(here).for_each(|(all, here)| *all = here.max(*all));
    }
    for (call, &n) in t.calls.iter().zip(&runs).filter(|(_, n)| **n > 0) {
        let sum = ops.entry(call.op).or_default();
        sum.runs += n;
        sum.flops += n as f64 * call.flops as f64;
        sum.bytes += n as f64 * call.bytes as f64;
        sum.modelled += n as f64 * call.modelled as f64 / 1e3;
    }
    let mut list: Vec<_> = ops.into_iter().collect();
    list.sort_by_key(|(name, s)| (u64::MAX - s.ns, *name));
    (list, waits)
}

/// The time of each op, longest first. Rates are those of one thread.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ops, waits) = sum_by_op(self);
        let all = (self.nanos * self.threads.len() as u64).max(1);
        let share = |ns: u64| 100.0 * ns as f64 / all as f64;
        writeln!(f, "step {:.2} us, {} threads", self.nanos as f64 / 1e3, self.threads.len())?;
        let (a, b) = ("model us", "share");
        writeln!(f, "{:<32}{:>6}{:>12}{a:>12}{b:>8}{:>10}{:>9}", "op", "runs", "us", "GFLOP/s", "GB/s")?;
        for (name, sum) in &ops {
            let rate = |x: f64| if sum.ns > 0 { x / sum.ns as f64 } else { 0.0 };
            let (us, model) = (sum.ns as f64 / 1e3, sum.modelled / 1e3);
            let (runs, share, flops, bytes) = (sum.runs, share(sum.ns), rate(sum.flops), rate(sum.bytes));
            writeln!(f, "{name:<32}{runs:>6}{us:>12.2}{model:>12.2}{share:>7.1}%{flops:>10.2}{bytes:>9.2}")?;
        }
        let ran: u64 = ops.iter().map(|o| o.1.ns).sum();
        for (name, ns) in [("(waiting)", waits), ("(between instructions)", all.saturating_sub(ran + waits))] {
            writeln!(f, "{name:<32}{:>6}{:>12.2}{:>12}{:>7.1}%", "", ns as f64 / 1e3, "", share(ns))?;
        }
        match self.dropped {
            0 => Ok(()),
            n => writeln!(f, "{n} events were too many to keep"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Location;
    use crate::session::{Call, Event};

    #[test]
    fn shared_instructions_count_once_and_their_time_twice() {
        let call = |op, flops| Call {
            op,
            name: String::new(),
            types: String::new(),
            flops,
            bytes: 8,
            modelled: 2000,
            units: 2,
            location: Location::Nowhere,
        };
        let at = |instr, from, to| Event { instr, from, to };
        let t = Trace {
            calls: vec![call("matmul", 100), call("add", 10), call("sub", 1)].into(),
            threads: vec![vec![at(0, 0, 40), at(WAIT, 40, 50), at(1, 50, 60)], vec![at(0, 0, 50)]],
            nanos: 60,
            dropped: 0,
        };
        let (ops, waits) = sum_by_op(&t);
        let (matmul, add) = (
            Sum { runs: 1, ns: 90, flops: 100.0, bytes: 8.0, modelled: 2.0 },
            Sum { runs: 1, ns: 10, flops: 10.0, bytes: 8.0, modelled: 2.0 },
        );
        assert_eq!((ops, waits), (vec![("matmul", matmul), ("add", add)], 10));
        let text = t.to_string();
        assert!(text.contains("75.0%") && text.contains("(waiting)") && text.contains("8.3%"), "{text}");
    }

    const TEXT: &str = "\
step 5.00 us, 2 threads
op                                runs          us    model us   share   GFLOP/s     GB/s
matmul                               1        2.25        2.00   22.5%      2.00     0.50
add                                  2        0.25        0.50    2.5%      4.00     0.20
sub                                  1        0.00        1.00    0.0%      0.00     0.00
(waiting)                                     0.60                6.0%
(between instructions)                        6.90               69.0%
3 events were too many to keep
";

    #[test]
    fn the_longest_op_comes_first_and_all_times_are_told() {
        let call = |op, flops, bytes, modelled| Call {
            op,
            name: String::new(),
            types: String::new(),
            flops,
            bytes,
            modelled,
            units: 2,
            location: Location::Nowhere,
        };
        let at = |instr, from, to| Event { instr, from, to };
        let calls =
            [call("add", 500, 25, 250_000), call("sub", 9, 9, 1_000_000), call("matmul", 4500, 1125, 2_000_000)];
        let first = vec![at(2, 0, 1000), at(WAIT, 1000, 1600), at(0, 1600, 1700), at(0, 1700, 1850)];
        let mut t = Trace {
            calls: calls.into(),
            // An event of no time has no rates.
            threads: vec![first, vec![at(2, 0, 1250), at(1, 1300, 1300)]],
            nanos: 5000,
            dropped: 3,
        };
        assert_eq!(t.to_string(), TEXT);
        t.dropped = 0;
        assert_eq!(t.to_string() + "3 events were too many to keep\n", TEXT);
    }
}
