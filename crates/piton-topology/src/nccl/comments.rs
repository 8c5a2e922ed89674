//! Comments as the libraries read them: to the first `-->`, whatever is in between.
//!
//! XML forbids two hyphens in a row inside a comment. RCCL's own files begin with a line of them, so a reader that goes
//! by the rule refuses what the library takes.

use std::borrow::Cow;

const OPENS: &str = "<!--";
const CLOSES: &str = "-->";

/// The text with blanks where its comments are, each as long as it was and on as many lines, so that places in errors stay right.
/// A comment that nothing closes stays, for the parser to refuse.
pub(super) fn blanked(text: &str) -> Cow<'_, str> {
    if !text.contains(OPENS) {
        return Cow::Borrowed(text);
    }
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(OPENS) {
        let inside = start + OPENS.len();
        let Some(length) = rest[inside..].find(CLOSES) else {
            break;
        };
        let (before, from) = rest.split_at(start);
        let (comment, after) = from.split_at(OPENS.len() + length + CLOSES.len());
        blanked.push_str(before);
        blanked.extend(comment.chars().map(blank));
        rest = after;
    }
    blanked.push_str(rest);
    Cow::Owned(blanked)
}

/// What stands for a character of a comment: lines stay lines.
const fn blank(character: char) -> char {
    match character {
        '\n' | '\r' => character,
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_blank_and_as_many_lines() {
        let text = "<!-------\n - made by\n ------->\n<system><!-- a --b\n-- --></system><!---->";
        let read = blanked(text);
        assert_eq!(read.trim(), "<system>          \n      </system>");
        assert_eq!(read.lines().count(), text.lines().count());
        assert_eq!(read.len(), text.len());
    }

    #[test]
    fn what_is_no_comment_stays() {
        assert!(matches!(blanked("<system/>"), Cow::Borrowed(_)));
        for text in ["<system/><!-- open", "<!--->", "<!-- é --"] {
            assert_eq!(blanked(text), text);
        }
        assert_eq!(blanked("<!-- é --><a/>").trim(), "<a/>");
    }
}
