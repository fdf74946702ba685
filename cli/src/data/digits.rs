//! The built-in 8×8 handwritten digits, and their fixed split.
//!
//! Invariant: the split depends on the data alone. Each class is ordered by [`permutation`] with seed 0 and the class
//! as epoch; its first fifth (rounded) is the test set, the rest the training set. See `data/README.md`.

use super::{LabelledImages, LabelledSplit};
use crate::fail::{Run, fail_bad_input};
use arenagrad::train::data::CsvRows;
use arenagrad::train::permutation;
use std::io::Read;

const FILE: &str = "digits.csv.gz";
const BYTES: &[u8] = include_bytes!("../../../data/digits.csv.gz");
/// Height and width of an image.
const SIDE: usize = 8;
/// The largest value of a pixel in the file.
const WHITE: f64 = 16.0;
const CLASSES: i32 = 10;

/// The training set and the test set.
pub fn load_digits() -> Run<LabelledSplit> {
    split_digits(&parse_digits(BYTES)?)
}

/// Reads the images from gzipped CSV: 64 pixels and the digit in each line.
fn parse_digits(gz: &[u8]) -> Run<LabelledImages> {
    let mut text = Vec::new();
    let limit = 1 << 22;
    flate2::read::GzDecoder::new(gz)
        .take(limit)
        .read_to_end(&mut text)
        .map_err(|e| fail_bad_input(format!("{FILE}: {e}")))?;
    let mut images = LabelledImages { size: [SIDE, SIDE], ..LabelledImages::default() };
    let (mut rows, mut row) = (CsvRows::new(FILE, text.as_slice(), false)?, Vec::new());
    while rows.read_row(&mut row)? {
        let whole = |x: &f64| x.fract() == 0.0;
        match row.split_last() {
            Some((&label, pixels))
                if pixels.len() == SIDE * SIDE
                    && (0.0..CLASSES as f64).contains(&label)
                    && pixels.iter().all(|p| (0.0..=WHITE).contains(p))
                    && row.iter().all(whole) =>
            {
                images.labels.push(label as i32);
                // The elements are small whole numbers: exact in f32.
                images.pixels.extend(pixels.iter().map(|&p| p as f32 / WHITE as f32));
            }
            _ => return Err(fail_bad_input(format!("{FILE}:{}: not 64 pixels from 0 to 16 and a digit", rows.line()))),
        }
    }
    Ok(images)
}

/// Splits the images as the head of this file says.
fn split_digits(all: &LabelledImages) -> Run<LabelledSplit> {
    let mut tested = vec![false; all.len()];
    for class in 0..CLASSES {
        let members: Vec<usize> = (0..all.len()).filter(|&i| all.labels[i] == class).collect();
        let mut order = vec![0; members.len()];
        permutation(0, class as u64, &mut order);
        order.iter().take((members.len() + 2) / 5).for_each(|&i| tested[members[i as usize]] = true);
    }
    let part = |test: bool| {
        let mut half = LabelledImages { size: all.size, ..LabelledImages::default() };
        for i in (0..all.len()).filter(|&i| tested[i] == test) {
            half.labels.push(all.labels[i]);
            half.pixels.extend(&all.pixels[i * all.area()..][..all.area()]);
        }
        half
    };
    LabelledSplit::new(part(false), part(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_the_documented_one() {
        let s = load_digits().unwrap();
        assert_eq!((s.train.len(), s.test.len(), s.classes), (1438, 359, 10));
        let of = |images: &LabelledImages, class| images.labels.iter().filter(|&&l| l == class).count();
        for class in 0..10 {
            let (train, test) = (of(&s.train, class), of(&s.test, class));
            assert_eq!(test, (train + test + 2) / 5);
        }
        assert!(s.train.pixels.iter().all(|p| (0.0..=1.0).contains(p)));
        assert_eq!(s.train.pixels.len(), 1438 * 64);
    }

    #[test]
    fn damage_is_found() {
        assert!(parse_digits(&BYTES[..1000]).is_err());
        assert!(parse_digits(b"no gzip").is_err());
        let packed = |text: String| {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gz, text.as_bytes()).unwrap();
            parse_digits(&gz.finish().unwrap())
        };
        let black = "0,".repeat(63);
        assert_eq!(packed(format!("{black}16,9\n")).unwrap().labels, [9]);
        for end in ["17,9", "-1,9", "0.5,9", "0,10", "0,-1", "0,1.5", "0,nan", "9"] {
            let e = packed(format!("{black}0,0\n")).and(packed(format!("{black}{end}\n"))).unwrap_err();
            assert!(format!("{e:?}").contains("digits.csv.gz:1: not 64 pixels from 0 to 16 and a digit"), "{e:?}");
        }
    }
}
