//! Which kernel an instruction calls. An instruction holds the address of a kernel; the tables of the crate of kernels
//! give the same addresses.
//!
//! Two kernels of equal machine code may have one address. They then do the same, so it does not matter which is found.

use arenagrad::graph::DType;
use arenagrad_kernels::abi::Kernel;
use arenagrad_kernels::elementwise::act_with_grad;
use arenagrad_kernels::index::scatter;
use arenagrad_kernels::norm::{layer_norm, residual_norm, rms_norm};
use arenagrad_kernels::{conv, copy, index, optim, pool, reduce, softmax};

/// A table of kernels: from an element type to the kernel for it.
type Table = fn(DType) -> Result<Kernel, String>;

/// What a kernel does. A name in it is that of a reduction or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Reduce(&'static str),
    Partial(&'static str),
    /// The reduction, divided by a number of elements.
    Mean(&'static str),
    RootSumSquares,
    LogSumExp,
    ArgMax,
    ArgMin,
    SquaredError,
    Softmax,
    LogSoftmax,
    SoftmaxBackward,
    LogSoftmaxBackward,
    CrossEntropy,
    CrossEntropyBackward,
    CrossEntropyBoth,
    LayerNorm,
    LayerNormBackward,
    RmsNorm,
    RmsNormBackward,
    ResidualLayerNorm,
    ResidualRmsNorm,
    Sgd,
    Adam,
    ProductSgd,
    ProductAdam,
    ActWithGrad(&'static str),
    Convolution,
    MaxPool,
    MaxPoolBackward,
    AvgPool,
    StridedCopy,
    Concat,
    Pad,
    Iota,
    Fill,
    Gather,
    Take,
    ScatterAdd,
    ScatterAlong,
}

/// A kernel that C can be written for.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What it does.
    pub what: What,
    /// The type of its elements; of copies one of the same size.
    pub dtype: DType,
    /// The type of its indices, if it has any.
    pub index: DType,
}

/// The kernels that C can be written for, with their addresses.
pub struct KnownKernels(Vec<(Kernel, Known)>);

impl KnownKernels {
    /// All of them.
    pub fn new() -> KnownKernels {
        let mut all = KnownKernels(Vec::new());
        for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
            all.add_reductions(dtype);
        }
        for dtype in [DType::F32, DType::F64] {
            all.add_float_kernels(dtype);
        }
        for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
            all.add(copy::strided_copy_kernel_for(dtype), What::StridedCopy, dtype, dtype);
            all.add(copy::concat_kernel_for(dtype), What::Concat, dtype, dtype);
            all.add(copy::pad_kernel_for(dtype), What::Pad, dtype, dtype);
            all.add(copy::fill_kernel_for(dtype), What::Fill, dtype, dtype);
            for i in [DType::I32, DType::I64] {
                all.add(index::gather_kernel_for(dtype, i), What::Gather, dtype, i);
                all.add(index::take_along_axis_kernel_for(dtype, i), What::Take, dtype, i);
            }
        }
        all
    }

    /// The kernel at an address.
    pub fn find(&self, kernel: Kernel) -> Option<Known> {
        self.0.iter().find(|(k, _)| std::ptr::fn_addr_eq(*k, kernel)).map(|(_, known)| *known)
    }

    fn add(&mut self, kernel: Kernel, what: What, dtype: DType, index: DType) {
        self.0.push((kernel, Known { what, dtype, index }));
    }

    fn add_table(&mut self, what: What, dtype: DType, table: Table) {
        if let Ok(kernel) = table(dtype) {
            self.add(kernel, what, dtype, dtype);
        }
    }

    fn add_index_table(&mut self, what: What, dtype: DType, table: fn(DType, DType) -> Result<Kernel, String>) {
        for index in [DType::I32, DType::I64] {
            if let Ok(kernel) = table(dtype, index) {
                self.add(kernel, what, dtype, index);
            }
        }
    }

    fn add_reductions(&mut self, dtype: DType) {
        let folds: [(&str, Table, Table); 4] = [
            ("sum", reduce::sum_for, reduce::sum_partial_for),
            ("prod", reduce::prod_for, reduce::prod_partial_for),
            ("max", reduce::max_for, reduce::max_partial_for),
            ("min", reduce::min_for, reduce::min_partial_for),
        ];
        for (fold, whole, partial) in folds {
            self.add_table(What::Reduce(fold), dtype, whole);
            self.add_table(What::Partial(fold), dtype, partial);
        }
        self.add_table(What::Iota, dtype, copy::iota_kernel_for);
        self.add_index_table(What::ArgMax, dtype, reduce::reduce_arg_max_kernel_for);
        self.add_index_table(What::ArgMin, dtype, reduce::reduce_arg_min_kernel_for);
        self.add_index_table(What::ScatterAdd, dtype, scatter::scatter_add_kernel_for);
        self.add_index_table(What::ScatterAlong, dtype, scatter::scatter_along_axis_add_kernel_for);
    }

    fn add_float_kernels(&mut self, dtype: DType) {
        let tables: [(What, Table); 28] = [
            (What::Reduce("squares"), reduce::sum_squares_for),
            (What::Partial("squares"), reduce::sum_squares_partial_for),
            (What::Mean("sum"), reduce::reduce_mean_kernel_for),
            (What::Mean("squares"), reduce::reduce_mean_squares_kernel_for),
            (What::RootSumSquares, reduce::root_sum_squares::root_sum_squares_kernel_for),
            (What::LogSumExp, reduce::reduce_logsumexp_kernel_for),
            (What::SquaredError, reduce::squared_error::squared_error_kernel_for),
            (What::Softmax, softmax::softmax_kernel_for),
            (What::LogSoftmax, softmax::log_softmax_kernel_for),
            (What::SoftmaxBackward, softmax::softmax_backward_kernel_for),
            (What::LogSoftmaxBackward, softmax::log_softmax_backward_kernel_for),
            (What::Convolution, conv::conv2d_kernel_for),
            (What::MaxPool, pool::max_pool2d_kernel_for),
            (What::MaxPoolBackward, pool::max_pool2d_backward_kernel_for),
            (What::AvgPool, pool::avg_pool2d_kernel_for),
            (What::LayerNorm, layer_norm::layer_norm_kernel_for),
            (What::LayerNormBackward, layer_norm::layer_norm_backward_kernel_for),
            (What::RmsNorm, rms_norm::rms_norm_kernel_for),
            (What::RmsNormBackward, rms_norm::rms_norm_backward_kernel_for),
            (What::ResidualLayerNorm, residual_norm::residual_layer_norm_kernel_for),
            (What::ResidualRmsNorm, residual_norm::residual_rms_norm_kernel_for),
            (What::Sgd, optim::sgd_update_kernel_for),
            (What::Adam, optim::adam_update_kernel_for),
            (What::ProductSgd, optim::fused_sgd_update_kernel_for),
            (What::ProductAdam, optim::fused_adam_update_kernel_for),
            (What::ActWithGrad("gelu"), act_with_grad::gelu_for),
            (What::ActWithGrad("gelu_tanh"), act_with_grad::gelu_tanh_for),
            (What::ActWithGrad("silu"), act_with_grad::silu_for),
        ];
        for (what, table) in tables {
            self.add_table(what, dtype, table);
        }
        self.add_index_table(What::CrossEntropy, dtype, softmax::cross_entropy_kernel_for);
        self.add_index_table(What::CrossEntropyBackward, dtype, softmax::cross_entropy_backward_kernel_for);
        self.add_index_table(What::CrossEntropyBoth, dtype, softmax::cross_entropy_gradient_kernel_for);
    }
}
