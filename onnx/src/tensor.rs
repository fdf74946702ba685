//! Tensors of the host: elements as bytes, and how ONNX stores them.

use crate::error::{Error, Result, model};
use crate::proto::TensorProto;
use crate::proto::tensor_proto::{DataLocation, DataType};
use arenagrad::graph::DType;
use std::path::{Component, Path, PathBuf};

/// Elements in row-major order, little-endian.
///
/// ```
/// use arenagrad::graph::DType;
/// let t = arenagrad_onnx::Tensor::new(DType::I64, vec![2], [3i64, -1].map(i64::to_le_bytes).concat())?;
/// assert_eq!(t.ints(), Some(vec![3, -1]));
/// # Ok::<(), arenagrad_onnx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Elements along each axis.
    pub dims: Vec<usize>,
    /// The elements.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of these bytes. Another number of bytes than shape and dtype need is an error.
    pub fn new(dtype: DType, dims: Vec<usize>, bytes: Vec<u8>) -> Result<Tensor> {
        let need = bytes_of(dtype, &dims);
        if need != Some(bytes.len()) {
            return model(format!("{} bytes for {}{dims:?}", bytes.len(), dtype.name()));
        }
        if let Some(at) = dtype.misfit(&bytes) {
            return model(format!("element {at} of a tensor is the bool {}; it must be 0 or 1", bytes[at]));
        }
        Ok(Tensor { dtype, dims, bytes })
    }

    /// A tensor of integers.
    pub fn of_ints(values: &[i64], dims: Vec<usize>) -> Tensor {
        Tensor { dtype: DType::I64, dims, bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect() }
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        count(&self.dims)
    }

    /// The elements as integers; `None` for floats, and for integers that `i64` does not hold.
    pub fn ints(&self) -> Option<Vec<i64>> {
        fn all<const N: usize>(b: &[u8], f: impl Fn([u8; N]) -> i64) -> Vec<i64> {
            b.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
        }
        let b = &self.bytes;
        Some(match self.dtype {
            DType::I64 => all(b, i64::from_le_bytes),
            DType::I32 => all(b, |c| i32::from_le_bytes(c).into()),
            DType::U32 => all(b, |c| u32::from_le_bytes(c).into()),
            DType::I16 => all(b, |c| i16::from_le_bytes(c).into()),
            DType::U16 => all(b, |c| u16::from_le_bytes(c).into()),
            DType::I8 => all(b, |c| i8::from_le_bytes(c).into()),
            DType::U8 | DType::Bool => all(b, |c: [u8; 1]| c[0].into()),
            DType::U64 => {
                let wide = b.as_chunks::<8>().0.iter().map(|c| i64::try_from(u64::from_le_bytes(*c)));
                return wide.collect::<Result<_, _>>().ok();
            }
            _ => return None,
        })
    }

    /// The elements as numbers; `None` for complex ones.
    pub fn floats(&self) -> Option<Vec<f64>> {
        let b = &self.bytes;
        let two = || b.as_chunks::<2>().0.iter();
        Some(match self.dtype {
            DType::F32 => b.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c).into()).collect(),
            DType::F64 => b.as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect(),
            DType::F16 => two().map(|c| half::f16::from_le_bytes(*c).into()).collect(),
            DType::BF16 => two().map(|c| half::bf16::from_le_bytes(*c).into()).collect(),
            _ => return self.ints().map(|all| all.iter().map(|&x| x as f64).collect()),
        })
    }

    /// These elements as `f32`, if they are `f16` or `bf16`; else this tensor.
    pub fn widened(self) -> Tensor {
        match (self.dtype, self.floats()) {
            (DType::F16 | DType::BF16, Some(all)) => {
                let bytes = all.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
                Tensor { dtype: DType::F32, bytes, ..self }
            }
            _ => self,
        }
    }

    /// From the format's message. `folder` is where external data may lie; without one there is none.
    ///
    /// # Errors
    /// A dtype that the library has not; a shape and data that do not fit; external data outside of the folder.
    pub fn from_proto(t: &TensorProto, folder: Option<&Path>) -> Result<Tensor> {
        let name = t.name();
        let dtype = dtype_of(t.data_type()).map_err(|why| Error::Model(format!("tensor {name:?}: {why}")))?;
        let dims = dims_of(&t.dims).map_err(|why| Error::Model(format!("tensor {name:?}: {why}")))?;
        let need =
            bytes_of(dtype, &dims).ok_or_else(|| Error::Model(format!("tensor {name:?}: {dims:?} is too large")))?;
        if t.segment.is_some() {
            return model(format!("tensor {name:?} is a segment, which no version of the format reads"));
        }
        let bytes = match t.data_location() == DataLocation::External {
            true => external(t, folder, need)?,
            false if t.raw_data.is_some() => t.raw_data().to_vec(),
            false => typed(t, dtype),
        };
        Tensor::new(dtype, dims, bytes).map_err(|e| Error::Model(format!("tensor {name:?}: {e}")))
    }
}

impl From<&Tensor> for TensorProto {
    fn from(t: &Tensor) -> TensorProto {
        TensorProto {
            data_type: Some(code_of(t.dtype) as i32),
            dims: t.dims.iter().map(|&n| n as i64).collect(),
            raw_data: Some(t.bytes.clone()),
            ..TensorProto::default()
        }
    }
}

/// Elements of a tensor of this shape; the largest number, if it has more.
pub fn count(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
}

