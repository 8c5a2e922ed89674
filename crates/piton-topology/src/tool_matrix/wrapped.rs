//! Rows that a narrow terminal broke are put together again.
//!
//! A terminal breaks a line where it is full: between two cells, or inside one. What is copied from it has a line break there, and
//! no blanks in front of it. So a break is read both ways, as nothing and as the end of a cell. One of the two is a row: each cell
//! must be a word that tools print, and the cells as many as there are columns. If both are, the text is refused and nothing guessed.

use std::collections::HashSet;

use crate::error::MatrixError;

use super::MAX_COLUMNS;
use super::smi::{TITLES, cells, is_endpoint, is_title, relation};

/// Breaks inside one row at most: each doubles the readings.
const MOST_BREAKS: usize = 6;
/// Lines of a row at most.
const MOST_LINES: usize = 64;
/// Bytes of a row at most that lies on several lines.
const MOST_BYTES: usize = 64 << 10;

/// A row that is whole, and the line that it began on.
pub(super) type Row = (usize, String);

/// The lines of a matrix, the header first, put together again.
pub(super) fn join<'t>(
    (line, header): (usize, &'t str),
    lines: impl Iterator<Item = (usize, &'t str)>,
) -> Result<(Row, Vec<Row>), MatrixError> {
    let lines: Vec<(usize, &str)> = lines.collect();
    let mut lines = matrix(&lines).into_iter().peekable();
    let mut broken = vec![header];
    while let Some((_, text)) = lines.next_if(|(_, text)| !is_row(text)) {
        broken.push(text);
    }
    let lines: Vec<(usize, &str)> = lines.collect();
    let header = (line, header_of(line, &broken, &lines)?);
    let columns = columns(&header.1);
    let limit = MAX_COLUMNS;
    if columns.names.len() > limit {
        return Err(MatrixError::TooManyColumns { line, limit });
    }
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some((line, start)) = lines.get(at).copied() {
        let mut broken = vec![start];
        at += 1;
        while let Some((_, next)) = lines.get(at).filter(|_| broken.len() < MOST_LINES) {
            if !continues(&columns, &broken, next) {
                break;
            }
            broken.push(next);
            at += 1;
        }
        rows.push((line, row_of(line, &columns, &broken)?));
    }
    Ok((header, rows))
}

/// The lines up to the legend or to an empty one, unless a row comes behind that: blanks that were broken off are one too.
fn matrix<'t>(lines: &[(usize, &'t str)]) -> Vec<(usize, &'t str)> {
    let mut matrix = Vec::new();
    for (at, (line, text)) in lines.iter().enumerate() {
        if text.trim().is_empty() {
            let mut behind = lines[at..].iter();
            let next = behind.find(|(_, text)| !text.trim().is_empty());
            if text.is_empty() && !next.is_some_and(|(_, text)| is_row(text)) {
                break;
            }
        } else if text.trim().starts_with("Legend") {
            break;
        } else {
            matrix.push((*line, *text));
        }
    }
    matrix
}

/// What the header says: names, and how many columns come behind them.
struct Columns {
    names: Vec<String>,
    extras: usize,
}

fn columns(header: &str) -> Columns {
    let cells = cells(header);
    let cells = cells.iter().filter(|cell| !cell.is_empty());
    let (mut names, mut extras) = (Vec::new(), 0);
    for cell in cells {
        if extras == 0 && !is_title(cell) {
            names.push(cell.clone());
        } else {
            extras += 1;
        }
    }
    Columns { names, extras }
}

/// Whether a line begins a row: a name, and what is said of its first pair.
fn is_row(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let name = words.next().is_some_and(|word| relation(word).is_none());
    name && words.next().is_some_and(|word| relation(word).is_some())
}

/// Whether `next` is more of the row that `broken` are the lines of.
fn continues(columns: &Columns, broken: &[&str], next: &str) -> bool {
    let mut words = next.split_whitespace();
    let (first, second) = (words.next().unwrap_or(""), words.next());
    let is_named = columns.names.iter().any(|name| name == first);
    if is_named && second.is_none_or(|word| relation(word).is_some()) {
        return false;
    }
    let words = broken.iter().flat_map(|text| text.split_whitespace());
    let words: Vec<&str> = words.skip(1).collect();
    let said = words.iter().take(columns.names.len());
    let is_whole =
        words.len() >= columns.names.len() && said.clone().all(|word| relation(word).is_some());
    // Part of a word may be one too: `HCCS` of `HCCS_SW`.
    let is_longer = words.last().is_some_and(|last| {
        words.len() == columns.names.len() && relation(&format!("{last}{first}")).is_some()
    });
    // Behind the last pair there are numbers, lists of them, and `N/A`.
    let is_affinity = |word: &str| {
        let mut letters = word.chars();
        letters.all(|letter| "0123456789,-NA/".contains(letter))
    };
    let most = columns.names.len() + columns.extras + broken.len();
    !is_whole || is_longer || words.len() < most && is_affinity(first)
}

