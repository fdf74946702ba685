//! Names and numbers as C.

pub use crate::constants::{literal_f32, literal_f64};
use arenagrad::graph::DType;

/// An element type in C: its name, its tag in the names of functions, and its member of the arena.
pub struct CType {
    /// The name, such as `int32_t`.
    pub name: &'static str,
    /// The tag, such as `i32`.
    pub tag: &'static str,
}

/// The element type as C has it; the error says that it has none.
pub fn c_type(dtype: DType) -> Result<CType, String> {
    let (name, tag) = match dtype {
        DType::F32 => ("float", "f32"),
        DType::F64 => ("double", "f64"),
        DType::I8 => ("int8_t", "i8"),
        DType::U8 | DType::Bool => ("uint8_t", "u8"),
        DType::I16 => ("int16_t", "i16"),
        DType::U16 => ("uint16_t", "u16"),
        DType::I32 => ("int32_t", "i32"),
        DType::U32 => ("uint32_t", "u32"),
        DType::I64 => ("int64_t", "i64"),
        DType::U64 => ("uint64_t", "u64"),
        other => return Err(format!("C99 has no {other}; compute in f32")),
    };
    Ok(CType { name, tag })
}

/// The type as which elements of `size` bytes are moved: `dtype` itself if it has that size.
pub fn moved_type(dtype: Option<DType>, size: usize) -> Result<DType, String> {
    let by_size = match size {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::F32,
        8 => DType::F64,
        _ => return Err(format!("C99 has no elements of {size} bytes; compute in f32")),
    };
    Ok(dtype.filter(|d| d.size() == size && c_type(*d).is_ok()).unwrap_or(by_size))
}

/// The element of type `dtype` with these bits, as C.
pub fn number_of_bits(dtype: DType, bits: u64) -> Result<String, String> {
    let signed = |size: usize| (bits << (64 - 8 * size)) as i64 >> (64 - 8 * size);
    match dtype {
        DType::F32 => Ok(literal_f32(f32::from_bits(bits as u32))),
        DType::F64 => Ok(literal_f64(f64::from_bits(bits))),
        DType::I8 | DType::I16 => Ok(signed(dtype.size()).to_string()),
        DType::I32 => Ok(if bits as i32 == i32::MIN { "INT32_MIN".into() } else { (bits as i32).to_string() }),
        DType::I64 => Ok(number_i64(bits as i64)),
        DType::U64 => Ok(format!("UINT64_C({bits})")),
        DType::U8 | DType::Bool | DType::U16 | DType::U32 => {
            Ok(format!("{}u", bits & (u64::MAX >> (64 - 8 * dtype.size()))))
        }
        other => Err(format!("C99 has no {other}; compute in f32")),
    }
}

/// A number of element type `dtype` as C, as the engine rounds the sum of two immediates.
pub fn number(dtype: DType, x: f64, y: f64) -> Result<String, String> {
    let clamped = |least: i128, most: i128| (x as i128).saturating_add(y as i128).clamp(least, most);
    Ok(match dtype {
        DType::F32 => literal_f32((x + y) as f32),
        DType::F64 => literal_f64(x + y),
        DType::Bool => u8::from(x + y != 0.0).to_string(),
        DType::I8 => clamped(i8::MIN.into(), i8::MAX.into()).to_string(),
        DType::U8 => clamped(0, u8::MAX.into()).to_string(),
        DType::I16 => clamped(i16::MIN.into(), i16::MAX.into()).to_string(),
        DType::U16 => clamped(0, u16::MAX.into()).to_string(),
        DType::I32 => match clamped(i32::MIN.into(), i32::MAX.into()) as i32 {
            i32::MIN => "INT32_MIN".into(),
            n => n.to_string(),
        },
        DType::U32 => format!("{}u", clamped(0, u32::MAX.into())),
        DType::I64 => match clamped(i64::MIN.into(), i64::MAX.into()) as i64 {
            i64::MIN => "INT64_MIN".into(),
            n => format!("INT64_C({n})"),
        },
        DType::U64 => format!("UINT64_C({})", clamped(0, u64::MAX.into())),
        other => return Err(format!("C99 has no {other}; compute in f32")),
    })
}

/// A 64-bit signed number as C.
pub fn number_i64(n: i64) -> String {
    if n == i64::MIN { "INT64_MIN".into() } else { format!("INT64_C({n})") }
}

/// `name` with the characters that an identifier of C may have; never empty.
pub fn identifier(name: &str) -> String {
    let mut out = letters(name);
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}

/// `name` with `_` for each character that a name of C may not have. It may begin with a digit.
pub fn letters(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Text that may stand in a comment of C: one line that does not end the comment.
pub fn comment(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    plain.replace("*/", "* /").replace("/*", "/ *").replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_type() {
        let of = |dtype, x| number(dtype, x, -0.0).unwrap();
        assert_eq!([of(DType::F32, 0.1), of(DType::F32, -0.0), of(DType::F32, 1e20)], ["0.1f", "-0.0f", "1e20f"]);
        assert_eq!([of(DType::F32, f64::INFINITY), of(DType::F64, 1.0)], ["ag_number_f32(0x7f800000u)", "1.0"]);
        assert_eq!(
            [of(DType::I32, -3e9), of(DType::I64, -1e30), of(DType::U8, 300.0)],
            ["INT32_MIN", "INT64_MIN", "255"]
        );
    }

    #[test]
    fn names_become_identifiers() {
        assert_eq!(["fc1.weight", "", "2x", "é"].map(identifier), ["fc1_weight", "_", "_2x", "_"]);
        assert_eq!(comment("a */ \\ é\n"), "a * / / ??");
    }
}
