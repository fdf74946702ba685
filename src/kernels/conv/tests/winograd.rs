//! Convolutions by values at points.

use super::*;

/// Tiles that are not full, padding on one side, channels that do not fill vectors, several blocks of channels and of
/// tiles, blocks of several images, few images.
pub(super) fn convolutions() -> Vec<ConvGeom> {
    let g = |n, c, hw| geom(n, c, hw, [3, 3]);
    let all = vec![
        g(9, [16, 16], [8, 8]),
        g(7, [16, 16], [8, 8]).pad([1; 4]),
        g(4, [20, 37], [12, 15]).pad([1, 0, 2, 1]),
        g(9, [33, 70], [8, 7]).pad([1; 4]),
        g(3, [70, 130], [9, 14]).pad([2, 2, 0, 2]),
        g(25, [24, 17], [4, 4]).pad([1; 4]),
        g(2, [16, 40], [30, 200]).pad([1; 4]),
        g(7, [18, 16], [70, 9]).pad([0, 2, 1, 1]),
        g(1, [40, 48], [35, 34]).pad([1; 4]),
    ];
    let all: Vec<_> = all.into_iter().map(|g| Convolutions::Winograd.of(g)).collect();
    assert!(all.iter().all(|g| g.winograd));
    all
}

#[test]
fn winograd_matches_naive_loops() {
    for g in convolutions() {
        check::<f64>(&g, 1e-11);
        check::<f32>(&g, 2e-4);
        adjoint(&g);
    }
}

/// The root mean square error of one convolution and of its gradients is about twice that of direct sums.
#[test]
fn errors_are_about_twice_those_of_direct_sums() {
    for (n, c, hw) in [(4, [16, 16], [32, 32]), (4, [64, 64], [16, 16]), (3, [128, 32], [12, 20])] {
        let direct = geom(n, c, hw, [3, 3]).pad([1; 4]);
        let (x, w) = (hash_numbers::<f32>(direct.x_len(), 1), hash_numbers::<f32>(direct.w_len(), 2));
        let dy = hash_numbers::<f32>(direct.y_len(), 3);
        let exact = [vec![0.0; direct.y_len()], vec![0.0; direct.x_len()], vec![0.0; direct.w_len()]];
        let [mut y, mut dx, mut dw] = exact;
        each(&direct, |i, k, o| {
            y[o] += f64::from(x[i]) * f64::from(w[k]);
            dx[i] += f64::from(dy[o]) * f64::from(w[k]);
            dw[k] += f64::from(dy[o]) * f64::from(x[i]);
        });
        let errors = |g: &ConvGeom| {
            let all = [forward(g, &x, &w, &[], false, 1), input(g, &dy, &w, 1), weight(g, &x, &dy, 1)];
            let of = |(got, want): (&Vec<f32>, &Vec<f64>)| {
                got.iter().zip(want).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt()
            };
            [(&all[0], &y), (&all[1], &dx), (&all[2], &dw)].map(of)
        };
        let (of_sums, of_points) = (errors(&direct), errors(&Convolutions::Winograd.of(direct)));
        for (what, (sums, points)) in ["y", "dx", "dw"].iter().zip(of_sums.iter().zip(of_points)) {
            assert!(points <= 3.0 * sums, "{what}: {points:e} instead of {sums:e} for {direct:?}");
        }
    }
}

/// What is not a 3 × 3 kernel over adjacent pixels keeps its way, as do few channels and tiles that are mostly empty.
#[test]
fn other_convolutions_are_direct() {
    let g = geom(5, [32, 32], [16, 16], [3, 3]).pad([1; 4]);
    assert!(Convolutions::Winograd.of(g).winograd && !Convolutions::Direct.of(g).winograd);
    let others = [
        g.kernel([3, 2]),
        g.stride([1, 2]),
        g.dilation([2, 1]),
        g.pad([3, 1, 1, 1]),
        g.size([2, 2]),
        ConvGeom { groups: 2, ..g },
        ConvGeom { c_in: 15, ..g },
        ConvGeom { c_out: 15, ..g },
        ConvGeom { n: 0, ..g },
        ConvGeom { n: 1, ..g },
        ConvGeom { c_in: 1025, ..g },
        ConvGeom { c_out: 67, ..g },
        g.size([16, 520]),
    ];
    for other in others {
        assert!(!Convolutions::Winograd.of(other).winograd, "{other:?}");
    }
}
