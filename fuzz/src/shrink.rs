//! Makes an input smaller while it still shows the same finding.

use std::time::{Duration, Instant};

/// A smaller input that `shows` what `data` shows: pieces are cut out, then bytes become zero. Stops after `limit`.
pub fn shrink_input(data: &[u8], limit: Duration, shows: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let start = Instant::now();
    let still = |t: &[u8]| start.elapsed() < limit && shows(t);
    let mut best = data.to_vec();
    loop {
        let before = best.clone();
        cut(&mut best, &still);
        for i in 0..best.len() {
            if best[i] != 0 {
                let old = std::mem::replace(&mut best[i], 0);
                if !still(&best) {
                    best[i] = old;
                }
            }
        }
        if best == before || start.elapsed() >= limit {
            return best;
        }
    }
}

/// Cuts out halves, quarters and so on, down to single bytes.
fn cut(best: &mut Vec<u8>, still: &dyn Fn(&[u8]) -> bool) {
    let mut size = best.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + size).min(best.len());
            let less: Vec<u8> = best[..at].iter().chain(&best[end..]).copied().collect();
            match still(&less) {
                true => *best = less,
                false => at += size,
            }
        }
        size /= 2;
    }
}
