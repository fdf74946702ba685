//! Configurations: what they mean, and how they are refused.

use super::*;
use arenagrad::optim::{Group, Lbfgs, Muon, MuonScale, NAdamW, RAdam};

fn from(text: &str) -> Run<Config> {
    let args = TrainArgs { lr: Some(0.5), ..TrainArgs::default() };
    let (file, base) = (parse_config(Path::new("a.toml"), text)?, Path::new("/base"));
    build_config(file, &args, base, None).map_err(|f| f.in_file(Path::new("a.toml"), text))
}

/// The message for `text` names the file, and goes on with `want`.
fn starts(text: &str, want: &str) {
    let got = from(text).unwrap_err().message;
    assert!(got.starts_with(&format!("a.toml:{want}")), "{text}\n{got}");
}

#[test]
fn flags_win_over_the_file_and_folders_are_relative_to_it() {
    let c = from(
        "steps = 7\nprecision = \"bf16\"\ndata = \"idx\"\n[optimiser]\nkind = \"sgd\"\nlr = 0.1\n[schedule]\nkind = \"constant\"",
    );
    let c = c.unwrap();
    assert_eq!((c.steps, c.data, c.precision), (7, Some("/base/idx".into()), Precision::Bf16));
    assert_eq!(c.schedule, Schedule::Constant { lr: 0.5 });
    assert_eq!(c.optimiser, arenagrad::optim::Sgd::new(0.5).into());
}

#[test]
fn an_optimiser_is_what_its_table_says() {
    let table = "[optimiser]\nkind = \"muon\"\nns_steps = 3\nadjust_lr = \"match_rms_adamw\"\nema = 0.99\n\
                 accumulate = 4\ndecay_from_rank = 2\n[[optimiser.group]]\npattern = \"conv*\"\nlr_scale = 0.5\n\
                 rule = { kind = \"nadamw\", eps = 1e-6 }\n[[optimiser.group]]\npattern = \"*\"\nweight_decay = 0.0";
    let c = from(table).unwrap();
    let nadamw = NAdamW::new(1.0).eps(1e-6).rule();
    let conv = Group::default().lr_scale(0.5).rule(nadamw);
    let all = Group::default().weight_decay(0.0);
    let muon = Muon::new(0.5).ns_steps(3).scale(MuonScale::MatchRmsAdamw);
    let want = Optimiser::from(muon).ema(0.99).accumulate(4).decay_from_rank(2);
    assert_eq!(c.optimiser, want.group("conv*", conv).group("*", all));
    // What is written for resuming says the same.
    assert_eq!(from(&c.text).unwrap().optimiser, c.optimiser);
    for kind in [
        "adamax",
        "radam",
        "lbfgs",
        "sgd",
        "adam",
        "adamw",
        "sparseadam",
        "rmsprop",
        "adagrad",
        "adadelta",
        "nadam",
        "nadamw",
        "lion",
        "lamb",
        "adafactor",
        "muon",
    ] {
        let c = from(&format!("[optimiser]\nkind = \"{kind}\"")).unwrap();
        assert_eq!(c.optimiser.rule().name(), kind);
    }
    let table = "[optimiser]\nkind = \"radam\"\ndecoupled_weight_decay = true\nweight_decay = 0.1\nclip_value = 0.5\n\
                 clip_norm = 2\nnorm_type = inf\nclip_each = true";
    let c = from(table).unwrap();
    let radam = RAdam::new(0.5).weight_decay(0.1).decoupled_weight_decay(true);
    let want = Optimiser::from(radam).clip_value(0.5).clip_norm(2.0).norm_type(f64::INFINITY).clip_each(true);
    assert_eq!(c.optimiser, want);
    assert_eq!(from(&c.text).unwrap().optimiser, want);
    let c = from("[optimiser]\nkind = \"lbfgs\"\nhistory_size = 7").unwrap();
    assert_eq!(c.optimiser.rule(), Lbfgs::new(0.5).history_size(7).rule());
}

