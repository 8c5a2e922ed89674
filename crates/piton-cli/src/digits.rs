//! The shipped images: 1797 handwritten digits of 8 x 8 pixels.
//!
//! The file is compiled into the program, so the demonstration needs no network and no path. Source, licence and
//! checksum stand in `data/README.md`. Every fifth image is held back from training; which ones is a property of the
//! data set here and never of a seed, so accuracies of different runs compare.

use std::io::Read;

use flate2::read::GzDecoder;

/// Pixels of one image, row by row from the top left.
pub const PIXELS: usize = 64;
/// Digits 0 to 9.
pub const CLASSES: usize = 10;
/// Ink dots a pixel counts at most; pixels are divided by it.
const FULL_INK: u8 = 16;
/// One image in so many is held back.
const HELD_BACK_EVERY: usize = 5;

const SHIPPED: &[u8] = include_bytes!("../data/digits.csv.gz");

/// Labelled images, pixels scaled to `0.0..=1.0` (exactly: sixteenths are binary fractions).
#[derive(Debug, Clone, PartialEq)]
pub struct Digits {
    images: Vec<[f32; PIXELS]>,
    labels: Vec<u8>,
}

/// Why the images could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DigitsError {
    /// The compressed stream ended early or is damaged.
    #[error("the image file cannot be decompressed")]
    Compressed(#[from] std::io::Error),
    /// A line has too few or too many columns.
    #[error("line {line} of the image file has {columns} columns, expected {}", PIXELS + 1)]
    Columns {
        /// Line, from 1.
        line: usize,
        /// Columns found.
        columns: usize,
    },
    /// A value is not a number, or beyond what its column may hold.
    #[error("line {line}, column {column} of the image file is not a number in 0..={limit}")]
    Value {
        /// Line, from 1.
        line: usize,
        /// Column, from 1; the last is the label.
        column: usize,
        /// Largest value allowed there.
        limit: u8,
    },
}

impl Digits {
    /// The images compiled into the program.
    ///
    /// # Errors
    /// [`DigitsError`] if they do not decompress to well-formed lines, which the tests rule out for the shipped file.
    pub fn shipped() -> Result<Self, DigitsError> {
        Self::from_gzip(SHIPPED)
    }

    /// Reads images in the form of the shipped file: gzip of comma separated lines, 64 pixels and a label.
    ///
    /// # Errors
    /// [`DigitsError`] naming the line and column of the first value that does not fit.
    pub fn from_gzip(compressed: &[u8]) -> Result<Self, DigitsError> {
        let mut text = String::new();
        GzDecoder::new(compressed).read_to_string(&mut text)?;
        let mut digits = Self {
            images: Vec::new(),
            labels: Vec::new(),
        };
        for (index, row) in text.lines().enumerate() {
            let (image, label) = parse_row(row, index + 1)?;
            digits.images.push(image);
            digits.labels.push(label);
        }
        Ok(digits)
    }

    /// Number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Are there no images at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Pixels of image `index`, or `None` beyond the last.
    #[must_use]
    pub fn image(&self, index: usize) -> Option<&[f32; PIXELS]> {
        self.images.get(index)
    }

    /// Label of image `index`, or `None` beyond the last.
    #[must_use]
    pub fn label(&self, index: usize) -> Option<u8> {
        self.labels.get(index).copied()
    }

    /// Indices of the images to train on.
    #[must_use]
    pub fn training(&self) -> Vec<usize> {
        (0..self.len())
            .filter(|i| i % HELD_BACK_EVERY != 0)
            .collect()
    }

    /// Indices of the images held back for measuring accuracy: disjoint from [`Digits::training`].
    #[must_use]
    pub fn held_back(&self) -> Vec<usize> {
        (0..self.len()).step_by(HELD_BACK_EVERY).collect()
    }
}

fn parse_row(row: &str, line: usize) -> Result<([f32; PIXELS], u8), DigitsError> {
    let columns = row.split(',').count();
    if columns != PIXELS + 1 {
        return Err(DigitsError::Columns { line, columns });
    }
    let mut image = [0.0; PIXELS];
    let mut label = 0;
    for (column, text) in row.split(',').enumerate() {
        let limit = if column < PIXELS { FULL_INK } else { 9 };
        let value = text.parse().ok().filter(|value: &u8| *value <= limit);
        let value = value.ok_or(DigitsError::Value {
            line,
            column: column + 1,
            limit,
        })?;
        match image.get_mut(column) {
            Some(pixel) => *pixel = f32::from(value) / f32::from(FULL_INK),
            None => label = value,
        }
    }
    Ok((image, label))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn shipped_file_holds_every_image_and_class() {
        let digits = Digits::shipped().unwrap();
        assert_eq!(digits.len(), 1797);
        let mut of_class = [0; CLASSES];
        for index in 0..digits.len() {
            of_class[usize::from(digits.label(index).unwrap())] += 1;
        }
        // The counts published with the data set.
        assert_eq!(of_class, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn held_back_and_training_images_are_all_images_once() {
        let digits = Digits::shipped().unwrap();
        assert_eq!(digits.held_back().len(), 360);
        let mut all = [digits.held_back(), digits.training()].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..digits.len()));
    }

    #[test]
    fn damaged_files_are_refused_with_their_place() {
        let good = "0,".repeat(PIXELS) + "7\n";
        let short = gzip(&format!("{good}1,2,3\n"));
        assert!(matches!(
            Digits::from_gzip(&short),
            Err(DigitsError::Columns {
                line: 2,
                columns: 3
            })
        ));
        let dark = gzip(&format!("17,{}", &good[2..]));
        assert!(matches!(
            Digits::from_gzip(&dark),
            Err(DigitsError::Value {
                line: 1,
                column: 1,
                limit: 16
            })
        ));
        let whole = gzip(&good);
        assert!(matches!(
            Digits::from_gzip(&whole[..whole.len() - 9]),
            Err(DigitsError::Compressed(_))
        ));
    }
}
