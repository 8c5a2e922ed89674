//! The blocks of `rocm-smi --showtopo`: weights, hops, link types, NUMA nodes.
//!
//! Each block has a title between rows of `=`. The link type is all it says of a pair, so a pair on
//! PCIe is `NODE` or `SYS` by the NUMA nodes, or by the hops where those are not printed.

mod blocks;

use super::{ToolEndpoint, ToolMatrix, smi};
use crate::distance::{Distance, Relation};
use crate::error::MatrixError;
use crate::id::NumaId;
use crate::matrix::Matrix;

use blocks::{Block, TYPES};

/// Hops of a path between devices on one processor: into the host and out of it.
const HOPS_OF_ONE_NODE: u32 = 2;

pub(super) fn is_rocm(text: &str) -> bool {
    // A terminal may have broken the title.
    let letters = text.chars().filter(|letter| !letter.is_whitespace());
    letters.collect::<String>().contains(TYPES)
}

pub(super) fn parse(text: &str) -> Result<ToolMatrix, MatrixError> {
    let text = blocks::read(text)?;
    let side = text.names.len();
    if side == 0 {
        return Err(MatrixError::NoHeader);
    }
    let weights = numbers(&text.names, &text.weights)?;
    let hops = numbers(&text.names, &text.hops)?;
    let names = text.names.iter();
    let mut endpoints: Vec<ToolEndpoint> = names.map(|name| endpoint(name)).collect();
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

/// What a link type says of two devices that are `far` from each other over the host, or the `same`.
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

fn numbers(names: &[String], block: &Block) -> Result<Matrix<Option<u32>>, MatrixError> {
    let cells = cells_of(names, block, |_, _, word| match word {
        "N/A" => Some(None),
        word => word.parse().ok().map(Some),
    })?;
    Ok(cells.map(|cell| cell.flatten()))
}

fn cells_of<T: Copy>(
    names: &[String],
    block: &Block,
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
