//! Time compression: lifetimes become ranges of sections, and buffers are split into parts without common sections.
//!
//! A section is a maximal set of buffers that are all alive at one moment: two buffers share a moment exactly if they
//! share a section. There are at most as many sections as moments at which a lifetime starts. Buffers are sorted by
//! start section, so a part is a range of buffers and a range of sections. The unit of sizes is their greatest common
//! divisor. Used by the packers of this folder.

use super::buffers::Buffers;
use crate::error::{Error, Kind, Result};

/// The buffers that are not empty, by start.
#[derive(Debug, Default)]
pub struct Problem {
    /// The caller's number of each buffer.
    pub id: Vec<u32>,
    /// First section of each.
    pub start: Vec<u32>,
    /// One past the last section of each.
    pub end: Vec<u32>,
    /// Size of each in units.
    pub size: Vec<u64>,
    /// Length of each lifetime in moments.
    pub life: Vec<u64>,
    /// Size of a unit, in the caller's unit.
    pub unit: u64,
    /// Units alive in each section.
    pub load: Vec<u64>,
    /// Sets of buffers that are connected in time.
    pub parts: Vec<Part>,
}

/// A range of buffers, and the range of sections that only they are in.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// First buffer.
    pub from: usize,
    /// One past the last buffer.
    pub to: usize,
    /// First section.
    pub low: u32,
    /// One past the last section.
    pub high: u32,
}

impl Problem {
    /// Compresses `v`. An error if there are more than `u32::MAX` buffers, or if the sum of sizes overflows a `u64`.
    pub fn new(v: &Buffers) -> Result<Problem> {
        let n = u32::try_from(v.len())
            .map_err(|_| Error::new(Kind::Plan, format!("{} buffers are more than a plan can hold", v.len())))?;
        let mut id: Vec<u32> = (0..n).filter(|&i| v.takes(i as usize)).collect();
        let (mut sum, mut unit) = (0u64, 0u64);
        for &i in &id {
            let size = v.size[i as usize];
            sum = sum.checked_add(size).ok_or_else(|| {
                Error::new(Kind::Plan, format!("the sizes of {n} buffers add up to more than {}", u64::MAX))
            })?;
            unit = common_divisor(unit, size);
        }
        let unit = unit.max(1);
        sort_ids_by_time(&mut id, &v.first);
        let mut p =
            Problem { unit, size: id.iter().map(|&i| v.size[i as usize] / unit).collect(), ..Problem::default() };
        p.life = id.iter().map(|&i| v.end[i as usize] - v.first[i as usize]).collect();
        p.sweep(&id, v);
        p.id = id;
        Ok(p)
    }

    /// Sweeps through time, ends before starts. Each start that follows an end opens a section.
    fn sweep(&mut self, id: &[u32], v: &Buffers) {
        let n = id.len();
        let mut by_end: Vec<u32> = (0..n as u32).collect();
        let ends: Vec<u64> = id.iter().map(|&i| v.end[i as usize]).collect();
        sort_ids_by_time(&mut by_end, &ends);
        (self.start, self.end) = (vec![0; n], vec![0; n]);
        let (mut live, mut ended, mut closed) = (0u64, true, 0);
        for (k, &i) in id.iter().enumerate() {
            let now = v.first[i as usize];
            // Buffer `k` itself ends later, so the loop ends.
            while ends[by_end[closed] as usize] <= now {
                let e = by_end[closed] as usize;
                self.end[e] = self.load.len() as u32;
                live -= self.size[e];
                (closed, ended) = (closed + 1, true);
            }
            if ended {
                if closed == k {
                    self.open_part(k);
                }
                self.load.push(0);
                ended = false;
            }
            live += self.size[k];
            self.start[k] = self.load.len() as u32 - 1;
            if let Some(load) = self.load.last_mut() {
                *load = live;
            }
        }
        for &e in &by_end[closed..] {
            self.end[e as usize] = self.load.len() as u32;
        }
        if let Some(last) = self.parts.last_mut() {
            (last.to, last.high) = (n, self.load.len() as u32);
        }
    }

    fn open_part(&mut self, k: usize) {
        let low = self.load.len() as u32;
        if let Some(last) = self.parts.last_mut() {
            (last.to, last.high) = (k, low);
        }
        self.parts.push(Part { from: k, to: k, low, high: low });
    }

    /// The largest load of a section, in units.
    pub fn max_live(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }
}

/// Sorts `id` by `time[id]`, then by id.
fn sort_ids_by_time(id: &mut [u32], time: &[u64]) {
    let mut keys: Vec<(u64, u32)> = id.iter().map(|&i| (time[i as usize], i)).collect();
    keys.sort_unstable();
    id.iter_mut().zip(keys).for_each(|(i, k)| *i = k.1);
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { common_divisor(b % a, a) }
}
