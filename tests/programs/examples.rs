//! Examples do what they say.

use crate::common::families::{FAMILIES, has_family};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../examples/act_and_learn.rs"]
mod act_and_learn;
#[path = "../../examples/burgers.rs"]
mod burgers;
#[path = "../../examples/force_matching.rs"]
mod force_matching;
#[path = "../../examples/fsrs/main.rs"]
mod fsrs;
#[cfg(feature = "linalg")]
#[path = "../../examples/gaussian_process.rs"]
mod gaussian_process;
#[cfg(feature = "signal")]
#[path = "../../examples/keyword.rs"]
mod keyword;
#[path = "../../examples/neural_ode.rs"]
mod neural_ode;
#[path = "../../examples/own_loop.rs"]
mod own_loop;
#[path = "../../examples/qat.rs"]
mod qat;
#[path = "../../examples/sizes.rs"]
mod sizes;

use arenagrad::error::Result;
use arenagrad::session::{Program, Session};

/// What an example compiles has no warning: not the training step, nor what acts, judges or draws beside it.
fn has_no_warnings(p: Result<Program>) {
    let p = p.unwrap();
    for name in p.methods() {
        assert_eq!(p.plan_of(p.method(name).unwrap()).unwrap().warnings, [], "{name}");
    }
}

#[test]
fn examples_have_no_warnings() {
    let programs = [
        act_and_learn::program(),
        burgers::program(),
        force_matching::program(),
        neural_ode::program(),
        own_loop::program(),
        Session::new().compile(&qat::network(8).unwrap()),
    ];
    programs.into_iter().for_each(has_no_warnings);
}

/// A run that ends at a step of a checkpoint, or behind it, resumes to the losses of one that never stopped.
#[test]
fn a_loop_of_ones_own_resumes_to_the_same_bits() {
    let path = |name: &str| std::env::temp_dir().join(format!("arenagrad-loop-{}-{name}", std::process::id()));
    let (straight, stopped) = (path("straight"), path("stopped"));
    let (losses, best) = own_loop::run(&straight, 240).unwrap();
    let (first, _) = own_loop::run(&stopped, 70).unwrap();
    assert_eq!(first, losses[..70]);
    // The checkpoint is that of step 60.
    let (rest, same) = own_loop::run(&stopped, 240).unwrap();
    assert_eq!((rest, same), (losses[60..].to_vec(), best));
    assert_eq!(std::fs::read(&straight).unwrap(), std::fs::read(&stopped).unwrap());
    assert!(best > 0.6 && losses[239] < losses[0], "{best} {}", losses[239]);
    [straight, stopped].iter().for_each(|p| std::fs::remove_file(p).unwrap());
}

#[test]
fn a_policy_that_acts_and_learns_gets_better() {
    let means = act_and_learn::play(300).unwrap();
    let mean = |rounds: &[f32]| rounds.iter().sum::<f32>() / rounds.len() as f32;
    let (first, last) = (mean(&means[..20]), mean(&means[280..]));
    assert!(first < 0.65 && last > 0.85, "{first} {last}");
}

#[test]
fn buckets_and_short_batches_train_one_net() {
    let (means, plans) = sizes::learn(60).unwrap();
    // Three lengths, each with full batches and a short last one.
    assert_eq!(plans, 6);
    assert!(means[59] < 0.2 * means[0], "{} {}", means[0], means[59]);
}

/// Words that training never saw are told apart, from the samples on.
#[cfg(feature = "signal")]
#[test]
fn sounds_are_learnt_from_their_samples() {
    has_no_warnings(keyword::program());
    let [before, after] = keyword::learn(120).unwrap().map(|heard| keyword::accuracy(&heard));
    assert!(before < 0.5 && after > 0.8, "{before} {after}");
}

/// The formula of the exact solution satisfies the equation, and training on the residual alone comes nearer to it.
#[test]
fn a_network_solves_burgers_equation() {
    let (x, t, h) = (0.3, 0.4, 1e-3);
    let u = |dx: f64, dt: f64| burgers::exact(x + dx, t + dt);
    let slope = |a: f64, b: f64| (a - b) / (2.0 * h);
    let (u_x, u_t) = (slope(u(h, 0.0), u(-h, 0.0)), slope(u(0.0, h), u(0.0, -h)));
    let u_xx = (u(h, 0.0) - 2.0 * u(0.0, 0.0) + u(-h, 0.0)) / (h * h);
    assert!((u_t + u(0.0, 0.0) * u_x - 0.05 * u_xx).abs() < 1e-4);
    let (before, _, after) = burgers::solve(60).unwrap();
    assert!(after < 0.7 * before, "{before} {after}");
}

