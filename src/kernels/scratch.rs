//! `scratch!`: the pieces that a kernel cuts its scratch into.
//!
//! Invariant: the sizes of pieces are stated once. So what lowering asks for is what the kernel cuts.

/// Declares the pieces of some scratch, with their sizes, which follow from the arguments in brackets.
///
/// `Name::len(…)` is the number of elements of the pieces; the sum does not overflow. `Name::cut(…, scratch)` cuts them
/// from the start of `scratch`, in order. A last piece behind `..` is the rest of it.
macro_rules! scratch {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident($($arg:ident: $arg_ty:ty),*) {
            $($(#[$piece_doc:meta])* $piece:ident: $len:expr,)*
            $(..$rest:ident)?
        }
    ) => {
        $(#[$doc])*
        $vis struct $name<'a, T> {
            $($(#[$piece_doc])* $vis $piece: &'a mut [T],)*
            $($vis $rest: &'a mut [T],)?
        }

        impl $name<'_, ()> {
            /// Elements of the pieces, without the rest.
            $vis fn len($($arg: $arg_ty),*) -> usize {
                0usize$(.saturating_add($len))*
            }
        }

        impl<'a, T> $name<'a, T> {
            /// The pieces of `scratch`.
            #[inline(always)]
            #[allow(unused_variables, reason = "few kernels have a use for the rest")]
            $vis fn cut($($arg: $arg_ty,)* scratch: &'a mut [T]) -> $name<'a, T> {
                $(let ($piece, scratch) = scratch.split_at_mut($len);)*
                $(let $rest = scratch;)?
                $name { $($piece,)* $($rest,)? }
            }
        }
    };
}
pub(crate) use scratch;

#[cfg(test)]
mod tests {
    scratch! {
        struct Pieces(rows: usize, cols: usize) {
            /// One for each row.
            sums: rows,
            table: rows * cols,
        }
    }

    scratch! {
        struct Work(n: usize) {
            row: n,
            ..work
        }
    }

    #[test]
    fn pieces_lie_one_behind_another() {
        let mut scratch: Vec<usize> = (0..40).collect();
        let Pieces { sums, table } = Pieces::cut(3, 5, &mut scratch);
        assert_eq!((&*sums, table.first(), table.len()), (&[0, 1, 2][..], Some(&3), 15));
        assert_eq!((Pieces::len(3, 5), Work::len(4)), (18, 4));
        let Work { row, work } = Work::cut(4, &mut scratch);
        assert_eq!((row.len(), work.first(), work.len()), (4, Some(&4), 36));
        assert_eq!(Pieces::len(usize::MAX, 1), usize::MAX);
    }

    #[test]
    #[should_panic(expected = "mid > len")]
    fn too_little_scratch_is_refused() {
        Pieces::cut(3, 5, &mut [0; 17]);
    }
}
