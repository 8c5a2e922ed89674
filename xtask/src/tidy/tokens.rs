//! Rust source as a flat list of tokens with their lines.
//!
//! Comments are gone, strings are single tokens, `::` is one token. Each token knows whether it stands in code that
//! is built for tests only, that is, in an item under `#[cfg(test)]`, `#[cfg(all(test, …))]` or the like.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Counted from one.
    pub(crate) line: usize,
    /// Whether only test builds contain it.
    pub(crate) test: bool,
}

/// Reads a file. A text that is no Rust has no tokens: that it does not compile is the compiler's to say.
pub(crate) fn read(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    if let Ok(stream) = text.parse::<TokenStream>() {
        flatten(stream, &mut tokens);
    }
    mark_tests(&mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group.delimiter());
                push(tokens, open, group.span_open().start().line);
                flatten(group.stream(), tokens);
                push(tokens, close, group.span_close().start().line);
            }
            TokenTree::Punct(punct) => push_punct(tokens, punct.as_char(), punct.span()),
            TokenTree::Ident(ident) => {
                let line = ident.span().start().line;
                push(tokens, &ident.to_string(), line);
            }
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                push(tokens, &literal.to_string(), line);
            }
        }
    }
}

fn delimiters(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

fn push(tokens: &mut Vec<Token>, text: &str, line: usize) {
    tokens.push(Token {
        text: text.to_owned(),
        line,
        test: false,
    });
}

fn push_punct(tokens: &mut Vec<Token>, character: char, span: proc_macro2::Span) {
    match tokens.last_mut() {
        Some(last) if character == ':' && last.text == ":" => last.text.push(':'),
        _ => push(tokens, &character.to_string(), span.start().line),
    }
}

/// The position after the group that opens at `open`, or the end.
pub(crate) fn after_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn mark_tests(tokens: &mut [Token]) {
    for start in 0..tokens.len() {
        let Some(open) = cfg_attribute(tokens, start) else {
            continue;
        };
        let attribute_end = after_group(tokens, open);
        if !asks_for_test(&tokens[open..attribute_end]) {
            continue;
        }
        let inner = tokens[start + 1].text == "!";
        let end = if inner {
            tokens.len()
        } else {
            item_end(tokens, attribute_end)
        };
        for token in &mut tokens[start..end] {
            token.test = true;
        }
    }
}

/// The position of the bracket of `#[cfg` or `#![cfg`, if that is what starts here.
fn cfg_attribute(tokens: &[Token], start: usize) -> Option<usize> {
    let is = |index: usize, text: &str| tokens.get(index).is_some_and(|token| token.text == text);
    let open = start + 1 + usize::from(is(start + 1, "!"));
    (is(start, "#") && is(open, "[") && is(open + 1, "cfg")).then_some(open)
}

fn asks_for_test(attribute: &[Token]) -> bool {
    attribute.iter().enumerate().any(|(index, token)| {
        let negated = index >= 2 && attribute[index - 2].text == "not";
        token.text == "test" && !negated
    })
}

/// Where the item that starts here ends: after its first `;` or its first braces.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut index = start;
    while index < tokens.len() {
        match tokens[index].text.as_str() {
            ";" => return index + 1,
            "{" => return after_group(tokens, index),
            "(" | "[" => index = after_group(tokens, index),
            _ => index += 1,
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        read(source).into_iter().map(|token| token.text).collect()
    }

    fn line_of(source: &str, text: &str) -> usize {
        let found = read(source).into_iter().find(|token| token.text == text);
        found.unwrap().line
    }

    fn is_test(source: &str, text: &str) -> bool {
        let found = read(source).into_iter().find(|token| token.text == text);
        found.unwrap().test
    }

    #[test]
    fn comments_are_gone_and_strings_are_one_token() {
        let source = "a /* unsafe */ :: b // unsafe\n \"unsafe { }\"";
        assert_eq!(texts(source), ["a", "::", "b", "\"unsafe { }\""]);
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!(line_of("a\n\n  b", "b"), 3);
    }

    #[test]
    fn items_under_cfg_test_are_marked_and_others_are_not() {
        let source =
            "use early; #[cfg(all(test, not(loom)))] mod tests { fn inside() {} } fn late() {}";
        assert!(is_test(source, "inside"));
        assert!(!is_test(source, "early"));
        assert!(!is_test(source, "late"));
    }

    #[test]
    fn cfg_not_test_is_not_test_code() {
        assert!(!is_test("#[cfg(not(test))] fn real() {}", "real"));
    }

    #[test]
    fn an_inner_cfg_marks_the_whole_file() {
        assert!(is_test("#![cfg(test)] fn inside() {}", "inside"));
    }
}
