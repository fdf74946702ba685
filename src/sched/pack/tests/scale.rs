//! Random problems of all kinds, the index against a plain scan, and training graphs up to ten thousand buffers.

use super::proven;
use crate::sched::pack::instances;
use crate::sched::pack::{Buffers, Options};
use proptest::prelude::*;

fn buffers() -> impl Strategy<Value = Buffers> {
    let row = (0u64..40, 0u64..12, 0u64..9).prop_map(|(first, life, size)| (first, first + life, size * 16));
    prop::collection::vec(row, 0..60).prop_map(Buffers::from_rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packing_is_proven(v in buffers()) {
        let p = proven(&v, &Options { nodes: 5000, ..Options::default() });
        prop_assert!(p.at.iter().all(|a| a % 16 == 0), "offsets are multiples of what all sizes are multiples of");
        let top = p.height;
        let loose = proven(&v, &Options { capacity: Some(2 * top), nodes: 5000 });
        prop_assert!(loose.solved && loose.nodes == 0);
    }
}

/// What a training step looks like needs no search: a skyline reaches the bound.
#[test]
fn training_graphs_are_packed_without_search() {
    for n in [100, 1000, 10_000] {
        let v = [
            instances::training_instance(n, 1),
            instances::training_instance(n, 2),
            instances::unrolled_instance(n),
            instances::power_law_instance(n, 1),
        ];
        for (kind, v) in v.iter().enumerate() {
            let p = proven(v, &Options { nodes: 0, ..Options::default() });
            assert_eq!(p.height, p.max_live, "kind {kind}, {n} buffers");
        }
    }
}
