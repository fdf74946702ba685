//! Rows in the order of their groups: a counting sort, and the first row of each group.
//!
//! Invariant: the results of these kernels are in range whatever they read. After a fault all rows are in the first
//! group, in their order, so the kernels that follow stay within their operands until the step ends.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::index::Index;
use crate::params::params;
use std::ops::Range;

/// Sizes of groups whose sum is not the number of rows: the value is the sum, with the number of rows.
pub static BAD_GROUP_SIZES: Cause = Cause {
    name: "group sizes",
    text: |bad, f| {
        let (sum, rows) = bad.value.unwrap_or_default();
        write!(f, "the sizes of the groups sum to {sum}, and there are {rows} rows")
    },
};

params! {
    /// Params of [`group_rows_kernel`] and [`group_starts_kernel`].
    pub struct GroupRows {
        /// Number of rows; fits an `i32`.
        pub rows: usize,
        /// Number of groups.
        pub groups: usize,
    }
}

/// The rows by rising group, those of one group in their order.
///
/// Reads the group of each row: `I[rows]`; writes order: `i32[rows]`, the row at each place; places: `i32[rows]`, the
/// place of each row; starts: `i32[groups + 1]`, the first place of each group, then `rows`; all whole, in one unit;
/// params [`GroupRows`]. A group outside `0..groups` is a fault at its row.
pub fn group_rows_kernel<I: Index>(args: &mut Args<'_>) {
    if args.units().is_empty() {
        return;
    }
    let p = GroupRows::from_words(args.params());
    let group = args.read::<I>(0);
    let (order, places, starts) = (args.write::<i32>(0), args.write::<i32>(1), args.write::<i32>(2));
    if let Some(bad) = group.iter().position(|g| g.within(p.groups).is_none()) {
        args.fault_index(bad, group[bad].index_to_i64(), p.groups);
        keep_order(order, p.rows);
        keep_order(places, p.rows);
        return starts_of_one_group(starts, p.rows);
    }
    starts.fill(0);
    group.iter().for_each(|g| starts[g.index_to_i64() as usize] += 1);
    let mut before = 0;
    for start in &mut *starts {
        (*start, before) = (before, before + *start);
    }
    // Each start runs to the end of its group, which is the next group's start.
    for (row, (place, g)) in (0..).zip(places.iter_mut().zip(group)) {
        let start = &mut starts[g.index_to_i64() as usize];
        (*place, order[*start as usize]) = (*start, row);
        *start += 1;
    }
    starts.copy_within(..p.groups, 1);
    starts[0] = 0;
}

by_dtype!(group_rows_kernel_for = group_rows_kernel::<I32 i32, I64 i64>);

/// The first row of each group, from the sizes of the groups.
///
/// Reads sizes: `I[groups]`; writes starts: `i32[groups + 1]`, whole, in one unit; params [`GroupRows`]. A size outside
/// `0..=rows` is a fault at its group; so are sizes that do not sum to `rows`.
pub fn group_starts_kernel<I: Index>(args: &mut Args<'_>) {
    if args.units().is_empty() {
        return;
    }
    let p = GroupRows::from_words(args.params());
    let (sizes, starts) = (args.read::<I>(0), args.write::<i32>(0));
    if let Some(bad) = sizes.iter().position(|s| s.within(p.rows + 1).is_none()) {
        args.fault_index(bad, sizes[bad].index_to_i64(), p.rows + 1);
        return starts_of_one_group(starts, p.rows);
    }
    let sum = sizes.iter().fold(0i64, |sum, s| sum.saturating_add(s.index_to_i64()));
    if sum != p.rows as i64 {
        args.report(&BAD_GROUP_SIZES, 0, Some((sum, p.rows)));
        return starts_of_one_group(starts, p.rows);
    }
    starts[0] = 0;
    let mut end = 0;
    for (start, size) in starts[1..].iter_mut().zip(sizes) {
        end += size.index_to_i64() as i32;
        *start = end;
    }
}

by_dtype!(group_starts_kernel_for = group_starts_kernel::<I32 i32, I64 i64>);

/// The groups that have rows in `rows`, and which of these rows each has. `starts` holds the first row of each group,
/// then the number of rows.
pub(crate) fn groups_within(starts: &[i32], rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
    let (from, to) = (rows.start, rows.end);
    let first = starts.partition_point(|s| *s as usize <= from).saturating_sub(1);
    let groups = starts.windows(2).enumerate().skip(first).take_while(move |(_, of)| (of[0] as usize) < to);
    let within = move |(group, of): (usize, &[i32])| (group, (of[0] as usize).max(from)..(of[1] as usize).min(to));
    groups.map(within).filter(|(_, part)| !part.is_empty())
}

/// The rows in their order.
fn keep_order(order: &mut [i32], rows: usize) {
    (0..rows as i32).zip(order).for_each(|(i, o)| *o = i);
}

/// All rows in the first group.
fn starts_of_one_group(starts: &mut [i32], rows: usize) {
    starts.fill(rows as i32);
    starts[0] = 0;
}
