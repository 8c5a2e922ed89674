//! The plainest simplex method: a dense table, rows that are at most their right side, all of it zero or more.

const TINY: f64 = 1e-9;

/// The most that variable `wanted` can be, all `variables` being zero or more and each row's sum at most its right
/// side, which is zero or more.
pub(crate) fn maximum(variables: usize, wanted: usize, rows: &[(Vec<(usize, f64)>, f64)]) -> f64 {
    let width = variables + rows.len() + 1;
    let mut table: Vec<Vec<f64>> = Vec::new();
    for (number, (row, right)) in rows.iter().enumerate() {
        let mut cells = vec![0.0; width];
        for (variable, factor) in row {
            cells[*variable] += factor;
        }
        cells[variables + number] = 1.0;
        // A little more on each right side, and each another: no two rows are the narrowest at once.
        cells[width - 1] = right + 1e-7 * (number + 1) as f64 / rows.len() as f64;
        table.push(cells);
    }
    let mut goal = vec![0.0; width];
    goal[wanted] = -1.0;
    while let Some(column) = entering(&goal[..width - 1]) {
        let row = leaving(&table, column).unwrap();
        pivot(&mut table, &mut goal, row, column);
    }
    goal[width - 1]
}

fn entering(goal: &[f64]) -> Option<usize> {
    let most = (0..goal.len()).min_by(|a, b| goal[*a].total_cmp(&goal[*b]))?;
    (goal[most] < -TINY).then_some(most)
}

fn leaving(table: &[Vec<f64>], column: usize) -> Option<usize> {
    let width = table.first()?.len();
    let limit = |row: usize| table[row][width - 1] / table[row][column];
    let rows = (0..table.len()).filter(|row| table[*row][column] > TINY);
    rows.min_by(|a, b| limit(*a).total_cmp(&limit(*b)))
}

fn pivot(table: &mut [Vec<f64>], goal: &mut [f64], row: usize, column: usize) {
    let factor = table[row][column];
    table[row].iter_mut().for_each(|cell| *cell /= factor);
    let chosen = table[row].clone();
    let others = table
        .iter_mut()
        .enumerate()
        .filter(|(other, _)| *other != row);
    for (_, cells) in others {
        subtract(cells, &chosen, column);
    }
    subtract(goal, &chosen, column);
}

fn subtract(cells: &mut [f64], chosen: &[f64], column: usize) {
    let factor = cells[column];
    if factor == 0.0 {
        return;
    }
    for (cell, chosen) in cells.iter_mut().zip(chosen) {
        *cell -= factor * chosen;
    }
}
