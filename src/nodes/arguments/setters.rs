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