#[test]
fn a_schedule_is_what_its_table_says() {
    let schedule = |text: &str| from(&format!("steps = 100\n[schedule]\n{text}")).unwrap();
    let c = schedule(
        "kind = \"sequential\"\nmilestones = [20, 60]\n[[schedule.part]]\nkind = \"linear\"\n\
         [[schedule.part]]\nkind = \"cosine\"\nmin_lr = 0.1\n[[schedule.part]]\nkind = \"polynomial\"\npower = 2.0",
    );
    let parts = vec![
        Schedule::linear(0.5, 20),
        Schedule::Cosine { lr: 0.5, warmup: 0, start_factor: 1.0 / 3.0, total: 40, min_lr: 0.1 },
        Schedule::Polynomial { lr: 0.5, total_iters: 40, power: 2.0 },
    ];
    assert_eq!(c.schedule, Schedule::Sequential { schedules: parts, milestones: vec![20, 60] });
    // What is written for resuming says the same.
    assert_eq!(from(&c.text).unwrap().schedule, c.schedule);
    let c = schedule(
        "kind = \"chained\"\npart = [{ kind = \"multi-step\", milestones = [9] }, { kind = \"inverse-sqrt\" }]",
    );
    let parts = vec![Schedule::multi_step(0.5, [9]), Schedule::inverse_sqrt(1.0, 0)];
    assert_eq!(c.schedule, Schedule::Chained(parts));
    assert_eq!(from(&c.text).unwrap().schedule, c.schedule);
    let c = schedule("kind = \"constant-factor\"\nfactor = 0.25");
    assert_eq!(c.schedule, Schedule::ConstantFactor { lr: 0.5, factor: 0.25, total_iters: 5 });
    let c = schedule("kind = \"cosine-restarts\"\nt_0 = 9\nt_mult = 3");
    assert_eq!(c.schedule, Schedule::CosineRestarts { lr: 0.5, t_0: 9, t_mult: 3, min_lr: 0.0 });
}

