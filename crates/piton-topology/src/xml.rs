//! Elements and attributes of an XML file, with errors that say where.

use roxmltree::Node;

/// An element whose name is one its reader knows.
#[derive(Clone, Copy)]
pub(crate) struct Element<'d> {
    pub(crate) node: Node<'d, 'd>,
    pub(crate) name: &'static str,
}

/// An attribute that is not as it should be. Each reader's error has the same two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttributeError {
    pub(crate) line: u32,
    pub(crate) element: &'static str,
    pub(crate) attribute: &'static str,
    /// Not there, or else there and not to be read.
    pub(crate) is_missing: bool,
}

impl<'d> Element<'d> {
    /// The children with this name, in order.
    pub(crate) fn children(self, name: &'static str) -> impl Iterator<Item = Element<'d>> {
        let children = self.node.children();
        let named = children.filter(move |child| child.has_tag_name(name));
        named.map(move |node| Element { node, name })
    }

    /// The line it starts on. Counts from the beginning of the file: for errors only.
    pub(crate) fn line(self) -> u32 {
        let start = self.node.range().start;
        self.node.document().text_pos_at(start).row
    }

    /// An attribute that must be there, read by `parse`.
    pub(crate) fn required<T>(
        self,
        attribute: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, AttributeError> {
        self.optional(attribute, parse)?
            .ok_or_else(|| self.trouble(attribute, true))
    }

    /// An attribute that may be there, read by `parse`.
    pub(crate) fn optional<T>(
        self,
        attribute: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, AttributeError> {
        let Some(text) = self.node.attribute(attribute) else {
            return Ok(None);
        };
        let value = parse(text.trim()).ok_or_else(|| self.trouble(attribute, false))?;
        Ok(Some(value))
    }

    fn trouble(self, attribute: &'static str, is_missing: bool) -> AttributeError {
        AttributeError {
            line: self.line(),
            element: self.name,
            attribute,
            is_missing,
        }
    }
}
