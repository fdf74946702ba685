//! Tests of the tiles of few rows, and of what is told of a panel.

use super::super::blocked::BlockedTiles;
use super::super::tuning::PanelInL1;
use super::*;

/// Where equal tiles would wait for their sums, the rows behind the tallest tiles are a block of their own.
#[test]
fn few_rows_are_behind_the_tallest_tiles() {
    let token = Token::at_most(Isa::Avx2);
    let first = |rows| BlockedTiles::block_rows::<f32>(token, rows);
    if (Tuning::current().waiting_rows, f32::shape(token, 8).0) == (5, 6) {
        let cut = [7, 8, 9, 13, 14, 19].map(first);
        assert_eq!(cut, [6, 6, 6, 12, 12, 18]);
        assert!([0, 1, 6, 10, 11, 12, 15, 20, 24, 25].iter().all(|&rows| first(rows) == rows));
    }
    layouts(Gemm::new(19, 70, 40)).into_iter().for_each(check);
}

/// The bytes of such a panel exceed `usize`.
#[test]
fn endless_panels_are_not_in_l1() {
    let fits = |k| PanelInL1::Bytes(1 << 14).fits(k, 64);
    assert!(fits(256) && !fits(257) && !fits(1 << 58) && !fits(usize::MAX));
}
