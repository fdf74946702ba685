//! Tests of sinks: tiles have the bits of the stored product.

use super::*;

/// A sink that stores tiles in a matrix of `n` columns.
struct Stored<'a, T> {
    c: &'a mut [T],
    n: usize,
}

impl<T: GemmFloat> TileSink<T> for Stored<'_, T> {
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, lines: &mut PrefetchQueue) {
        let at = |row: usize| row * self.n..row * self.n + self.n;
        assert!(cols.end <= self.n && rows.clone().map(at).all(|r| self.c[r][cols.clone()].iter().all(|c| c.is_nan())));
        lines.set([&self.c[rows.start * self.n + cols.start..]].into_iter(), rows.len(), cols.len(), self.n);
    }

    fn consume(&mut self, row: usize, col: usize, mut tile: MatrixMut<'_, T>) {
        for i in 0..tile.rows() {
            let part = tile.row(i);
            self.c[(row + i) * self.n + col..][..part.len()].copy_from_slice(part);
        }
    }
}

/// Compares the tiles that a sink consumes with the stored product.
fn fed<T: GemmFloat>(g: Gemm) {
    assert!(g.feeds_sink::<T>(), "{g:?}");
    let case = Case::<T>::new(g);
    // The bits are those of every instruction set.
    let want = case.by(Token::at_most(Isa::Avx512), 1, None);
    for token in tokens() {
        for rows in [g.m, g.m.div_ceil(2)] {
            if is_slow(token, &g) && rows == g.m {
                continue;
            }
            let mut c = vec![T::NAN; rows * g.n];
            let mut scratch = vec![T::NAN; g.sink_scratch::<T>()];
            gemm_into::multiply_rows(
                token,
                &g,
                (&case.a, &case.b),
                rows,
                &mut scratch,
                &mut Stored { c: &mut c, n: g.n },
            );
            assert!(c == want[..c.len()], "{g:?} by {token:?}, {rows} rows");
        }
    }
}

#[test]
fn sinks_consume_the_bits_of_stored_products() {
    let shapes =
        vec![(2, 3, 1), (5, 7, 9), (49, 130, 65), (100, 513, 20), (130, 300, 600), (97, 70, 1300), (1100, 140, 1030)];
    for (m, n, k) in fewer_under_miri(shapes, vec![(2, 3, 1), (5, 7, 9), (50, 21, 9)]) {
        for g in layouts(Gemm::new(m, n, k)).into_iter().filter(|g| !uses_dot_products(g)) {
            fed::<f32>(g);
            fed::<f64>(g);
        }
    }
    let bare = Gemm::new(64, 64, 64);
    assert!(
        ![
            Gemm { bias: true, ..bare },
            Gemm { accumulate: true, ..bare },
            Gemm::new(1, 8, 9),
            Gemm::new(8, 1, 1),
            Gemm::new(8, 8, 0)
        ]
        .iter()
        .any(Gemm::feeds_sink::<f32>)
    );
}

/// The same by the bf16 engine, in ranges of units, also with infinity and NaN.
#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn sinks_consume_the_bits_of_stored_bf16_products() {
    for (m, n, k) in [(65, 70, 600), (64, 130, 64), (700, 65, 520), (71, 1100, 66)] {
        for precision in [Precision::Bf16, Precision::Bf16x2, Precision::Bf16x3] {
            for g in layouts(Gemm { precision, ..Gemm::new(m, n, k) }) {
                assert!(precision != Precision::Bf16 || g.feeds_sink::<f32>(), "{g:?}");
                if !g.feeds_sink::<f32>() {
                    continue;
                }
                let mut case = Case::<f32>::new(g);
                for odd in [false, true] {
                    if odd {
                        (case.a[k / 2], case.b[n / 3]) = (f32::INFINITY, f32::NAN);
                    }
                    let (mut want, mut got) = (case.c.clone(), case.c.clone());
                    let units = g.units();
                    gemm(&g, &case.a, &case.b, None, &mut want, 0..units, &mut vec![f32::NAN; g.scratch_len::<f32>()]);
                    for part in [0..units / 3, units / 3..units] {
                        let mut scratch = vec![f32::NAN; g.sink_scratch::<f32>()];
                        let mut to = Stored { c: &mut got[g.unit_elements(&part)], n };
                        gemm_into(&g, (&case.a, &case.b), part, &mut scratch, &mut to);
                    }
                    let same = |(x, y): (&f32, &f32)| x == y || (x.is_nan() && y.is_nan());
                    assert!(got.iter().zip(&want).all(same), "{g:?}, {odd}");
                }
            }
        }
    }
}
