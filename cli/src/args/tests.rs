//! What help texts say.

use super::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// The options of `command` that take a value and may be left out.
fn optional(command: &Command) -> Vec<&Arg> {
    let takes = |a: &&Arg| matches!(a.get_action(), ArgAction::Set | ArgAction::Append);
    command.get_arguments().filter(takes).filter(|a| !a.is_positional() && !a.is_required_set()).collect()
}

/// The help text of an option, on one line.
fn help(a: &Arg) -> String {
    let text = a.get_long_help().or(a.get_help()).map_or(String::new(), ToString::to_string);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_option_that_may_be_left_out_tells_its_default() {
    let mut cli = Cli::command();
    cli.build();
    let mut seen = 0;
    for command in cli.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let name = command.get_name().to_string();
        let page: Vec<String> = vec![command.render_help().to_string(), command.render_long_help().to_string()];
        let page: Vec<String> = page.iter().map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for a in optional(command) {
            seen += 1;
            let (option, text) = (a.get_long().unwrap_or_default(), help(a));
            let shown = a.get_default_values().iter().filter(|_| !a.is_hide_default_value_set());
            let values: Vec<String> = shown.map(|v| v.to_string_lossy().into_owned()).collect();
            let told = text.matches("[default: ").count();
            // One of the two, so that they cannot differ.
            assert_eq!(told + usize::from(!values.is_empty()), 1, "{name} --{option}: {text}");
            if !values.is_empty() {
                let want = format!("[default: {}]", values.join(" "));
                assert!(page.iter().all(|p| p.contains(&want)), "{name} --{option}: {want}");
            }
        }
    }
    assert!(seen > 40, "{seen} options");
}

/// Options whose default is chosen later than by clap.
#[test]
fn defaults_that_help_tells_in_words_are_those_of_the_program() {
    use crate::config::Config;
    use arenagrad::tools::sched::pack::Options;
    let mut cli = Cli::command();
    cli.build();
    let text = |command: &str, option: &str| {
        let c = cli.find_subcommand(command).unwrap();
        help(c.get_arguments().find(|a| a.get_long() == Some(option)).unwrap())
    };
    let run = |target: &str| {
        Config::new(&super::TrainArgs { target: target.to_string(), ..super::TrainArgs::default() }).unwrap()
    };
    let (digits, chargpt) = (run("digits"), run("chargpt"));
    let says = |option: &str, want: String| {
        let text = text("train", option);
        assert!(text.contains(&format!("[default: {want}")), "--{option}: {text}; it is {want}");
    };
    says("steps", format!("digits {}, chargpt {}]", digits.steps, chargpt.steps));
    says("lr", format!("digits {}, chargpt {}]", digits.optimiser.lr, chargpt.optimiser.lr));
    says("seed", format!("{}]", digits.seed));
    says("checkpoint-every", format!("{}]", digits.checkpoint_every));
    says("precision", format!("{}]", digits.precision.name()));
    says("keep", format!("{}]", digits.keep.name()));
    let folder = |c: &Config| c.out.file("x").parent().unwrap().display().to_string();
    says("out", format!("digits {}, chargpt {}; with --resume", folder(&digits), folder(&chargpt)));
    assert!(text("pack", "nodes").contains(&format!("[default: {}]", Options::default().nodes)));
}
