//! Start values by the numbers that seed, name and index give.

use super::*;
use crate::nodes::Init;

#[test]
fn normal_draws_have_their_moments() {
    let mut x = vec![0f32; 10_000];
    fill_leaf_bytes(
        bytemuck::cast_slice_mut(&mut x),
        (DType::F32, &[10_000]),
        &Init::Normal(2.0).attrs(&[]),
        (7, "w"),
        None,
    );
    let mean = x.iter().sum::<f32>() / 1e4;
    let var = x.iter().map(|v| v * v).sum::<f32>() / 1e4;
    assert!(mean.abs() < 0.1 && (var - 4.0).abs() < 0.3, "{mean} {var}");
}

/// Draws are Philox4x32-10 of the counter `i`, then the name's hash, with the seed as the key.
#[test]
fn a_draw_is_a_function_of_seed_name_and_index() {
    assert_eq!(["a", "foobar"].map(start_value_stream), [0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    let (seed, stream) = (0x0123_4567_89ab_cdef, start_value_stream("w"));
    let mut draw = [0.0];
    for (element, want) in [(0, 0.7326049315506963), ((3 << 32) | 5, 0.08479934533531641)] {
        start_draws::uniform(seed, stream, element, &mut draw);
        assert_eq!(draw, [want]);
    }
}

/// Start values of `w` with seed 7.
fn start(init: Init, dims: &[usize]) -> Vec<f64> {
    let mut x = vec![0f64; dims.iter().product()];
    fill_leaf_bytes(bytemuck::cast_slice_mut(&mut x), (DType::F64, dims), &init.attrs(&[]), (7, "w"), None);
    x
}

#[test]
fn each_rule_makes_its_numbers_of_the_draws() {
    let near = |init: Init, want: [f64; 2]| {
        let got = start(init, &[2]);
        assert!(got.iter().zip(want).all(|(x, want)| (x - want).abs() <= 1e-14 * want.abs()), "{init:?}: {got:?}");
    };
    let (uniform, normal) = ([0.9777806091536883, -0.31790230405113706], [-1.921354065761298, 0.5939800235627917]);
    near(Init::Uniform(3.0), uniform.map(|x| 3.0 * x));
    near(Init::Normal(2.0), normal.map(|x| 2.0 * x));
    near(Init::Around { mean: 3.0, deviation: 2.0 }, [-0.8427081315225959, 4.187960047125584]);
    near(Init::Between { low: 1.0, high: 5.0 }, [4.955561218307376, 2.364195391897726]);
    // The difference of the ends is infinite.
    near(Init::Between { low: -f64::MAX, high: f64::MAX }, uniform.map(|x| x * f64::MAX));
    assert_eq!(start(Init::Zeros, &[2]), [0.0; 2]);
    assert_eq!((start(Init::Ones, &[2]), start(Init::Constant(2.5), &[2])), (vec![1.0; 2], vec![2.5; 2]));
    assert_eq!(start(Init::Eye, &[3, 2]), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(start(Init::Eye, &[4, 1]), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_share_of_a_cut_distribution_lies_on_one_side_of_each_number() {
    let at = |low, high, u| TruncatedNormalStart::new(1.0, 2.0, low, high).at(u);
    let near = |x: f64, want: f64| assert!((x - want).abs() < 1e-12, "{x} {want}");
    // A quarter of what is above 2 is above the first number; a quarter of what is below 0 is below the second.
    near(at(2.0, f64::INFINITY, 0.25), 3.8492282870046246);
    near(at(f64::NEG_INFINITY, 0.0, 0.25), -1.8492282870046246);
    near(at(0.0, 4.0, 0.25), 0.8228072962180344);
    // What begins at the mean is no side: a quarter lies below the number.
    near(at(1.0, f64::INFINITY, 0.25), 1.6372787279287504);
    // The least and the largest draw.
    let all = TruncatedNormalStart::new(0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY);
    assert!((all.at(0.0) + 8.292361075813595).abs() < 1e-6, "{}", all.at(0.0));
    assert!((8.0..8.3).contains(&all.at(1.0 - 0.5f64.powi(53))), "{}", all.at(1.0 - 0.5f64.powi(53)));
}

#[test]
fn a_convolution_by_a_dirac_weight_copies() {
    let ones = |dims: &[usize], groups| {
        let n = dims.iter().product();
        (0..n).filter(|&i| dirac_start(dims, groups, i) == 1.0).collect::<Vec<usize>>()
    };
    assert_eq!(ones(&[4, 2, 3], 2), [1, 10, 13, 22]);
    assert_eq!(ones(&[2, 1, 3], 2), [1, 4]);
    assert_eq!(ones(&[2, 3, 1, 2], 1), [1, 9]);
}

#[test]
fn vectors_that_are_nearly_parallel_become_orthogonal() {
    let q = orthogonal_start(&[3, 5], 2.0, (0..15).map(|i| 0.01 + 1e-9 * ((i * i) % 7) as f64).collect(), None);
    let row = |r: usize| (0..5).map(|k| q.at(5 * r + k)).collect::<Vec<_>>();
    for (a, b) in [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)] {
        let dot: f64 = row(a).iter().zip(row(b)).map(|(x, y)| x * y).sum();
        assert!((dot - if a == b { 4.0 } else { 0.0 }).abs() < 1e-13, "{a}·{b} = {dot}");
    }
    let column = orthogonal_start(&[3, 1], 10.0, vec![0.3, 0.0, 0.4], None);
    let close = |(i, want): (usize, f64)| (column.at(i) - want).abs() < 1e-14;
    assert!([(0, 6.0), (1, 0.0), (2, 8.0)].into_iter().all(close));
    // No direction is left, and none is made up.
    let none = orthogonal_start(&[2, 2], 1.0, vec![0.0; 4], None);
    assert_eq!([0, 1, 2, 3].map(|i| none.at(i)), [0.0; 4]);
}

#[test]
fn many_elements_are_those_of_their_indices() {
    let n = PARALLEL + 5;
    let mut x = vec![0u16; n];
    write_draws(
        bytemuck::cast_slice_mut(&mut x),
        DType::U16,
        workers(3).as_ref(),
        &by_element(|i| (i % 65_521) as f64),
    );
    assert!(x.iter().enumerate().all(|(i, &x)| usize::from(x) == i % 65_521));
}

#[test]
fn the_key_of_random_ops_starts_with_the_seed() {
    let fill = |name: &str, dims: &[usize]| {
        let mut x = vec![9u32; dims[0]];
        let init = Init::Zeros.attrs(&[]);
        fill_leaf_bytes(bytemuck::cast_slice_mut(&mut x), (DType::U32, dims), &init, ((8 << 32) | 7, name), None);
        x
    };
    assert_eq!(fill(RNG_STATE, &[4]), [7, 8, 0, 0]);
    assert_eq!((fill(RNG_STATE, &[5]), fill("other", &[4])), (vec![0; 5], vec![0; 4]));
    let check =
        |name: &str, dtype, dims: &[usize], init: Init| check_drawn_init((dtype, dims), &init.attrs(&[]), name).err();
    let normal = Init::Normal(1.0);
    assert_eq!(check(RNG_STATE, DType::U32, &[4], normal), None);
    assert_eq!((check("w", DType::F16, &[4], normal), check("w", DType::I8, &[4], Init::Ones)), (None, None));
    let refused = |dtype: DType| Some(format!("no random start values of {dtype}"));
    assert_eq!(check("w", DType::U32, &[4], normal), refused(DType::U32));
    assert_eq!(check(RNG_STATE, DType::I32, &[4], normal), refused(DType::I32));
    assert_eq!(check(RNG_STATE, DType::U32, &[3], normal), refused(DType::U32));
}

#[test]
fn numbers_are_rounded_to_each_type() {
    let bytes = |dtype: DType, x: f64| {
        let mut words = [u64::MAX; 4];
        let two = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..2 * dtype.size()];
        fill_constant_start_value(two, dtype, x);
        let (first, second) = two.split_at(dtype.size());
        assert_eq!(first, second);
        first.to_vec()
    };
    assert_eq!(bytes(DType::F16, 1.5), half::f16::from_f32(1.5).to_le_bytes());
    assert_eq!(bytes(DType::BF16, 1.5), half::bf16::from_f32(1.5).to_le_bytes());
    assert_eq!((bytes(DType::I8, -3.0), bytes(DType::U8, 200.0)), (vec![253], vec![200]));
    assert_eq!((bytes(DType::I16, -3.0), bytes(DType::U16, 513.0)), (vec![253, 255], vec![1, 2]));
    assert_eq!(bytes(DType::I64, -2.0), (-2i64).to_le_bytes());
    assert_eq!(bytes(DType::U64, 258.0), 258u64.to_le_bytes());
    assert_eq!(bytes(DType::C64, 0.1), [0.1f32.to_le_bytes(), [0; 4]].concat());
    assert_eq!(bytes(DType::C128, 0.1), [0.1f64.to_le_bytes(), [0; 8]].concat());
}

#[test]
fn threads_do_not_change_start_values() {
    let pool = workers(3).expect("threads");
    for (init, dims) in [(Init::Normal(2.0), [1, (1 << 17) + 77]), (Init::Orthogonal(1.0), [300, 500])] {
        assert!(is_large(&dims));
        let mut x = vec![vec![0f32; dims[0] * dims[1]]; 2];
        for (x, pool) in x.iter_mut().zip([None, Some(&pool)]) {
            fill_leaf_bytes(bytemuck::cast_slice_mut(x), (DType::F32, &dims), &init.attrs(&[]), (7, "w"), pool);
        }
        assert!(x[0] == x[1], "{init:?}");
    }
}
