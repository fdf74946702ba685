//! The error of sums in `f32`, against those in `f64`.

use super::*;

/// The weight gradient with every channel by itself in the lanes has no more error than that of strips, whose sums have
/// sixteen lanes.
#[test]
fn channels_by_themselves_are_as_accurate_as_strips() {
    for (size, kernel, stride) in [(32, 3, 2), (24, 5, 1)] {
        let g = ConvGeom { groups: 32, ..geom(8, [32, 32], [size, size], [kernel, kernel]) };
        let g = g.stride([stride, stride]).pad([kernel / 2; 4]);
        let (x, dy) = (hash_numbers::<f32>(g.x_len(), 1), hash_numbers::<f32>(g.y_len(), 3));
        let mut exact = vec![0.0; g.w_len()];
        each(&g, |i, k, o| exact[k] += f64::from(dy[o]) * f64::from(x[i]));
        assert_eq!(WeightWay::of(&g), WeightWay::Each);
        let error = |way: WeightWay| {
            let (blocks, channels) = way.blocks(&g);
            let units = Units { count: blocks * g.c_out / channels, per_unit: channels * g.taps() };
            let parts = run(units, blocks * g.w_len(), weight_scratch_of(way, &g), 1, |r, dw, s| {
                weight_by(way, &g, (&x, &dy), r, dw, s)
            });
            let mut dw = vec![0.0; g.w_len()];
            conv2d_weight_combine(&parts, g.w_len(), 0, &mut dw);
            dw.iter().zip(&exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt()
        };
        let (own, strips) = (error(WeightWay::Each), error(WeightWay::Strip));
        assert!(own <= 1.15 * strips, "{own} instead of {strips} for {g:?}");
    }
}
