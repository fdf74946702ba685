//! An ONNX model in the place of the convnet.

use super::convnet::{IMAGES, LABELS, Sizes};
use super::{LOGITS, LOSS};
use crate::fail::{Run, fail_bad_input};
use crate::ir::onnx_file::onnx_failure;
use arenagrad::graph::{CrossEntropy, DType, GraphBuf, LeafKind};
use arenagrad_onnx::{Import, Options, read_file};
use std::path::Path;

/// The model for batches of these sizes. Its graph has the input [`IMAGES`] and the output [`LOGITS`].
pub fn onnx_net_inference(path: &Path, s: Sizes) -> Run<Import> {
    let options = Options { batch: Some(s.batch), ..Options::default() };
    let import = read_file(path, &options).map_err(onnx_failure(path))?;
    let refuse = |why: String| Err(fail_bad_input(format!("{}: {why}", path.display())));
    let view = import.graph.view();
    let inputs: Vec<_> = view.leaves().filter(|l| l.kind == LeafKind::Input).collect();
    let [input] = &inputs[..] else {
        return refuse(format!("the model has {} inputs; one, of images, is needed", inputs.len()));
    };
    let (name, dims) = (input.name.to_string(), view.dims(input.value).to_vec());
    let pixels = s.image[0] * s.image[1];
    if dims.first() != Some(&s.batch) || dims[1..].iter().product::<usize>() != pixels {
        let [h, w] = s.image;
        let batch = s.batch;
        return refuse(format!("input {name:?} has shape {dims:?}; {batch} images of {h}x{w} pixels are needed"));
    }
    let Some((&value, &output)) = view.outputs().iter().zip(view.output_names).next() else {
        return refuse("the model has no output".into());
    };
    let (output, logits) = (view.str(output).to_string(), view.dims(value).to_vec());
    if logits != [s.batch, s.classes] {
        let (batch, classes) = (s.batch, s.classes);
        return refuse(format!("output {output:?} has shape {logits:?}; logits [{batch}, {classes}] are needed"));
    }
    let renamed = |g: GraphBuf, old: &str, new: &str| if old == new { Ok(g) } else { g.rename(old, new) };
    let graph = renamed(import.graph.clone(), &name, IMAGES)?;
    Ok(Import { graph: renamed(graph, &output, LOGITS)?, ..import })
}

/// As [`onnx_net_inference`], with the labels and the mean cross entropy, in nats.
pub fn onnx_net_training(path: &Path, s: Sizes) -> Run<Import> {
    let import = onnx_net_inference(path, s)?;
    let graph = import.graph.extend(|g, value| {
        let labels = g.input(LABELS, [s.batch], DType::I32);
        vec![value(LOGITS).cross_entropy_with(labels, CrossEntropy::default()).named(LOSS)]
    })?;
    Ok(Import { graph, ..import })
}
