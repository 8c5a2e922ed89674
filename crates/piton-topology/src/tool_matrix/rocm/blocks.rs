//! The lines of `rocm-smi --showtopo`, sorted into blocks, and rows that a terminal broke put together again.
//!
//! A narrow terminal breaks titles, headers and rows. A title is known by its letters, whatever blanks are between them. Rows are read
//! as those of the [other tools](super::super::wrapped): each break as nothing and as the end of a cell. One reading has as many
//! cells as there are devices, each a number or a link type, and nothing between a device and itself; if two have, the text is refused.

use std::collections::HashSet;
use std::iter::Peekable;

use super::super::{MAX_COLUMNS, wrapped};
use super::relation;
use crate::error::MatrixError;
use crate::id::NumaId;

/// Titles, without the blanks in them.
const WEIGHTS: &str = "WeightbetweentwoGPUs";
const HOPS: &str = "HopsbetweentwoGPUs";
pub(super) const TYPES: &str = "LinkTypebetweentwoGPUs";

/// One block's cells by row, with the line and the name of each row; empty where the block was cut off.
#[derive(Default)]
pub(super) struct Block {
    pub(super) rows: Vec<(usize, String, Vec<String>)>,
}

/// What the text says.
#[derive(Default)]
pub(super) struct Text {
    pub(super) names: Vec<String>,
    pub(super) weights: Block,
    pub(super) hops: Block,
    pub(super) types: Block,
    /// GPU's number and NUMA node.
    pub(super) numa: Vec<(usize, NumaId)>,
}

type Line<'t> = (usize, &'t str);

/// Sorts the lines into blocks.
pub(super) fn read(text: &str) -> Result<Text, MatrixError> {
    let mut read = Text::default();
    let (mut title, mut open) = (String::new(), Vec::new());
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((line, text)) = lines.next() {
        let is_title = text.trim_start().starts_with('=');
        if is_title {
            read.close(&title, &std::mem::take(&mut open))?;
            title = whole_title(text, &mut lines);
        } else if text.contains("(Topology) Numa Node:") {
            read.numa.extend(numa_line(line, text.trim())?);
        } else if !text.trim().is_empty() {
            open.push((line, text));
        }
    }
    read.close(&title, &open)?;
    Ok(read)
}

/// The letters of a title that begins with this line: it ends with signs, however many lines it takes.
fn whole_title<'t>(first: &str, lines: &mut Peekable<impl Iterator<Item = Line<'t>>>) -> String {
    let mut title = first.trim().to_owned();
    while let Some((_, more)) = lines.next_if(|(_, text)| is_more_of(&title, text.trim())) {
        title.push_str(more.trim());
    }
    let is_letter = |letter: &char| *letter != '=' && !letter.is_whitespace();
    title.chars().filter(is_letter).collect()
}

fn is_more_of(title: &str, text: &str) -> bool {
    let is_rule = !text.is_empty() && text.chars().all(|letter| letter == '=');
    let has_letters = title.chars().any(|letter| letter != '=');
    is_rule || text.ends_with('=') && !(has_letters && title.ends_with('='))
}

