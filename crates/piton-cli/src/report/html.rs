//! Text on its way into a page.

use std::fmt;

use serde::Serialize;

/// Text that is shown as it is, whatever characters are in it. Good between tags and inside double quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(index) = rest.find(['&', '<', '>', '"', '\'']) {
            f.write_str(&rest[..index])?;
            f.write_str(match rest.as_bytes()[index] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &rest[index + 1..];
        }
        f.write_str(rest)
    }
}

/// A value as JSON that may stand inside a `script` element: no tag can begin in it.
pub(crate) fn script_json(value: &impl Serialize) -> String {
    // Plain maps with text keys and finite numbers always serialise; a page without a timeline is better than none.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let hostile = r#"<b class="x">'&"#;
        let shown = Text(hostile).to_string();
        assert_eq!(shown, "&lt;b class=&quot;x&quot;&gt;&#39;&amp;");
        assert_eq!(Text("größer 数").to_string(), "größer 数");
    }

    #[test]
    fn json_cannot_end_its_script() {
        let json = script_json(&["</script><script>"]);
        assert!(!json.contains('<'));
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, ["</script><script>"]);
    }
}
