//! Complex numbers at the edges of their functions: infinite numbers, zeros and their signs, operands of other shapes,
//! other builders and failed operations.

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::{Builder, DType, GradOptions, Var, grad};
use arenagrad::session::Session;

type C = [f64; 2];

const C128: DType = DType::C128;
const INF: f64 = f64::INFINITY;

/// The dims and the parts of `f` of the numbers z.
fn parts(z: &[C], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> (Vec<usize>, Vec<f64>) {
    let g = Builder::new("g");
    let halves = ["re", "im"].map(|name| g.input(name, [z.len()], DType::F64));
    let y = f(halves[0].complex(halves[1]));
    let dims = y.dims().to_vec();
    let graph = g.finish([y.view_as_real().named("y")]).unwrap();
    let inputs =
        [0, 1].map(|part| Tensor { dtype: DType::F64, dims: vec![z.len()], data: z.iter().map(|z| z[part]).collect() });
    (dims, run(&graph, &inputs, PLAIN).remove(0).data)
}

/// `f` of one number.
fn value(z: C, f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> C {
    let (_, y) = parts(&[z], f);
    [y[0], y[1]]
}

#[test]
fn a_real_number_multiplies_each_part_alone() {
    let infinite = [INF, 1.0];
    assert_eq!(value(infinite, |z| z * 3.0), [INF, 3.0]);
    assert_eq!(value(infinite, |z| 3.0 * z), [INF, 3.0]);
    assert_eq!(value(infinite, |z| z / 2.0), [INF, 0.5]);
    assert_eq!(value([2.0, -INF], |z| z * -0.5), [-1.0, INF]);
}

#[test]
fn a_filled_tensor_of_another_shape_broadcasts() {
    let z = [[1.0, 2.0], [0.5, -1.0]];
    let filled = |f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>, k: f64| {
        parts(&z, move |z| f(z, z.builder().full(k, [3, 1], C128)))
    };
    let thrice = |want: [C; 2]| (vec![3usize, 2], want.as_flattened().repeat(3));
    assert_eq!(filled(|z, k| z * k, 4.0), thrice([[4.0, 8.0], [2.0, -4.0]]));
    assert_eq!(filled(|z, k| k * z, 4.0), thrice([[4.0, 8.0], [2.0, -4.0]]));
    assert_eq!(filled(|z, k| z / k, 2.0), thrice([[0.5, 1.0], [0.25, -0.5]]));
    assert_eq!(filled(|z, k| z + k, 4.0), thrice([[5.0, 2.0], [4.5, -1.0]]));
    let (dims, squares) = filled(|z, k| z.pow(k), 2.0);
    let (same, want) = thrice([[-3.0, 4.0], [-0.75, -1.0]]);
    assert_eq!(dims, same);
    assert!(squares.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-13), "{squares:?}");
}

#[test]
fn powers_of_zero() {
    let zero = |f: for<'g> fn(Var<'g>) -> Var<'g>| value([0.0, 0.0], f);
    assert_eq!(zero(|z| z.pow(0.5)), [0.0, 0.0]);
    assert_eq!(zero(|z| z.pow(0.001)), [0.0, 0.0]);
    assert_eq!(zero(|z| z.pow(17.0)), [0.0, 0.0]);
    assert_eq!(zero(|z| z.pow(z.real().complex(z.real()) + 0.0)), [1.0, 0.0]);
    // Exponents −½, i and −1 + i.
    let nothing: [for<'g> fn(Var<'g>) -> Var<'g>; 3] = [
        |z| z.pow(-0.5),
        |z| z.pow(z.real().complex(z.real() + 1.0)),
        |z| z.pow((z.real() - 1.0).complex(z.real() + 1.0)),
    ];
    for f in nothing {
        assert!(zero(f).iter().all(|x| x.is_nan()), "{:?}", zero(f));
    }
    // ½ + i has a real part above 0.
    assert_eq!(zero(|z| z.pow((z.real() + 0.5).complex(z.real() + 1.0))), [0.0, 0.0]);
}

