//! The list of ops. A new op needs one line here, and its definition in a family of [`ops`](crate::nodes::ops).

use super::*;
use crate::nodes::ir::leaf;
use crate::nodes::ir::opdef::{Op, OpDef, check_opdefs};

// A section's head says when its ops are there: `all()` is always.
macro_rules! ops {
    (leaves { $($leaf:ident)* } $([$on:meta] $($id:ident = $family:ident $(:: $file:ident)*;)*)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum Index { $($leaf,)* $($(#[cfg($on)] $id,)*)* }

        #[allow(missing_docs)] // Its definition has the documentation.
        impl Op {
            $($(#[cfg($on)] pub const $id: Op = Op(Index::$id as u16);)*)*
        }

        const DEFINITIONS: &[&OpDef] = &[$(&leaf::$leaf,)* $($(#[cfg($on)] &$family $(:: $file)* ::$id,)*)*];
        const _: () = {
            check_opdefs(DEFINITIONS);
            $(assert!(Op::$leaf.0 == Index::$leaf as u16);)*
        };

        /// The definitions of all built-in ops. [`Op`] is an index into them.
        #[cfg(any(not(target_arch = "wasm32"), feature = "testing"))]
        pub static OPS: &[&OpDef] = DEFINITIONS;
        /// As elsewhere, but for what only tests and pages of documentation read.
        #[cfg(not(any(not(target_arch = "wasm32"), feature = "testing")))]
        pub static OPS: &[&OpDef] = &[
            $(&computing(&leaf::$leaf),)* $($(#[cfg($on)] &computing(&$family $(:: $file)* ::$id),)*)*
        ];

        /// The family of each op of [`OPS`]: its folder, or `leaf`.
        pub static FAMILIES: &[&str] =
            &[$({ let _ = Op::$leaf; "leaf" },)* $($(#[cfg($on)] stringify!($family),)*)*];
    };
}

impl Op {
    /// Whether it is one of [`OPS`], and no user's op.
    pub fn is_built_in(self) -> bool {
        usize::from(self.0) < OPS.len()
    }
}

/// A definition without its line of documentation and its cases.
#[cfg(not(any(not(target_arch = "wasm32"), feature = "testing")))]
const fn computing(def: &OpDef) -> OpDef {
    OpDef { doc: "", cases: &[], ..*def }
}

ops! {
    leaves { INPUT PARAM STATE ARG }

    [all()]
    CONSTANT = constant;
    FULL = constant;
    IOTA = constant;
    COMPLEX = complex;
    REAL = complex;
    IMAG = complex;
    TANH_PARTS = complex::tanh;
    CALL = control::call;
    CUSTOM_FN = control::custom_fn;

    ADD = pointwise::arith;
    SUB = pointwise::arith;
    MUL = pointwise::arith;
    DIV = pointwise::arith;
    MAX = pointwise::arith;
    MIN = pointwise::arith;
    POW = pointwise::arith;
    NEG = pointwise::arith;
    ABS = pointwise::arith;
    SIGN = pointwise::arith;
    FLUSH_SUBNORMALS = pointwise::arith;
    FLOOR = pointwise::arith;
    CEIL = pointwise::arith;
    ROUND = pointwise::arith;
    CLAMP = pointwise::arith;
    STOP_GRADIENT = pointwise::arith;

    EXP = pointwise::math;
    EXPM1 = pointwise::math;
    LOG = pointwise::math;
    LOG1P = pointwise::math;
    SQRT = pointwise::math;
    RSQRT = pointwise::math;
    RECIP = pointwise::math;
    SIN = pointwise::math;
    COS = pointwise::math;
    TAN = pointwise::math;
    ATAN = pointwise::math;
    TANH = pointwise::math;
    SIGMOID = pointwise::math;
    ERF = pointwise::math;
    RELU = pointwise::math;
    LEAKY_RELU = pointwise::math;
    ELU = pointwise::math;
    GELU = pointwise::math;
    GELU_GRAD = pointwise::math;
    GELU_TANH = pointwise::math;
    GELU_TANH_GRAD = pointwise::math;
    SILU = pointwise::math;
    SILU_GRAD = pointwise::math;
    SOFTPLUS = pointwise::math;

    ASIN = pointwise::special;
    ACOS = pointwise::special;
    SINH = pointwise::special;
    COSH = pointwise::special;
    ASINH = pointwise::special;
    ACOSH = pointwise::special;
    ATANH = pointwise::special;
    EXP2 = pointwise::special;
    LOG2 = pointwise::special;
    LOG10 = pointwise::special;
    ERFC = pointwise::special;
    ERFINV = pointwise::special;
    ERFCINV = pointwise::special;
    LGAMMA = pointwise::special;
    DIGAMMA = pointwise::special;
    POLYGAMMA = pointwise::special;
    TRUNC = pointwise::special;
    ISNAN = pointwise::special;
    ISINF = pointwise::special;
    ISFINITE = pointwise::special;

    ATAN2 = pointwise::pairs;
    HYPOT = pointwise::pairs;
    COPYSIGN = pointwise::pairs;
    NEXTAFTER = pointwise::pairs;
    FMOD = pointwise::pairs;
    REMAINDER = pointwise::pairs;
    FLOOR_DIVIDE = pointwise::pairs;
    FMAX = pointwise::pairs;
    FMIN = pointwise::pairs;
    LOGADDEXP = pointwise::pairs;
    XLOGY = pointwise::pairs;

    BITWISE_NOT = pointwise::bits;
    BITWISE_AND = pointwise::bits;
    BITWISE_OR = pointwise::bits;
    BITWISE_XOR = pointwise::bits;
    BITWISE_LEFT_SHIFT = pointwise::bits;
    BITWISE_RIGHT_SHIFT = pointwise::bits;

    EQ = pointwise::compare;
    NE = pointwise::compare;
    LT = pointwise::compare;
    LE = pointwise::compare;
    GT = pointwise::compare;
    GE = pointwise::compare;
    AND = pointwise::compare;
    OR = pointwise::compare;
    NOT = pointwise::compare;
    SELECT = pointwise::compare;
    CAST = pointwise::compare;

    MATMUL = matmul;
    DOT_GENERAL = matmul::dot_general;

    [feature = "linalg"]
    SOLVE = linalg::solve;
    LU = linalg::lu;
    LU_SOLVE = linalg::lu;
    TRIANGULAR_SOLVE = linalg::triangular;
    CHOLESKY = linalg::cholesky;
    QR = linalg::qr;
    EIGH = linalg::eigh;
    SVD = linalg::svd;
    SPECTRAL_QUOTIENT = linalg::spectral_quotient;
    SYLVESTER = linalg::sylvester;
    MATRIX_FUNCTION = linalg::matrix_function;
    MATRIX_FUNCTION_SLOPE = linalg::matrix_function_slope;
    POLAR = linalg::polar;

    [feature = "splat"]
    SPLAT_RENDER = splat::render;
    SPLAT_RENDER_BACKWARD = splat::render;
    SPLAT_RENDER_TANGENT = splat::render;
    SPLAT_PREPARE = splat::stages;
    SPLAT_RASTERIZE = splat::stages;

    [all()]
    INT_MATMUL = matmul::int_matmul;

    [feature = "gguf"]
    GROUPED_MATMUL = grouped;
    GROUPED_OUTER = grouped;
    GGUF_DEQUANT = gguf::gguf_dequant;
    GGUF_MATMUL = gguf::gguf_matmul;
    GGUF_GROUPED_MATMUL = gguf::gguf_grouped;
    GGUF_DEQUANT_EXPERTS = gguf::gguf_grouped;

    [all()]
    REDUCE_SUM = reduce;
    SUM_SQUARES = reduce;
    REDUCE_MEAN = reduce;
    REDUCE_MAX = reduce;
    REDUCE_MIN = reduce;
    REDUCE_PROD = reduce;
    LOGSUMEXP = reduce;
    VAR = reduce;
    ARG_MAX = reduce;
    ARG_MIN = reduce;
    CUMSUM = reduce;
    CUMPROD = reduce;

    RESHAPE = layout;
    CHECKPOINT = layout;
    OPTIMIZATION_BARRIER = layout;
    TRANSPOSE = layout;
    BROADCAST = layout;
    SLICE = layout;
    CONCAT = layout;
    PAD = layout;
    FLIP = layout;

    DEQUANT = quant::dequant;
    DEQUANT_MATMUL = quant::dequant;
    POSITIVE_SCALE = quant;
    QUANTIZE = quant;
    DEQUANTIZE = quant;
    FAKE_QUANTIZE = quant;
    LSQ = quant;
    LSQ_BACKWARD = quant;
    Q_MATMUL = quant::q_matmul;
    Q_CONV2D = quant::q_conv2d;

    ARG_SORT = sort;
    CUM_ARG_MAX = sort::cum_arg_max;
    TOP_K = sort;
    GATHER = index;
    SCATTER_ADD = index;
    TAKE_ALONG_AXIS = index;
    SCATTER_ALONG_AXIS = index;
    ONE_HOT = index;
    SCATTER = index::scatter;
    RAVEL_INDEX = index::scatter;
    HISTOGRAM = index;

    [feature = "signal"]
    FFT = fft;
    RFFT = fft;
    IRFFT = fft;
    LOG_MEL = audio::log_mel;

    [all()]
    RNG_UNIFORM = random;
    RNG_NORMAL = random;
    RNG_INT = random;
    RNG_NEXT = random;
    RNG_FOLD = random;
    DROPOUT = random;
    SAMPLE = random::sample;

    SOFTMAX = softmax;
    SOFTMAX_BACKWARD = softmax;
    LOG_SOFTMAX = softmax;
    LOG_SOFTMAX_BACKWARD = softmax;

    SOFTMAX_CROSS_ENTROPY = loss::cross_entropy;
    SOFTMAX_CROSS_ENTROPY_BACKWARD = loss::cross_entropy;
    MSE_LOSS = loss;
    BCE_WITH_LOGITS = loss;

    CONV2D = conv::conv2d;
    CONV2D_INPUT_GRAD = conv::conv2d;
    CONV2D_WEIGHT_GRAD = conv::conv2d;
    CONV1D = conv::conv_nd;
    CONV3D = conv::conv_nd;
    CONV_TRANSPOSE1D = conv::conv_transpose;
    CONV_TRANSPOSE2D = conv::conv_transpose;
    CONV_TRANSPOSE3D = conv::conv_transpose;

    MAX_POOL2D = pool::pool2d;
    MAX_POOL2D_BACKWARD = pool::pool2d;
    MAX_POOL2D_GATHER = pool::pool2d;
    AVG_POOL2D = pool::pool2d;
    AVG_POOL2D_BACKWARD = pool::pool2d;
    SUM_POOL2D = pool::pool2d;
    SUM_POOL2D_BACKWARD = pool::pool2d;

    IM2COL = window::unfold;
    COL2IM = window::unfold;
    INTERPOLATE = window::interpolate;

    LAYER_NORM = norm::layer_norm;
    LAYER_NORM_BACKWARD = norm::layer_norm;
    RMS_NORM = norm::rms_norm;
    RMS_NORM_BACKWARD = norm::rms_norm;
    GROUP_NORM = norm::group_norm;
    GROUP_NORM_BACKWARD = norm::group_norm;
    BATCH_NORM = norm::batch_norm;
    BATCH_NORM_BACKWARD = norm::batch_norm;
    BATCH_NORM_INFERENCE = norm::batch_norm_inference;

    ATTENTION = attention;
    ATTENTION_BACKWARD = attention;
    ROPE = attention::rope;

    [feature = "recurrent"]
    SELECTIVE_SCAN = recurrent::selective_scan;
    SELECTIVE_SCAN_BACKWARD = recurrent::selective_scan;
    SELECTIVE_SCAN_KEEP = recurrent::selective_scan_kept;
    SELECTIVE_SCAN_KEPT_BACKWARD = recurrent::selective_scan_kept;
    GATED_DELTA_NET = recurrent::gated_delta;
    GATED_DELTA_NET_BACKWARD = recurrent::gated_delta;

    [all()]
    SGD = optim;
    SGD_MOMENTUM = optim;
    ADAM = optim;
    SGD_ROWS = optim::rows;
    ADAGRAD_ROWS = optim::rows;
    ADAM_ROWS = optim::rows;
    COALESCE = optim::rows;
    ROOT_SUM_SQUARES = reduce::euclidean_length;

    SCAN = control::scan;
    IF = control::cond;

    MAP = pointwise::map;
    MATMUL_BIAS_ACT = matmul::epilogue;
    MATMUL_DACT = matmul::epilogue;
    MATMUL_ADD = matmul::epilogue;
    MATMUL_ADD_STACK = matmul::stacked;
    ATTENTION_PACKED = attention;
    ATTENTION_PACKED_BACKWARD = attention;
    CROSS_ENTROPY_GRADIENT = loss::cross_entropy;
    SQUARED_ERROR_GRADIENT = loss;
    MATMUL_SGD = optim::fused_update;
    MATMUL_SGD_MOMENTUM = optim::fused_update;
    MATMUL_ADAM = optim::fused_update;
    ACT_WITH_GRAD = pointwise::act_with_grad;
    CONV2D_BIAS_ACT = conv::bias_act;
    RESIDUAL_LAYER_NORM = norm::residual_norm;
    RESIDUAL_RMS_NORM = norm::residual_norm;
    SWIGLU = blocks::swiglu;
    LORA_MATMUL = matmul::lora;

    LINEAR = blocks;
    SHARED_LINEAR_PAIR = blocks;
    SWIGLU_BLOCK = blocks::swiglu;
    DEPTHWISE_CONV1D_CAUSAL = blocks::causal_conv;
    ATTENTION_BLOCK = blocks::transformer_blocks;
    TRANSFORMER_LAYER = blocks::transformer_blocks;
    LLAMA_DECODER_BLOCK = blocks::transformer_blocks;
}
