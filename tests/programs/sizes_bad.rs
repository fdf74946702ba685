//! What a program of many sizes refuses; each time, it goes on with the sizes that are right.

use arenagrad::graph::{Builder, DType, Init};
use arenagrad::nn;
use arenagrad::session::{Program, Session, SizedProgram};
use arenagrad::{Error, Result};

fn error(result: Result<&mut Program>) -> Error {
    result.err().unwrap()
}

/// The sum of a product, for a batch.
fn good() -> SizedProgram {
    Session::new().compile_sized("good", |g| {
        let x = g.input("x", [g.symbol("batch"), 2], DType::F32);
        g.finish([nn::linear(g, "fc", x, 3).sum(..).named("y")])
    })
}

fn works(all: &mut SizedProgram) {
    for batch in [2, 3] {
        let p = all.at(&[("batch", batch)]).unwrap();
        p.init_rest(0).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(1.0);
        p.step().unwrap();
        assert!(p.values::<f32>("y").unwrap()[0].is_finite());
    }
}

#[test]
fn bindings_that_do_not_fit_the_recipe_are_refused() {
    let mut all = good();
    for (sizes, words) in [
        (&[][..], "without symbols: symbol \"batch\" has no size; no symbol is bound, at "),
        (&[("bacth", 7)], "at bacth=7: symbol \"batch\" has no size; bound are bacth; did you mean bacth?, at "),
        (
            &[("batch", 7), ("len", 2)],
            "at batch=7, len=2: symbol \"len\" is bound, but the recipe does not ask for it; it asks for batch",
        ),
        (&[("batch", 7), ("batch", 7)], "symbol \"batch\" is bound twice, to 7 and to 7"),
        (&[("batch", 7), ("batch", 8)], "symbol \"batch\" is bound twice, to 7 and to 8"),
        (&[("batch", usize::MAX)], "the largest size is 4294967295"),
        (&[("batch", u32::MAX as usize)], "at batch=4294967295: "),
    ] {
        for _ in 0..2 {
            let e = error(all.at(sizes)).to_string();
            assert!(e.contains(words), "{e}");
        }
        works(&mut all);
    }
    assert!(error(all.at(&[])).to_string().contains("sizes_bad.rs:15"));
    let e = Builder::with_sizes("net", &[("batch", 7), ("batch", 8)]).finish([]).unwrap_err();
    assert!(e.message.contains("symbol \"batch\" is bound twice, to 7 and to 8"), "{e}");
    assert_eq!(all.plans_made(), 2);
    let mut fixed =
        Session::new().compile_sized("fixed", |g| g.finish([g.input("x", [2], DType::F32).exp().named("y")]));
    assert!(error(fixed.at(&[("len", 2)])).message.ends_with("the recipe does not ask for it; it asks for none"));
}

#[test]
fn a_recipe_that_asks_in_vain_gives_no_program_though_it_makes_a_graph() {
    let mut all = Session::new().compile_sized("other", |g| {
        let own = Builder::new("own");
        own.finish([own.input("x", [g.symbol("batch"), 2], DType::F32).exp().named("y")])
    });
    for _ in 0..2 {
        let e = error(all.at(&[])).message;
        assert!(e.starts_with("without symbols: symbol \"batch\" has no size"), "{e}");
        all.at(&[("batch", 3)]).unwrap();
    }
}

#[test]
fn a_recipe_that_fails_at_one_size_works_at_others() {
    let mut all = Session::new().compile_sized("some", |g| {
        let batch = g.symbol("batch");
        let x = g.input("x", [batch, 2], DType::F32);
        let x = x.slice(&[0, 0], &[batch.min(3), 2], &[1, 1]);
        let y = x.reshape([3, 2]);
        if batch == 9 {
            return Err(Error::new(arenagrad::error::Kind::Data, "nine is too many"));
        }
        g.finish([y.sum(..).named("y")])
    });
    let p = all.at(&[("batch", 4)]).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    for (batch, words) in [(0, "at batch=0: reshape"), (2, "at batch=2: reshape"), (9, "at batch=9: nine is too many")]
    {
        let e = error(all.at(&[("batch", batch)])).to_string();
        assert!(e.contains(words), "{e}");
        assert_eq!(all.kept().count(), 1);
    }
    let p = all.at(&[("batch", 4)]).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [6.0]);
}

