//! Tests of products whose units divide columns: their bits, and which products they are.

use super::*;

/// Runs the kernel on a product whose units divide columns, in ranges of units, and compares with units of rows.
fn kernel_by_columns<T: GemmFloat>(g: Gemm) {
    let (split, units) = g.division();
    let Split::Columns { row, width } = split else { panic!("{g:?} is divided by rows") };
    assert!(row == g.n && width % 32 == 0 && units > 2 && (units - 1) * width < g.n, "{g:?}: {units} of {width}");
    let case = Case::<T>::new(g);
    let mut want = case.c.clone();
    let bias = g.third().then_some(&case.third[..]);
    gemm(&g, &case.a, &case.b, bias, &mut want, 0..g.units(), &mut vec![T::NAN; g.scratch_len::<T>()]);
    let old = g.accumulate.then_some(&case.c[..]);
    let all: Vec<&[T]> = [Some(&case.a[..]), Some(&case.b[..]), bias, old].into_iter().flatten().collect();
    let scratch = g.scratch_len::<T>();
    let writes = [Out(g.len(), size_of::<T>(), split), Out(scratch, size_of::<T>(), Split::PerThread(scratch))];
    for over in [false, true] {
        let mut reads: Vec<In> = all.iter().map(|x| In::of(x)).collect();
        if over && g.accumulate {
            let old = reads.pop().map(|old| old.over(0));
            reads.extend(old);
        }
        let got = harness::run_in_ranges(run_product::<T>, &g.to_words(), &reads, &writes, units);
        assert!(harness::written_elements::<T>(&got, 0) == want, "{g:?}, in place: {over}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn columns_have_the_bits_of_rows() {
    for (m, n, k) in [(2, 513, 1040), (3, 700, 800), (13, 449, 1200), (50, 449, 400), (49, 300, 1100), (64, 320, 320)] {
        for g in layouts(Gemm::new(m, n, k)) {
            kernel_by_columns::<f32>(g);
            kernel_by_columns::<f64>(Gemm { bias: true, act: Act::Gelu, ..g });
            kernel_by_columns::<f32>(Gemm { bias: true, act: Act::Relu, accumulate: true, ..g });
            kernel_by_columns::<f32>(Gemm { act: Act::TanhGrad, ..g });
        }
    }
    for precision in [Precision::Bf16, Precision::Bf16x2, Precision::Bf16x3] {
        for g in layouts(Gemm { precision, ..Gemm::new(65, 389, 600) }) {
            kernel_by_columns::<f32>(Gemm { bias: true, ..g });
            kernel_by_columns::<f32>(Gemm { accumulate: true, act: Act::Silu, ..g });
        }
    }
}

#[test]
fn columns_are_for_a_large_b() {
    let by_columns = |g: Gemm| matches!(g.division().0, Split::Columns { .. });
    let batch = [Batch { size: 2, a: 2048, b: 1 << 20 }];
    assert!(by_columns(Gemm::new(2, 1024, 1024)) && by_columns(Gemm::new(256, 4096, 4096)));
    assert!(!by_columns(Gemm::new(1, 1024, 1024)) && !by_columns(Gemm::new(1024, 1024, 1024)));
    assert!(!by_columns(Gemm::new(32, 128, 784)) && !by_columns(Gemm::new(768, 512, 128)));
    assert!(!by_columns(Gemm::new(2, 1024, 1024).with_batch(&batch).unwrap()));
}
