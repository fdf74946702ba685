//! Methods of options: each sets one option and leaves the others.

/// Declares methods that set one field each: `setters! { [] Lora { dropout: f64, bias: bool } }`. The list in brackets
/// holds the generic parameters. An argument of another type than the field is converted by the expression after `=>`.
macro_rules! setters {
    ([$($generics:tt)*] $options:ty { $($name:ident: $ty:ty $(=> $value:expr)?),* $(,)? }) => {
        impl<$($generics)*> $options {
            $(
            #[doc = concat!("These options with this `", stringify!($name), "`; see the field.")]
            pub fn $name(self, $name: $ty) -> Self {
                $(let $name = $value;)?
                Self { $name, ..self }
            }
            )*
        }
    };
}

pub(crate) use setters;

/// A number for each of `N` axes, as options of windows take it: one number for all axes, or one for each.
///
/// ```
/// use arenagrad::prelude::*;
///
/// assert_eq!(Conv2d::default().stride(2), Conv2d::default().stride([2, 2]));
/// assert_eq!(Conv2d::default().padding([1, 0]).pad, [1, 1, 0, 0]);
/// ```
pub trait PerAxis<const N: usize> {
    /// The number of each axis.
    fn per_axis(self) -> [usize; N];
}

impl<const N: usize> PerAxis<N> for usize {
    fn per_axis(self) -> [usize; N] {
        [self; N]
    }
}

impl<const N: usize> PerAxis<N> for [usize; N] {
    fn per_axis(self) -> [usize; N] {
        self
    }
}

/// The same padding on both sides of each axis: `[before, after, before, after, …]`.
pub fn both_sides<const N: usize, const P: usize>(padding: impl PerAxis<N>) -> [usize; P] {
    let padding = padding.per_axis();
    std::array::from_fn(|i| padding.get(i / 2).copied().unwrap_or(0))
}