/// What is not chosen at 0 does not overflow: it would make a NaN of the slope.
#[test]
fn a_high_power_is_flat_at_zero() {
    let g = Builder::new("power");
    let z = g.input("z", [2], C128);
    let graph = g.finish([z.pow(3000.5).real().sum(..).named("loss")]).unwrap();
    let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["z"])).unwrap()).unwrap();
    p.values_mut::<C>("z").unwrap().fill([0.0, 0.0]);
    p.step().unwrap();
    assert_eq!(p.values::<C>("grad.z").unwrap(), [[0.0, 0.0]; 2]);
}

#[test]
fn a_power_of_no_factor_is_one_above_the_cut() {
    let one = value([1.0, 2.0], |z| z.pow(0.0));
    assert_eq!(one, [1.0, 0.0]);
    assert!(one[1].is_sign_positive());
    assert_eq!(value([3.0, -1.0], |z| z.pow(1.0)), [3.0, -1.0]);
    assert_eq!(value([0.0, 2.0], |z| z.pow(-1.0)), [0.0, -0.5]);
    // Powers of i, exactly, up to 16 factors.
    for n in 2..=16 {
        let want = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]][n % 4];
        assert_eq!(value([0.0, 1.0], |z| z.pow(n as f64)), want, "{n}");
    }
}

#[test]
fn products_of_any_number_of_elements() {
    let z: Vec<C> = (0..7).map(|k| [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]][k % 3]).collect();
    let times = |a: C, b: C| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
    for n in 1..=7 {
        let want = z[..n].iter().fold([1.0, 0.0], |y, z| times(y, *z));
        assert_eq!(parts(&z[..n], |z| z.prod(..)), (vec![], want.to_vec()), "{n}");
    }
    assert_eq!(parts(&z[..6], |z| z.reshape([2, 3]).narrow(0, 0, 0).prod([0])), (vec![3], [1.0, 0.0].repeat(3)));
    // A row is i·2·(1 + i) = −2 + 2i.
    assert_eq!(parts(&z[..6], |z| z.reshape([2, 3]).prod([1])), (vec![2], [-2.0, 2.0].repeat(2)));
}

#[test]
fn casts_from_and_to_complex_numbers() {
    assert_eq!(value([1.5, 2.0], |z| z.real().cast(C128)), [1.5, 0.0]);
    assert_eq!(value([1.5, 2.0], |z| z.cast(DType::C64).cast(C128)), [1.5, 2.0]);
    assert_eq!(value([1.5, 2.0], |z| z.real().real().cast(C128)), [1.5, 0.0]);
    let angles = value([1.5, -2.0], |z| z.real().angle().complex(z.imag().angle()));
    assert!(angles[0] == 0.0 && (angles[1] - std::f64::consts::PI).abs() < 1e-15, "{angles:?}");
    assert_eq!(value([1.5, -2.0], |z| z.real().conj().complex(z.imag().abs2())), [1.5, 4.0]);
}

#[test]
fn numbers_that_are_none_have_such_a_part() {
    let truths = |z: C| {
        value(z, |z| {
            let [nan, inf] = [z.isnan(), z.isinf()].map(|t| t.cast(DType::F64));
            nan.complex(inf * 2.0 + z.isfinite().cast(DType::F64))
        })
    };
    assert_eq!(truths([1.0, -2.0]), [0.0, 1.0]);
    for z in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
        assert_eq!(truths(z), [1.0, 0.0]);
    }
    for z in [[INF, 1.0], [1.0, -INF]] {
        assert_eq!(truths(z), [0.0, 2.0]);
    }
    assert_eq!(truths([f64::NAN, INF]), [1.0, 2.0]);
}

#[test]
fn numbers_are_equal_in_both_parts() {
    let compared = |b: C| {
        parts(&[[1.0, 2.0], b], |z| {
            let (x, y) = (z.narrow(0, 0, 1), z.narrow(0, 1, 1));
            x.equal(y).cast(DType::F64).complex(x.not_equal(y).cast(DType::F64))
        })
        .1
    };
    assert_eq!(compared([1.0, 2.0]), [1.0, 0.0]);
    for b in [[1.0, 3.0], [3.0, 2.0], [2.0, 1.0]] {
        assert_eq!(compared(b), [0.0, 1.0], "{b:?}");
    }
}

/// Two operands, of which the second is no good.
type Pair = for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>;

