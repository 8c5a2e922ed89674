//! Values as they lie in a document, and a way to walk them.

use std::borrow::Cow;

/// Number of a value in its document.
pub(super) type Id = u32;

/// A value; what it contains, it names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

/// A pickle that was read: its values, and which of them is the outermost.
#[derive(Debug)]
pub struct Document<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) root: Id,
}

impl<'a> Document<'a> {
    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Value<'_, 'a> {
        Value {
            document: self,
            id: self.root,
        }
    }

    /// Values in it, each counted once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Is there no value? Never: a pickle has at least its outermost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// A value of a document. Values may contain each other in circles: whoever walks them bounds how deep.
#[derive(Debug, Clone, Copy)]
pub struct Value<'d, 'a> {
    document: &'d Document<'a>,
    id: Id,
}

impl<'d, 'a> Value<'d, 'a> {
    fn node(self) -> &'d Node<'a> {
        self.document
            .nodes
            .get(self.id as usize)
            .unwrap_or(&Node::None)
    }

    fn at(self, id: Id) -> Self {
        Self { id, ..self }
    }

    /// Is it none?
    #[must_use]
    pub fn is_none(self) -> bool {
        matches!(self.node(), Node::None)
    }

    /// The boolean that it is.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        match self.node() {
            Node::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer that it is.
    #[must_use]
    pub fn as_integer(self) -> Option<i128> {
        match self.node() {
            Node::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer that it is, if it fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        self.as_integer()
            .and_then(|value| u64::try_from(value).ok())
    }

    /// The float that it is.
    #[must_use]
    pub fn as_float(self) -> Option<f64> {
        match self.node() {
            Node::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The text that it is.
    #[must_use]
    pub fn as_text(self) -> Option<&'d str> {
        match self.node() {
            Node::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes that it is.
    #[must_use]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self.node() {
            Node::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// What is in the list or tuple that it is.
    #[must_use]
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = Value<'d, 'a>>> {
        match self.node() {
            Node::List(items) | Node::Tuple(items) => {
                Some(items.iter().map(move |id| self.at(*id)))
            }
            _ => None,
        }
    }

    /// The keys and values of the dictionary that it is, in the order they were set.
    #[must_use]
    pub fn pairs(self) -> Option<impl ExactSizeIterator<Item = (Value<'d, 'a>, Value<'d, 'a>)>> {
        match self.node() {
            Node::Dict(pairs) => Some(
                pairs
                    .iter()
                    .map(move |(key, value)| (self.at(*key), self.at(*value))),
            ),
            _ => None,
        }
    }

    /// The value of a key in the dictionary that it is; the last, if the key was set twice.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Value<'d, 'a>> {
        let Node::Dict(pairs) = self.node() else {
            return None;
        };
        let found = pairs
            .iter()
            .rfind(|(id, _)| self.at(*id).as_text() == Some(key));
        found.map(|(_, value)| self.at(*value))
    }
}