#[test]
fn forces_are_learnt_through_second_derivatives() {
    let fit = force_matching::fit(300).unwrap();
    let [before, after, size] = fit.force;
    assert!(after < 0.5 * before && after < 0.5 * size, "{before} {after} {size}");
    assert!(fit.energy[1] < 0.5 * fit.energy[0], "{:?}", fit.energy);
    // The known potential has its minimum, −1, at 1.2, and the slope of its formula.
    assert_eq!(force_matching::morse(1.2), [-1.0, 0.0]);
    let [up, down] = [1.001, 0.999].map(|r| force_matching::morse(r)[0]);
    assert!(((up - down) / 0.002 - force_matching::morse(1.0)[1]).abs() < 1e-4);
}

/// The hyperparameters that are found lie within three standard errors of those that the data come from.
#[cfg(feature = "linalg")]
#[test]
fn a_gaussian_process_finds_its_hyperparameters() {
    has_no_warnings(gaussian_process::program());
    let fit = gaussian_process::fit(150).unwrap();
    let [gradient, differences] = fit.gradient;
    for (i, (g, d)) in gradient.iter().zip(differences).enumerate() {
        assert!((g - d).abs() < 1e-6 * g.abs().max(1.0), "{i}: {g} {d}");
        let (known, found, error) = (gaussian_process::KNOWN[i], fit.found[i], fit.errors[i]);
        assert!((found - known).abs() < 3.0 * error && error < 0.5, "{i}: {known} {found} ± {error}");
    }
    let [known, best] = fit.loss;
    assert!(best <= known + 1e-6, "{known} {best}");
}

/// A smaller tolerance takes more steps and gives a smaller error, and a speed is learnt through the steps.
#[test]
fn a_solver_that_chooses_its_steps_is_trained_through() {
    let [before, after, coarse, fine] = neural_ode::learn(40).unwrap();
    assert!(after.error < 0.5 * before.error, "{} {}", before.error, after.error);
    assert!(coarse.error < 3e-3 && fine.error < 1e-6, "{coarse:?} {fine:?}");
    assert!(fine.tries > 3 * coarse.tries, "{} {}", fine.tries, coarse.tries);
    let end = neural_ode::exact([1.0, 0.0], std::f64::consts::FRAC_PI_4);
    assert!(end[0].abs() < 1e-15 && end[1] > 0.6 && end[1] < 0.7);
}

/// The network of 8-bit integers is as good as the float one, within 0.5 %.
#[test]
fn digits_are_told_apart_in_integers() {
    let learnt = qat::train_both(400).unwrap();
    assert!(learnt.float > 0.94, "{}", learnt.float);
    assert!(learnt.integers >= learnt.float - 0.005, "{} {}", learnt.integers, learnt.float);
    assert!((learnt.integers - learnt.rounded).abs() < 0.003, "{} {}", learnt.integers, learnt.rounded);
}

/// The loss that a fit adds up over its batches, by the plain walk over each card in f64.
fn summed_loss(weights: &[f64; 21], cards: &[&fsrs::cards::Card]) -> f64 {
    use fsrs::memory::{Memory, chance};
    let mut sum = 0.0;
    for (card, recency) in cards.iter().zip(fsrs::recency(cards)) {
        let mut memory = Memory::first(weights, card.reviews[0].rating);
        for (review, weight) in card.reviews.iter().zip(recency).skip(1) {
            let r = chance(weights, review.days, memory.stability);
            let shown = if review.rating > 1 { r } else { 1.0 - r };
            if review.days > 0.0 {
                sum -= f64::from(weight) * shown.ln();
            }
            memory = memory.next(weights, review.days, review.rating);
        }
    }
    sum
}

