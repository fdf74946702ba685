//! The image of tiles against that of a loop over all splats, bit for bit.

use super::splat_params::{MOMENTS, RECORD, SPLATS, Splat, VIEW_SUMS};
use super::{
    splat_backward_kernel, splat_blend_kernel, splat_gradients_kernel, splat_project_kernel,
    splat_project_order_kernel, splat_tangents_kernel,
};
use crate::abi::Split;
use crate::float::Float;
use crate::harness::{In, Out, Outcome, fewer_under_miri, hash_number, run_in_ranges, written_elements};
use bytemuck::Pod;

fn params(count: usize) -> Splat {
    Splat {
        count,
        coefficients: 4,
        width: 45,
        height: 37,
        tile: 8,
        radius_scale: 1.1,
        alpha_cutoff: 1.0 / 255.0,
        transmittance: 1e-4,
        gamma: 2.2,
        red: 0.1,
        green: 0.2,
        blue: 0.3,
        near: 0.05,
        far: 40.0,
        max_list: 0,
        max_steps: 0,
        truncate: false,
    }
}

fn scratch<T>(len: usize) -> Out {
    Out(len, size_of::<T>(), Split::PerThread(len))
}

/// The operands of a scene: splats of all sizes before, behind and around a camera that looks along a slanted line.
struct Scene<T> {
    p: Splat,
    operands: [Vec<T>; 6],
}

impl<T: Float> Scene<T> {
    fn drawn(p: Splat, seed: usize) -> Scene<T> {
        let numbers = |len: usize, part: usize, f: &dyn Fn(f64) -> f64| -> Vec<T> {
            (0..len).map(|i| T::from_f64(f(hash_number(i, seed * 10 + part)))).collect()
        };
        let n = p.count;
        let right = [0.035, 0.004, 0.002];
        let up = [-0.003, 0.033, 0.01];
        let forward = [-0.05, -0.2, 0.97];
        let view = [[0.2, -0.1, -4.0], right, up, forward].as_flattened().iter().map(|x| T::from_f64(*x)).collect();
        Scene {
            p,
            operands: [
                numbers(3 * n, 1, &|x| 5.0 * x),
                // From a hundredth of a pixel to most of the image.
                numbers(3 * n, 2, &|x| 3.5 * x - 2.5),
                numbers(4 * n, 3, &|x| x),
                numbers(n, 4, &|x| 0.6 * x + 0.45),
                numbers(n * p.colour_len(), 5, &|x| x),
                view,
            ],
        }
    }

    /// Records, bounds and order.
    fn projected(&self) -> (Vec<T>, Vec<i32>, Vec<i32>) {
        let (p, n) = (self.p, self.p.count);
        let reads: Vec<In> = self.operands.iter().map(|x| In::of(x)).collect();
        let out =
            [Out::of::<T>(n * RECORD, SPLATS * RECORD), Out::of::<i32>(4 * n, 4 * SPLATS), Out::of::<T>(n, SPLATS)];
        let done = run_in_ranges(splat_project_kernel::<T>, &p.to_words(), &reads, &out, p.splat_units());
        let distances: Vec<T> = written_elements(&done, 2);
        let order = run_in_ranges(
            splat_project_order_kernel::<T>,
            &p.to_words(),
            &[In::of(&distances)],
            &[Out::of::<i32>(n, n)],
            1,
        );
        (written_elements(&done, 0), written_elements(&done, 1), written_elements(&order, 0))
    }

    fn image(&self, p: &Splat, records: &[T], bounds: &[i32], order: &[i32]) -> Outcome {
        let pixels = p.width * p.height;
        let out = [
            Out::of::<T>(4 * pixels, 4 * p.pixels_per_unit()),
            Out::of::<T>(pixels, p.pixels_per_unit()),
            scratch::<i32>(p.list_scratch()),
        ];
        let reads = [In::of(records), In::of(bounds), In::of(order), In::of(&self.operands[5])];
        run_in_ranges(splat_blend_kernel::<T>, &p.to_words(), &reads, &out, p.tile_rows())
    }
}