const PAIRS: [(&str, Pair); 9] = [
    ("add", |a, b| a + b),
    ("mul", |a, b| a * b),
    ("div", |a, b| a / b),
    ("pow", |a, b| a.pow(b)),
    ("eq", |a, b| a.equal(b)),
    ("matmul", |a, b| a.matmul(b)),
    ("select", |a, b| a.real().less(0.0).select(a, b)),
    ("concat", |a, b| a.concat(&[b], 0)),
    ("complex", |a, b| a.real().complex(b.real())),
];

#[test]
fn operands_of_another_builder_are_refused() {
    for (name, f) in PAIRS {
        let (g, other) = (Builder::new("here"), Builder::new("other"));
        let (a, b) = (g.input("a", [2, 2], C128), other.input("b", [2, 2], C128));
        assert!(!f(a, b).is_some(), "{name}");
        let e = g.finish([a]).unwrap_err().to_string();
        assert!(e.contains("another builder"), "{name}: {e}");
    }
}

/// What comes behind a failed operation adds nothing: the first error stays.
#[test]
fn the_first_error_stays() {
    for (name, f) in PAIRS {
        for swapped in [false, true] {
            let g = Builder::new("failed");
            let a = g.input("a", [2, 2], C128);
            let failed = a.reshape([5]);
            let first = g.error().unwrap().message;
            let y = if swapped { f(failed, a) } else { f(a, failed) };
            assert!(!y.is_some(), "{name}");
            assert_eq!(g.finish([a, y]).unwrap_err().message, first, "{name}");
        }
    }
    let alone: [for<'g> fn(Var<'g>) -> Var<'g>; 14] = [
        |z| z.real(),
        |z| z.imag(),
        |z| z.conj(),
        |z| z.abs2(),
        |z| z.abs(),
        |z| z.angle(),
        |z| z.exp(),
        |z| z.sum(..),
        |z| z.prod([0]),
        |z| z.view_as_real(),
        |z| z.view_as_complex(),
        |z| z.polar(z),
        |z| z.cast(C128),
        |z| z.cast(DType::C64),
    ];
    for (k, f) in alone.into_iter().enumerate() {
        let g = Builder::new("failed");
        let failed = g.input("a", [2, 2], C128).reshape([5]);
        let first = g.error().unwrap().message;
        assert!(!f(failed).is_some(), "{k}");
        assert_eq!(g.finish([]).unwrap_err().message, first, "{k}");
    }
}

#[test]
fn parts_lie_along_a_last_axis_of_two() {
    for dims in [&[3, 3][..], &[2, 1], &[]] {
        let g = Builder::new("bad");
        let y = g.input("x", dims, DType::F64).view_as_complex();
        assert!(!y.is_some());
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains("view_as_complex(") && e.contains("the last axis must hold two parts"), "{e}");
    }
    let g = Builder::new("good");
    let x = g.input("x", [3, 4, 2], DType::F64);
    assert_eq!(x.view_as_complex().dims()[..], [3, 4]);
    assert_eq!(x.view_as_complex().view_as_real().dims()[..], [3, 4, 2]);
    assert!(x.view_as_real().value() == x.value());
}

