//! Tests of operands: the part that a call gets, and the bounds of panels.

use super::*;
use crate::fault::{Bad, INDEX};
use arenagrad_arena::tensor::TensorArena;

#[test]
#[allow(unsafe_code)]
fn units_divide_the_output() {
    let mut arena = TensorArena::new(256).unwrap();
    let frame = ArenaPtr::new(arena.bytes_mut());
    let reads = [OperandRef::new(0, 4, 4, Split::Whole)];
    let writes = [OperandRef::new(64, 5, 4, Split::PerUnit(2))];
    let fault = Fault::default();
    // SAFETY: the two operands are disjoint and inside the arena.
    let mut args = unsafe { Args::new(frame, &reads, &writes, &[7], 1..3, 0, &fault) };
    assert_eq!(args.read::<f32>(0), [0.0; 4]);
    let out = args.write::<f32>(0);
    assert_eq!(out.len(), 3);
    out.fill(1.0);
    args.fault(9);
    args.fault_index(3, -1, 5);
    args.fault(4);
    assert_eq!(fault.get(), Some(Bad { element: 3, value: Some((-1, 5)), cause: &INDEX }));
    assert_eq!(bytemuck::cast_slice::<u8, f32>(&arena.bytes()[64..84]), [0.0, 0.0, 1.0, 1.0, 1.0]);
}

/// The operand of `len` elements after calls over `ranges` of columns: each call writes its number to all that it owns.
#[allow(unsafe_code)]
fn owners(len: usize, split: Split, ranges: &[Range<usize>]) -> Vec<f32> {
    let mut arena = TensorArena::new(4 * len).unwrap();
    let (frame, fault) = (ArenaPtr::new(arena.bytes_mut()), Fault::default());
    let writes = [OperandRef::new(0, len, 4, split)];
    for (n, units) in ranges.iter().enumerate() {
        // SAFETY: the operand lies in the arena, and calls are sequential.
        let mut args = unsafe { Args::new(frame, &[], &writes, &[], units.clone(), 0, &fault) };
        let mut panel = args.panel::<f32>(0);
        for i in 0..panel.rows() {
            panel.row(i).iter_mut().for_each(|x| *x += 1.0 + n as f32);
        }
    }
    bytemuck::cast_slice(&arena.bytes()[..4 * len]).to_vec()
}

#[test]
fn columns_divide_rows() {
    let by = |row, width| Split::Columns { row, width };
    let halves = owners(15, by(5, 2), &[0..2, 2..3]);
    assert_eq!(halves, [1.0, 1.0, 1.0, 1.0, 2.0].repeat(3));
    for (rows, row, width) in [(1, 1usize, 1), (4, 7, 3), (3, 64, 16), (5, 65, 16), (2, 3, 8), (0, 4, 2)] {
        let units = row.div_ceil(width);
        for parts in 1..=units + 1 {
            let ranges: Vec<_> = (0..parts).map(|p| units * p / parts..units * (p + 1) / parts).collect();
            let all = owners(rows * row, by(row, width), &ranges);
            let of = |j: usize| ranges.iter().position(|r| r.contains(&(j / width))).unwrap() as f32 + 1.0;
            let right = all.iter().enumerate().all(|(at, &owner)| owner == of(at % row));
            assert!(right, "{rows} rows of {row}, {width} a unit, {parts} parts: {all:?}");
        }
    }
    // Units beyond the last own nothing.
    assert_eq!(owners(4, by(2, 1), &[0..2, 2..9]), [1.0; 4]);
}

#[test]
fn panels_are_cut_to_panels() {
    let mut numbers: Vec<u32> = (0..20).collect();
    let mut all = MatrixMut::new(&mut numbers, 4, 5);
    assert_eq!((all.rows(), all.cols(), all.flat().map(|all| all.len())), (4, 5, Some(20)));
    let mut part = all.part(1..3, 2..5);
    assert_eq!((part.row(0).to_vec(), part.row(1).to_vec()), (vec![7, 8, 9], vec![12, 13, 14]));
    assert!(part.flat().is_none() && part.part(0..1, 1..3).flat().is_some_and(|row| *row == [8, 9]));
    part.part(1..2, 1..2).row(0)[0] = 99;
    assert_eq!(part.part(2..2, 0..3).rows(), 0);
    let mut floats = all.cast::<f32>();
    assert_eq!(floats.row(2)[3].to_bits(), 99);
    assert_eq!((numbers[13], numbers.iter().sum::<u32>()), (99, 190 - 13 + 99));
}

#[test]
fn panels_end_where_they_end() {
    let wrong: [fn(MatrixMut<'_, u8>) -> usize; 6] = [
        |mut p| p.row(2).len(),
        |mut p| p.part(0..3, 0..1).rows(),
        |mut p| p.part(0..1, 0..4).rows(),
        |mut p| p.part(1..2, 3..4).row(0).len(),
        |p| p.cast::<u16>().rows(),
        |mut p| MatrixMut::new(p.row(0), 2, 2).rows(),
    ];
    for wrong in wrong {
        let mut bytes = [0; 6];
        let panel = std::panic::AssertUnwindSafe(MatrixMut::new(&mut bytes, 2, 3));
        assert!(std::panic::catch_unwind(move || wrong({ panel }.0)).is_err());
    }
}

#[test]
#[allow(unsafe_code)]
fn an_operand_is_reached_as_it_is_divided() {
    let mut arena = TensorArena::new(64).unwrap();
    let (frame, fault) = (ArenaPtr::new(arena.bytes_mut()), Fault::default());
    for (split, columns) in [(Split::Columns { row: 4, width: 2 }, true), (Split::PerUnit(2), false)] {
        let writes = [OperandRef::new(0, 16, 4, split)];
        // SAFETY: the operand lies in the arena.
        let args = || unsafe { Args::new(frame, &[], &writes, &[], 0..1, 0, &fault) };
        let works = |call: fn(Args<'_>) -> usize| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(args()))).is_ok()
        };
        assert_eq!(works(|mut args| args.panel::<f32>(0).rows()), columns);
        assert_eq!(works(|mut args| args.write::<f32>(0).len()), !columns);
        assert!(!works(|mut args| args.panel::<f32>(0).rows() + args.panel::<f32>(0).rows()));
    }
}

/// An arena begins at a line. Of bytes that begin elsewhere, no operand is handed out misaligned.
#[test]
#[allow(unsafe_code)]
fn an_operand_is_aligned_for_its_type() {
    let mut arena = TensorArena::new(128).unwrap();
    for from in [0, 1, 2, 4, 8] {
        let (frame, fault) = (ArenaPtr::new(&mut arena.bytes_mut()[from..from + 64]), Fault::default());
        for (split, panel) in [(Split::Whole, false), (Split::Columns { row: 2, width: 2 }, true)] {
            let writes = [OperandRef::new(0, 4, 8, split)];
            let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // SAFETY: the operand lies in the bytes, and calls are sequential.
                let mut args = unsafe { Args::new(frame, &[], &writes, &[], 0..1, 0, &fault) };
                if panel { args.panel::<u64>(0).rows() } else { args.write::<u64>(0).len() }
            }));
            assert_eq!(taken.is_ok(), from == 0 || from == 8, "bytes from {from} on, {split:?}");
        }
    }
}
