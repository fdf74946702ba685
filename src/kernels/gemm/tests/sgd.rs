//! Tests of fused SGD steps: they have the bits of the product and a step after it.

use super::super::sgd_epilogue::SgdEpilogue;
use super::super::sgd_kernel::run_sgd_step;
use super::*;

/// A fused SGD step has the bits of the product and a step after it.
fn fused_step<T: GemmFloat>(g: Gemm, decay: f64, over: bool) {
    assert!(g.fuses_sgd::<T>(), "{g:?}");
    let (case, p) = (Case::<T>::new(g), numbers::<T>(99, g.len()));
    let mut want = vec![T::NAN; g.len()];
    gemm(&g, &case.a, &case.b, None, &mut want, 0..g.units(), &mut vec![T::NAN; g.scratch_len::<T>()]);
    let step = SgdEpilogue { lr: T::from_f64(0.3), decay: T::from_f64(decay) };
    want.iter_mut().zip(&p).for_each(|(c, p)| *c = step.apply(*p, *c));
    let mut words = g.to_words();
    words.push(decay.to_bits());
    let lr = [step.lr];
    let old = if over { In::of(&p).over(0) } else { In::of(&p) };
    let reads = [In::of(&case.a), In::of(&case.b), old, In::of(&lr)];
    let (scratch, size) = (g.sgd_scratch::<T>(), size_of::<T>());
    let writes = [Out(g.len(), size, Split::PerUnit(g.per_unit())), Out(scratch, size, Split::PerThread(scratch))];
    let writes = &writes[..1 + usize::from(scratch > 0)];
    for kernel in [sgd_kernel::<T>(&g), run_sgd_step::<T>] {
        let got = harness::run_in_ranges(kernel, &words, &reads, writes, g.units());
        assert!(harness::written_elements::<T>(&got, 0) == want, "{g:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn sgd_epilogues_of_products_that_would_be_transposed() {
    for (m, n, k) in [(128, 2048, 512), (32, 150, 285), (47, 104, 170)] {
        let g = Gemm::new(m, n, k).with_b_transposed();
        assert!(transposed_product::transposed_fits(&g));
        fused_step::<f32>(g, 0.1, false);
        fused_step::<f64>(g, 0.0, true);
    }
}

#[test]
fn sgd_epilogues_of_batches() {
    for (m, n, k) in
        fewer_under_miri(vec![(50, 140, 9), (7, 90, 33), (5, 40, 1), (130, 64, 70)], vec![(5, 9, 3), (3, 5, 1)])
    {
        let each = |a, b| Batch { size: 5, a, b };
        for batch in [each(m * k, k * n), each(0, k * n)] {
            for g in [Gemm::new(m, n, k), Gemm::new(m, n, k).with_a_transposed()] {
                let g = g.with_batch(&[batch]).expect("one batch dimension");
                fused_step::<f32>(g, 0.1, true);
                fused_step::<f64>(g, 0.0, false);
            }
        }
    }
}

#[test]
fn sgd_epilogues_of_outer_products() {
    let all = vec![(4, 32), (32, 2), (32, 1), (700, 1), (3, 17), (600, 500), (2, 16)];
    for (m, n) in fewer_under_miri(all, vec![(4, 32), (32, 1), (3, 17)]) {
        for g in layouts(Gemm::new(m, n, 1)).into_iter().filter(outer_product::can_compute) {
            for (decay, over) in [(0.0, false), (0.1, true)] {
                fused_step::<f32>(g, decay, over);
                fused_step::<f64>(g, decay, over);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn sgd_epilogues_of_params_that_come_from_memory() {
    let g = Gemm::new(660, 830, 9);
    for g in [g, g.with_a_transposed()] {
        assert!(BlockedPlan::with_old_c::<f32>(&g).by_rows);
        fused_step::<f32>(g, 0.1, true);
        fused_step::<f64>(g, 0.0, false);
    }
}
