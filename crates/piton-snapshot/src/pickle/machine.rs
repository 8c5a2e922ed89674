//! The machine: carries out the instructions that make plain data.

use hashbrown::HashMap;

use super::error::{PickleError, PickleErrorKind};
use super::opcode::{self as op, refused};
use super::scan::{self, Scan};
use super::value::{Document, Id, Node};

/// Bounds on what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest pickle, in bytes.
    pub bytes: usize,
    /// Most values; each takes some 40 bytes.
    pub values: u32,
}

impl Default for Limits {
    /// Two gigabytes and 64 million values.
    fn default() -> Self {
        Self {
            bytes: 1 << 31,
            values: 1 << 26,
        }
    }
}

type Done<T = ()> = Result<T, PickleErrorKind>;

/// Reads a pickle of plain data. What follows its last instruction is not looked at.
///
/// # Errors
/// [`PickleError`] with the offset of the first instruction that is refused or wrong.
pub fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Document<'a>, PickleError> {
    if bytes.len() > limits.bytes {
        let kind = PickleErrorKind::TooManyBytes {
            bytes: bytes.len(),
            limit: limits.bytes,
        };
        return Err(PickleError { offset: 0, kind });
    }
    let mut machine = Machine::new(Scan::new(bytes), limits.values);
    loop {
        let offset = machine.scan.offset();
        let fail = |kind| PickleError { offset, kind };
        let code = machine.scan.byte().map_err(fail)?;
        if code == op::STOP {
            let root = machine.pop().map_err(fail)?;
            let nodes = machine.nodes;
            return Ok(Document { nodes, root });
        }
        machine.step(code).map_err(fail)?;
    }
}

