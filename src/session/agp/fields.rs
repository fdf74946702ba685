//! The fields of the sections of an exported program: one description of a record, which a writer and a reader follow.
//!
//! Numbers are little-endian. A list is its length as 64 bits, its items, and zeros up to a multiple of 8 bytes. The
//! reader trusts no length: it takes memory for items that are there.

/// What went wrong, in words.
pub type Done = Result<(), String>;

/// Fields of a record in order: a writer reads them, a reader fills them.
pub trait Fields {
    /// A number of 64 bits.
    fn long(&mut self, x: &mut u64) -> Done;
    /// A list of bytes.
    fn bytes(&mut self, x: &mut Vec<u8>) -> Done;
    /// A list of numbers of 32 bits.
    fn words(&mut self, x: &mut Vec<u32>) -> Done;
    /// A list of numbers of 64 bits.
    fn longs(&mut self, x: &mut Vec<u64>) -> Done;

    /// A number that counts things in memory.
    fn count(&mut self, x: &mut usize) -> Done {
        let mut wide = *x as u64;
        self.long(&mut wide)?;
        *x = usize::try_from(wide).map_err(|_| format!("{wide} is no size in memory"))?;
        Ok(())
    }

    /// A text.
    fn text(&mut self, x: &mut String) -> Done {
        let mut bytes = std::mem::take(x).into_bytes();
        self.bytes(&mut bytes)?;
        *x = String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_string())?;
        Ok(())
    }
}

/// A record: its fields in order.
pub trait Record: Default {
    /// Hands each field to `f`.
    fn fields(&mut self, f: &mut dyn Fields) -> Done;

    /// The record as bytes. `self` is as it was.
    fn encode(&mut self) -> Result<Vec<u8>, String> {
        let mut w = Writer(Vec::new());
        self.fields(&mut w)?;
        Ok(w.0)
    }

    /// The record that `bytes` are. Errors: they are no such record, or more than one.
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (mut record, mut r) = (Self::default(), Reader(bytes));
        record.fields(&mut r)?;
        match r.0 {
            [] => Ok(record),
            rest => Err(format!("{} bytes are left behind its last field", rest.len())),
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn list(&mut self, len: usize, items: impl Iterator<Item = u8>) -> Done {
        self.0.extend((len as u64).to_le_bytes());
        self.0.extend(items);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        Ok(())
    }
}

impl Fields for Writer {
    fn long(&mut self, x: &mut u64) -> Done {
        self.0.extend(x.to_le_bytes());
        Ok(())
    }

    fn bytes(&mut self, x: &mut Vec<u8>) -> Done {
        self.list(x.len(), x.iter().copied())
    }

    fn words(&mut self, x: &mut Vec<u32>) -> Done {
        self.list(x.len(), x.iter().flat_map(|x| x.to_le_bytes()))
    }

    fn longs(&mut self, x: &mut Vec<u64>) -> Done {
        self.list(x.len(), x.iter().flat_map(|x| x.to_le_bytes()))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.0.split_at_checked(len).ok_or("it ends within a field")?;
        self.0 = rest;
        Ok(head)
    }

    /// The items of a list, `size` bytes each.
    fn list(&mut self, size: usize) -> Result<&'a [u8], String> {
        let mut len = 0;
        self.long(&mut len)?;
        let bytes = usize::try_from(len).ok().and_then(|len| len.checked_mul(size)).filter(|&b| b <= self.0.len());
        let bytes = bytes.ok_or_else(|| format!("a list of {len} items is longer than the section"))?;
        let items = self.take(bytes)?;
        let rest = self.take(bytes.next_multiple_of(8) - bytes)?;
        if rest.iter().any(|&b| b != 0) {
            return Err("bytes between two fields are not zero".into());
        }
        Ok(items)
    }
}

impl Fields for Reader<'_> {
    fn long(&mut self, x: &mut u64) -> Done {
        *x = self.take(8)?.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        Ok(())
    }

    fn bytes(&mut self, x: &mut Vec<u8>) -> Done {
        *x = self.list(1)?.to_vec();
        Ok(())
    }

    fn words(&mut self, x: &mut Vec<u32>) -> Done {
        *x = self.list(4)?.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        Ok(())
    }

    fn longs(&mut self, x: &mut Vec<u64>) -> Done {
        *x = self.list(8)?.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Sample(u64, Vec<u8>, Vec<u32>, Vec<u64>, usize, String);

    impl Record for Sample {
        fn fields(&mut self, f: &mut dyn Fields) -> Done {
            f.long(&mut self.0)?;
            f.bytes(&mut self.1)?;
            f.words(&mut self.2)?;
            f.longs(&mut self.3)?;
            f.count(&mut self.4)?;
            f.text(&mut self.5)
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mut all = Sample(7, vec![1, 2, 3], vec![4, 5, 6], vec![7], 8, "größe".to_string());
        let bytes = all.encode().unwrap();
        assert_eq!(Sample::decode(&bytes), Ok(all.clone()));
        for n in 0..bytes.len() {
            assert!(Sample::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
        let more = [&bytes[..], &[0; 8]].concat();
        assert_eq!(Sample::decode(&more), Err("8 bytes are left behind its last field".to_string()));
        // Lengths as large as they can be are refused; what is read is what was written.
        for at in (8..bytes.len()).step_by(8) {
            let mut long = bytes.clone();
            long[at..at + 8].copy_from_slice(&(1u64 << 63).to_le_bytes());
            if let Ok(mut read) = Sample::decode(&long) {
                assert_eq!(read.encode().unwrap(), long, "at {at}");
            }
        }
        let mut padded = bytes.clone();
        padded[8 + 8 + 3] = 1;
        assert_eq!(Sample::decode(&padded), Err("bytes between two fields are not zero".to_string()));
        let text = bytes.len() - 8;
        let mut torn = bytes;
        torn[text] = 0xff;
        assert_eq!(Sample::decode(&torn), Err("a text is not UTF-8".to_string()));
    }
}
