//! How long ranks exchange the gradients of a step, by a network.
//!
//! It follows `train::Parallel`: for each bucket an all-to-all of parts, sums in the order of ranks, an all-gather of
//! the sums; and two all-gathers of short reports. An all-to-all is the cheaper of n − 1 rounds, in each of which a
//! rank exchanges a part with one other, and of ⌈log₂ n⌉ rounds, in each of which it sends about half of its parts on.
//! An all-gather likewise takes n − 1 rounds of a part or ⌈log₂ n⌉ rounds of parts that double. All ranks send at
//! once, and none slows another.

use super::network::Network;
use arenagrad::graph::DType;
use arenagrad::optim::Layout;
use arenagrad::train::parallel::{BUCKET, REPORT_BYTES};
use std::ops::Range;

/// Sweeps over the bytes of a bucket that the sums of a rank are worth, at the rate of copies. Measured between 1.7 and
/// 2.4 for 100 MiB on 2 to 64 ranks: they read all that was received, and write the part of one rank.
const SWEEPS: f64 = 2.0;

/// Gradients that are exchanged at once.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    elements: usize,
    /// Bytes of one element.
    size: usize,
    /// The part of a step that is left when all of them are there.
    left: f64,
}

/// The buckets of a step, in the order of the exchange.
pub struct Buckets(Vec<Bucket>);

impl Buckets {
    /// The buckets of `layout`. For the name of a param, `left` tells what of the step is left when its gradient is
    /// there.
    pub fn of(layout: &Layout, left: impl Fn(&str) -> f64) -> Buckets {
        let left = |d: DType, range: &Range<usize>| {
            let inside = layout.of(d).filter(|p| p.range.start < range.end && range.start < p.range.end);
            inside.map(|p| left(&p.name)).fold(1.0, f64::min)
        };
        let bucket = |d: DType, r: Range<usize>| Bucket { elements: r.len(), size: d.size(), left: left(d, &r) };
        let of = |d: DType| layout.buckets(d, BUCKET, 1).into_iter().map(move |r| (d, r));
        Buckets(layout.dtypes().flat_map(of).map(|(d, r)| bucket(d, r)).collect())
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|b| b.elements * b.size).sum()
    }
}

/// Seconds of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// What the rounds of messages would take if all were as short as the network's shortest.
    pub latency: f64,
    /// What messages take beyond that.
    pub transfer: f64,
    /// Copies and sums on a rank.
    pub copies: f64,
    /// What of all that does not pass beside the computation.
    pub exposed: f64,
}

impl Seconds {
    /// The time of messages.
    fn messages(&self) -> f64 {
        self.latency + self.transfer
    }

    /// With more rounds of messages.
    fn and(self, network: &Network, rounds: Rounds) -> Seconds {
        let latency = rounds.number * network.latency();
        Seconds { latency: self.latency + latency, transfer: self.transfer + rounds.seconds - latency, ..self }
    }
}

/// The exchange of a step on `ranks` ranks, which compute for `compute` seconds: beside that if `overlap`, as soon as a
/// bucket is there, and else behind it. One bucket alone is exchanged behind it.
pub fn exchange(buckets: &Buckets, network: &Network, ranks: usize, compute: f64, overlap: bool) -> Seconds {
    let mut all = Seconds::default();
    if ranks < 2 {
        return all;
    }
    let overlap = overlap && buckets.len() > 1;
    // When the messages of the last bucket have arrived.
    let mut arrived = 0.0f64;
    for b in &buckets.0 {
        let part = (b.elements.div_ceil(ranks) * b.size) as f64;
        let before = all.messages();
        all = all.and(network, all_to_all(network, ranks, part)).and(network, all_gather(network, ranks, part));
        let ready = if overlap { compute * (1.0 - b.left) } else { compute };
        arrived = arrived.max(ready) + all.messages() - before;
    }
    // One report before the computation, and one behind it.
    let before = all.messages();
    for _ in 0..2 {
        all = all.and(network, all_gather(network, ranks, REPORT_BYTES as f64));
    }
    // Sums take the processor.
    all.copies = SWEEPS * buckets.bytes() as f64 / network.copied_per_second;
    all.exposed = (arrived - compute).max(0.0) + all.messages() - before + all.copies;
    all
}

/// Rounds of messages.
#[derive(Clone, Copy)]
struct Rounds {
    number: f64,
    seconds: f64,
}

impl Rounds {
    /// Rounds of messages of these sizes.
    fn of(network: &Network, sizes: impl Iterator<Item = f64>) -> Rounds {
        let none = Rounds { number: 0.0, seconds: 0.0 };
        sizes.fold(none, |r, bytes| Rounds { number: r.number + 1.0, seconds: r.seconds + network.seconds(bytes) })
    }

    /// One with each other rank.
    fn pairwise(network: &Network, ranks: usize, part: f64) -> Rounds {
        let number = (ranks - 1) as f64;
        Rounds { number, seconds: number * network.seconds(part) }
    }

    fn cheaper(self, other: Rounds) -> Rounds {
        if other.seconds < self.seconds { other } else { self }
    }
}

