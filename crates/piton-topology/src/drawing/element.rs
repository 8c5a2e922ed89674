//! The few SVG elements a drawing is made of. Every text that comes from a machine is escaped here.

/// A rectangle in the drawing's units (pixels at natural size).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Rect {
    /// The middle between left and right.
    pub(super) const fn middle(self) -> i32 {
        self.x + self.width / 2
    }

    /// Whether `x` is between left and right.
    pub(super) fn spans(self, x: i32) -> bool {
        (self.x..=self.x + self.width).contains(&x)
    }
}

/// What a box stands for; the style sheet colours it.
#[derive(Clone, Copy)]
pub(super) enum Class {
    Host,
    Device,
    Nic,
    LinkSwitch,
}

impl Class {
    const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
            Self::Nic => "nic",
            Self::LinkSwitch => "link-switch",
        }
    }
}

pub(super) fn rect(place: Rect, class: Class, crossed: bool, title: &str) -> String {
    let Rect {
        x,
        y,
        width,
        height,
    } = place;
    let crossed = if crossed { " crossed" } else { "" };
    format!(
        "<rect class=\"{}{crossed}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
         rx=\"5\"><title>{}</title></rect>\n",
        class.word(),
        escape(title)
    )
}

pub(super) fn text(x: i32, y: i32, class: &str, anchor: &str, content: &str) -> String {
    format!(
        "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>\n",
        escape(content)
    )
}

/// The line of a link.
pub(super) struct Line {
    pub(super) path: String,
    pub(super) class: &'static str,
    /// Width in tenths of a unit.
    pub(super) tenths_wide: u64,
    /// Whether it carried traffic.
    pub(super) is_traffic: bool,
}

impl Line {
    pub(super) fn markup(&self, title: &str) -> String {
        let Self {
            path,
            class,
            tenths_wide,
            is_traffic,
        } = self;
        let more = if *is_traffic { " traffic" } else { "" };
        let style = format!(
            " style=\"stroke-width:{}.{}\"",
            tenths_wide / 10,
            tenths_wide % 10
        );
        format!(
            "<path class=\"{class}{more}\" d=\"{path}\"{style}><title>{}</title></path>\n",
            escape(title)
        )
    }
}

/// Makes text safe between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not allowed in XML at all.
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}
