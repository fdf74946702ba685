//! Images of splats by loops over all pixels and all splats, without tiles.
//!
//! The pixel, or the whole image, is unknown where the bounds do not decide whether a splat is drawn, which of two is
//! nearer, or where blending stops. Gradients, tangents and the rectangles of splats are unknown.

use super::array::Array;
use super::balls::{Ball, Balls, ONE, UNKNOWN, ZERO};
use super::oracle_node::OracleOps;
use super::rounding::{Rounding, nearest_element, spread_of_ends};
use crate::nodes::ops::splat::attrs::SplatAttrs;
use crate::nodes::{Attrs, DType, Op};

type Vector = [Ball; 3];

/// Numbers of a splat as rays meet it.
const RECORD: usize = 16;

fn oracle_splat_number(x: f64) -> Ball {
    Ball { x, b: 0.0 }
}

/// Whether a < b, if the bounds tell.
fn is_oracle_splat_below(a: Ball, b: Ball) -> Option<bool> {
    match (a.x - b.x).abs() > a.b + b.b {
        true => Some(a.x < b.x),
        false => (a.b + b.b == 0.0).then_some(a.x < b.x),
    }
}

/// The splats of a node, in the engine's type.
struct OracleScene<'a> {
    e: Balls,
    dtype: DType,
    attrs: SplatAttrs,
    args: &'a [&'a Array],
}

