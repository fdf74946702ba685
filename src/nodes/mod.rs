//! Graphs: their columns, the builder that writes them, and the ops.
//!
//! * [`ir`] has the columns, frozen and growing, the text form and the verifier. It knows no op but the leaves.
//! * [`arguments`] adds axes and broadcasting to the builder.
//! * [`ops`] has the op definitions, one folder for each family, and their [table](ops::table).
//!
//! A module imports only the modules before it.

pub mod arguments;
#[doc(hidden)]
pub mod case_regions;
pub mod ir;
mod new_builder;
pub mod ops;
#[doc(hidden)]
pub mod reference;

pub use arguments::op_by_name::Given;
pub use arguments::per_axis::PerAxis;
pub use ir::attrs::Attrs;
pub use ir::builder::{Builder, Routine, Var};
pub use ir::dtype::{DType, Ty};
pub use ir::emit::Emit;
pub use ir::graph::{Graph, GraphBuf, Leaf, LeafKind};
pub use ir::leaf::{Init, StartValues};
pub use ir::opdef::{Op, OpDef};
pub use ir::sizes::Sizes;
pub use ir::var::VarId;
pub use ops::attention::Layout;
pub use ops::attention::axial_rope::AxialRope2d;
pub use ops::attention::rope::Pairing;
pub use ops::attention::var::{Attention, Rope};
pub use ops::control::cond::SwitchBranch;
pub use ops::control::custom_fn::CustomFn;
pub use ops::control::scan::Loop;
pub use ops::conv::conv_options::{
    Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
};
pub use ops::index::attrs::Scatter;
pub use ops::layout::pad_mode::PadMode;
#[cfg(feature = "linalg")]
pub use ops::linalg::{attrs::Singular, matrix_function::MatrixFunction, var::TriangularOptions};
pub use ops::loss::attrs::Reduction;
pub use ops::loss::cross_entropy_options::CrossEntropy;
pub use ops::optim::step_options::{AdamOptions, SgdOptions};
pub use ops::pool::pool_options::{Pool, Pool1d, Pool2d, Pool3d};
pub use ops::quant::attrs::{CodeSte, FakeSte, LsqFactor};
pub use ops::quant::code_product::CodeProduct;
pub use ops::quant::coded_weights::CodedWeights;
pub use ops::quant::encode_weights::{EncodedWeights, encode_weights};
pub use ops::quant::fake_quantize::FakeQuantize;
pub use ops::quant::int_attrs::ProductSte;
pub use ops::quant::lsq_options::Lsq;
pub use ops::quant::quantize_dequantize::Quantize;
pub use ops::quant::running_scale::QuantScale;
pub use ops::quant::weight_attrs::WeightScheme;
#[cfg(feature = "recurrent")]
pub use ops::recurrent::{ssd::Ssd, var::SelectiveScan};
#[cfg(feature = "splat")]
pub use ops::splat::{
    splat_image::SplatImage,
    var::{PreparedSplats, Splats},
};
pub use ops::window::grid_sample::{GridSample, GridSampling, Outside};
pub use ops::window::interpolate::Interpolation;
pub use ops::window::unfold::Unfold;
#[cfg(feature = "signal")]
pub use ops::{
    audio::{
        attrs::LogMelOver,
        log_mel::LogMel,
        mel_filterbank::{MelFilterbank, MelScale},
        stft::Stft,
        window_function::WindowFunction,
    },
    fft::{norm::FftNorm, var::ConvPart},
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stick_and_name_the_op_the_shapes_and_the_line() {
        let g = Builder::new("bad");
        let x = g.input("x", [32, 784], DType::F32);
        let w = g.param("w", [128, 10], DType::F32, Init::Zeros);
        let y = x.matmul(w).relu().sum(..);
        let line = line!() - 1;
        let e = g.finish([y]).unwrap_err().to_string();
        let want =
            format!("matmul(f32[32,784], f32[128,10]): inner dimensions 784 and 128 differ, at {}:{line}", file!());
        assert_eq!(e, want);
    }

    #[test]
    fn equal_nodes_are_one_node() {
        let g = Builder::new("cse");
        let x = g.input("x", [4], DType::F32);
        let y = x.exp() + x.exp();
        let graph = g.finish([y]).unwrap();
        let v = graph.view();
        assert_eq!(v.nodes(), 3);
        assert_eq!(v.find_leaf("x"), Some((v.args_of(crate::arena::Node(1))[0], LeafKind::Input)));
    }

    #[test]
    fn regions_are_laid_out_callee_before_caller() {
        let g = Builder::new("main");
        let x = g.input("x", [4], DType::F32);
        let body = g.region("twice", &[x.ty()], |a| vec![a[0] + a[0]]);
        let y = g.call(body, &[x]);
        let graph = g.finish(y).unwrap();
        let v = graph.view();
        assert_eq!((v.regions(), v.nodes()), (2, 4));
        assert_eq!(v.dims(v.outputs()[0])[..], [4]);
    }
}