/// The gradient of Σ Re f(z) is conj(f'); here f' itself.
fn slope_of(dtype: DType, z: &[C], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<C> {
    let g = Builder::new("slope");
    let part = dtype.part();
    let halves = ["re", "im"].map(|name| g.input(name, [z.len()], part));
    let all = g.finish([f(halves[0].complex(halves[1])).real().sum(..).named("loss")]).unwrap();
    let step = grad(&all, "loss", &GradOptions::wrt(&["re", "im"])).unwrap();
    let inputs = [0, 1].map(|k| Tensor { dtype: part, dims: vec![z.len()], data: z.iter().map(|z| z[k]).collect() });
    let outs = run(&step, &inputs, PLAIN);
    let [re, im] = &outs[outs.len() - 2..] else { panic!() };
    re.data.iter().zip(&im.data).map(|(&re, &im)| [re, -im]).collect()
}

fn far(a: C, b: C) -> f64 {
    let d = (a[0] - b[0]).hypot(a[1] - b[1]) / b[0].hypot(b[1]);
    if d.is_nan() { INF } else { d }
}

/// Numbers of mpmath: 1/cosh² z near the poles at ±iπ/2, and where tanh is 1 to rounding.
#[test]
#[allow(clippy::approx_constant, clippy::excessive_precision)]
fn slopes_of_tangents_near_poles() {
    let points: [(C, C); 5] = [
        ([0.001, 1.5707], [-972588.07163113432, -189127.53389317941]),
        ([0.25, 1.5703125], [-15.670612562690104, -0.061913554119107532]),
        ([0.0001, -1.5707963], [-99999978.127674745, 53589.785474923028]),
        ([9.0, 0.5], [3.2915173469782809e-8, -5.12623425302417e-8]),
        ([30.0, 0.5], [1.8924651825776451e-26, -2.9473398939868744e-26]),
    ];
    for (z, want) in points {
        let d = slope_of(C128, &[z], |z| z.tanh())[0];
        assert!(far(d, want) < 1e-14, "tanh' at {z:?}: {d:?}, not {want:?}");
        // tan w = −i·tanh(iw), so tan' at −iz is tanh' at z.
        let d = slope_of(C128, &[[z[1], -z[0]]], |z| z.tan())[0];
        assert!(far(d, want) < 1e-14, "tan' of {z:?}: {d:?}, not {want:?}");
        let rounded = z.map(|x| f64::from(x as f32));
        let want = slope_of(C128, &[rounded], |z| z.tanh())[0];
        let d = slope_of(DType::C64, &[rounded], |z| z.tanh())[0];
        assert!(far(d, want) < 2e-6, "f32 tanh' at {z:?}: {d:?}, not {want:?}");
    }
}

/// f32 slopes against formulas of them in f64.
#[test]
fn slopes_of_small_and_large_numbers_and_near_branch_points() {
    type F = for<'g> fn(Var<'g>) -> Var<'g>;
    let functions: [(&str, F, F); 14] = [
        ("recip", |z| z.recip(), |z| -(z.recip() * z.recip())),
        ("div", |z| (z * 0.0 + 1.0) / z, |z| -(z.recip() * z.recip())),
        ("log", |z| z.log(), |z| z.recip()),
        ("sqrt", |z| z.sqrt(), |z| z.sqrt().recip() * 0.5),
        ("rsqrt", |z| z.rsqrt(), |z| z.rsqrt() * z.recip() * -0.5),
        ("exp", |z| z.exp(), |z| z.exp()),
        ("sin", |z| z.sin(), |z| z.cos()),
        ("cos", |z| z.cos(), |z| -z.sin()),
        ("sinh", |z| z.sinh(), |z| z.cosh()),
        ("cosh", |z| z.cosh(), |z| z.sinh()),
        ("tanh", |z| z.tanh(), |z| z.cosh().recip() * z.cosh().recip()),
        ("tan", |z| z.tan(), |z| z.cos().recip() * z.cos().recip()),
        ("pow", |z| z.pow(0.75), |z| z.pow(-0.25) * 0.75),
        ("square", |z| z.square(), |z| z * 2.0),
    ];
    let mut z: Vec<C> = Vec::new();
    for size in [1e-30, 1e-20, 1e-10, 1e-3, 1.0, 20.0, 1e3, 1e10, 1e20, 1e30] {
        for unit in [[0.6, 0.8], [-0.6, 0.8], [-0.8, -0.6], [1.0, 1e-6], [-1.0, 1e-6], [1e-6, -1.0]] {
            z.push(unit.map(|x| f64::from((x * size) as f32)));
        }
    }
    for (name, f, df) in functions {
        let slopes = slope_of(DType::C64, &z, f);
        for (z, d) in z.iter().zip(slopes) {
            let want = value(*z, df);
            let size = want[0].hypot(want[1]);
            let periodic =
                z[0].hypot(z[1]) > 1e4 && !["recip", "div", "log", "sqrt", "rsqrt", "pow", "square"].contains(&name);
            // What f32 holds with all digits, and angles whose rounding is small.
            if !(1e-36..1e37).contains(&size) || periodic {
                continue;
            }
            assert!(far(d, want) < 2e-5, "{name}' at {z:?}: {d:?}, not {want:?}");
        }
    }
}

