//! Packings are no higher than they were: problems for which the largest load is hard to reach.

use super::{full, proven, random};
use crate::arena::rng::SplitMix64;
use crate::sched::pack::{Buffers, Options, instances};

/// Buffers that fill all moments, as [`full`] draws them: (buffers, moments, largest size, seed), and the heights
/// without a search and with 5000 nodes of it.
const FULL: [(usize, u64, u64, u64, [u64; 2]); 10] = [
    (8, 5, 9, 58, [36, 35]),
    (14, 6, 9, 31, [30, 29]),
    (14, 6, 9, 7, [46, 46]),
    (18, 8, 9, 26, [29, 29]),
    (18, 8, 9, 48, [60, 58]),
    (24, 10, 20, 6, [128, 126]),
    (24, 10, 20, 9, [143, 142]),
    (24, 10, 20, 29, [175, 173]),
    (24, 10, 20, 31, [119, 109]),
    (24, 10, 20, 59, [172, 172]),
];

fn assert_heights(what: &str, v: &Buffers, most: [u64; 2]) {
    for (nodes, most) in [0, 5000].into_iter().zip(most) {
        let p = proven(v, &Options { nodes, capacity: None });
        assert!(p.height <= most, "{what} with {nodes} nodes: {} above {most}", p.height);
        assert!(p.nodes <= nodes, "{what}: {} of {nodes} nodes", p.nodes);
    }
}

#[test]
fn packings_are_no_higher_than_they_were() {
    for (n, moments, most, seed, heights) in FULL {
        assert_heights(&format!("full {n} {seed}"), &full(n, moments, most, seed), heights);
    }
    assert_heights("perfect 160", &instances::perfect_instance(160, 1 << 12, 1 << 16, 0), [66_607, 1 << 16]);
    assert_heights("drawn", &random(&mut SplitMix64(11), 54, 19, 40), [672, 666]);
    for n in [60, 150] {
        let unrolled = instances::unrolled_instance(n);
        let most = proven(&unrolled, &Options::default()).max_live;
        assert_heights("unrolled", &unrolled, [most; 2]);
    }
}

/// The bound of a problem is proven by a search that ends, and a packing tells so.
#[test]
fn a_search_that_ends_proves_that_there_is_nothing_lower() {
    let p = proven(&full(8, 5, 9, 58), &Options { nodes: 5000, capacity: None });
    assert_eq!((p.max_live, p.bound, p.height, p.solved), (34, 35, 35, true));
    let p = proven(&full(8, 5, 9, 58), &Options { nodes: 200, capacity: None });
    assert_eq!((p.bound, p.solved), (34, false));
}
