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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::pack::Buffers;

    /// The second part of a problem, so its sections do not begin at 0. Its loads are 6, 3 and 5.
    fn second_part() -> RankFacts {
        let rows = [(0, 1, 7), (10, 12, 2), (10, 11, 4), (11, 14, 1), (12, 13, 4)];
        let p = Problem::new(&Buffers::from_rows(rows)).unwrap();
        assert_eq!(p.load, [7, 6, 3, 5]);
        RankFacts::new(&p, p.parts[1])
    }

    #[test]
    fn the_facts_of_a_part() {
        let f = second_part();
        assert_eq!(f.total, [6, 6, 5, 5]);
        assert_eq!(f.width, [2, 1, 3, 1]);
        assert_eq!(f.size, [2, 4, 1, 4]);
        assert_eq!(f.overlaps, [3, 2, 3, 2]);
        assert_eq!(f.end, [3, 2, 4, 4]);
        assert_eq!(f.pairs(), 10);
    }

    #[test]
    fn the_largest_fact_goes_first_and_the_first_of_equals() {
        let f = second_part();
        for (rank, order) in [
            (b"TTT", [0, 1, 2, 3]),
            (b"EEE", [2, 3, 0, 1]),
            (b"ZWT", [1, 3, 0, 2]),
            (b"AWT", [0, 1, 3, 2]),
            (b"WZT", [2, 0, 1, 3]),
            (b"CEA", [2, 0, 3, 1]),
        ] {
            assert_eq!(f.order(*rank), order, "{rank:?}");
        }
    }

    #[test]
    fn the_maximum_of_every_range() {
        let values: Vec<u64> = (0..9).map(|i| i * i * 7 % 11).collect();
        for n in 1..=values.len() {
            let maxima = RankMaxima::new(&values[..n]);
            for (a, b) in (0..n).flat_map(|a| (a + 1..=n).map(move |b| (a, b))) {
                assert_eq!(maxima.of(a, b), *values[a..b].iter().max().unwrap(), "{a}..{b} of {n}");
            }
        }
    }
}
