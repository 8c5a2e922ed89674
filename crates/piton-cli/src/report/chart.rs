//! Curves as SVG: axes with round numbers, at most some hundred points each.
//!
//! The drawing needs no script. Its numbers are attached as `data-chart`, from which the page's script shows the values
//! under the pointer.

use std::fmt::Write;

use serde::Serialize;

use crate::quantity;

use super::html::{Text, script_json};

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 232.0;
pub(super) const LEFT: f64 = 72.0;
pub(super) const RIGHT: f64 = 12.0;
pub(super) const TOP: f64 = 10.0;
pub(super) const BOTTOM: f64 = 42.0;
/// Points a curve keeps: about one for two of its pixels.
const MAX_POINTS: usize = 240;

/// What an axis counts, which decides its round numbers and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Plain numbers.
    Number,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Shares, shown as per cent.
    Share,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// A line from point to point.
    Line,
    /// The same with its area filled.
    Area,
}

/// One curve of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub shape: Shape,
    /// Position and value, in order of position.
    pub points: Vec<(f64, f64)>,
}

/// A chart with its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// What the horizontal axis is.
    pub x_label: String,
    /// What positions count.
    pub x_unit: Unit,
    /// What values count.
    pub y_unit: Unit,
    /// The curves, drawn in this order.
    pub series: Vec<Series>,
}

impl Chart {
    /// The chart as a `figure` element, or nothing if no curve has a point.
    #[must_use]
    pub fn to_figure(&self) -> String {
        let Some(frame) = Frame::around(self) else {
            return String::new();
        };
        let mut figure = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&frame, &mut figure);
        figure
    }

    fn write(&self, frame: &Frame, out: &mut String) -> std::fmt::Result {
        let thinned: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| thin(&series.points))
            .collect();
        let hover = Hover {
            x: self.x_unit,
            y: self.y_unit,
            left: LEFT,
            right: WIDTH - RIGHT,
            range: frame.x,
            series: self
                .series
                .iter()
                .zip(&thinned)
                .map(|(series, points)| (series.name.as_str(), points))
                .collect(),
        };
        write!(
            out,
            "<figure class=\"chart\"><figcaption>{}",
            Text(&self.title)
        )?;
        self.write_legend(out)?;
        let hover = script_json(&hover);
        write!(
            out,
            "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" data-chart=\"{}\">",
            Text(&self.title),
            Text(&hover)
        )?;
        let axes = Axes {
            x_label: &self.x_label,
            x: self.x_unit,
            y: self.y_unit,
        };
        axes.write(frame, out)?;
        for (index, (series, points)) in self.series.iter().zip(&thinned).enumerate() {
            write_curve(frame, index, series.shape, points, out)?;
        }
        write!(
            out,
            "<line class=\"cross\" y1=\"{TOP}\" y2=\"{}\"/></svg></figure>",
            HEIGHT - BOTTOM
        )
    }

    fn write_legend(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("<span class=\"legend\">");
        for (index, series) in self.series.iter().enumerate() {
            write!(
                out,
                "<span><i class=\"s{index}\"></i>{}</span>",
                Text(&series.name)
            )?;
        }
        out.push_str("</span>");
        Ok(())
    }
}

/// What the script needs to show values under the pointer.
#[derive(Serialize)]
struct Hover<'a> {
    x: Unit,
    y: Unit,
    left: f64,
    right: f64,
    range: (f64, f64),
    series: Vec<(&'a str, &'a Vec<(f64, f64)>)>,
}

/// What the axes of a drawing count.
pub(super) struct Axes<'a> {
    pub(super) x_label: &'a str,
    pub(super) x: Unit,
    pub(super) y: Unit,
}

impl Axes<'_> {
    pub(super) fn write(&self, frame: &Frame, out: &mut String) -> std::fmt::Result {
        for tick in ticks(frame.y, self.y, 4) {
            let y = frame.y_at(tick);
            write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                Text(&written(tick, self.y))
            )?;
        }
        for tick in ticks(frame.x, self.x, 5) {
            let x = frame.x_at(tick);
            let y = HEIGHT - BOTTOM + 16.0;
            write!(
                out,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                Text(&written(tick, self.x))
            )?;
        }
        write!(
            out,
            "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 5.0,
            Text(self.x_label)
        )
    }
}

/// Which numbers lie at the borders of the drawing.
pub(super) struct Frame {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

impl Frame {
    /// The smallest frame around all finite points; values from zero. `None` if there are none.
    fn around(chart: &Chart) -> Option<Self> {
        let points = || {
            let all = chart.series.iter().flat_map(|series| &series.points);
            all.filter(|(x, y)| x.is_finite() && y.is_finite())
        };
        let first = points().next()?;
        let x = points().fold((first.0, first.0), |(low, high), (x, _)| {
            (low.min(*x), high.max(*x))
        });
        let highest = points().fold(0.0_f64, |high, (_, y)| high.max(*y));
        let highest = if chart.y_unit == Unit::Share {
            highest.max(1.0)
        } else {
            highest * 1.04
        };
        let wide = |(low, high): (f64, f64)| {
            if high > low {
                (low, high)
            } else {
                (low, low + 1.0)
            }
        };
        Some(Self {
            x: wide(x),
            y: wide((0.0, highest)),
        })
    }