#[test]
fn mistakes_are_named_with_their_line() {
    starts("steps = 7\nstep = 8", "2:1: unknown key `step`");
    starts("[model]\nhiden = 8", "2:1: model: unknown key `hiden`, expected one of `channels`");
    starts("steps = \"many\"", "1:9: steps: invalid type");
    starts("[schedule]\nkind = \"cosin\"", "2:8: schedule.kind: unknown name `cosin`, expected one of");
    starts("steps = = 7", "1:9: ");
    starts("[optimiser]\nkind = \"sgd\"\nbetas = [0.9, 0.9]", "3: optimiser.betas means nothing to sgd; it reads mom");
    starts("[optimiser]\nkind = \"rmsprop\"\nrho = 0.9", "3: optimiser.rho means nothing to rmsprop");
    starts("[optimiser]\nkind = \"adafactor\"\nd = 0.5", "3: optimiser.d: adafactor: d is 0.5; it must be");
    starts("[optimiser]\nkind = \"muon\"\n\nns_steps = 100", "4: optimiser.ns_steps: muon: ns_steps is 100");
    starts("[optimiser]\nbetas = [0.9, 1.0]", "2: optimiser.betas: adamw: beta2 is 1; it must lie in [0, 1)");
    starts("[optimiser]\nbetas = [0.9, 0.99, 0.5]", "2:9: optimiser.betas: a list of 3 numbers, expected a list of 2");
    starts("[optimiser]\naccumulate = 0", "2: optimiser.accumulate is 0; it goes from 1");
    starts("[optimiser]\nclip_norm = 1\nnorm_type = 0.0", "3: optimiser.norm_type: norm_type is 0; it must be above 0");
    starts("[optimiser]\nnorm_type = 1.0", "2: optimiser.norm_type: norm_type is given without clip_norm");
    starts("[optimiser]\nnorm_type = 2.0", "2: optimiser.norm_type: norm_type is given without clip_norm");
    starts("[optimiser]\nlr = 1.0\nclip_each = false", "3: optimiser.clip_each: clip_each is given without clip_norm");
    starts("[optimiser]\nkind = \"sgd\"\namsgrad = true", "3: optimiser.amsgrad means nothing to sgd; it reads mom");
    starts("[optimiser]\nema = 1.0", "2: optimiser.ema: ema is 1; it is a decay");
    starts("[[optimiser.group]]\nlr_scale = 0.1", "1: optimiser.group[0].pattern is missing");
    let group = "[[optimiser.group]]\npattern = \"a\"\n[[optimiser.group]]\npattern = \"b\"\n";
    starts(&format!("{group}lr_scale = -1.0"), "5: optimiser.group[1].lr_scale: group \"b\": lr_scale is -1");
    starts(&format!("{group}rule = {{ kind = \"sgd\", eps = 1 }}"), "5: optimiser.group[1].rule.eps means nothing");
    starts(
        &format!("{group}lr = 3"),
        "5:1: optimiser.group[1]: unknown key `lr`, expected one of `pattern`, `lr_scale`",
    );
    starts("[optimiser]\ngroup = [3]", "2:10: optimiser.group: invalid type: integer `3`, expected a table of a group");
    let nested = "[[optimiser.group]]\npattern = \"fc*\"\nrule = { kind = \"sgd\", lr = 0.1 }";
    starts(nested, "3: optimiser.group[0].rule.lr belongs to the optimiser");
    starts("[model]\ndropout = nan", "2: model.dropout is NaN");
    starts("[model]\n\nchannels = []", "3: model.channels has 0 numbers; it has from 1 to 8");
    starts("[gpt]\nlayers = 3", "1: [gpt] means nothing to task images");
    starts("task = \"chargpt\"\n[gpt]\nheads = 3", "3: gpt.heads is 3; it must divide gpt.width");
    starts("\nbatch = 0", "2: batch is 0");
    starts("threads = 0", "1: threads is 0; it goes from 1 to");
    starts("precision = \"f16\"", "1: precision is \"f16\"; it may be f32, bf16x3, bf16x2, bf16");
    starts("convolutions = \"fast\"", "1: convolutions is \"fast\"; it may be direct, winograd");
    starts("keep = \"half\"", "1: keep is \"half\"; it may be f32, bf16, f16");
    starts("data = \"alice\"", "1: data is \"alice\"; the built-in data of task images is \"digits\"");
}

#[test]
fn mistakes_of_schedules_and_options_are_named() {
    starts("[schedule]\nkind = \"step\"", "1: schedule.step_size is missing");
    starts("[schedule]\nkind = \"cosine-restarts\"\nt_0 = 0", "3: schedule.t_0: t_0 is 0; it must be 1 or more");
    starts("[schedule]\nkind = \"cosine\"\nwarmup = 2000", "3: schedule.warmup is 2000; it goes from 0 to 1000");
    let parts = "[schedule]\nkind = \"sequential\"\nmilestones = [5]\n[[schedule.part]]\nkind = \"linear\"\n";
    starts(parts, "3: schedule.milestones has 1 numbers; 1 parts need 0");
    starts(&format!("{parts}[[schedule.part]]\ngamma = 0.5"), "7: schedule.part[1].gamma means nothing to one-cycle");
    let falling = "[schedule]\nkind = \"multi-step\"\nmilestones = [5, 3]";
    starts(falling, "3: schedule.milestones: milestones are [5, 3]; they must be in order");
    starts("[schedule]\nkind = \"chained\"\npart = []", "3: schedule.part is empty");
    // An option is no key of the file.
    let text = "steps = 7";
    let args = TrainArgs { steps: Some(0), ..TrainArgs::default() };
    let fault = build_config(parse_config(Path::new("a.toml"), text).unwrap(), &args, Path::new(""), None);
    let fail = fault.unwrap_err().in_file(Path::new("a.toml"), text);
    assert_eq!(fail.message, "--steps is 0; it goes from 1 to 4294967296");
}