impl OracleScene<'_> {
    fn number(&self, operand: usize, i: usize) -> Ball {
        let (x, b) = self.args[operand].real(i);
        if x.is_finite() { Ball { x, b } } else { UNKNOWN }
    }

    fn vector(&self, operand: usize, i: usize) -> Vector {
        [0, 1, 2].map(|k| self.number(operand, 3 * i + k))
    }

    /// An attribute as the engine's type has it.
    fn attr(&self, x: f64) -> Ball {
        oracle_splat_number(nearest_element(self.dtype, x))
    }

    fn plus(&self, a: Ball, b: Ball) -> Ball {
        self.e.sum(a, 1.0, std::iter::once((b, ONE)))
    }

    fn minus(&self, a: Ball, b: Ball) -> Ball {
        self.e.sum(a, -1.0, std::iter::once((b, ONE)))
    }

    fn dot(&self, a: Vector, b: Vector) -> Ball {
        self.e.sum(ZERO, 1.0, a.into_iter().zip(b))
    }

    /// A function of one number, which rises or falls within its bound and is computed within 4 ulp.
    fn function(&self, x: Ball, f: impl Fn(f64) -> f64) -> Ball {
        let y = f(x.x);
        let moved = spread_of_ends(y, &[f(x.x - x.b), f(x.x + x.b)]);
        if x.b.is_finite() { self.e.rounded(y, moved + self.e.0.ulps(y, 3.0)) } else { UNKNOWN }
    }

    /// The rows of the matrix that maps ellipsoid `i` to the unit ball.
    fn to_ball(&self, i: usize) -> [Vector; 3] {
        let (least, scale) = (self.attr(1e-6), self.attr(self.attrs.radius_scale));
        let axis = |x: Ball| {
            let axis = self.e.times(self.function(x, libm::exp), scale);
            match is_oracle_splat_below(axis, least) {
                Some(true) => least,
                Some(false) => axis,
                None => UNKNOWN,
            }
        };
        let axes = self.vector(1, i).map(axis);
        let q = [0, 1, 2, 3].map(|k| self.number(2, 4 * i + k));
        let length = self.e.root(self.e.sum(ZERO, 1.0, q.into_iter().zip(q)));
        let none = q.iter().all(|q| q.x == 0.0 && q.b == 0.0);
        let inverse = self.e.over(ONE, length);
        let [w, x, y, z] = if none { [ONE, ZERO, ZERO, ZERO] } else { q.map(|q| self.e.times(q, inverse)) };
        let twice = |a: Ball, b: Ball, sign: f64, c: Ball, d: Ball| {
            let second = self.e.times(oracle_splat_number(sign), self.e.times(c, d));
            self.e.times(oracle_splat_number(2.0), self.plus(self.e.times(a, b), second))
        };
        let diagonal = |a: Ball, b: Ball| self.minus(ONE, twice(a, a, 1.0, b, b));
        let rows = [
            [diagonal(y, z), twice(x, y, -1.0, w, z), twice(x, z, 1.0, w, y)],
            [twice(x, y, 1.0, w, z), diagonal(x, z), twice(y, z, -1.0, w, x)],
            [twice(x, z, -1.0, w, y), twice(y, z, 1.0, w, x), diagonal(x, y)],
        ];
        [0, 1, 2].map(|k| rows.map(|row| self.e.over(row[k], axes[k])))
    }

    /// `x` between 0 and 1.
    fn clamped(x: Ball) -> Ball {
        Ball { x: x.x.clamp(0.0, 1.0), b: x.b }
    }

    /// The colour of splat `i`, with `towards` from it to the camera.
    fn colour(&self, i: usize, towards: Vector) -> Vector {
        let harmonics = if self.args[4].dims.len() == 3 { self.args[4].dims[1] } else { 0 };
        let at = |k: usize| self.vector(4, i * harmonics.max(1) + k);
        if harmonics == 0 {
            return at(0).map(Self::clamped);
        }
        let base = at(0).map(|c| {
            self.e.sum(oracle_splat_number(0.5), 1.0, std::iter::once((c, self.attr(0.282_094_791_773_878_14))))
        });
        if harmonics < 4 {
            return base;
        }
        let length = self.e.root(self.dot(towards, towards));
        let factor = self.attr(0.488_602_511_902_919_9);
        let [x, y, z] = towards.map(|t| self.e.times(self.e.over(t, length), factor));
        let signed = [self.e.times(oracle_splat_number(-1.0), y), z, self.e.times(oracle_splat_number(-1.0), x)];
        [0, 1, 2].map(|c| self.e.sum(base[c], 1.0, (0..3).map(|k| (signed[k], at(k + 1)[c]))))
    }

    /// The numbers of splat `i` as rays meet it; whether it is drawn, if that is known; its squared distance.
    fn record(&self, i: usize) -> ([Ball; RECORD], Option<bool>, Ball) {
        let towards = {
            let (camera, centre) = (self.vector(5, 0), self.vector(0, i));
            [0, 1, 2].map(|k| self.minus(camera[k], centre[k]))
        };
        let (to_ball, opacity) = (self.to_ball(i), Self::clamped(self.number(3, i)));
        let local = to_ball.map(|row| self.dot(row, towards));
        let mut record = [ZERO; RECORD];
        let parts = [to_ball.as_flattened(), &local, &[opacity], &self.colour(i, towards)].concat();
        record.copy_from_slice(&parts);
        let depth = self.e.times(oracle_splat_number(-1.0), self.dot(towards, self.vector(5, 3)));
        let cutoff = self.attr(self.attrs.alpha_cutoff);
        let hides = [
            is_oracle_splat_below(depth, self.attr(self.attrs.near)),
            is_oracle_splat_below(self.attr(self.attrs.far), depth),
            is_oracle_splat_below(ZERO, opacity).map(|above| !above),
            is_oracle_splat_below(opacity, cutoff),
        ];
        let drawn = match hides {
            _ if hides.contains(&Some(true)) => Some(false),
            _ if hides.contains(&None) => None,
            _ => Some(true),
        };
        (record, drawn, self.dot(towards, towards))
    }

    /// The ray of a pixel, of length 1.
    fn ray(&self, view: usize, row: usize, column: usize) -> Vector {
        let x = oracle_splat_number(column as f64 + 0.5 - 0.5 * self.attrs.width as f64);
        let y = oracle_splat_number(0.5 * self.attrs.height as f64 - row as f64 - 0.5);
        let [right, up, forward] = [1, 2, 3].map(|k| self.vector(view, k));
        let along = [0, 1, 2].map(|k| self.e.sum(forward[k], 1.0, [(x, right[k]), (y, up[k])].into_iter()));
        let inverse = self.e.over(ONE, self.e.root(self.dot(along, along)));
        along.map(|a| self.e.times(a, inverse))
    }

    /// α of a splat along a ray.
    fn alpha(&self, s: &[Ball; RECORD], ray: Vector) -> Ball {
        let row = |k: usize| [s[3 * k], s[3 * k + 1], s[3 * k + 2]];
        let (d, o) = ([0, 1, 2].map(|k| self.dot(row(k), ray)), [s[9], s[10], s[11]]);
        let square = self.dot(d, d);
        if square.x - square.b < self.e.0.least {
            return UNKNOWN;
        }
        let along = self.e.over(self.e.times(oracle_splat_number(-1.0), self.dot(o, d)), square);
        let along = Ball { x: along.x.max(0.0), b: along.b };
        let c = [0, 1, 2].map(|k| self.e.sum(o[k], 1.0, std::iter::once((along, d[k]))));
        let half = self.e.times(oracle_splat_number(-0.5), self.dot(c, c));
        self.e.times(s[12], self.function(half, libm::exp))
    }

    /// Red, green, blue, alpha and T of a pixel, from splats in order; `None` if a bound leaves open what is blended.
    fn pixel(&self, splats: &[[Ball; RECORD]], ray: Vector) -> Option<[Ball; 5]> {
        let (cutoff, threshold) = (self.attr(self.attrs.alpha_cutoff), self.attr(self.attrs.transmittance));
        let (mut colour, mut passes) = ([ZERO; 3], ONE);
        for s in splats {
            if is_oracle_splat_below(passes, threshold)? {
                break;
            }
            let alpha = self.alpha(s, ray);
            if is_oracle_splat_below(alpha, cutoff)? {
                continue;
            }
            let weight = self.e.times(passes, alpha);
            colour = [0, 1, 2].map(|k| self.e.sum(colour[k], 1.0, std::iter::once((weight, s[13 + k]))));
            passes = self.e.times(passes, self.minus(ONE, alpha));
        }
        let gamma = nearest_element(self.dtype, self.attrs.gamma);
        let shown = |k: usize| {
            let behind = self.attr(self.attrs.background[k]);
            let x = self.e.sum(colour[k], 1.0, std::iter::once((passes, behind)));
            let x = Ball { x: x.x.max(0.0), b: x.b };
            if gamma == 1.0 { x } else { self.function(x, |x| libm::pow(x.max(0.0), gamma)) }
        };
        Some([shown(0), shown(1), shown(2), self.minus(ONE, passes), passes])
    }

    /// The image and T, from the drawn splats in order and operand `view`; `None` is an unknown order.
    fn image(&self, splats: Option<Vec<[Ball; RECORD]>>, view: usize, dims: &[Vec<usize>]) -> Vec<Array> {
        let (rows, columns) = (dims[1][0], dims[1][1]);
        let known = |p: usize| self.pixel(splats.as_ref()?, self.ray(view, p / columns, p % columns));
        let pixels: Vec<[Ball; 5]> = (0..rows * columns).map(|p| known(p).unwrap_or([UNKNOWN; 5])).collect();
        let image = pixels.iter().flat_map(|p| p[..4].iter().map(|b| (b.x, b.b)));
        let passes = pixels.iter().map(|p| (p[4].x, p[4].b));
        vec![Array::reals(self.dtype, &dims[0], image), Array::reals(self.dtype, &dims[1], passes)]
    }
}

