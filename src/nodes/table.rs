//! The list of ops. Adding an op is one line here and one row in [`ops`](super::ops).

use super::opdef::{Op, OpDef, check_rows};
use super::ops::*;

macro_rules! ops {
    ($($id:ident = $file:ident;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum Index { $($id),* }

        #[allow(missing_docs)] // Documented by its row.
        impl Op {
            $(pub const $id: Op = Op(Index::$id as u16);)*
        }

        const ROWS: &[&OpDef] = &[$(&$file::$id),*];
        const _: () = check_rows(ROWS);

        /// The rows of all built-in ops: what [`Op`] indexes.
        pub static OPS: &[&OpDef] = ROWS;
    };
}

ops! {
    INPUT = leaf;
    PARAM = leaf;
    STATE = leaf;
    ARG = leaf;
    CONSTANT = leaf;
    FULL = leaf;
    IOTA = leaf;
    CALL = leaf;

    ADD = arith;
    SUB = arith;
    MUL = arith;
    DIV = arith;
    MAX = arith;
    MIN = arith;
    POW = arith;
    NEG = arith;
    ABS = arith;
    SIGN = arith;
    FLOOR = arith;
    CEIL = arith;
    ROUND = arith;
    CLAMP = arith;
    STOP_GRADIENT = arith;

    EXP = math;
    EXPM1 = math;
    LOG = math;
    LOG1P = math;
    SQRT = math;
    RSQRT = math;
    RECIP = math;
    SIN = math;
    COS = math;
    TAN = math;
    ATAN = math;
    TANH = math;
    SIGMOID = math;
    ERF = math;
    RELU = math;
    LEAKY_RELU = math;
    ELU = math;
    GELU = math;
    GELU_SLOPE = math;
    GELU_TANH = math;
    GELU_TANH_SLOPE = math;
    SILU = math;
    SILU_SLOPE = math;
    SOFTPLUS = math;

    EQ = compare;
    NE = compare;
    LT = compare;
    LE = compare;
    GT = compare;
    GE = compare;
    AND = compare;
    OR = compare;
    NOT = compare;
    SELECT = compare;
    CAST = compare;

    MATMUL = product;
    DOT_GENERAL = product;

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

    RESHAPE = shape;
    CHECKPOINT = shape;
    FENCE = shape;
    TRANSPOSE = shape;
    BROADCAST = shape;
    SLICE = shape;
    CONCAT = shape;
    PAD = shape;
    FLIP = shape;

    ARG_SORT = order;
    CUM_ARG_MAX = order;
    GATHER = index;
    SCATTER_ADD = index;
    TAKE_ALONG_AXIS = index;
    SCATTER_ALONG_AXIS = index;
    ONE_HOT = index;
    SCATTER = scatter;
    RAVEL_INDEX = scatter;
    HISTOGRAM = index;

    RNG_UNIFORM = random;
    RNG_NORMAL = random;
    RNG_NEXT = random;
    RNG_FOLD = random;
    DROPOUT = random;

    SOFTMAX = softmax;
    SOFTMAX_BACKWARD = softmax;
    LOG_SOFTMAX = softmax;
    LOG_SOFTMAX_BACKWARD = softmax;

    SOFTMAX_CROSS_ENTROPY = loss;
    SOFTMAX_CROSS_ENTROPY_BACKWARD = loss;
    MSE_LOSS = loss;
    BCE_WITH_LOGITS = loss;

    CONV2D = conv;
    CONV2D_INPUT_GRAD = conv;
    CONV2D_WEIGHT_GRAD = conv;
    CONV1D = convs;
    CONV3D = convs;
    CONV_TRANSPOSE1D = convs;
    CONV_TRANSPOSE2D = convs;
    CONV_TRANSPOSE3D = convs;

    MAX_POOL2D = pool;
    MAX_POOL2D_BACKWARD = pool;
    MAX_POOL2D_GATHER = pool;
    AVG_POOL2D = pool;
    AVG_POOL2D_BACKWARD = pool;
    MAX_POOL1D = pools;
    MAX_POOL3D = pools;
    MIN_POOL1D = pools;
    MIN_POOL2D = pools;
    MIN_POOL3D = pools;
    SUM_POOL1D = pools;
    SUM_POOL2D = pools;
    SUM_POOL2D_BACKWARD = pools;
    SUM_POOL3D = pools;
    AVG_POOL1D = pools;
    AVG_POOL3D = pools;
    ADAPTIVE_MAX_POOL1D = adaptive;
    ADAPTIVE_MAX_POOL2D = adaptive;
    ADAPTIVE_MAX_POOL3D = adaptive;
    ADAPTIVE_AVG_POOL1D = adaptive;
    ADAPTIVE_AVG_POOL2D = adaptive;
    ADAPTIVE_AVG_POOL3D = adaptive;

    IM2COL = unfold;
    COL2IM = unfold;
    INTERPOLATE = resize;

    LAYER_NORM = norm;
    LAYER_NORM_BACKWARD = norm;
    RMS_NORM = norms;
    RMS_NORM_BACKWARD = norms;
    GROUP_NORM = norms;
    BATCH_NORM = norms;

    ATTENTION = attention;
    ATTENTION_BACKWARD = attention;
    ROPE = rope;

    SGD = optim;
    SGD_MOMENTUM = optim;
    ADAM = optim;
    ROOT_SUM_SQUARES = length;

    SCAN = scan;

    MAP = fused;
    MATMUL_BIAS_ACT = epilogue;
    MATMUL_GATE = epilogue;
    ATTENTION_PACKED = attention;
    ATTENTION_PACKED_BACKWARD = attention;
    CROSS_ENTROPY_GRADIENT = loss;
    SQUARED_ERROR_GRADIENT = loss;
    MATMUL_SGD = steps;
    MATMUL_SGD_MOMENTUM = steps;
    MATMUL_ADAM = steps;
    ACT_SLOPE = slopes;
    CONV2D_BIAS_ACT = conv_act;
    RESIDUAL_LAYER_NORM = residual;
    RESIDUAL_RMS_NORM = residual;
    SWIGLU = gate;
    LORA_MATMUL = lora;

    LINEAR = blocks;
    SHARED_LINEAR_PAIR = blocks;
    SWIGLU_BLOCK = blocks;
    DEPTHWISE_CONV1D_CAUSAL = blocks;
    ATTENTION_BLOCK = layers;
    TRANSFORMER_LAYER = layers;
    LLAMA_DECODER_BLOCK = layers;
}
