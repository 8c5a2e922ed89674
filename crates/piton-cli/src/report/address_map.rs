//! Addresses over time as SVG: a cell for each stretch of addresses at each moment.
//!
//! Cells that stay what they are make one rectangle, and all rectangles of a use one path, so that a picture of some
//! thousand cells takes some ten thousand characters.

use std::fmt::{Result, Write};

use super::chart::{Axes, BOTTOM, Frame, HEIGHT, LEFT, RIGHT, TOP, Unit, WIDTH};
use super::data::{AddressUse, AddressView};
use super::html::Text;

/// The picture as a `figure` element, or nothing if it has no cells.
pub(super) fn write(view: &AddressView, out: &mut String) -> Result {
    let (width, height) = (view.columns.len(), rows(view));
    if width == 0 || height == 0 {
        return Ok(());
    }
    let title = Text(&view.title);
    write!(out, "<figure class=\"chart\"><figcaption>{title}")?;
    write_legend(view, out)?;
    write!(
        out,
        "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"addresses over time: {title}\">"
    )?;
    let axes = Axes {
        x_label: "event",
        x: Unit::Number,
        y: Unit::Bytes,
    };
    axes.write(&frame(view), out)?;
    let scale = (
        (WIDTH - LEFT - RIGHT) / count(width),
        (HEIGHT - TOP - BOTTOM) / count(height),
    );
    write!(
        out,
        "<g class=\"cells\" transform=\"translate({LEFT} {}) scale({:.4} {:.4})\">",
        HEIGHT - BOTTOM,
        scale.0,
        -scale.1
    )?;
    for shown in AddressUse::ALL {
        write_cells(view, height, shown, out)?;
    }
    out.push_str("</g></svg></figure>");
    Ok(())
}

fn write_legend(view: &AddressView, out: &mut String) -> Result {
    out.push_str("<span class=\"legend\">");
    for (index, shown) in AddressUse::ALL.into_iter().enumerate() {
        if view.columns.iter().flatten().any(|cell| *cell == shown) {
            let label = shown.label();
            write!(out, "<span><i class=\"a{index}\"></i>{label}</span>")?;
        }
    }
    out.push_str("</span>");
    Ok(())
}

/// One path with all cells of a use; a name shows under the pointer.
fn write_cells(view: &AddressView, height: usize, shown: AddressUse, out: &mut String) -> Result {
    let mut path = String::new();
    for row in 0..height {
        let is_shown = |column: &Vec<AddressUse>| column.get(row) == Some(&shown);
        let mut start = 0;
        for stretch in view.columns.chunk_by(|a, b| is_shown(a) == is_shown(b)) {
            let length = stretch.len();
            if stretch.first().is_some_and(is_shown) {
                write!(path, "M{start} {row}h{length}v1h-{length}z")?;
            }
            start += length;
        }
    }
    if path.is_empty() {
        return Ok(());
    }
    let index = shown as usize;
    let label = shown.label();
    write!(
        out,
        "<path class=\"a{index}\" d=\"{path}\"><title>{label}</title></path>"
    )
}

fn rows(view: &AddressView) -> usize {
    view.columns.iter().map(Vec::len).max().unwrap_or(0)
}

fn frame(view: &AddressView) -> Frame {
    let (first, last) = view.events;
    Frame {
        x: (whole(first), whole(last.max(first + 1))),
        y: (0.0, whole(view.bytes.max(1))),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an axis shows three digits")]
fn whole(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "some hundred at most")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressUse::{Hole, Live, Unbacked};

    fn drawn(columns: Vec<Vec<AddressUse>>) -> String {
        let view = AddressView {
            title: "<trace>".to_owned(),
            events: (0, 9),
            bytes: 4 << 20,
            columns,
        };
        let mut out = String::new();
        write(&view, &mut out).unwrap();
        out
    }

    #[test]
    fn cells_that_stay_what_they_are_make_one_rectangle() {
        let figure = drawn(vec![
            vec![Live, Unbacked],
            vec![Live, Hole],
            vec![Live, Hole],
        ]);
        assert!(figure.contains("class=\"a0\" d=\"M0 0h3v1h-3z\""));
        assert!(figure.contains("class=\"a2\" d=\"M1 1h2v1h-2z\""));
        assert!(figure.contains("class=\"a3\" d=\"M0 1h1v1h-1z\""));
        assert!(figure.contains("&lt;trace&gt;") && !figure.contains("given back"));
    }

    #[test]
    fn a_picture_without_cells_is_nothing() {
        assert_eq!(drawn(Vec::new()), "");
        assert_eq!(drawn(vec![Vec::new()]), "");
    }
}
