//! The matrix of `nvidia-smi topo -m` and of `npu-smi info -t topo`.
//!
//! The header is the first line whose first words name devices or network controllers. Cells are
//! apart by a tab or by blanks: ` X ` has them around it, lists of processors have none.
//! The matrix ends at a blank line or at the legend, which is in the user's language. What a terminal
//! [broke](super::wrapped) is put together first.

use std::collections::HashMap;

use super::{MAX_COLUMNS, ToolEndpoint, ToolMatrix, wrapped};
use crate::distance::{Distance, Relation};
use crate::error::MatrixError;
use crate::id::NumaId;
use crate::link::{LinkKind, NvLinkVersion, XgmiVersion};
use crate::matrix::Matrix;

pub(super) fn parse(text: &str) -> Result<ToolMatrix, MatrixError> {
    let mut lines = (1..).zip(text.lines());
    let header = lines.find(|(_, text)| is_header(text));
    let ((line, header), rows) = wrapped::join(header.ok_or(MatrixError::NoHeader)?, lines)?;
    let mut table = Table::new(line, &cells(&header))?;
    for (line, text) in rows {
        let cells = cells(&text);
        // A legend in another language.
        if table.is_whole() && !cells.first().is_some_and(|name| is_endpoint(name)) {
            break;
        }
        table.add_row(line, &cells)?;
    }
    Ok(table.finish())
}

/// Whether a line begins with the names of columns.
fn is_header(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_named = words.next().is_some_and(is_endpoint);
    // Not a prompt, whose machine may be called as a controller is.
    let may_follow = |word| is_endpoint(word) || TITLES.iter().any(|title| title.starts_with(word));
    is_named && words.next().is_none_or(may_follow)
}

/// What columns behind those of devices and controllers are called.
pub(super) const TITLES: [&str; 4] = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "NUMA ID"];

/// Whether a cell of the header is such a column's; all that have blanks inside are.
pub(super) fn is_title(cell: &str) -> bool {
    cell.contains(' ') || TITLES.iter().any(|title| title.starts_with(cell))
}

/// The cells of a line, without blanks around them. Cells are apart by a tab; or by any blanks, since a name may fill its
/// column but for one: only what columns are called has blanks inside. A tab may stand before names that blanks keep apart.
pub(super) fn cells(line: &str) -> Vec<String> {
    if !line.contains('\t') {
        return cells_between_blanks(line);
    }
    let between_tabs = line.split('\t').flat_map(|cell| {
        let mut words = cell.split_whitespace();
        if words.next().is_some_and(is_endpoint) && words.next().is_some() {
            cells_between_blanks(cell)
        } else {
            vec![cell.trim().to_owned()]
        }
    });
    between_tabs.collect()
}

fn cells_between_blanks(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut cells: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let begins = |title: &&&str| words[at..].starts_with(&title.split(' ').collect::<Vec<_>>());
        let title = TITLES.iter().find(begins);
        cells.push((*title.unwrap_or(word)).to_owned());
        at += title.map_or(1, |title| title.split(' ').count());
    }
    cells
}

pub(super) fn is_endpoint(word: &str) -> bool {
    is_device(word) || is_nic(word)
}

