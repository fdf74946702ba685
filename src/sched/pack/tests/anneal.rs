//! Annealing alone, on problems of known best height.

use crate::sched::pack::anneal::anneal;
use crate::sched::pack::instances;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::proof::prove_packing;
use crate::sched::pack::skyline;

/// From a skyline that is too high, small steps reach the best packing: a step to another packing of the same height is
/// kept, one to a higher one is not.
#[test]
fn annealing_reaches_perfect_packings() {
    let mut lowered = 0;
    for seed in 0..20 {
        let v = instances::perfect_instance(40, 20, 64, seed);
        let p = Problem::new(&v).unwrap();
        let [part] = p.parts[..] else { continue };
        let by_start: Vec<u32> = (0..p.id.len() as u32).collect();
        let (first, best) = (skyline::run_pass(&p, part, &by_start), p.max_live());
        if first.height == best {
            continue;
        }
        let found = anneal(&p, part, &first.at, first.height, best, 40_000);
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {} of {best}", first.height));
        assert_eq!(found.height, best, "seed {seed}, from {}", first.height);
        let mut at = vec![0; v.len()];
        p.id.iter().zip(&found.at).for_each(|(&i, a)| at[i as usize] = a * p.unit);
        prove_packing(&v, &at, best * p.unit, 1).unwrap();
        lowered += 1;
    }
    assert!(lowered >= 5, "{lowered} skylines were too high");
}

/// The first packing that is low enough is kept, also if a lower one would follow.
#[test]
fn annealing_ends_at_what_is_enough() {
    for seed in 0..20 {
        let v = instances::perfect_instance(40, 20, 64, seed);
        let p = Problem::new(&v).unwrap();
        let [part] = p.parts[..] else { continue };
        let by_start: Vec<u32> = (0..p.id.len() as u32).collect();
        let first = skyline::run_pass(&p, part, &by_start);
        if first.height == p.max_live() {
            continue;
        }
        let reach = |enough: u64| anneal(&p, part, &first.at, first.height, enough, 40_000).unwrap();
        let lower = reach(first.height - 1);
        let again = reach(lower.height);
        assert_eq!((again.height, again.at), (lower.height, lower.at), "seed {seed}");
    }
}