/// The strides 1, 2, 4 … below `ranks`: one for each of ⌈log₂ n⌉ rounds.
fn strides(ranks: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |s| s.checked_mul(2)).take_while(move |s| *s < ranks)
}

/// Sends another part of `part` bytes to each rank.
fn all_to_all(network: &Network, ranks: usize, part: f64) -> Rounds {
    // A round of stride s sends on the parts whose way has the bit s.
    let sent = |s: usize| ranks / (2 * s) * s + (ranks % (2 * s)).saturating_sub(s);
    let few = Rounds::of(network, strides(ranks).map(|s| sent(s) as f64 * part));
    Rounds::pairwise(network, ranks, part).cheaper(few)
}

/// Sends one part of `part` bytes to all ranks.
fn all_gather(network: &Network, ranks: usize, part: f64) -> Rounds {
    let few = Rounds::of(network, strides(ranks).map(|s| s.min(ranks - s) as f64 * part));
    Rounds::pairwise(network, ranks, part).cheaper(few)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A message of b bytes takes `latency` + b · `byte` seconds.
    fn network(latency: f64, byte: f64) -> Network {
        let text = format!(
            "name = \"n\"\nsource = \"s\"\ncopied_bytes_per_second = 1e9\nmessage = [{{ bytes = 0, seconds = {latency:e} }}, \
             {{ bytes = 1000, seconds = {:e} }}]",
            latency + 1000.0 * byte
        );
        Network::parse(Path::new("n.toml"), &text).unwrap()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()), "{a} and {b}");
    }

    #[test]
    fn parts_arrive_whichever_way_is_cheaper() {
        let (slow, wide) = (network(1e-3, 1e-12), network(1e-9, 1e-3));
        for n in [2usize, 3, 4, 7, 8, 1000] {
            let rounds = (n as f64).log2().ceil();
            // Latency counts: few rounds. A way through the others sends a part once for each bit of its distance.
            near(all_to_all(&slow, n, 8.0).number, rounds);
            let bits: u32 = (1..n).map(usize::count_ones).sum();
            near(all_to_all(&slow, n, 8.0).seconds, rounds * 1e-3 + f64::from(bits) * 8e-12);
            near(all_gather(&slow, n, 8.0).number, rounds);
            // Bytes count: each part once.
            let least = (n - 1) as f64 * 8e-3;
            assert!((least..least * 1.001).contains(&all_to_all(&wide, n, 8.0).seconds));
            assert!((least..least * 1.001).contains(&all_gather(&wide, n, 8.0).seconds));
        }
    }

    /// A layout of one param of `f32` for each number of elements, called by its place.
    fn layout(elements: &[usize]) -> Layout {
        let mut layout = Layout::default();
        elements.iter().enumerate().for_each(|(i, n)| layout.push(&i.to_string(), DType::F32, *n).unwrap());
        layout
    }

    #[test]
    fn an_exchange_is_latency_transfer_and_copies() {
        let b = Buckets::of(&layout(&[1000]), |_| 1.0);
        // In whole lines of 64 bytes.
        assert_eq!((b.len(), b.bytes()), (1, 4032));
        let s = exchange(&b, &network(1e-6, 1e-9), 2, 1.0, true);
        // One round for each of the two collectives of the bucket and of the two reports.
        near(s.latency, 4e-6);
        near(s.transfer, (2.0 * 2016.0 + 2.0 * REPORT_BYTES as f64) * 1e-9);
        near(s.copies, 2.0 * 4032.0 / 1e9);
        // One bucket is not exchanged beside the computation.
        near(s.exposed, s.latency + s.transfer + s.copies);
        assert_eq!(exchange(&b, &network(1e-6, 1e-9), 1, 1.0, true), Seconds::default());
    }

    #[test]
    fn messages_pass_beside_what_is_left_of_the_step() {
        let n = network(1e-3, 0.0);
        // Two buckets, of which the first has a param that is there late, and one that is there at the end.
        let layout = layout(&[BUCKET / 8, BUCKET / 8, BUCKET / 2, 16]);
        let b = Buckets::of(&layout, |name| [0.9, 0.5, 0.25, 0.0][name.parse::<usize>().unwrap()]);
        assert_eq!(b.len(), 4);
        let exposed = |compute, overlap| {
            let s = exchange(&b, &n, 2, compute, overlap);
            s.exposed - s.copies
        };
        // A bucket takes two rounds, and the reports take two.
        near(exposed(1.0, false), 10e-3);
        near(exposed(1.0, true), 4e-3);
        // Half of the step is 2 ms, a quarter 1: the second bucket begins when the first has arrived.
        near(exposed(4e-3, true), 8e-3);
    }

    #[test]
    fn buckets_are_those_of_the_steps() {
        let mut layout = Layout::default();
        layout.push("a", DType::F32, 3 * BUCKET / 4 + 5).unwrap();
        layout.push("b", DType::F64, 10).unwrap();
        layout.push("c", DType::C64, 2).unwrap();
        let b = Buckets::of(&layout, |_| 0.0);
        assert_eq!((b.len(), b.bytes()), (5, 3 * BUCKET + 64 + 64 + 128));
    }
}
