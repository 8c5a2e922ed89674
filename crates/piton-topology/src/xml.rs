//! Elements and attributes of an XML file, with errors that say where.

use roxmltree::Node;

use crate::error::AttributeError;

/// An element whose name is one its reader knows.
#[derive(Clone, Copy)]
pub(crate) struct Element<'d> {
    pub(crate) node: Node<'d, 'd>,
    pub(crate) name: &'static str,
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
            .ok_or_else(|| AttributeError::Missing {
                line: self.line(),
                element: self.name,
                attribute,
            })
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
        let value = parse(text.trim()).ok_or_else(|| AttributeError::Unreadable {
            line: self.line(),
            element: self.name,
            attribute,
        })?;
        Ok(Some(value))
    }
}