    fn x_at(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - (y - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }
}

fn write_curve(
    frame: &Frame,
    index: usize,
    shape: Shape,
    points: &[(f64, f64)],
    out: &mut String,
) -> std::fmt::Result {
    let mut path = String::new();
    for (x, y) in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        write!(path, "{command}{:.1} {:.1}", frame.x_at(*x), frame.y_at(*y))?;
    }
    let ends = points.first().zip(points.last());
    if let (Shape::Area, Some((first, last))) = (shape, ends) {
        let (left, right, floor) = (frame.x_at(first.0), frame.x_at(last.0), HEIGHT - BOTTOM);
        write!(
            out,
            "<path class=\"area s{index}\" d=\"{path}L{right:.1} {floor}L{left:.1} {floor}Z\"/>"
        )?;
    }
    write!(out, "<path class=\"line s{index}\" d=\"{path}\"/>")
}

/// At most [`MAX_POINTS`] points: of each of equal stretches its highest, for a peak must not be lost, and both ends.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let stretch = finite.len().div_ceil(MAX_POINTS - 2).max(1);
    if stretch == 1 {
        return finite;
    }
    let highest = |part: &[(f64, f64)]| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let inner = finite.chunks(stretch).filter_map(highest);
    let mut thinned: Vec<(f64, f64)> = finite.first().copied().into_iter().chain(inner).collect();
    thinned.extend(finite.last());
    thinned.dedup();
    thinned
}

/// About `wanted` round numbers in the range.
fn ticks(range: (f64, f64), unit: Unit, wanted: u32) -> Vec<f64> {
    let rough = (range.1 - range.0) / f64::from(wanted);
    let step = if unit == Unit::Bytes {
        2_f64.powf(rough.max(1.0).log2().ceil())
    } else {
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        steps
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough)
    };
    let first = (range.0 / step).ceil();
    (0..=wanted * 3)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|tick| *tick <= range.1)
        .collect()
}

fn written(value: f64, unit: Unit) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; ticks are not negative"
    )]
    let whole = value.round() as u64;
    match unit {
        Unit::Bytes => short(&quantity::bytes(whole)),
        Unit::Nanoseconds if whole == 0 => "0".to_owned(),
        Unit::Nanoseconds => short(&quantity::duration(whole)),
        Unit::Share => format!("{whole} %", whole = (value * 100.0).round()),
        Unit::Number if (value - value.round()).abs() < 1e-9 => quantity::count(whole),
        Unit::Number => format!("{value:.2}").trim_end_matches('0').to_owned(),
    }
}

/// Without the zeros behind the point: `2.50 MiB` to `2.5 MiB`, `2.00 MiB` to `2 MiB`.
fn short(quantity: &str) -> String {
    match quantity.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!(
                "{} {unit}",
                number.trim_end_matches('0').trim_end_matches('.')
            )
        }
        _ => quantity.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let series = vec![Series {
            name: "s".to_owned(),
            shape: Shape::Area,
            points,
        }];
        let title = "t".to_owned();
        Chart {
            title,
            x_label: "x".to_owned(),
            x_unit: Unit::Nanoseconds,
            y_unit: Unit::Bytes,
            series,
        }
    }

    #[test]
    fn charts_without_points_are_nothing() {
        assert_eq!(chart(vec![]).to_figure(), "");
        assert_eq!(chart(vec![(f64::NAN, 1.0)]).to_figure(), "");
    }

    #[test]
    fn ticks_are_round_in_their_unit() {
        let of = |high, unit| -> Vec<String> {
            ticks((0.0, high), unit, 4)
                .into_iter()
                .map(|tick| written(tick, unit))
                .collect()
        };
        assert_eq!(
            of(1000.0, Unit::Number),
            ["0", "250", "500", "750", "1\u{202f}000"]
        );
        assert_eq!(
            of(f64::from(4 << 20), Unit::Bytes),
            ["0 B", "1 MiB", "2 MiB", "3 MiB", "4 MiB"]
        );
        assert_eq!(
            of(1.0, Unit::Share),
            ["0 %", "25 %", "50 %", "75 %", "100 %"]
        );
        assert_eq!(
            of(2e6, Unit::Nanoseconds),
            ["0", "500 us", "1 ms", "1.5 ms", "2 ms"]
        );
    }

    #[test]
    fn thinning_keeps_ends_and_peak() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[54_321].1 = 9.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= MAX_POINTS);
        assert!(thinned.contains(&(54_321.0, 9.0)));
        assert_eq!((thinned[0].0, thinned.last().unwrap().0), (0.0, 99_999.0));
    }

    proptest! {
        #[test]
        fn any_numbers_make_a_chart(points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20)) {
            let figure = chart(points).to_figure();
            prop_assert!(figure.is_empty() || figure.ends_with("</figure>"));
        }
    }
}
