//! A splat by itself: the axes and the rotation of its ellipsoid, its opacity and its colour.

use super::splat_params::Splat;
use super::vectors::{Triple, vector_at, vector_dot, vector_minus};
use crate::abi::Args;
use crate::float::Float;
use crate::vmath;

/// The shortest axis.
const SHORTEST: f64 = 1e-6;
/// The constant spherical harmonic.
pub(super) const HARMONIC_0: f64 = 0.282_094_791_773_878_14;
/// The factor of the linear spherical harmonics.
pub(super) const HARMONIC_1: f64 = 0.488_602_511_902_919_9;

/// The operands that describe splats.
#[derive(Clone, Copy)]
pub(super) struct EllipsoidParams<'a, T> {
    pub(super) position: &'a [T],
    pub(super) log_scale: &'a [T],
    pub(super) rotation: &'a [T],
    pub(super) opacity: &'a [T],
    pub(super) colour: &'a [T],
    pub(super) view: &'a [T],
}

impl<'a, T: Float> EllipsoidParams<'a, T> {
    /// Reads `first` to `first + 5` of a call.
    pub(super) fn read(args: &Args<'a>, first: usize) -> EllipsoidParams<'a, T> {
        let [position, log_scale, rotation, opacity, colour, view] =
            [0, 1, 2, 3, 4, 5].map(|i| args.read::<T>(first + i));
        EllipsoidParams { position, log_scale, rotation, opacity, colour, view }
    }

    /// camera − centre of splat `i`.
    pub(super) fn towards_camera(&self, i: usize) -> Triple<T> {
        vector_minus(vector_at(self.view, 0), vector_at(self.position, i))
    }

    /// The numbers of the colour of splat `i`.
    pub(super) fn colour_of(&self, p: &Splat, i: usize) -> &'a [T] {
        &self.colour[i * p.colour_len()..][..p.colour_len()]
    }
}

/// The shape of a splat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ellipsoid<T> {
    /// Half the lengths of the axes.
    pub(super) axes: Triple<T>,
    /// Whether an axis is the shortest one there is, whatever its logarithm.
    pub(super) shortest: [bool; 3],
    /// The rows of the rotation.
    pub(super) rotation: [Triple<T>; 3],
    /// The quaternion of length 1: its real part, and the others.
    pub(super) real: T,
    pub(super) imaginary: Triple<T>,
    /// 1 over the length of the given quaternion; 0 if it is 0, which stands for no rotation.
    pub(super) inverse_length: T,
}

impl<T: Float> Ellipsoid<T> {
    pub(super) fn of(p: &Splat, x: &EllipsoidParams<'_, T>, i: usize) -> Ellipsoid<T> {
        let (least, factor) = (T::from_f64(SHORTEST), T::from_f64(p.radius_scale));
        let given = vector_at(x.log_scale, i).map(|s| vmath::exp(s) * factor);
        let shortest = given.map(|a| a < least);
        let axes = given.map(|a| if a < least { least } else { a });
        let [w, u, v, z] = [0, 1, 2, 3].map(|k| x.rotation[4 * i + k]);
        let length = w.mul_add(w, vector_dot([u, v, z], [u, v, z])).sqrt();
        let inverse_length = if length == T::ZERO { T::ZERO } else { T::ONE / length };
        let real = if length == T::ZERO { T::ONE } else { w * inverse_length };
        let imaginary = [u, v, z].map(|q| q * inverse_length);
        Ellipsoid { axes, shortest, rotation: rotation_rows(real, imaginary), real, imaginary, inverse_length }
    }

    /// The rows of the matrix that maps the ellipsoid to the unit ball.
    pub(super) fn to_ball(self) -> [Triple<T>; 3] {
        [0, 1, 2].map(|k| self.rotation.map(|row| row[k] / self.axes[k]))
    }

    /// aⱼ/aᵢ − aᵢ/aⱼ for the pairs (0, 1), (0, 2), (1, 2).
    pub(super) fn stretches(self) -> Triple<T> {
        [(0, 1), (0, 2), (1, 2)].map(|(i, j)| self.axes[j] / self.axes[i] - self.axes[i] / self.axes[j])
    }
}

/// The rows of the rotation of a quaternion of length 1.
fn rotation_rows<T: Float>(w: T, [x, y, z]: Triple<T>) -> [Triple<T>; 3] {
    let two = T::TWO;
    [
        [T::ONE - two * (y * y + z * z), two * (x * y - w * z), two * (x * z + w * y)],
        [two * (x * y + w * z), T::ONE - two * (x * x + z * z), two * (y * z - w * x)],
        [two * (x * z - w * y), two * (y * z + w * x), T::ONE - two * (x * x + y * y)],
    ]
}

/// `x` clamped to 0..=1; NaN stays.
pub(super) fn clamp_to_unit<T: Float>(x: T) -> T {
    let x = if x < T::ZERO { T::ZERO } else { x };
    if x > T::ONE { T::ONE } else { x }
}

/// A direction of length 1, and 1 over the length that it had. What has no direction points along z.
pub(super) fn unit_direction<T: Float>(v: Triple<T>) -> (Triple<T>, T) {
    let length = vector_dot(v, v).sqrt();
    match length == T::ZERO {
        true => ([T::ZERO, T::ZERO, T::ONE], T::ZERO),
        false => (v.map(|x| x / length), T::ONE / length),
    }
}

/// The colour of a splat that is seen along `direction`.
pub(super) fn colour_along<T: Float>(p: &Splat, colour: &[T], direction: Triple<T>) -> Triple<T> {
    if p.coefficients == 0 {
        return vector_at(colour, 0).map(clamp_to_unit);
    }
    let base = vector_at(colour, 0).map(|c| T::from_f64(HARMONIC_0).mul_add(c, T::HALF));
    if p.coefficients < 4 {
        return base;
    }
    let [x, y, z] = direction.map(|d| d * T::from_f64(HARMONIC_1));
    let [first, second, third] = [1, 2, 3].map(|k| vector_at(colour, k));
    [0, 1, 2].map(|c| base[c] - y * first[c] + z * second[c] - x * third[c])
}
