//! A square table: one value for each ordered pair.

use serde::Serialize;

/// A dense matrix with as many rows as columns.
///
/// # Invariants
/// `values.len() == side * side`; the value of (row, column) is at `row * side + column`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matrix<T> {
    side: usize,
    values: Vec<T>,
}

impl<T> Matrix<T> {
    /// A matrix whose value at (row, column) is `value(prepare(row), column)`: what a row's values have
    /// in common, such as a search from its node, is worked out once.
    pub(crate) fn by_rows<C>(
        side: usize,
        mut prepare: impl FnMut(usize) -> C,
        mut value: impl FnMut(&C, usize) -> T,
    ) -> Self {
        let mut values = Vec::with_capacity(side.saturating_mul(side));
        for row in 0..side {
            let common = prepare(row);
            values.extend((0..side).map(|column| value(&common, column)));
        }
        Self { side, values }
    }

    /// How many rows and columns there are.
    #[must_use]
    pub fn side(&self) -> usize {
        self.side
    }

    /// The value of an ordered pair, or `None` outside the matrix.
    #[must_use]
    pub fn get(&self, row: usize, column: usize) -> Option<&T> {
        if row >= self.side || column >= self.side {
            return None;
        }
        self.values.get(row * self.side + column)
    }

    /// The rows from top to bottom.
    pub fn rows(&self) -> impl Iterator<Item = &[T]> {
        // `chunks` refuses zero; an empty matrix has no values and so no rows.
        self.values.chunks(self.side.max(1))
    }

    /// The same shape with each value replaced.
    pub fn map<U>(&self, change: impl FnMut(&T) -> U) -> Matrix<U> {
        Matrix {
            side: self.side,
            values: self.values.iter().map(change).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_matrix_is_found_inside_it() {
        let matrix = Matrix::by_rows(2, |row| 10 * row, |tens, column| tens + column);
        assert_eq!(matrix.get(1, 0), Some(&10));
        assert_eq!(matrix.get(0, 2), None);
        assert_eq!(matrix.get(2, 0), None);
        assert_eq!(matrix.rows().count(), 2);
        assert_eq!(Matrix::by_rows(0, |_| (), |(), _| 0).rows().count(), 0);
    }
}