/// The header out of its lines: the reading whose names are those of the most rows, and whose other words are
/// known.
fn header_of(line: usize, broken: &[&str], rows: &[(usize, &str)]) -> Result<String, MatrixError> {
    let names = rows
        .iter()
        .filter_map(|(_, text)| text.split_whitespace().next());
    let names: HashSet<&str> = names.collect();
    let score = |text: &String| {
        let columns = columns(text);
        let known = columns
            .names
            .iter()
            .filter(|name| names.contains(name.as_str()));
        let is_odd = |cell: &&String| {
            !cell.is_empty() && !is_endpoint(cell) && !TITLES.contains(&cell.as_str())
        };
        let odd = cells(text).iter().filter(is_odd).count();
        (known.count(), std::cmp::Reverse(odd))
    };
    let mut readings = readings(line, broken)?;
    let best = readings.iter().map(score).max();
    readings.retain(|text| Some(score(text)) == best);
    let header = only(line, readings)?;
    // A row that was broken behind its name.
    let is_said = |cell: &String| relation(cell).is_some();
    if cells(&header).iter().any(is_said) {
        return Err(MatrixError::Wrapped { line });
    }
    Ok(header)
}

/// A row out of its lines.
fn row_of(line: usize, columns: &Columns, broken: &[&str]) -> Result<String, MatrixError> {
    if let [whole] = broken {
        return Ok((*whole).to_owned());
    }
    let count = columns.names.len();
    let extras = |text: &String| {
        let cells = cells(text);
        let said = cells.get(1..=count)?;
        let is_read = said.iter().all(|word| relation(word).is_some());
        let extras = cells[count + 1..]
            .iter()
            .filter(|cell| !cell.is_empty())
            .count();
        (is_read && extras <= columns.extras).then_some(extras)
    };
    let mut readings = readings(line, broken)?;
    if readings.iter().all(|text| extras(text).is_none()) {
        // Whoever reads it says what is wrong.
        return Ok(broken.concat());
    }
    readings.retain(|text| extras(text).is_some());
    if readings
        .iter()
        .any(|text| extras(text) == Some(columns.extras))
    {
        readings.retain(|text| extras(text) == Some(columns.extras));
    }
    only(line, readings)
}

/// The reading, if there is but one.
pub(super) fn only(line: usize, mut readings: Vec<String>) -> Result<String, MatrixError> {
    readings.sort_by_key(|text| cells(text));
    readings.dedup_by_key(|text| cells(text));
    match (readings.pop(), readings.is_empty()) {
        (Some(text), true) => Ok(text),
        _ => Err(MatrixError::Wrapped { line }),
    }
}

/// All readings of lines that may be one.
pub(super) fn readings(line: usize, broken: &[&str]) -> Result<Vec<String>, MatrixError> {
    let bytes: usize = broken.iter().map(|text| text.len()).sum();
    if broken.len() > MOST_LINES || broken.len() > 1 && bytes > MOST_BYTES {
        return Err(MatrixError::Wrapped { line });
    }
    let mut readings = vec![String::new()];
    let mut breaks = 0;
    let has_tabs = broken.iter().any(|text| text.contains('\t'));
    let end = if has_tabs { "\t" } else { "  " };
    for text in broken {
        let is_inside = |before: &String| {
            let ends = before.ends_with(|letter: char| !letter.is_whitespace());
            ends && text.starts_with(|letter: char| !letter.is_whitespace())
        };
        if readings.iter().any(is_inside) {
            breaks += 1;
            if breaks > MOST_BREAKS {
                return Err(MatrixError::Wrapped { line });
            }
            let apart = readings.iter().map(|before| format!("{before}{end}{text}"));
            let apart: Vec<String> = apart.collect();
            readings.iter_mut().for_each(|before| before.push_str(text));
            readings.extend(apart);
        } else {
            readings.iter_mut().for_each(|before| before.push_str(text));
        }
    }
    Ok(readings)
}
