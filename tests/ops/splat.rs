//! Splats: known numbers, a plain loop over all splats, differences, ties, limits of depth, faults, wrong use.

use crate::common::{How, PLAIN, Tensor, run, same_conform_bits, try_run_once};
use crate::splat_scenes::{CAMERA, F64, NAMES, Scene, drawn, gradients, image_by, image_of, render, staged, tensor};
use arenagrad::error::Kind;
use arenagrad::graph::splat::{SplatImage, Splats};
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Missing, Var};
use arenagrad::graph::{hvp, jvp, vjp};
use arenagrad::optim;
use arenagrad::prelude::{Session, train};
use arenagrad::tools::arena::Node;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::fuzz::{LeafValues, RunOptions, check_on_leaves, interpret};
use arenagrad::tools::passes::pipeline::run_whole_pipeline;

fn near(what: &str, have: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(have.len(), want.len(), "{what}");
    for (a, b) in have.iter().zip(want) {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance, "{what}: {have:?}, not {want:?}");
    }
}

/// Two splats of which the numbers of one pixel are known.
fn two_splats() -> Scene {
    let harmonics = [
        [0.5, 0.2, -0.3, 0.1, 0.0, 0.2, -0.2, 0.1, 0.0, 0.05, 0.3, -0.1],
        [-0.2, 0.6, 0.1, 0.0, 0.2, 0.0, 0.3, 0.0, -0.1, 0.0, 0.0, 0.2],
    ];
    vec![
        tensor(&[2, 3], &[0.1, -0.05, 0.0, -0.2, 0.1, 0.6]),
        tensor(&[2, 3], &[0.5, 0.3, 0.4, 0.6, 0.7, 0.5].map(f64::ln)),
        tensor(&[2, 4], &[1.0, 0.1, -0.2, 0.3, 0.9, 0.0, 0.3, 0.0]),
        tensor(&[2], &[0.7, 0.5]),
        tensor(&[2, 4, 3], harmonics.as_flattened()),
        tensor(&[10], &CAMERA),
    ]
}

#[test]
fn a_pixel_has_the_known_numbers() {
    let (scene, options) = (two_splats(), SplatImage::new(4, 4).background([0.1, 0.2, 0.3]));
    let at = 4 * (2 * 4 + 1);
    let rgba = [0.0883332, 0.1252197, 0.1248075, 0.5019618];
    near("pixel", &render(&scene, options)[0].data[at..at + 4], &rgba, 6e-8);
    let mut cotangent = tensor(&[4, 4, 4], &[0.0; 64]);
    cotangent.data[at..at + 4].copy_from_slice(&[1.0, -0.5, 0.25, 0.7]);
    let have = gradients(&scene, options, cotangent);
    near("positions", &have[0].data, &[-0.4770186, -0.3768030, -0.1229747, -0.1439512, -0.1771320, -0.0460972], 6e-8);
    near("log-scales", &have[1].data, &[0.3840245, 0.0012927, 0.0124686, 0.0199258, 0.1075970, 0.0273501], 6e-8);
    let turned = [-0.0019937, -0.0206192, 0.0516923, 0.0479802, 0.0057065, 0.0648419, -0.0171194, -0.0534625];
    near("rotations", &have[2].data, &turned, 6e-8);
    near("opacities", &have[3].data, &[0.3365813, 0.2799718], 6e-8);
    near("first colour", &have[4].data[..3], &[0.0497113, -0.0300668, 0.0150064], 6e-8);
    near("second colour", &have[4].data[12..15], &[0.0332064, -0.0200842, 0.0100241], 6e-8);
}