#[test]
fn leaves_that_depend_on_a_size_are_refused_with_both_places() {
    let with = |kind: &'static str| {
        Session::new().compile_sized("leaf", move |g: &Builder| {
            let batch = g.symbol("batch");
            let x = g.input("x", [batch, 2], DType::F32);
            let w = match (kind, batch) {
                ("dims", _) => g.param("w", [batch, 2], DType::F32, Init::Zeros),
                ("state", _) => g.state("w", [batch, 2], DType::F32, Init::Zeros),
                ("init", 5) => g.param("w", [1, 2], DType::F32, Init::Ones),
                ("kind", 5) => g.input("w", [1, 2], DType::F32),
                ("late", 5) => g.param("w", [1, 2], DType::F32, Init::Ones),
                ("late", _) => g.input("w", [1, 2], DType::F32),
                _ => g.param("w", [1, 2], DType::F32, Init::Zeros),
            };
            g.finish([(x * w).sum(..).named("y")])
        })
    };
    for (kind, first, second) in [
        ("dims", "a param f32[4,2]", "a param f32[5,2]"),
        ("state", "a state f32[4,2]", "a state f32[5,2]"),
        ("init", "zeros", "ones"),
        ("kind", "a param f32[1,2]", "an input f32[1,2]"),
        ("late", "an input f32[1,2]", "a param f32[1,2]"),
    ] {
        let mut all = with(kind);
        all.at(&[("batch", 4)]).unwrap().init(0).unwrap();
        for _ in 0..2 {
            let e = error(all.at(&[("batch", 5)])).message;
            let parts =
                ["at batch=5: \"w\" is", first, second, "in the graph at batch=4 (", "in the graph at batch=5 ("];
            assert!(parts.iter().all(|part| e.contains(part)), "{e}");
            assert_eq!(e.matches("sizes_bad.rs:").count(), 2, "{e}");
        }
        let p = all.at(&[("batch", 4)]).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(1.0);
        if kind == "late" {
            p.values_mut::<f32>("w").unwrap().fill(1.0);
        }
        p.step().unwrap();
    }
}

#[test]
fn a_leaf_of_one_size_only_is_kept_and_must_be_set() {
    let mut all = Session::new().compile_sized("more", |g| {
        let batch = g.symbol("batch");
        let x = g.input("x", [batch, 2], DType::F32);
        let h = nn::linear(g, "fc", x, 2);
        let h = if batch > 1 { nn::linear(g, "more", h, 2) } else { h };
        g.finish([h.sum(..).named("y")])
    });
    let p = all.at(&[("batch", 1)]).unwrap();
    p.init(0).unwrap();
    let weight = p.values::<f32>("fc.weight").unwrap().to_vec();
    let p = all.at(&[("batch", 2)]).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    let e = p.step().unwrap_err().message;
    assert!(e.contains("param \"more.weight\"") && e.contains("nor were 1 more"), "{e}");
    p.init_rest(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("fc.weight").unwrap(), weight);
    let more = p.values::<f32>("more.weight").unwrap().to_vec();
    assert_eq!(all.at(&[("batch", 1)]).unwrap().values::<f32>("fc.weight").unwrap(), weight);
    assert_eq!(all.at(&[("batch", 2)]).unwrap().values::<f32>("more.weight").unwrap(), more);
}

#[test]
fn choices_of_the_session_are_checked_at_each_size() {
    let recipe = |g: &Builder| {
        let x = g.input("x", [g.symbol("batch"), 2], DType::F32);
        g.finish([nn::linear(g, "fc", x, 3).named("y")])
    };
    let mut all = Session::new().threads(0).compile_sized("g", recipe);
    assert!(error(all.at(&[("batch", 1)])).message.contains("at batch=1: threads is 0"));
    let mut all = Session::new().memory_budget(64).compile_sized("g", recipe);
    assert!(error(all.at(&[("batch", 1)])).message.contains("at batch=1: the memory budget of 64 bytes is too small"));
    let mut all = Session::new().precision_of("nothing.*", arenagrad::Precision::Bf16).compile_sized("g", recipe);
    assert!(error(all.at(&[("batch", 1)])).message.starts_with("at batch=1: "));
    let mut all = good();
    works(&mut all);
    let e = all.at(&[("batch", 2)]).unwrap().step_traced().unwrap_err().message;
    assert!(e.contains("without a trace"), "{e}");
}

#[test]
fn a_program_that_was_replaced_is_noticed() {
    let mut all = good();
    works(&mut all);
    let mut other = good();
    std::mem::swap(all.at(&[("batch", 2)]).unwrap(), other.at(&[("batch", 2)]).unwrap());
    let e = error(all.at(&[("batch", 3)])).message;
    assert!(e.contains("the program at batch=2 was replaced by another one"), "{e}");
    // Swapped back, all is well.
    std::mem::swap(all.at(&[("batch", 2)]).unwrap(), other.at(&[("batch", 2)]).unwrap());
    works(&mut all);
}