/// `GPU0`, `NPU3`, `Phy-ID12`: a word of the tool's and a number.
fn is_device(word: &str) -> bool {
    let numbered = |prefix| {
        let number = word.strip_prefix(prefix);
        number.is_some_and(|number: &str| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    ["GPU", "NPU", "Phy-ID", "DEV"].into_iter().any(numbered)
}

/// `mlx5_0`, `NIC0`, `bnxt_re0`: letters first, a number last, nothing else.
fn is_nic(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    word.starts_with(|letter: char| {
        letter.is_ascii_lowercase() || word.starts_with("NIC") && letter == 'N'
    }) && word.ends_with(|letter: char| letter.is_ascii_digit())
        && word.chars().all(is_plain)
}

/// Columns behind those of devices and controllers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Cpus,
    Numa,
    Other,
}

struct Table {
    endpoints: Vec<ToolEndpoint>,
    position: HashMap<String, usize>,
    extras: Vec<Extra>,
    rows: Vec<Option<Vec<Relation>>>,
}

impl Table {
    fn new(line: usize, header: &[String]) -> Result<Self, MatrixError> {
        let mut this = Self {
            endpoints: Vec::new(),
            position: HashMap::new(),
            extras: Vec::new(),
            rows: Vec::new(),
        };
        for cell in header.iter().filter(|cell| !cell.is_empty()) {
            if !is_title(cell) && this.extras.is_empty() {
                this.add_column(line, cell)?;
            } else {
                this.extras.push(match cell.as_str() {
                    "CPU Affinity" => Extra::Cpus,
                    "NUMA Affinity" => Extra::Numa,
                    _ => Extra::Other,
                });
            }
        }
        Ok(this)
    }

    fn add_column(&mut self, line: usize, name: &str) -> Result<(), MatrixError> {
        let limit = MAX_COLUMNS;
        if self.endpoints.len() >= limit {
            return Err(MatrixError::TooManyColumns { line, limit });
        }
        let column = self.endpoints.len();
        if self.position.insert(name.to_owned(), column).is_some() {
            return Err(MatrixError::Repeated { line });
        }
        self.endpoints.push(ToolEndpoint {
            name: name.to_owned(),
            is_nic: !is_device(name),
            cpus: None,
            numa: None,
        });
        self.rows.push(None);
        Ok(())
    }

    fn add_row(&mut self, line: usize, cells: &[String]) -> Result<(), MatrixError> {
        let columns = self.endpoints.len();
        let (name, cells) = cells
            .split_first()
            .ok_or(MatrixError::UnknownRow { line })?;
        let row = *self
            .position
            .get(name)
            .ok_or(MatrixError::UnknownRow { line })?;
        if cells.len() < columns {
            let cells = cells.len();
            return Err(MatrixError::ShortRow {
                line,
                cells,
                columns,
            });
        }
        let (cells, extras) = cells.split_at(columns);
        let read = |(column, cell): (usize, &String)| {
            relation(cell).ok_or(MatrixError::Cell { line, column })
        };
        let cells = (1..).zip(cells).map(read).collect::<Result<_, _>>()?;
        if self.rows[row].replace(cells).is_some() {
            return Err(MatrixError::Repeated { line });
        }
        self.add_extras(line, row, extras)
    }

    fn add_extras(&mut self, line: usize, row: usize, cells: &[String]) -> Result<(), MatrixError> {
        // Some versions print an empty cell between two columns of the header.
        let said: Vec<&String> = if cells.len() > self.extras.len() {
            cells.iter().filter(|cell| !cell.is_empty()).collect()
        } else {
            cells.iter().collect()
        };
        let endpoint = &mut self.endpoints[row];
        for (extra, cell) in self.extras.iter().zip(said) {
            if cell.is_empty() || cell == "N/A" {
                continue;
            }
            match extra {
                Extra::Cpus => {
                    let cpus = cell.parse().map_err(|_| MatrixError::Affinity { line })?;
                    endpoint.cpus = Some(cpus);
                }
                // A range of nodes is no one node.
                Extra::Numa => endpoint.numa = cell.parse().ok().map(NumaId::new),
                Extra::Other => {}
            }
        }
        Ok(())
    }

    /// Whether each column has had its row.
    fn is_whole(&self) -> bool {
        self.rows.iter().all(Option::is_some)
    }

    fn finish(self) -> ToolMatrix {
        let rows = &self.rows;
        let cells = Matrix::by_rows(
            self.endpoints.len(),
            |row| rows[row].as_deref(),
            |row, column| row.and_then(|cells| cells.get(column).copied()),
        );
        ToolMatrix {
            endpoints: self.endpoints,
            cells,
            weights: None,
            hops: None,
        }
    }
}

/// What the word of a cell means; `None` for a word no tool is known to print.
pub(super) fn relation(word: &str) -> Option<Relation> {
    if word == "N/A" {
        return Some(Relation {
            distance: Distance::Unknown,
            fabric: None,
        });
    }
    let distance = Distance::from_word(word)?;
    let fabric = match distance {
        Distance::Package => Some((LinkKind::Sio, 1)),
        Distance::LinkSwitch => Some((LinkKind::HccsSwitch, 1)),
        Distance::Link => Some(link(word)?),
        _ => None,
    };
    Some(Relation { distance, fabric })
}

/// Kind and number of links. Which version they are, the word does not say.
fn link(word: &str) -> Option<(LinkKind, u16)> {
    match word {
        "XGMI" => Some((LinkKind::Xgmi(XgmiVersion::Gfx90a), 1)),
        "HCCS" => Some((LinkKind::Hccs, 1)),
        "C2C" => Some((LinkKind::C2c, 1)),
        _ => {
            let lanes = word.strip_prefix("NV")?.parse().ok()?;
            (1..=256)
                .contains(&lanes)
                .then_some((LinkKind::NvLink(NvLinkVersion::V3), lanes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_and_controllers_are_told_apart_from_other_words() {
        for name in ["GPU0", "NPU15", "Phy-ID12"] {
            assert!(is_device(name), "{name}");
        }
        for name in ["mlx5_0", "NIC3", "bnxt_re1"] {
            assert!(is_nic(name) && !is_device(name), "{name}");
        }
        for word in [
            "GPU",
            "GPU NUMA ID",
            "CPU Affinity",
            "X",
            "0-63",
            "Legend:",
            "",
        ] {
            assert!(!is_endpoint(word), "{word}");
        }
    }

    #[test]
    fn a_word_keeps_its_count_of_links() {
        assert_eq!(relation("NV12").unwrap().to_string(), "NV12");
        assert_eq!(relation("NV0"), None);
        assert_eq!(relation("NV"), None);
        assert_eq!(relation("PIX9x"), None);
    }
}
