//! Ops of classical learning, as scikit-learn's pipelines have them.

#![allow(clippy::unwrap_used)]

#[path = "common/attributes.rs"]
mod attributes;
mod common;

use arenagrad_onnx::proto::*;
use attributes::{attribute, integers, numbers, of_one, results, text};
use common::reading;

#[test]
fn scalers_and_regressors_compute_what_the_format_says() {
    let x = [3.0, -4.0, 0.0, 0.0];
    let coefficients = || numbers("coefficients", &[1.0, 2.0, 0.5, -1.0]);
    let cases: [(&str, Vec<AttributeProto>, &[f32]); 8] = [
        ("Scaler", vec![numbers("offset", &[1.0, 2.0]), numbers("scale", &[2.0, 0.5])], &[4.0, -3.0, -2.0, -1.0]),
        ("Scaler", vec![numbers("offset", &[1.0]), numbers("scale", &[2.0])], &[4.0, -10.0, -2.0, -2.0]),
        ("Normalizer", vec![text("norm", "L2")], &[0.6, -0.8, 0.0, 0.0]),
        ("Normalizer", vec![text("norm", "L1")], &[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0]),
        ("LinearRegressor", vec![coefficients(), numbers("intercepts", &[0.5, 0.0])], &[-4.5, 5.5, 0.5, 0.0]),
        ("Imputer", vec![numbers("imputed_value_floats", &[7.0, 8.0])], &[3.0, -4.0, 7.0, 8.0]),
        ("OneHotEncoder", vec![integers("cats_int64s", &[0, 3])], &[0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        ("FeatureVectorizer", vec![integers("inputdimensions", &[2])], &x),
    ];
    for (op, attributes, expected) in cases {
        let (y, _) = results(&of_one(op, &["y"], attributes, 2), &x);
        assert_eq!(y.len(), expected.len(), "{op}");
        assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{op}: {y:?}, not {expected:?}");
    }
    let lost = vec![
        numbers("imputed_value_floats", &[7.0]),
        AttributeProto { f: Some(f32::NAN), ..attribute("replaced_value_float") },
    ];
    assert_eq!(results(&of_one("Imputer", &["y"], lost, 2), &[f32::NAN, 0.0, 1.0, 2.0]).0, [7.0, 0.0, 1.0, 2.0]);
}

#[test]
fn classifiers_give_labels_and_scores() {
    let of = |transform: &str, labels: AttributeProto| {
        let rows = numbers("coefficients", &[1.0, 0.0, 0.0, 1.0]);
        of_one("LinearClassifier", &["label", "y"], vec![rows, labels, text("post_transform", transform)], 2)
    };
    let labels = || integers("classlabels_ints", &[5, -2]);
    let x = [0.0, 3f32.ln(), 0.0, -(3f32.ln())];
    for (transform, first) in [("SOFTMAX", [0.25, 0.75]), ("LOGISTIC", [0.5, 0.75]), ("NONE", [0.0, 3f32.ln()])] {
        let (y, found) = results(&of(transform, labels()), &x);
        assert_eq!(found, [-2, 5], "{transform}");
        assert!(y.iter().zip(first).all(|(a, b)| (a - b).abs() < 1e-6), "{transform}: {y:?}");
    }
    let refusals = [
        (of("PROBIT", labels()), "post_transform=PROBIT"),
        (of("NONE", integers("classlabels_strings", &[])), "labels are strings"),
        (of("NONE", integers("classlabels_ints", &[1, 2, 3])), "3 labels of 2 classes"),
        (of_one("LinearClassifier", &["label", "y"], vec![labels()], 2), "0 coefficients for 2 columns"),
        (of_one("Normalizer", &["y"], vec![], 2), "norm=MAX"),
        (of_one("Scaler", &["y"], vec![numbers("offset", &[1.0, 2.0, 3.0])], 2), "offset has 3 numbers for 2 columns"),
    ];
    for (m, why) in refusals {
        let found = reading(&m).err().map_or_else(|| "it is read".into(), |e| e.to_string());
        assert!(found.contains(why), "{found:?} does not contain {why:?}");
    }
}
