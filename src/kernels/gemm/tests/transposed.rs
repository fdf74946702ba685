//! Tests of products that are computed as their transpose: their bits, and which products are computed so.

use super::super::transposed_product;
use super::*;

/// The product of the same numbers, with B laid out so that its transpose is not computed.
fn straight<T: GemmFloat>(case: &Case<T>) -> Case<T> {
    let g = case.g;
    let b = (0..g.k * g.n).map(|i| case.b[i % g.n * g.b.col + i / g.n]).collect();
    let g = g.with_strides(g.a, Strides { row: g.n, col: 1 });
    assert!(!transposed_product::transposed_fits(&g));
    Case { g, a: case.a.clone(), b, third: case.third.clone(), c: case.c.clone() }
}

fn transposes<T: GemmFloat>(g: Gemm, epsilon: f64) {
    assert!(transposed_product::transposed_fits(&g), "{g:?}");
    let case = Case::<T>::new(g);
    if epsilon > 0.0 {
        case.check(epsilon);
    }
    let same = case.by(Token::current(), 1, None) == straight(&case).by(Token::current(), 1, None);
    assert!(same, "{g:?} has other bits than the same product in another layout");
}

#[test]
fn transposed_products_have_the_bits_of_others() {
    // Whole and partial vectors, several blocks of the transpose, several blocks of k, rows longer than k.
    let all = vec![(32, 64, 64), (40, 133, 81), (45, 1500, 96), (128, 700, 300), (61, 130, 1300)];
    for (m, n, k) in fewer_under_miri(all, vec![(32, 64, 64)]) {
        let g = Gemm::new(m, n, k).with_b_transposed();
        let apart = Gemm { a: Strides { row: k + 5, col: 1 }, b: Strides { row: 1, col: k + 3 }, ..g };
        transposes::<f32>(Gemm { bias: true, act: Act::Gelu, ..apart }, 0.0);
        if cfg!(miri) {
            continue; // A product of this size takes it minutes.
        }
        transposes::<f32>(Gemm { bias: true, act: Act::Relu, ..g }, f64::from(f32::EPSILON));
        transposes::<f32>(Gemm { act: Act::TanhGrad, ..apart }, f64::from(f32::EPSILON));
        transposes::<f64>(apart, f64::EPSILON);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn a_wide_matrix_from_memory_is_read_row_by_row() {
    let (m, n, k) = (40, 700, 801);
    let g = Gemm { bias: true, ..Gemm::new(m, n, k).with_b_transposed() };
    let far = |g: &Gemm| transposed_product::transposed_plan::<f32>(g).far_a;
    assert!(far(&g) && !far(&Gemm { n: 600, ..g }));
    transposes::<f32>(g, f64::from(f32::EPSILON));
    let own = Gemm { n: 200, ..g }.with_batch(&[Batch { size: 4, a: m * k, b: k * 200 }]).expect("one batch dimension");
    assert!(far(&own));
    check(own);
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn the_matrices_of_a_batch_are_transposed_one_by_one() {
    for (m, n, k) in [(32, 130, 90), (40, 133, 300)] {
        let g = Gemm::new(m, n, k).with_b_transposed();
        let own = g.with_batch(&[Batch { size: 4, a: m * k, b: k * n }]).expect("one batch dimension");
        assert!(transposed_product::transposed_fits(&own) && own.per_unit().is_multiple_of(m * n));
        check(Gemm { bias: true, act: Act::Relu, ..own });
        check(Gemm { act: Act::TanhGrad, ..own });
    }
}

/// The product with units of rows, in ranges of units, has the bits of the whole product.
fn by_rows<T: GemmFloat>(g: Gemm) {
    let g = Gemm { by_rows: true, ..g };
    let (Split::PerUnit(each), units) = g.division() else { panic!("{g:?} is divided by columns") };
    let rows = each / g.n;
    assert!(units > 1 && rows.is_multiple_of(if transposed_product::transposed_fits(&g) { 16 } else { 4 }), "{g:?}");
    let (case, scratch) = (Case::<T>::new(g), g.scratch_len::<T>());
    let want = case.by(Token::current(), 1, None);
    let bias = g.third().then_some(&case.third[..]);
    let reads: Vec<In> = [Some(&case.a[..]), Some(&case.b[..]), bias].into_iter().flatten().map(In::of).collect();
    let writes = [Out::of::<T>(g.len(), each), Out(scratch, size_of::<T>(), Split::PerThread(scratch))];
    let got = harness::run_in_ranges(run_product::<T>, &g.to_words(), &reads, &writes, units);
    assert!(harness::written_elements::<T>(&got, 0) == want, "{g:?}");
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn units_of_rows_have_the_bits_of_columns() {
    for (m, n, k) in [(32, 512, 256), (48, 133, 300), (128, 700, 300), (61, 130, 1300)] {
        let g = Gemm::new(m, n, k).with_b_transposed();
        assert!(matches!(g.division().0, Split::Columns { .. }), "{g:?}");
        by_rows::<f32>(Gemm { bias: true, act: Act::Tanh, ..g });
        by_rows::<f64>(Gemm { act: Act::TanhGrad, ..g });
    }
    by_rows::<f32>(Gemm { bias: true, ..Gemm::new(49, 300, 1100) });
    let nt = |m: usize| Gemm::new(m, 512, 256).with_b_transposed();
    assert!(nt(64).has_rows_for(2) && !nt(64).has_rows_for(1) && !nt(64).has_rows_for(5));
    // Each thread would read a matrix that fits no core's cache.
    assert!(!Gemm::new(64, 1024, 512).has_rows_for(2) && Gemm::new(8, 384, 128).has_rows_for(2));
}

#[test]
fn a_wide_matrix_along_k_is_transposed() {
    let fits = |g: Gemm| transposed_product::transposed_fits(&g);
    let nt = |m, n, k| Gemm::new(m, n, k).with_b_transposed();
    assert!(fits(nt(32, 128, 784)) && fits(nt(128, 4096, 4096)) && fits(nt(64, 128, 128)));
    // Too few rows, too many, idle lanes; a narrow C; short sums; other layouts; an old C.
    assert!(!fits(nt(31, 128, 784)) && !fits(nt(129, 4096, 4096)) && !fits(nt(33, 128, 784)));
    assert!(!fits(nt(64, 127, 128)) && !fits(nt(64, 128, 127)));
    assert!(!fits(Gemm::new(32, 128, 784)) && !fits(nt(32, 128, 784).with_a_transposed()));
    assert!(!fits(Gemm { accumulate: true, ..nt(32, 128, 784) }));
    // Units divide columns, so each thread reads its own part of the matrix.
    assert!(matches!(nt(32, 128, 784).division(), (Split::Columns { row: 128, width: 32 }, 4)));
}