struct Machine<'a> {
    scan: Scan<'a>,
    nodes: Vec<Node<'a>>,
    limit: u32,
    stack: Vec<Id>,
    /// Heights of the stack at which marks were set.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    fn new(scan: Scan<'a>, limit: u32) -> Self {
        Self {
            scan,
            nodes: Vec::new(),
            limit,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        }
    }

    /// Carries out one instruction.
    fn step(&mut self, code: u8) -> Done {
        if let Some(node) = self.leaf(code)? {
            return self.push(node);
        }
        match code {
            op::PROTO => match self.scan.byte()? {
                0..=5 => Ok(()),
                version => Err(PickleErrorKind::Protocol { version }),
            },
            // A frame says how much to read at once; everything is here already.
            op::FRAME => self.scan.array::<8>().map(drop),
            op::MARK => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            op::POP => self.discard(),
            op::POP_MARK => self.above_mark().map(drop),
            op::DUP => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            op::PUT | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => self.remember(code),
            op::GET | op::BINGET | op::LONG_BINGET => self.recall(code),
            _ => self.container(code),
        }
    }

    /// A value that contains no others.
    fn leaf(&mut self, code: u8) -> Done<Option<Node<'a>>> {
        let scan = &mut self.scan;
        Ok(Some(match code {
            op::NONE => Node::None,
            op::NEWTRUE => Node::Bool(true),
            op::NEWFALSE => Node::Bool(false),
            op::INT => match scan.line()? {
                "00" => Node::Bool(false),
                "01" => Node::Bool(true),
                digits => Node::Integer(digits.parse().map_err(|_| PickleErrorKind::Number)?),
            },
            op::LONG => {
                let line = scan.line()?;
                let digits = line.strip_suffix('L').unwrap_or(line);
                Node::Integer(digits.parse().map_err(|_| PickleErrorKind::Number)?)
            }
            op::BININT => Node::Integer(i32::from_le_bytes(scan.array()?).into()),
            op::BININT1 => Node::Integer(scan.byte()?.into()),
            op::BININT2 => Node::Integer(u16::from_le_bytes(scan.array()?).into()),
            op::LONG1 => Node::Integer(scan::integer(scan.counted::<1>()?)?),
            op::LONG4 => Node::Integer(scan::integer(scan.counted::<4>()?)?),
            op::FLOAT => Node::Float(scan.line_number()?),
            op::BINFLOAT => Node::Float(f64::from_be_bytes(scan.array()?)),
            op::STRING => Node::Text(scan::unquote(scan.line()?)?),
            op::UNICODE => Node::Text(scan::unescape_unicode(scan.line()?)?),
            op::SHORT_BINSTRING | op::SHORT_BINUNICODE => Node::Text(scan.counted_text::<1>()?),
            op::BINSTRING | op::BINUNICODE => Node::Text(scan.counted_text::<4>()?),
            op::BINUNICODE8 => Node::Text(scan.counted_text::<8>()?),
            op::SHORT_BINBYTES => Node::Bytes(scan.counted::<1>()?),
            op::BINBYTES => Node::Bytes(scan.counted::<4>()?),
            op::BINBYTES8 | op::BYTEARRAY8 => Node::Bytes(scan.counted::<8>()?),
            op::EMPTY_LIST => Node::List(Vec::new()),
            op::EMPTY_TUPLE => Node::Tuple(Vec::new()),
            op::EMPTY_DICT => Node::Dict(Vec::new()),
            _ => return Ok(None),
        }))
    }

    /// Makes or fills a container from what is on the stack.
    fn container(&mut self, code: u8) -> Done {
        match code {
            op::LIST => {
                let items = self.above_mark()?;
                self.push(Node::List(items))
            }
            op::TUPLE => {
                let items = self.above_mark()?;
                self.push(Node::Tuple(items))
            }
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let items = self.pop_last(usize::from(code - op::TUPLE1) + 1)?;
                self.push(Node::Tuple(items))
            }
            op::DICT => {
                let items = pairs(&self.above_mark()?)?;
                self.push(Node::Dict(items))
            }
            op::APPEND => {
                let items = self.pop_last(1)?;
                self.append(&items)
            }
            op::APPENDS => {
                let items = self.above_mark()?;
                self.append(&items)
            }
            op::SETITEM => {
                let items = self.pop_last(2)?;
                self.set(&items)
            }
            op::SETITEMS => {
                let items = self.above_mark()?;
                self.set(&items)
            }
            _ if refused(code).is_some() => Err(PickleErrorKind::Refused { code }),
            _ => Err(PickleErrorKind::Unknown { code }),
        }
    }

    fn push(&mut self, node: Node<'a>) -> Done {
        let too_many = PickleErrorKind::TooManyValues { limit: self.limit };
        let id = u32::try_from(self.nodes.len()).map_err(|_| too_many)?;
        if id >= self.limit {
            return Err(too_many);
        }
        self.nodes.push(node);
        self.stack.push(id);
        Ok(())
    }

    /// The lowest height to which the stack may be taken down without a mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Done<Id> {
        let above = self.stack.get(self.floor()..).unwrap_or_default();
        above.last().copied().ok_or(PickleErrorKind::Missing)
    }

    fn pop(&mut self) -> Done<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_last(&mut self, count: usize) -> Done<Vec<Id>> {
        let start = self
            .stack
            .len()
            .checked_sub(count)
            .filter(|start| *start >= self.floor());
        Ok(self.stack.split_off(start.ok_or(PickleErrorKind::Missing)?))
    }

    /// Takes the last mark and all above it.
    fn above_mark(&mut self) -> Done<Vec<Id>> {
        let mark = self.marks.pop().ok_or(PickleErrorKind::Missing)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    /// Drops the topmost value, or the mark if that is on top.
    fn discard(&mut self) -> Done {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn append(&mut self, items: &[Id]) -> Done {
        let top = self.top()?;
        let Some(Node::List(list)) = self.nodes.get_mut(top as usize) else {
            return Err(PickleErrorKind::NotAList);
        };
        list.extend_from_slice(items);
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Done {
        let top = self.top()?;
        let Some(Node::Dict(dict)) = self.nodes.get_mut(top as usize) else {
            return Err(PickleErrorKind::NotADict);
        };
        dict.extend(pairs(items)?);
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Done {
        let index = match code {
            op::PUT => self.scan.line_number()?,
            op::BINPUT => self.scan.byte()?.into(),
            op::LONG_BINPUT => self.scan.u32()?,
            _ => u32::try_from(self.memo.len()).unwrap_or(u32::MAX),
        };
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Done {
        let index = match code {
            op::GET => self.scan.line_number()?,
            op::BINGET => self.scan.byte()?.into(),
            _ => self.scan.u32()?,
        };
        let id = self.memo.get(&index).copied();
        self.stack
            .push(id.ok_or(PickleErrorKind::NotRemembered { index })?);
        Ok(())
    }
}

fn pairs(items: &[Id]) -> Done<Vec<(Id, Id)>> {
    let (pairs, rest) = items.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(PickleErrorKind::OddItems);
    }
    Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
}