#[test]
fn of_equal_distances_the_first_is_in_front() {
    let mut scene = drawn(2, &[2, 3], 1);
    scene[0] = tensor(&[2, 3], &[0.0; 6]);
    scene[1] = tensor(&[2, 3], &[0.0; 6]);
    scene[3] = tensor(&[2], &[1.0, 1.0]);
    scene[4] = tensor(&[2, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let middle = |scene: &Scene| render(scene, SplatImage::new(3, 3).gamma(1.0))[0].data[16..20].to_vec();
    near("the first", &middle(&scene), &[1.0, 0.0, 0.0, 1.0], 0.0);
    scene[0].data[2] = 0.01;
    near("the nearer", &middle(&scene), &[0.0, 1.0, 0.0, 1.0], 0.0);
    // A sphere's mirror image on the other side is as far away.
    scene[0] = tensor(&[2, 3], &[0.3, 0.0, 0.0, -0.3, 0.0, 0.0]);
    near("the first of a mirrored pair", &middle(&scene)[..1], &[(-0.5 * 0.09f64 / 1.01).exp()], 1e-3);
}

#[test]
fn what_the_camera_does_not_see_is_left_out() {
    let options = SplatImage::new(5, 5).gamma(1.0).background([0.1, 0.2, 0.3]).near(0.5).far(4.0);
    let empty = |scene: &Scene| {
        let [image, passes] = &render(scene, options)[..] else { panic!() };
        let blank = image.data.chunks(4).all(|p| p == [0.1, 0.2, 0.3, 0.0]);
        assert_eq!(blank, passes.data.iter().all(|t| *t == 1.0));
        let g = gradients(scene, options, tensor(&[5, 5, 4], &[1.0; 100]));
        assert_eq!(blank, g[..5].iter().all(|t| t.data.iter().all(|x| *x == 0.0)));
        blank
    };
    let mut scene = drawn(1, &[1, 3], 5);
    scene[3] = tensor(&[1], &[0.5]);
    for (z, seen) in [(0.0, true), (-3.4, false), (-2.6, false), (-2.4, true), (0.9, true), (1.1, false)] {
        scene[0] = tensor(&[1, 3], &[0.05, 0.1, z]);
        assert_eq!(empty(&scene), !seen, "depth {}", z + 3.0);
    }
    scene[0] = tensor(&[1, 3], &[0.05, 0.1, 0.0]);
    for (opacity, seen) in [(-1.0, false), (0.0, false), (0.0039, false), (0.004, true)] {
        // At the centre of the middle pixel, α is the opacity.
        (scene[0], scene[3]) = (tensor(&[1, 3], &[0.0; 3]), tensor(&[1], &[opacity]));
        assert_eq!(empty(&scene), !seen, "opacity {opacity}");
    }
    let none = drawn(0, &[0, 3], 1);
    let image = render(&none, options);
    assert!(image[0].data.chunks(4).all(|p| p == [0.1, 0.2, 0.3, 0.0]) && image[1].data == [1.0; 25]);
    let g = gradients(&none, options, tensor(&[5, 5, 4], &[1.0; 100]));
    assert!(g.iter().all(|t| t.data.iter().all(|x| *x == 0.0)) && g[5].data.len() == 10);
}

#[test]
fn clamped_opacities_and_colours_have_no_gradient() {
    let mut scene = drawn(2, &[2, 3], 2);
    scene[0] = tensor(&[2, 3], &[0.0, 0.0, 0.0, 0.1, 0.0, 0.5]);
    scene[3] = tensor(&[2], &[1.5, 0.5]);
    scene[4] = tensor(&[2, 3], &[-0.5, 0.5, 2.0, 0.5, 0.5, 0.5]);
    let g = gradients(&scene, SplatImage::new(5, 5), tensor(&[5, 5, 4], &[1.0; 100]));
    assert!(g[3].data[0] == 0.0 && g[3].data[1] != 0.0);
    assert!(g[4].data[0] == 0.0 && g[4].data[1] != 0.0 && g[4].data[2] == 0.0);
}

#[test]
fn limits_end_the_step_with_tile_and_count() {
    // Each covers the whole image.
    let mut scene = drawn(9, &[9, 3], 7);
    scene[0] = tensor(&[9, 3], &[0.0; 27]);
    scene[1] = tensor(&[9, 3], &[1.0; 27]);
    scene[3] = tensor(&[9], &[0.3; 9]);
    let fails = |options: SplatImage| {
        let e = try_run_once(&image_of(&scene, options, F64), &scene, PLAIN).unwrap_err();
        assert_eq!(e.kind, Kind::Data);
        e.to_string()
    };
    let options = SplatImage::new(16, 16).tile(4);
    let e = fails(options.max_list(8));
    assert!(e.contains("splat_render") && e.contains("tile 0 has 9 splats, and max_list is 8"), "{e}");
    let e = fails(options.max_steps(5));
    assert!(e.contains("9 splats cover a pixel of tile 0, and max_steps is 5"), "{e}");
    let all = render(&scene, options);
    let fits = render(&scene, options.max_list(9).max_steps(9));
    assert!(all.iter().zip(&fits).all(|(a, b)| same_conform_bits(a, b)));
    // The nearest ones stay. With equal distances these are the first.
    let few = scene.iter().zip([2, 2, 2, 2, 2, 10]).map(|(t, n)| match n {
        10 => t.clone(),
        n => {
            let (mut dims, width) = (t.dims.clone(), t.data.len() / 9);
            dims[0] = n;
            tensor(&dims, &t.data[..n * width])
        }
    });
    let few: Vec<Tensor> = few.collect();
    let two = render(&few, options);
    for cut in [options.max_list(2), options.max_steps(2)] {
        let cut = render(&scene, cut.truncate(true));
        assert!(two.iter().zip(&cut).all(|(a, b)| same_conform_bits(a, b)));
    }
    // A gradient alone stops as well.
    let g = vjp(&image_of(&scene, options.max_list(8), F64), &["image"], &NAMES, Missing::Zero).unwrap();
    let cotangent = tensor(&[16, 16, 4], &[1.0; 1024]);
    assert!(try_run_once(&g, &[&scene[..], &[cotangent]].concat(), PLAIN).is_err());
}

#[test]
fn nan_is_shown_and_strange_numbers_do_not_panic() {
    let options = SplatImage::new(5, 5);
    for k in 0..5 {
        let mut scene = drawn(2, &[2, 4, 3], 4);
        scene[0] = tensor(&[2, 3], &[0.0; 6]);
        scene[3] = tensor(&[2], &[0.5; 2]);
        scene[k].data[0] = f64::NAN;
        assert!(render(&scene, options)[0].data.iter().any(|x| x.is_nan()), "{}", NAMES[k]);
        for strange in [f64::INFINITY, -f64::INFINITY, 1e300, -1e300, 5e-324, 0.0] {
            scene[k].data.fill(strange);
            gradients(&scene, options, tensor(&[5, 5, 4], &[1.0; 100]));
        }
    }
    // A camera at its own target, and one that looks along its own up.
    for camera in [[0.0; 10], [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 60.0]] {
        let mut scene = drawn(3, &[3, 3], 4);
        scene[5] = tensor(&[10], &camera);
        let all = render(&scene, options);
        assert!(all.iter().all(|t| t.data.iter().all(|x| x.is_finite())));
    }
}

#[test]
fn wrong_use_is_refused_by_name() {
    let build = |edit: &dyn Fn(&mut Scene, &mut SplatImage)| {
        let (mut scene, mut options) = (drawn(2, &[2, 3], 1), SplatImage::new(4, 4));
        edit(&mut scene, &mut options);
        let g = Builder::new("bad");
        let x: Vec<Var> = scene.iter().zip(NAMES).map(|(t, name)| g.input(name, &t.dims, t.dtype)).collect();
        let splats = Splats { positions: x[0], log_scales: x[1], rotations: x[2], opacities: x[3], colours: x[4] };
        let [image, _] = splats.render(x[5].splat_view(options.height), options);
        let e = g.finish([image.named("image")]).unwrap_err().to_string();
        assert!(e.contains("splat") && e.contains("splat.rs"), "{e}");
        e
    };
    let dims = |k: usize, dims: &'static [usize]| move |s: &mut Scene, _: &mut SplatImage| s[k].dims = dims.to_vec();
    assert!(build(&dims(0, &[2, 2])).contains("positions has shape [2,2]"));
    assert!(build(&dims(1, &[3, 3])).contains("log-scales has shape [3,3], not [2,3]"));
    assert!(build(&dims(2, &[2, 3])).contains("quaternions has shape [2,3], not [2,4]"));
    assert!(build(&dims(3, &[2, 1])).contains("opacities has shape [2,1], not [2]"));
    assert!(build(&dims(4, &[2, 5, 3])).contains("colours have shape [2,5,3]"));
    assert!(build(&dims(5, &[9])).contains("a camera is f32[10] or f64[10]"));
    assert!(build(&|s, _| s[5].dtype = DType::I32).contains("a camera is f32[10] or f64[10]"));
    assert!(build(&|s, _| s[3].dtype = DType::F32).contains("types f64 and f32 differ"));
    assert!(build(&|_, o| o.width = 0).contains("width is 0"));
    assert!(build(&|_, o| o.tile = usize::MAX).contains("tile is"));
    assert!(build(&|_, o| o.gamma = f64::NAN).contains("gamma is NaN"));
    assert!(build(&|_, o| o.alpha_cutoff = 1.5).contains("alpha_cutoff is 1.5"));
    assert!(build(&|_, o| o.far = 0.0).contains("near is 0.01 and far is 0"));
    assert!(build(&|_, o| o.background[1] = f64::INFINITY).contains("background is"));
}

#[test]
fn a_second_derivative_is_refused() {
    let scene = drawn(2, &[2, 3], 1);
    let g = Builder::new("loss");
    let x: Vec<Var> = scene.iter().zip(NAMES).map(|(t, name)| g.input(name, &t.dims, F64)).collect();
    let splats = Splats { positions: x[0], log_scales: x[1], rotations: x[2], opacities: x[3], colours: x[4] };
    let [image, _] = splats.render(x[5].splat_view(4), SplatImage::new(4, 4));
    let g = g.finish([image.sum(..).named("loss")]).unwrap();
    let e = hvp(&g, "loss", &["positions"]).unwrap_err();
    assert_eq!(e.kind, Kind::Derivative);
    assert!(e.to_string().contains("splats have no second derivative"), "{e}");
}

/// Pixels that the oracle knows, in both types, agree; and it knows most of them.
#[test]
fn the_oracle_draws_the_same_image() {
    for (dtype, colours) in [(F64, &[12, 4, 3][..]), (DType::F32, &[12, 3])] {
        let g = Builder::new("splats");
        let input = |name: &str, dims: &[usize]| g.input(name, dims, dtype);
        let splats = Splats {
            positions: input("positions", &[12, 3]),
            log_scales: input("log_scales", &[12, 3]),
            rotations: input("rotations", &[12, 4]),
            opacities: input("opacities", &[12]),
            colours: input("colours", colours),
        };
        let options = SplatImage::new(12, 10).background([0.3, 0.2, 0.1]).radius_scale(0.3).near(-9.0).tile(4);
        let [image, passes] = splats.render(input("view", &[4, 3]), options);
        let graph = g.finish([image.named("image"), passes.named("passes")]).unwrap();
        let leaves = LeafValues::draw(graph.view(), 3).unwrap();
        let reference = interpret(graph.view(), &leaves).unwrap();
        let (image, passes) = (&reference.outputs[0].array, &reference.outputs[1].array);
        let known = image.bounds().iter().filter(|b| b.is_finite()).count();
        let covered = (0..passes.len()).filter(|&i| passes.number(i) < 0.9).count();
        assert!(
            known > 400 && covered > 20,
            "{known} of 480 numbers are known in {dtype}, {covered} pixels are covered"
        );
        let seen = check_on_leaves(graph.view(), &leaves, 3, &[RunOptions::default()]).unwrap();
        assert!(seen.compared >= known, "{} compared", seen.compared);
    }
}

fn ops_of(g: &GraphBuf) -> Vec<&str> {
    let v = g.view();
    (0..v.nodes()).map(|n| v.def_of(Node::new(n)).name).filter(|name| name.starts_with("splat")).collect()
}

#[test]
fn two_stages_are_one_op_again() {
    let (scene, options) = (drawn(30, &[30, 4, 3], 9), SplatImage::new(20, 18).tile(8));
    let (whole, split) = (image_of(&scene, options, F64), image_by(&scene, options, F64, staged));
    assert_eq!(ops_of(&split), ["splat_prepare", "splat_rasterize"]);
    let (a, b) = (run(&whole, &scene, PLAIN), run(&split, &scene, How { optimise: false, ..PLAIN }));
    assert!(a.iter().zip(&b).all(|(a, b)| same_conform_bits(a, b)));
    assert_eq!(ops_of(&run_whole_pipeline(split.view()).unwrap()), ["splat_render"]);
    let back = |g: &GraphBuf| vjp(g, &["image"], &NAMES, Missing::Zero).unwrap();
    assert_eq!(back(&whole), back(&split));
    assert_eq!(jvp(&whole, &["image"], &NAMES).unwrap(), jvp(&split, &["image"], &NAMES).unwrap());
    // What stands between the stages is read, and stays.
    let g = Builder::new("read");
    let x: Vec<Var> = scene.iter().zip(NAMES).map(|(t, name)| g.input(name, &t.dims, F64)).collect();
    let splats = Splats { positions: x[0], log_scales: x[1], rotations: x[2], opacities: x[3], colours: x[4] };
    let prepared = splats.prepare(x[5].splat_view(18), options);
    let [image, _] = prepared.rasterize();
    let g = g.finish([image.sum(..).named("loss"), prepared.order.named("order")]).unwrap();
    assert_eq!(ops_of(&run_whole_pipeline(g.view()).unwrap()), ["splat_prepare", "splat_rasterize"]);
    // Other numbers between the stages have no derivative.
    let g = Builder::new("changed");
    let x: Vec<Var> = scene.iter().zip(NAMES).map(|(t, name)| g.input(name, &t.dims, F64)).collect();
    let splats = Splats { positions: x[0], log_scales: x[1], rotations: x[2], opacities: x[3], colours: x[4] };
    let mut prepared = splats.prepare(x[5].splat_view(18), options);
    prepared.records = prepared.records * 2.0;
    let [image, _] = prepared.rasterize();
    let g = g.finish([image.sum(..).named("loss")]).unwrap();
    let e = vjp(&g, &["loss"], &["positions"], Missing::Zero).unwrap_err();
    assert!(e.kind == Kind::Derivative && e.to_string().contains("as a part of splat_render only"), "{e}");
}

/// 500 steps of Adam fit splats to an image of others.
#[test]
fn splats_learn_an_image() {
    let options = SplatImage::new(64, 64).gamma(1.0);
    let (scene, n) = (drawn(12, &[12, 3], 21), 40);
    let target = render(&scene, options)[0].data.clone();
    let g = Builder::new("fit");
    let normal = |name, dims: &[usize], std, mean: f64| g.param(name, dims, DType::F32, Init::Normal(std)) + mean;
    let splats = Splats {
        positions: normal("positions", &[n, 3], 0.6, 0.0),
        log_scales: normal("log_scales", &[n, 3], 0.1, -1.5),
        rotations: normal("rotations", &[n, 4], 1.0, 0.0),
        opacities: normal("opacities", &[n], 0.05, 0.5),
        colours: normal("colours", &[n, 3], 0.1, 0.5),
    };
    let wanted = g.input("target", [64, 64, 4], DType::F32);
    let [image, _] = splats.render(g.input("camera", [10], DType::F32).splat_view(64), options);
    let error = image - wanted;
    let graph = g.finish([(error * error).mean(..).named("loss")]).unwrap();
    let mut p = Session::new().compile(&train(&graph, "loss", optim::Adam::new(0.02)).unwrap()).unwrap();
    p.init(1).unwrap();
    let as_f32 = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    p.values_mut::<f32>("target").unwrap().copy_from_slice(&as_f32(&target));
    p.values_mut::<f32>("camera").unwrap().copy_from_slice(&as_f32(&CAMERA));
    let mut losses = Vec::new();
    for _ in 0..500 {
        p.step().unwrap();
        losses.push(p.values::<f32>("loss").unwrap()[0]);
    }
    let (first, last) = (losses[0], losses[499]);
    assert!(last * 20.0 < first, "{first} became {last}");
}

/// The place, and the steps right, up and forward, of a camera in images of `height` rows.
fn view_of(camera: [f64; 10], height: usize) -> Vec<f64> {
    let g = Builder::new("view");
    let view = g.input("camera", [10], F64).splat_view(height);
    let g = g.finish([view.named("view")]).unwrap();
    run(&g, &[tensor(&[10], &camera)], PLAIN).remove(0).data
}

#[test]
fn a_view_is_the_place_and_the_steps_of_a_camera() {
    // 90 degrees from the lowest to the highest row: at distance 1 the image is 2 high.
    let camera = [0.0, 0.0, -5.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 90.0];
    for (height, step) in [(1, 2.0), (4, 0.5), (0, 2.0)] {
        let want = [0.0, 0.0, -5.0, step, 0.0, 0.0, 0.0, step, 0.0, 0.0, 0.0, 1.0];
        near(&format!("{height} rows"), &view_of(camera, height), &want, 1e-12);
    }
    // Up is along x, so right is against y; lengths do not matter.
    let turned = view_of([1.0, 2.0, 3.0, 1.0, 2.0, 7.0, 3.0, 0.0, 0.0, 60.0], 2);
    let step = 1.0 / 3f64.sqrt();
    near("turned", &turned, &[1.0, 2.0, 3.0, 0.0, -step, 0.0, step, 0.0, 0.0, 0.0, 0.0, 1.0], 1e-12);
    // What has no direction is along z.
    let none = view_of([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 90.0], 2);
    near("none", &none, &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0], 1e-12);
}
