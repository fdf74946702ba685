//! Tests of the sums of columns that a product computes besides C: their bits, and which products compute them.

use super::*;
use crate::reduce;

/// The sums of the columns of an m × n matrix by `reduce`.
fn reduced<T: GemmFloat>((m, n): (usize, usize), c: &[T]) -> Vec<T> {
    let (mut x, plan) = (In::of(c), reduce::plan_steps(1, m, n));
    if let Some(p) = plan.partial {
        let out = [Out::of::<T>(p.out_len(), p.per_unit())];
        x = In::of(&harness::written_elements::<T>(
            &harness::run_in_ranges(reduce::sum_partial::<T>, &p.to_words(), &[x], &out, p.units()),
            0,
        ));
    }
    let p = plan.last;
    harness::written_elements(
        &harness::run_in_ranges(reduce::sum::<T>, &p.to_words(), &[x], &[Out::of::<T>(n, p.per_unit())], p.units()),
        0,
    )
}

/// Checks that sums beside a product have the bits of a reduction of it. Returns whether the product has sums.
fn sums<T: GemmFloat>(g: Gemm) -> bool {
    let Some(g) = g.with_sums::<T>() else { return false };
    let (case, ((split, units), (blocks, sums))) = (Case::<T>::new(g), (g.division(), g.unit_sums()));
    let third = g.third().then_some(&case.third[..]);
    let reads: Vec<In> = [Some(&case.a[..]), Some(&case.b[..]), third].into_iter().flatten().map(In::of).collect();
    let (scratch, size) = (g.scratch_len::<T>(), size_of::<T>());
    let writes =
        [Out(g.len(), size, split), Out(blocks * g.n, size, sums), Out(scratch, size, Split::PerThread(scratch))];
    let got = harness::run_in_ranges(run_product::<T>, &g.to_words(), &reads, &writes, units);
    let (c, sums) = (harness::written_elements::<T>(&got, 0), harness::written_elements::<T>(&got, 1));
    let p = reduce::Reduce::new(1, blocks, g.n);
    let joined = match blocks {
        1 => sums,
        _ => {
            let out = [Out::of::<T>(g.n, p.per_unit())];
            harness::written_elements(
                &harness::run_in_ranges(reduce::sum::<T>, &p.to_words(), &[In::of(&sums)], &out, p.units()),
                0,
            )
        }
    };
    let bits = |x: &[T]| x.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
    assert!(bits(&joined) == bits(&reduced((g.m, g.n), &c)), "{g:?}");
    assert!(c == case.by(Token::current(), 1, None), "{g:?}: C differs");
    true
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn sums_have_the_bits_of_a_reduction() {
    // Several blocks of A and B, ranges that end inside a group of rows, one unit of narrow rows, several blocks of
    // rows.
    for (m, n, k) in [
        (2, 513, 1040),
        (50, 449, 400),
        (260, 300, 264),
        (33, 300, 9),
        (70, 10, 50),
        (9, 40, 1),
        (5, 65, 9),
        (129, 70, 3),
        (390, 256, 96),
        (511, 80, 2),
        (1030, 128, 130),
        (1500, 66, 700),
        (2000, 65, 1),
        (301, 2049, 7),
    ] {
        for g in layouts(Gemm::new(m, n, k)) {
            assert!(sums::<f32>(Gemm { act: Act::ReluGrad, ..g }), "{g:?}");
            assert!(sums::<f64>(Gemm { act: Act::Mul, ..g }), "{g:?}");
            assert!(sums::<f32>(Gemm { bias: true, act: Act::Tanh, ..g }));
            assert!(sums::<f64>(g));
        }
    }
    assert!(sums::<f32>(Gemm { act: Act::Mul, ..Gemm::new(9, 100, 0) }));
    let transposed = Gemm { act: Act::TanhGrad, ..Gemm::new(64, 300, 200).with_b_transposed() };
    assert!(transposed_product::transposed_fits(&transposed) && sums::<f32>(transposed) && sums::<f64>(transposed));
}

#[test]
fn sums_cost_neither_bits_nor_units() {
    let units = |g: Gemm| g.with_sums::<f32>().map(|g| (g.division().1, g.unit_sums().0));
    // One unit stays one. Others are blocks of rows, or columns as without sums.
    assert_eq!(units(Gemm::new(32, 128, 10)), Some((1, 1)));
    assert_eq!(units(Gemm::new(256, 1024, 1024)), Some((32, 8)));
    assert_eq!(units(Gemm::new(2048, 3072, 768)), Some((64, 64)));
    assert_eq!(units(Gemm::new(70, 10, 50)), Some((1, 1)));
    // Too few units; several units of narrow rows; a lone row, no rows, a batch.
    assert_eq!(units(Gemm::new(64, 128, 128)), None);
    assert_eq!(units(Gemm::new(4096, 64, 64)), None);
    assert_eq!(units(Gemm::new(1, 1024, 512)), None);
    assert_eq!(units(Gemm::new(0, 128, 10)), None);
    let batch = [Batch { size: 3, a: 320, b: 1280 }];
    assert_eq!(Gemm::new(32, 128, 10).with_batch(&batch).and_then(units), None);
}