/// The positions of splats, nearest first; `None` if the bounds do not tell.
fn oracle_order_of_splats(distances: &[Ball]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..distances.len()).collect();
    order.sort_by(|&a, &b| distances[a].x.total_cmp(&distances[b].x));
    let mut farthest = f64::NEG_INFINITY;
    for &i in &order {
        if distances[i].x - distances[i].b <= farthest {
            return None;
        }
        farthest = distances[i].x + distances[i].b;
    }
    Some(order)
}

/// Ops on splats.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["splat_render", "splat_render_backward", "splat_render_tangent", "splat_prepare", "splat_rasterize"],
    run: |node| {
        let elements = |d: &Vec<usize>| d.iter().product::<usize>() as u64;
        let work = match node.op {
            Op::SPLAT_RENDER => node.args[3].len() as u64 * elements(&node.dims[1]) * 80,
            Op::SPLAT_PREPARE => node.args[3].len() as u64 * 400,
            _ => node.dims.iter().map(elements).sum(),
        };
        node.spend(work)?;
        let (args, dims) = (node.args.clone(), node.dims.clone());
        Ok(apply_oracle_splat_op(node.op, &node.attrs.clone(), &args, &dims, node.may_fault()))
    },
};

/// The results of such an op, of shapes `dims`.
fn apply_oracle_splat_op(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dims: &[Vec<usize>],
    may_fault: &mut bool,
) -> Vec<Array> {
    let attrs = SplatAttrs::of(attrs);
    let dtype = args[0].dtype;
    let unknown = |d: &Vec<usize>| Array::reals(dtype, d, (0..d.iter().product()).map(|_| (0.0, f64::INFINITY)));
    let count = if op == Op::SPLAT_RENDER_BACKWARD { args[4].len() } else { args[0].dims[0] };
    // Which splats touch a tile is known to the engine alone.
    let limited = [attrs.max_list, attrs.max_steps].iter().any(|&n| n > 0 && (n as usize) < count);
    *may_fault |= op == Op::SPLAT_RASTERIZE || (limited && !attrs.truncate && op != Op::SPLAT_PREPARE);
    let scene = OracleScene { e: Balls(Rounding::of(dtype)), dtype, attrs, args };
    match op {
        Op::SPLAT_RENDER if !limited => {
            let all: Vec<_> = (0..count).map(|i| scene.record(i)).collect();
            let drawn = all.iter().map(|s| s.1).collect::<Option<Vec<bool>>>();
            let ordered = drawn.and_then(|drawn| {
                let seen: Vec<usize> = (0..count).filter(|&i| drawn[i]).collect();
                let order = oracle_order_of_splats(&seen.iter().map(|&i| all[i].2).collect::<Vec<_>>())?;
                Some(order.iter().map(|&k| all[seen[k]].0).collect())
            });
            scene.image(ordered, 5, dims)
        }
        Op::SPLAT_PREPARE => {
            let all: Vec<_> = (0..count).map(|i| scene.record(i)).collect();
            let records = all.iter().flat_map(|s| s.0).map(|b| (b.x, b.b));
            let order = oracle_order_of_splats(&all.iter().map(|s| s.2).collect::<Vec<_>>());
            let place = |k: usize| order.as_ref().map(|order| order[k] as i128);
            vec![
                Array::reals(dtype, &dims[0], records),
                Array::wholes(DType::I32, &dims[1], (0..4 * count).map(|_| None)),
                Array::wholes(DType::I32, &dims[2], (0..count).map(place)),
            ]
        }
        _ => dims.iter().map(unknown).collect(),
    }
}
