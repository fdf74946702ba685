//! Examples do what they say.

#[path = "../../examples/act_and_learn.rs"]
mod act_and_learn;

#[test]
fn a_policy_that_acts_and_learns_gets_better() {
    let means = act_and_learn::play(300).unwrap();
    let mean = |rounds: &[f32]| rounds.iter().sum::<f32>() / rounds.len() as f32;
    let (first, last) = (mean(&means[..20]), mean(&means[280..]));
    assert!(first < 0.65 && last > 0.85, "{first} {last}");
}