fn same_image<T: Float + Pod>(seed: usize) {
    let scene = Scene::<T>::drawn(params(fewer_under_miri(500, 20)), seed);
    let (records, bounds, order) = scene.projected();
    let everywhere: Vec<i32> =
        bounds.chunks(4).flat_map(|b| if b[0] < b[1] { [0, 45, 0, 37] } else { [0; 4] }).collect();
    let small = bounds.chunks(4).filter(|b| b[0] < b[1] && (b[1] - b[0]) * (b[3] - b[2]) < 200).count();
    assert!(small > scene.p.count / 20, "{small} bounds are small");
    let want = scene.image(&scene.p, &records, &everywhere, &order).unwrap();
    for tile in [1, 5, 8, 16, 40, 100] {
        let p = Splat { tile, ..scene.p };
        let have = scene.image(&p, &records, &bounds, &order).unwrap();
        assert_eq!(have[..2], want[..2], "tiles of {tile}");
    }
}

#[test]
fn tiles_leave_nothing_out() {
    for seed in 0..fewer_under_miri(6, 1) {
        same_image::<f32>(seed);
        same_image::<f64>(seed);
    }
}

#[test]
fn limits_are_faults_with_the_tile_or_cut_the_rest() {
    let scene = Scene::<f32>::drawn(params(fewer_under_miri(200, 30)), 9);
    let (records, bounds, order) = scene.projected();
    let with = |max_list, max_steps, truncate| {
        scene.image(&Splat { max_list, max_steps, truncate, ..scene.p }, &records, &bounds, &order)
    };
    let free = with(0, 0, false).unwrap();
    assert_eq!(with(200, 200, false).unwrap()[..2], free[..2]);
    assert!(with(2, 0, false).is_err() && with(0, 2, false).is_err());
    for cut in [with(2, 0, true), with(0, 2, true)] {
        assert_ne!(cut.unwrap()[0], free[0]);
    }
}

#[test]
fn gradients_do_not_depend_on_the_division_and_are_finite() {
    let scene = Scene::<f32>::drawn(params(fewer_under_miri(150, 20)), 3);
    let (records, bounds, order) = scene.projected();
    let (p, n) = (scene.p, scene.p.count);
    let cotangent: Vec<f32> = crate::harness::hash_numbers(4 * p.width * p.height, 77);
    let reads = [In::of(&cotangent), In::of(&records), In::of(&bounds), In::of(&order), In::of(&scene.operands[5])];
    let out = [
        Out::of::<f32>(p.groups() * n * MOMENTS, n * MOMENTS),
        Out::of::<f32>(p.groups() * VIEW_SUMS, VIEW_SUMS),
        scratch::<f32>(p.backward_scratch()),
        scratch::<i32>(p.backward_positions()),
    ];
    let sums = run_in_ranges(splat_backward_kernel::<f32>, &p.to_words(), &reads, &out, p.groups());
    let sums: Vec<f32> = written_elements(&sums, 0);
    let mut reads = vec![In::of(&sums)];
    reads.extend(scene.operands.iter().map(|x| In::of(x)));
    let out = [3, 3, 4, 1, p.colour_len()].map(|width| Out::of::<f32>(n * width, SPLATS * width));
    let done = run_in_ranges(splat_gradients_kernel::<f32>, &p.to_words(), &reads, &out, p.splat_units());
    for j in 0..5 {
        let gradient: Vec<f32> = written_elements(&done, j);
        assert!(gradient.iter().all(|x| x.is_finite()) && gradient.iter().any(|x| *x != 0.0), "gradient {j}");
    }
}

#[test]
fn a_raw_colour_that_is_clamped_has_no_tangent() {
    let p = Splat { coefficients: 0, ..params(2) };
    let [mut scene, mut tangents] = [4, 5].map(|seed| Scene::<f64>::drawn(p, seed).operands);
    scene[4] = vec![-0.5, 0.5, 2.0, 0.0, 1.0, 0.25];
    tangents[4] = vec![3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let reads: Vec<In> = scene.iter().chain(&tangents).map(|x| In::of(x)).collect();
    let out = [Out::of::<f64>(p.count * MOMENTS, SPLATS * MOMENTS)];
    let done = run_in_ranges(splat_tangents_kernel::<f64>, &p.to_words(), &reads, &out, p.splat_units());
    let moments: Vec<f64> = written_elements(&done, 0);
    let colours: Vec<&[f64]> = moments.chunks(MOMENTS).map(|m| &m[10..]).collect();
    assert_eq!(colours, [[0.0, 4.0, 0.0], [6.0, 7.0, 8.0]]);
}
