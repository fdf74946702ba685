//! The arguments of torch's functions that rebuild a tensor, checked.

use super::super::header::bad_checkpoint;
use super::pickle::{Id, Pickle, Value};
use crate::error::Result;
use crate::nodes::DType;

/// The types of elements: torch's name, that of its class of storages if it has one, and ours.
const TYPES: [(&str, &str, DType); 15] = [
    ("float32", "FloatStorage", DType::F32),
    ("float64", "DoubleStorage", DType::F64),
    ("float16", "HalfStorage", DType::F16),
    ("bfloat16", "BFloat16Storage", DType::BF16),
    ("int8", "CharStorage", DType::I8),
    ("uint8", "ByteStorage", DType::U8),
    ("int16", "ShortStorage", DType::I16),
    ("int32", "IntStorage", DType::I32),
    ("int64", "LongStorage", DType::I64),
    ("bool", "BoolStorage", DType::Bool),
    ("complex64", "ComplexFloatStorage", DType::C64),
    ("complex128", "ComplexDoubleStorage", DType::C128),
    ("uint16", "", DType::U16),
    ("uint32", "", DType::U32),
    ("uint64", "", DType::U64),
];

/// Most axes of a tensor: those of torch.
const MAX_RANK: usize = 64;
/// Most elements of a tensor that has more of them than its record, as `expand` makes.
const MAX_SHARED: u64 = 1 << 20;

/// Whether `name` in the module `torch` can be a type of elements.
pub(super) fn is_type(name: &str) -> bool {
    TYPES.iter().any(|t| t.0 == name) || name.starts_with("float") || name.starts_with("complex")
}

/// A tensor as the pickle describes it.
pub(super) struct Described<'p> {
    /// The name of its record.
    pub key: &'p str,
    /// The name of its type.
    pub kind: &'p str,
    dtype: Option<DType>,
    /// Length of its record: in bytes if `in_bytes`, else in elements.
    held: u64,
    in_bytes: bool,
    offset: u64,
    pub dims: Vec<usize>,
    strides: Vec<u64>,
    /// Whether its elements are conjugated or negated when they are read.
    lazy: bool,
}

/// Where the elements of a tensor are.
pub(super) struct Held {
    pub dtype: DType,
    pub bytes: usize,
    /// First byte in the record.
    pub first: u64,
    /// `None` for row-major.
    pub strides: Option<Vec<usize>>,
}

/// The tensor of the arguments of `_rebuild_tensor_v3`, which name a type, or of `_rebuild_tensor_v2`.
pub(super) fn of_args<'p>(pickle: &'p Pickle, args: &[Id], has_type: bool) -> Result<Described<'p>> {
    parse(pickle, args, has_type)
        .ok_or_else(|| bad_checkpoint(format!("the arguments are not those of a tensor of at most {MAX_RANK} axes")))
}

fn parse<'p>(pickle: &'p Pickle, args: &[Id], has_type: bool) -> Option<Described<'p>> {
    let number = |id: Id| match pickle.get(id) {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    let numbers = |id: Id| {
        let items = pickle.tuple(id)?;
        (items.len() <= MAX_RANK).then(|| items.iter().map(|&id| number(id)).collect::<Option<Vec<u64>>>())?
    };
    let &[storage, offset, dims, strides, _grad, _hooks, ref more @ ..] = args else { return None };
    let Value::Persistent(storage) = pickle.get(storage) else { return None };
    let &[word, class, key, _device, held] = pickle.tuple(*storage)? else { return None };
    let (module, class) = pickle.global(class)?;
    let in_bytes = (module, class) == ("torch.storage", "UntypedStorage");
    let (kind, more) = match (has_type, more) {
        (true, [kind, more @ ..]) => (pickle.global(*kind).filter(|kind| kind.0 == "torch")?.1, more),
        (true, []) => return None,
        (false, more) => (class, more),
    };
    let lazy = match more {
        [] => false,
        [metadata, ..] => match pickle.get(*metadata) {
            Value::Dict(items) => items.iter().any(|&(_, value)| matches!(pickle.get(value), Value::Bool(true))),
            _ => false,
        },
    };
    if pickle.text_of(word)? != "storage" || !(in_bytes || module == "torch") || (in_bytes && !has_type) {
        return None;
    }
    let known = TYPES.iter().find(|t| if has_type { t.0 == kind } else { t.1 == kind });
    let dims = numbers(dims)?.into_iter().map(|n| usize::try_from(n).ok()).collect::<Option<Vec<usize>>>()?;
    let strides = numbers(strides)?;
    (strides.len() == dims.len()).then_some(Described {
        key: pickle.text_of(key)?,
        kind: known.map_or(kind, |t| t.0),
        dtype: known.map(|t| t.2),
        held: number(held)?,
        in_bytes,
        offset: number(offset)?,
        dims,
        strides,
        lazy,
    })
}

impl Described<'_> {
    /// The name of its record, for messages.
    pub fn record(&self) -> String {
        format!("{:?}", format!("data/{}", self.key).chars().take(80).collect::<String>())
    }

    /// Where the elements are in a record of `bytes` bytes; or why the tensor cannot be used.
    pub fn place(&self, bytes: u64) -> Result<Result<Held, &'static str>> {
        let Some(dtype) = self.dtype else { return Ok(Err("there is no such type here")) };
        let size = dtype.size() as u64;
        let held = if self.in_bytes { Some(self.held) } else { self.held.checked_mul(size) };
        if held != Some(bytes) {
            let text = format!("its record {} has {bytes} bytes, not {} elements", self.record(), self.held);
            return Err(bad_checkpoint(text));
        }
        let (dims, strides, held) = (&self.dims, &self.strides, bytes / size);
        let outside = || {
            let text = format!("{dims:?} with the strides {strides:?} from element {} on", self.offset);
            bad_checkpoint(format!("{text} is not in its record {} of {held} elements", self.record()))
        };
        let elements = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d as u64)).ok_or_else(outside)?;
        let steps = dims.iter().zip(strides).map(|(&d, &stride)| (d as u64).saturating_sub(1).checked_mul(stride));
        let last = steps.into_iter().try_fold(self.offset, |sum, step| sum.checked_add(step?)).ok_or_else(outside)?;
        // A part without elements may begin after its record's end.
        if elements > 0 && last >= held {
            return Err(outside());
        }
        if self.lazy {
            return Ok(Err("its conjugate or negative is stored: save tensor.resolve_conj().resolve_neg()"));
        }
        if elements > held.max(MAX_SHARED) {
            return Ok(Err("its elements share bytes: save tensor.contiguous()"));
        }
        let bytes = usize::try_from(elements).ok().and_then(|n| n.checked_mul(dtype.size())).ok_or_else(outside)?;
        let row_major = dims
            .iter()
            .zip(strides)
            .rev()
            .try_fold(1u64, |n, (&d, &stride)| (d == 1 || stride == n).then(|| n * d as u64));
        let strides = match row_major.is_some() || elements < 2 {
            true => None,
            false => Some(strides.iter().map(|&s| s as usize).collect()),
        };
        let first = if elements == 0 { 0 } else { self.offset * size };
        Ok(Ok(Held { dtype, bytes, first, strides }))
    }
}
