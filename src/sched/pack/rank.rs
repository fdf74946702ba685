//! Static ranks: which buffer goes first when several could.
//!
//! A rank is named by the facts that it compares, largest first: T the largest load during the life, W its length,
//! A its area, Z the size, C the number of buffers met, E the end.

use super::compress::{Part, Problem};

/// The columns that ranks compare, by buffer of a part.
pub struct Facts {
    total: Vec<u64>,
    width: Vec<u64>,
    size: Vec<u64>,
    met: Vec<u64>,
    end: Vec<u64>,
}

/// Three of the letters above.
pub type Rank = [u8; 3];

impl Facts {
    /// The facts of a part of `p`.
    pub fn new(p: &Problem, part: Part) -> Facts {
        let (starts, ends) = (&p.start[part.from..part.to], &p.end[part.from..part.to]);
        let n = starts.len();
        let sections = (part.high - part.low) as usize;
        let most = Most::new(&p.load[part.low as usize..part.high as usize]);
        // Buffers that start before a section, and that end before it or at it.
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
        Facts {
            total: (0..n).map(|k| most.of(range(k).0, range(k).1)).collect(),
            width: p.life[part.from..part.to].to_vec(),
            size: p.size[part.from..part.to].to_vec(),
            met: (0..n).map(|k| begun[range(k).1] - over[range(k).0]).collect(),
            end: ends.iter().map(|&e| u64::from(e)).collect(),
        }
    }

    /// Pairs of buffers that meet, each counted twice.
    pub fn pairs(&self) -> u64 {
        self.met.iter().sum()
    }

    /// The buffers by `rank`, ties by position.
    pub fn order(&self, rank: Rank) -> Vec<u32> {
        let fact = |k: usize, letter: u8| match letter {
            b'T' => self.total[k],
            b'W' => self.width[k],
            b'A' => self.width[k].saturating_mul(self.size[k]),
            b'Z' => self.size[k],
            b'C' => self.met[k],
            _ => self.end[k],
        };
        let mut keys: Vec<([u64; 3], u32)> =
            (0..self.size.len()).map(|k| (rank.map(|r| !fact(k, r)), k as u32)).collect();
        keys.sort_unstable();
        keys.into_iter().map(|k| k.1).collect()
    }
}

/// Largest values of ranges of a row.
struct Most(Vec<Vec<u64>>);

impl Most {
    fn new(row: &[u64]) -> Most {
        // Row `r` holds the largest of each 2^r in a row.
        let mut rows = vec![row.to_vec()];
        let mut step = 1;
        while 2 * step <= row.len() {
            let last = &rows[rows.len() - 1];
            let next = (0..=row.len() - 2 * step).map(|i| last[i].max(last[i + step])).collect();
            rows.push(next);
            step *= 2;
        }
        Most(rows)
    }

    fn of(&self, a: usize, b: usize) -> u64 {
        let row = (b - a).ilog2() as usize;
        self.0[row][a].max(self.0[row][b - (1 << row)])
    }
}
