//! Sizes as attributes.

/// A size as an attribute. A size beyond `i64::MAX` becomes `i64::MAX`, which shape inference refuses too.
pub fn size_attr_to_i64(x: usize) -> i64 {
    i64::try_from(x).unwrap_or(i64::MAX)
}

/// Sizes as an attribute.
pub fn size_attrs_to_i64(list: &[usize]) -> Vec<i64> {
    list.iter().map(|&x| size_attr_to_i64(x)).collect()
}

/// A size attribute as `usize`. Shape inference has checked that it is not negative.
pub fn to_size_attr(x: i64) -> usize {
    usize::try_from(x).unwrap_or(0)
}

/// A list of size attributes as `usize`. Shape inference has checked that none is negative.
pub fn to_size_attrs(list: &[i64]) -> Vec<usize> {
    list.iter().map(|&x| to_size_attr(x)).collect()
}

/// The list `sizes` of attribute `name`. An error if a number is negative.
pub fn check_size_attrs(name: &str, sizes: &[i64]) -> Result<Vec<usize>, String> {
    let size = |&x: &i64| usize::try_from(x).map_err(|_| format!("{name} holds {x}; it must not be negative"));
    sizes.iter().map(size).collect()
}
