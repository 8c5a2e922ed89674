//! The blocks of `rocm-smi --showtopo`: weights, hops, link types, NUMA nodes.
//!
//! Each block has a title between rows of `=`. The link type is all it says of a pair, so a pair on
//! PCIe is `NODE` or `SYS` by the NUMA nodes, or by the hops where those are not printed.

use super::{MAX_COLUMNS, ToolEndpoint, ToolMatrix, smi};
use crate::distance::{Distance, Relation};
use crate::error::MatrixError;
use crate::id::NumaId;
use crate::matrix::Matrix;

const WEIGHTS: &str = "Weight between two GPUs";
const HOPS: &str = "Hops between two GPUs";
const TYPES: &str = "Link Type between two GPUs";

/// Hops of a path between devices on one processor: into the host and out of it.
const HOPS_OF_ONE_NODE: u32 = 2;

pub(super) fn is_rocm(text: &str) -> bool {
    text.contains(TYPES)
}

/// One block's cells by row, with the line of each row; empty where the block was cut off.
#[derive(Default)]
struct Block<'t> {
    rows: Vec<(usize, &'t str, Vec<&'t str>)>,
}

#[derive(Default)]
struct Text<'t> {
    names: Vec<&'t str>,
    weights: Block<'t>,
    hops: Block<'t>,
    types: Block<'t>,
    /// GPU's number and NUMA node.
    numa: Vec<(usize, NumaId)>,
}

pub(super) fn parse(text: &str) -> Result<ToolMatrix, MatrixError> {
    let text = read(text)?;
    let side = text.names.len();
    if side == 0 {
        return Err(MatrixError::NoHeader);
    }
    let weights = numbers(&text.names, &text.weights)?;
    let hops = numbers(&text.names, &text.hops)?;
    let mut endpoints: Vec<ToolEndpoint> = text.names.iter().map(|name| endpoint(name)).collect();
    for (gpu, numa) in &text.numa {
        let name = format!("GPU{gpu}");
        let named = endpoints.iter_mut().find(|endpoint| endpoint.name == name);
        if let Some(endpoint) = named {
            endpoint.numa = Some(*numa);
        }
    }
    let numa: Vec<Option<NumaId>> = endpoints.iter().map(|endpoint| endpoint.numa).collect();
    let far = |row: usize, column: usize| match (numa[row], numa[column]) {
        (Some(a), Some(b)) => a != b,
        _ => hops.get(row, column).copied().flatten() > Some(HOPS_OF_ONE_NODE),
    };
    let cells = cells_of(&text.names, &text.types, |row, column, word| {
        relation(word, row == column, far(row, column))
    })?;
    Ok(ToolMatrix {
        endpoints,
        cells,
        weights: Some(weights),
        hops: Some(hops),
    })
}

fn endpoint(name: &str) -> ToolEndpoint {
    ToolEndpoint {
        name: name.to_owned(),
        is_nic: false,
        cpus: None,
        numa: None,
    }
}

fn relation(word: &str, same: bool, far: bool) -> Option<Relation> {
    let host = |distance| Relation {
        distance,
        fabric: None,
    };
    match word {
        _ if same => Some(host(Distance::Same)),
        "PCIE" if far => Some(host(Distance::Sys)),
        "PCIE" => Some(host(Distance::Node)),
        // What the tool prints for a type that it does not know.
        "N/A" | "XXXX" => Some(host(Distance::Unknown)),
        word => smi::relation(word),
    }
}

/// Sorts the lines into blocks.
fn read(text: &str) -> Result<Text<'_>, MatrixError> {
    let mut read = Text::default();
    let mut title = "";
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.starts_with('=') {
            title = text.trim_matches('=').trim();
            continue;
        }
        if text.contains("(Topology) Numa Node:") {
            read.numa.extend(numa_line(line, text)?);
            continue;
        }
        let block = match title {
            WEIGHTS => &mut read.weights,
            HOPS => &mut read.hops,
            TYPES => &mut read.types,
            _ => continue,
        };
        let mut words = text.split_whitespace();
        let Some(first) = words.next() else { continue };
        let cells: Vec<&str> = words.collect();
        if cells.iter().all(|cell| cell.starts_with("GPU")) {
            read_header(line, first, cells, &mut read.names)?;
        } else {
            block.rows.push((line, first, cells));
        }
    }
    Ok(read)
}

fn read_header<'t>(
    line: usize,
    first: &'t str,
    others: Vec<&'t str>,
    names: &mut Vec<&'t str>,
) -> Result<(), MatrixError> {
    let header: Vec<&str> = std::iter::once(first).chain(others).collect();
    let limit = MAX_COLUMNS;
    if header.len() > limit {
        return Err(MatrixError::TooManyColumns { line, limit });
    }
    if names.is_empty() {
        let mut sorted = header.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(MatrixError::Repeated { line });
        }
        *names = header;
        return Ok(());
    }
    if *names == header {
        return Ok(());
    }
    Err(MatrixError::UnknownRow { line })
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

fn numbers(names: &[&str], block: &Block<'_>) -> Result<Matrix<Option<u32>>, MatrixError> {
    let cells = cells_of(names, block, |_, _, word| match word {
        "N/A" => Some(None),
        word => word.parse().ok().map(Some),
    })?;
    Ok(cells.map(|cell| cell.flatten()))
}

fn cells_of<T: Copy>(
    names: &[&str],
    block: &Block<'_>,
    read: impl Fn(usize, usize, &str) -> Option<T>,
) -> Result<Matrix<Option<T>>, MatrixError> {
    let columns = names.len();
    let mut rows: Vec<Option<Vec<T>>> = (0..columns).map(|_| None).collect();
    for (line, name, cells) in &block.rows {
        let line = *line;
        let row = names.iter().position(|known| known == name);
        let row = row.ok_or(MatrixError::UnknownRow { line })?;
        if cells.len() < columns {
            let cells = cells.len();
            return Err(MatrixError::ShortRow {
                line,
                cells,
                columns,
            });
        }
        let mut values = Vec::with_capacity(columns);
        for (column, word) in cells.iter().take(columns).enumerate() {
            let column_number = column + 1;
            values.push(read(row, column, word).ok_or(MatrixError::Cell {
                line,
                column: column_number,
            })?);
        }
        if rows[row].replace(values).is_some() {
            return Err(MatrixError::Repeated { line });
        }
    }
    Ok(Matrix::by_rows(
        columns,
        |row| rows[row].as_deref(),
        |row, column| row.and_then(|cells| cells.get(column).copied()),
    ))
}