#[test]
fn a_fit_of_fsrs_measures_its_loss_right_and_lowers_it() {
    use fsrs::{How, fit, memory::DEFAULTS, memory::log_loss};
    let cards = fsrs::cards::cards(600, 3);
    let lengths: Vec<usize> = cards.iter().map(|c| c.reviews.len()).collect();
    assert!(lengths.iter().max() == Some(&64) && lengths.iter().min() < Some(&6), "{lengths:?}");
    let how = How { batches: 4, ..How::default() };

    // A rate of 0 leaves the weights where they start, so an epoch adds up the loss of the start.
    let still = fit(&cards, &How { lr: 0.0, epochs: 1, ..how }).unwrap();
    let start = fsrs::start::start(&cards);
    assert_eq!(still.weights.map(|w| w as f32), start.weights.map(|w| w as f32));
    let (loss, exact) = (f64::from(still.losses[0]), summed_loss(&start.weights, &start.cards));
    assert!((loss / exact - 1.0).abs() < 1e-5, "{loss} {exact}");

    // The fit comes near the weights that drew the cards, and is the same each time.
    let fitted = fit(&cards, &How { epochs: 12, ..how }).unwrap();
    let [before, after, best] = [&DEFAULTS, &fitted.weights, &fsrs::cards::TRUE].map(|w| log_loss(w, &cards));
    assert!(after < before - 0.001 && after < best + 0.001, "{before} {after} {best}");
    assert_eq!(fitted.losses, fit(&cards, &How { epochs: 12, ..how }).unwrap().losses);
}

/// The names of all examples: files and folders of `examples`.
fn example_names(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("examples")).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// The `required-features` of each example.
fn families_that_examples_need(root: &Path) -> BTreeMap<String, Vec<String>> {
    let told = cargo(root).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    let targets = packages.iter().find(|p| p["name"] == "arenagrad").unwrap()["targets"].as_array().unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let needs = |t: &Value| t["required-features"].as_array().map_or(vec![], |all| all.iter().map(text).collect());
    targets.iter().filter(|t| t["kind"][0] == "example").map(|t| (text(&t["name"]), needs(t))).collect()
}

/// How long an example is watched. In a release most end before.
const WATCHED: Duration = Duration::from_secs(if cfg!(debug_assertions) { 2 } else { 10 });

/// The README's one command runs each of them: it ends well, or still runs when it has been watched for long enough.
#[test]
fn every_example_runs_without_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let release = (!cfg!(debug_assertions)).then_some("--release");
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--examples"]).args(release);
    if !cfg!(feature = "all-families") {
        let on: Vec<&str> = FAMILIES.iter().filter(|family| family.1).map(|family| family.0).collect();
        build.args(["-p", "arenagrad", "--no-default-features", "--features", &on.join(",")]);
    }
    assert!(build.status().unwrap().success(), "the examples are not built");

    // target/PROFILE/deps/TEST and target/PROFILE/examples/NAME.
    let test = std::env::current_exe().unwrap();
    let programs = test.parent().and_then(Path::parent).unwrap().join("examples");
    // What they write stays out of the tree.
    let folder = std::env::temp_dir().join(format!("arenagrad-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let needs = families_that_examples_need(root);
    for name in example_names(root) {
        if let Some(missing) = needs[&name].iter().find(|need| has_family(need) == Some(false)) {
            println!("{name} is left out: it needs the feature {missing}");
            continue;
        }
        let mut program = Command::new(programs.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
        program.current_dir(&folder).env("TMPDIR", &folder).stdout(Stdio::null()).stderr(Stdio::inherit());
        let (mut running, start) = (program.spawn().unwrap(), Instant::now());
        let ended = loop {
            match running.try_wait().unwrap() {
                None if start.elapsed() < WATCHED => std::thread::sleep(Duration::from_millis(20)),
                ended => break ended,
            }
        };
        match ended {
            Some(status) => assert!(status.success(), "{name} ends with {status}"),
            None => {
                running.kill().unwrap();
                running.wait().unwrap();
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_readme_lists_each_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let list = readme.split_once("## Examples").unwrap().1.split_once("\n## ").unwrap().0;
    let mut rows: Vec<&str> =
        list.lines().filter_map(|l| l.strip_prefix("* [")?.split_once("](")).map(|r| r.0).collect();
    rows.sort_unstable();
    assert_eq!(rows, example_names(root));
    assert!(list.contains("`cargo run --release --example NAME`"));
    let links = list.lines().filter_map(|l| l.strip_prefix("* [")?.split_once("](")?.1.split_once(')')).map(|l| l.0);
    links.for_each(|link| assert!(root.join(link).is_file(), "{link} is no file"));
}
