//! Philox4x32-10: random numbers as a function of a counter and a key (Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3", SC 2011). Random ops and random start values take their numbers from it.

/// Multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key from round to round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox4x32 on `N` counters at once: `c[w][i]` is word `w` of counter `i`, and of its result.
#[inline(always)]
pub fn philox<const N: usize>(mut c: [[u32; N]; 4], key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let [c0, c1, c2, c3] = c;
        for i in 0..N {
            let a = u64::from(MULTIPLIERS[0]) * u64::from(c0[i]);
            let b = u64::from(MULTIPLIERS[1]) * u64::from(c2[i]);
            c[0][i] = (b >> 32) as u32 ^ c1[i] ^ k0;
            c[1][i] = b as u32;
            c[2][i] = (a >> 32) as u32 ^ c3[i] ^ k1;
            c[3][i] = a as u32;
        }
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_words() {
        let all = |c: u32| philox([[c]; 4], [c; 2]).map(|w| w[0]);
        assert_eq!(all(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(all(u32::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