impl Text {
    /// Takes the lines of a block in, whose title is over.
    fn close(&mut self, title: &str, lines: &[Line<'_>]) -> Result<(), MatrixError> {
        if ![WEIGHTS, HOPS, TYPES].contains(&title) {
            return Ok(());
        }
        let count = lines.iter().take_while(|(_, text)| !is_row(text)).count();
        let (header, rows) = lines.split_at(count);
        if let Some((line, _)) = header.first() {
            self.read_header(*line, header)?;
        }
        let rows = rows_of(title, &self.names, rows)?;
        let block = match title {
            WEIGHTS => &mut self.weights,
            HOPS => &mut self.hops,
            _ => &mut self.types,
        };
        block.rows.extend(rows);
        Ok(())
    }

    fn read_header(&mut self, line: usize, lines: &[Line<'_>]) -> Result<(), MatrixError> {
        let names = header_of(line, lines)?;
        let limit = MAX_COLUMNS;
        if names.len() > limit {
            return Err(MatrixError::TooManyColumns { line, limit });
        }
        let distinct: HashSet<&String> = names.iter().collect();
        if distinct.len() < names.len() {
            return Err(MatrixError::Repeated { line });
        }
        if self.names.is_empty() {
            self.names = names;
        } else if self.names != names {
            return Err(MatrixError::UnknownRow { line });
        }
        Ok(())
    }
}

/// Whether a line begins a row: a device's name, and no other behind it.
fn is_row(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_named = words.next().is_some_and(|word| word.starts_with("GPU"));
    is_named && words.next().is_some_and(|word| !word.starts_with("GPU"))
}

fn is_name(word: &str) -> bool {
    let digits = word.strip_prefix("GPU").unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The names of devices out of the header's lines.
fn header_of(line: usize, lines: &[Line<'_>]) -> Result<Vec<String>, MatrixError> {
    let broken: Vec<&str> = lines.iter().map(|(_, text)| *text).collect();
    let mut readings = wrapped::readings(line, &broken)?;
    readings.retain(|text| text.split_whitespace().all(is_name));
    if readings.is_empty() {
        return Err(MatrixError::UnknownRow { line });
    }
    Ok(words(&wrapped::only(line, readings)?))
}

/// The rows of a block out of its lines.
fn rows_of(
    title: &str,
    names: &[String],
    lines: &[Line<'_>],
) -> Result<Vec<(usize, String, Vec<String>)>, MatrixError> {
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some((line, _)) = lines.get(at) {
        let behind = lines[at + 1..].iter();
        let more = behind.take_while(|(_, text)| !is_row(text)).count();
        let broken: Vec<&str> = lines[at..=at + more]
            .iter()
            .map(|(_, text)| *text)
            .collect();
        let mut cells = words(&row_of(title, names, (*line, &broken))?);
        let name = cells.remove(0);
        rows.push((*line, name, cells));
        at += more + 1;
    }
    Ok(rows)
}

fn row_of(
    title: &str,
    names: &[String],
    (line, broken): (usize, &[&str]),
) -> Result<String, MatrixError> {
    if let [whole] = broken {
        return Ok((*whole).to_owned());
    }
    let mut readings = wrapped::readings(line, broken)?;
    let is_read = |text: &String| {
        let mut cells = text.split_whitespace();
        let name = cells.next().unwrap_or("");
        let Some(row) = names.iter().position(|known| known == name) else {
            return false;
        };
        let cells: Vec<&str> = cells.collect();
        let mut said = cells.iter().enumerate();
        cells.len() == names.len() && said.all(|(at, word)| is_cell(title, word, at == row))
    };
    readings.retain(is_read);
    wrapped::only(line, readings)
}

/// Whether the tool says such a word of two devices, or of a device and itself.
fn is_cell(title: &str, word: &str, is_itself: bool) -> bool {
    if is_itself {
        return word == "0" || word == "N/A";
    }
    match title {
        TYPES => relation(word, false, false).is_some(),
        // Nothing costs nothing.
        _ => word == "N/A" || word != "0" && word.parse::<u32>().is_ok(),
    }
}

/// `GPU[0] : (Topology) Numa Node: 3`; -1 and other words are no node.
fn numa_line(line: usize, text: &str) -> Result<Option<(usize, NumaId)>, MatrixError> {
    let wrong = || MatrixError::Affinity { line };
    let (gpu, numa) = text.split_once("(Topology) Numa Node:").ok_or_else(wrong)?;
    let gpu = gpu.trim().trim_end_matches(':').trim();
    let number = gpu
        .strip_prefix("GPU[")
        .and_then(|gpu| gpu.strip_suffix(']'))
        .and_then(|gpu| gpu.parse().ok())
        .ok_or_else(wrong)?;
    Ok(numa
        .trim()
        .parse()
        .ok()
        .map(|numa| (number, NumaId::new(numa))))
}