/// Bytes of a tensor, if it fits the address space and the limits of the library.
pub fn bytes_of(dtype: DType, dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d)).filter(|&n| n <= isize::MAX as usize)
}

/// Dimensions, none of which is negative or above 2³¹ − 1.
pub fn dims_of(dims: &[i64]) -> Result<Vec<usize>, String> {
    let one = |&d: &i64| match usize::try_from(d) {
        Ok(n) if n < 1 << 31 => Ok(n),
        _ => Err(format!("a dimension is {d}; it must be 0 to 2^31 - 1")),
    };
    dims.iter().map(one).collect()
}

/// The dtype of a number of the format.
pub fn dtype_of(code: i32) -> Result<DType, String> {
    Ok(match DataType::try_from(code) {
        Ok(DataType::Float) => DType::F32,
        Ok(DataType::Double) => DType::F64,
        Ok(DataType::Float16) => DType::F16,
        Ok(DataType::Bfloat16) => DType::BF16,
        Ok(DataType::Int8) => DType::I8,
        Ok(DataType::Uint8) => DType::U8,
        Ok(DataType::Int16) => DType::I16,
        Ok(DataType::Uint16) => DType::U16,
        Ok(DataType::Int32) => DType::I32,
        Ok(DataType::Uint32) => DType::U32,
        Ok(DataType::Int64) => DType::I64,
        Ok(DataType::Uint64) => DType::U64,
        Ok(DataType::Bool) => DType::Bool,
        Ok(DataType::Complex64) => DType::C64,
        Ok(DataType::Complex128) => DType::C128,
        Ok(other) => return Err(format!("elements of type {} are not supported", other.as_str_name())),
        Err(_) => return Err(format!("{code} is no element type")),
    })
}

/// The number of the format for a dtype; `Undefined` for one that it has not.
pub fn code_of(dtype: DType) -> DataType {
    match dtype {
        DType::F32 => DataType::Float,
        DType::F64 => DataType::Double,
        DType::F16 => DataType::Float16,
        DType::BF16 => DataType::Bfloat16,
        DType::I8 => DataType::Int8,
        DType::U8 => DataType::Uint8,
        DType::I16 => DataType::Int16,
        DType::U16 => DataType::Uint16,
        DType::I32 => DataType::Int32,
        DType::U32 => DataType::Uint32,
        DType::I64 => DataType::Int64,
        DType::U64 => DataType::Uint64,
        DType::Bool => DataType::Bool,
        DType::C64 => DataType::Complex64,
        DType::C128 => DataType::Complex128,
        _ => DataType::Undefined,
    }
}

/// The bytes of elements in the typed fields.
fn typed(t: &TensorProto, dtype: DType) -> Vec<u8> {
    let narrow = |size: usize| t.int32_data.iter().flat_map(|x| x.to_le_bytes()[..size].to_vec()).collect();
    match dtype {
        DType::F32 | DType::C64 => t.float_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F64 | DType::C128 => t.double_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I64 => t.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U64 => t.uint64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U32 => t.uint64_data.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect(),
        DType::I32 | DType::F16 | DType::BF16 | DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::Bool => {
            narrow(dtype.size())
        }
        _ => Vec::new(),
    }
}

/// The bytes of a tensor in a file of its own, beside the model.
fn external(t: &TensorProto, folder: Option<&Path>, need: usize) -> Result<Vec<u8>> {
    let name = t.name();
    let entry = |key: &str| t.external_data.iter().find(|e| e.key() == key).map(|e| e.value());
    let number = |key: &str, default: u64| match entry(key) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Error::Model(format!("tensor {name:?}: {key} is {text:?}, no number"))),
    };
    let Some(folder) = folder else {
        return model(format!("tensor {name:?} is in a file of its own: read the model by its path, not as bytes"));
    };
    let Some(location) = entry("location") else {
        return model(format!("tensor {name:?} is in a file of its own, which it does not name"));
    };
    let path = inside(folder, location).map_err(|why| Error::Model(format!("tensor {name:?}: {why}")))?;
    let (offset, length) = (number("offset", 0)?, number("length", need as u64)?);
    if length != need as u64 {
        return model(format!("tensor {name:?} has {length} bytes in {location:?}; its shape needs {need}"));
    }
    let fail = |e: std::io::Error| Error::Graph(arenagrad::Error::from(e).context(format!("{location:?}")));
    let file = std::fs::File::open(&path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return model(format!("tensor {name:?} ends behind the {size} bytes of {location:?}"));
    }
    let mut bytes = vec![0; need];
    read_at(file, offset, &mut bytes).map_err(fail)?;
    Ok(bytes)
}

fn read_at(mut file: std::fs::File, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(into)
}

/// `location` below `folder`: relative, without `..`, and a regular file that no link leads out of.
fn inside(folder: &Path, location: &str) -> Result<PathBuf, String> {
    let path = Path::new(location);
    if location.is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("the file {location:?} is not inside of the model's folder"));
    }
    let joined = folder.join(path);
    let known = |p: &Path| p.canonicalize().map_err(|e| format!("the file {location:?}: {e}"));
    let (real, root) = (known(&joined)?, known(folder)?);
    if !real.starts_with(&root) {
        return Err(format!("the file {location:?} is not inside of the model's folder"));
    }
    if !real.is_file() {
        return Err(format!("{location:?} is no regular file"));
    }
    Ok(real)
}