#[test]
fn a_real_operand_beside_a_complex_one() {
    let z = [[1.0, -2.0], [0.5, 3.0]];
    let both = |f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>| parts(&z, |z| f(z, z.real() + 1.0)).1;
    assert_eq!(both(|z, x| z + x), [3.0, -2.0, 2.0, 3.0]);
    assert_eq!(both(|z, x| x - z), [1.0, 2.0, 1.0, -3.0]);
    assert_eq!(both(|z, x| z * x), [2.0, -4.0, 0.75, 4.5]);
    assert_eq!(both(|z, x| x * z), [2.0, -4.0, 0.75, 4.5]);
    assert_eq!(both(|z, x| z / x), [0.5, -1.0, 1.0 / 3.0, 2.0]);
    let quotient = both(|z, x| x / z);
    let want = [0.4, 0.8, 0.75 / 9.25, -4.5 / 9.25];
    assert!(quotient.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-15), "{quotient:?}");
    // x broadcasts, and its gradient is real: Re of conj(z) summed, torch's.
    let g = Builder::new("mixed");
    let (z, x) = (g.input("z", [2], DType::C64), g.input("x", [1], DType::F32));
    let all = g.finish([(x * z + x - z).abs2().sum(..).named("loss")]).unwrap();
    let mut p = Session::new().compile(&grad(&all, "loss", &GradOptions::wrt(&["x", "z"])).unwrap()).unwrap();
    p.values_mut::<[f32; 2]>("z").unwrap().copy_from_slice(&[[1.0, -2.0], [0.5, 3.0]]);
    p.values_mut::<f32>("x").unwrap().fill(2.0);
    p.step().unwrap();
    // y = z + 2: x̄ = Σ 2·Re(y·conj(z + 1)), z̄ = 2·y.
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [2.0 * (6.0 + 4.0) + 2.0 * (3.75 + 9.0)]);
    assert_eq!(p.values::<[f32; 2]>("grad.z").unwrap(), [[6.0, -4.0], [5.0, 6.0]]);
    let g = Builder::new("wrong");
    let _ = g.input("z", [2], DType::C64) + g.input("x", [2], DType::F64);
    let text = g.finish([]).unwrap_err().to_string();
    assert!(text.contains("operand types differ"), "{text}");
}

#[test]
fn a_choice_of_a_real_and_a_complex_number() {
    let z = [[1.0, -2.0], [0.5, 3.0]];
    let both = |f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>| parts(&z, |z| f(z, z.real() + 1.0)).1;
    assert_eq!(both(|z, x| x.greater(1.6).select(z, x)), [1.0, -2.0, 1.5, 0.0]);
    assert_eq!(both(|z, x| x.greater(1.6).select(x, z)), [2.0, 0.0, 0.5, 3.0]);
    // The gradient of the real operand is real, and 0 where the other one is chosen.
    let g = Builder::new("mixed");
    let (z, x) = (g.input("z", [2], DType::C64), g.input("x", [1], DType::F32));
    let first = g.iota(0, [2], DType::I32).less(1.0);
    let all = g.finish([first.select(z, x).abs2().sum(..).named("loss")]).unwrap();
    let mut p = Session::new().compile(&grad(&all, "loss", &GradOptions::wrt(&["x", "z"])).unwrap()).unwrap();
    p.values_mut::<[f32; 2]>("z").unwrap().copy_from_slice(&[[1.0, -2.0], [0.5, 3.0]]);
    p.values_mut::<f32>("x").unwrap().fill(4.0);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [8.0]);
    assert_eq!(p.values::<[f32; 2]>("grad.z").unwrap(), [[2.0, -4.0], [0.0, 0.0]]);
    let wrong = |f: fn(Var<'_>, Var<'_>)| {
        let g = Builder::new("wrong");
        f(g.input("z", [2, 2], DType::C64), g.input("x", [2, 2], DType::F64));
        g.finish([]).unwrap_err().to_string()
    };
    for text in [wrong(|z, x| _ = x.greater(x).select(z, x)), wrong(|z, x| _ = z.matmul(x))] {
        assert!(text.contains("c64") && text.contains("f64"), "{text}");
    }
}
