//! Static ranks: the order in which buffers are placed.
//!
//! A rank is named by the facts that it compares, largest first: T the largest load during the lifetime, W the length
//! of the lifetime, A length times size, Z the size, C the number of overlapping lifetimes, E the end.

use super::problem::{Part, Problem};

/// The facts that ranks compare, as columns by buffer of a part.
pub struct RankFacts {
    total: Vec<u64>,
    width: Vec<u64>,
    size: Vec<u64>,
    overlaps: Vec<u64>,
    end: Vec<u64>,
}

/// Three of the letters above.
pub type Rank = [u8; 3];

impl RankFacts {
    /// The facts of a part of `p`.
    pub fn new(p: &Problem, part: Part) -> RankFacts {
        let (starts, ends) = (&p.start[part.from..part.to], &p.end[part.from..part.to]);
        let n = starts.len();
        let sections = (part.high - part.low) as usize;
        let most = RankMaxima::new(&p.load[part.low as usize..part.high as usize]);
        // For each section, buffers that start before it, and buffers that end at it or before.
        let (mut begun, mut over) = (vec![0u64; sections + 2], vec![0u64; sections + 2]);
        for k in 0..n {
            begun[(starts[k] - part.low) as usize + 1] += 1;
            over[(ends[k] - part.low) as usize] += 1;
        }
        for s in 1..sections + 2 {
            begun[s] += begun[s - 1];
            over[s] += over[s - 1];
        }
        let range = |k: usize| ((starts[k] - part.low) as usize, (ends[k] - part.low) as usize);
        RankFacts {
            total: (0..n).map(|k| most.of(range(k).0, range(k).1)).collect(),
            width: p.life[part.from..part.to].to_vec(),
            size: p.size[part.from..part.to].to_vec(),
            overlaps: (0..n).map(|k| begun[range(k).1] - over[range(k).0]).collect(),
            end: ends.iter().map(|&e| u64::from(e)).collect(),
        }
    }

    /// Pairs of overlapping lifetimes, each counted twice, and each lifetime with itself.
    pub fn pairs(&self) -> u64 {
        self.overlaps.iter().sum()
    }

    /// The buffers by `rank`, ties by position.
    pub fn order(&self, rank: Rank) -> Vec<u32> {
        let fact = |k: usize, letter: u8| match letter {
            b'T' => self.total[k],
            b'W' => self.width[k],
            b'A' => self.width[k].saturating_mul(self.size[k]),
            b'Z' => self.size[k],
            b'C' => self.overlaps[k],
            _ => self.end[k],
        };
        let mut keys: Vec<([u64; 3], u32)> =
            (0..self.size.len()).map(|k| (rank.map(|r| !fact(k, r)), k as u32)).collect();
        keys.sort_unstable();
        keys.into_iter().map(|k| k.1).collect()
    }
}

/// A sparse table for range maxima.
struct RankMaxima(Vec<Vec<u64>>);

impl RankMaxima {
    fn new(values: &[u64]) -> RankMaxima {
        // Level `r` has the maxima of all runs of 2^r values.
        let mut levels = vec![values.to_vec()];
        let mut step = 1;
        while 2 * step <= values.len() {
            let last = &levels[levels.len() - 1];
            let next = (0..=values.len() - 2 * step).map(|i| last[i].max(last[i + step])).collect();
            levels.push(next);
            step *= 2;
        }
        RankMaxima(levels)
    }

    /// The maximum of `a..b`, which must not be empty.
    fn of(&self, a: usize, b: usize) -> u64 {
        let level = (b - a).ilog2() as usize;
        self.0[level][a].max(self.0[level][b - (1 << level)])
    }
}
