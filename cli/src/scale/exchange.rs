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

/// Sweeps over the bytes of a bucket that the sums of a rank are worth, at the rate of copies. Measured between 1.7 and
/// 2.4 for 100 MiB on 2 to 64 ranks: they read all that was received, and write the part of one rank.
const SWEEPS: f64 = 2.0;

/// The buckets of a step: elements and bytes of one element, and how many there are of it.
pub struct Buckets(Vec<(usize, usize, usize)>);

impl Buckets {
    /// The buckets of `layout`.
    pub fn of(layout: &Layout) -> Buckets {
        let of = |d: DType| layout.buckets(d, BUCKET, 1).into_iter().map(move |b| (b.len(), d.size()));
        let mut all: Vec<(usize, usize)> = layout.dtypes().flat_map(of).collect();
        all.sort_unstable();
        Buckets(all.chunk_by(|a, b| a == b).map(|c| (c[0].0, c[0].1, c.len())).collect())
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.iter().map(|b| b.2).sum()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|b| b.0 * b.1 * b.2).sum()
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
}

impl Seconds {
    /// The time of messages.
    pub fn messages(&self) -> f64 {
        self.latency + self.transfer
    }
}

/// The exchange of a step on `ranks` ranks.
pub fn exchange(buckets: &Buckets, network: &Network, ranks: usize) -> Seconds {
    let mut all = Seconds::default();
    if ranks < 2 {
        return all;
    }
    let mut add = |rounds: Rounds, times: f64| {
        let latency = rounds.number * network.latency();
        all.latency += times * latency;
        all.transfer += times * (rounds.seconds - latency);
    };
    for &(elements, size, times) in &buckets.0 {
        let part = (elements.div_ceil(ranks) * size) as f64;
        add(all_to_all(network, ranks, part), times as f64);
        add(all_gather(network, ranks, part), times as f64);
    }
    add(all_gather(network, ranks, REPORT_BYTES as f64), 2.0);
    all.copies = SWEEPS * buckets.bytes() as f64 / network.copied_per_second;
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

    #[test]
    fn an_exchange_is_latency_transfer_and_copies() {
        let mut layout = Layout::default();
        layout.push("w", DType::F32, 1000).unwrap();
        let b = Buckets::of(&layout);
        // In whole lines of 64 bytes.
        assert_eq!((b.len(), b.bytes()), (1, 4032));
        let s = exchange(&b, &network(1e-6, 1e-9), 2);
        // One round for each of the two collectives of the bucket and of the two reports.
        near(s.latency, 4e-6);
        near(s.transfer, (2.0 * 2016.0 + 2.0 * REPORT_BYTES as f64) * 1e-9);
        near(s.copies, 2.0 * 4032.0 / 1e9);
        near(s.messages(), s.latency + s.transfer);
        assert_eq!(exchange(&b, &network(1e-6, 1e-9), 1), Seconds::default());
    }

    #[test]
    fn buckets_are_those_of_the_steps() {
        let mut layout = Layout::default();
        layout.push("a", DType::F32, 3 * BUCKET / 4 + 5).unwrap();
        layout.push("b", DType::F64, 10).unwrap();
        layout.push("c", DType::C64, 2).unwrap();
        let b = Buckets::of(&layout);
        assert_eq!((b.len(), b.bytes()), (5, 3 * BUCKET + 64 + 64 + 128));
    }
}
