//! The page: sections in order, each left out when it has nothing to show.

use std::fmt::{Result, Write};

use crate::quantity;

use super::address_map;
use super::chart::{Chart, Series, Shape, Unit};
use super::data::{
    Check, Column, Curve, Fact, MemoryView, ReportData, RouteRow, SpanKind, Table, TimeAxis,
    Topology, TrainingPoint,
};
use super::html::{Text, script_json};
use super::timeline::Timeline;

/// The whole page.
#[must_use]
pub fn render(data: &ReportData) -> String {
    let mut page = String::with_capacity(256 << 10);
    // Writing to a string cannot fail.
    let _ = write_page(data, &mut page);
    page
}

fn write_page(data: &ReportData, out: &mut String) -> Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{}</style></head><body>\
         <header><h1>{}</h1><p>{}</p></header><main>",
        Text(&data.title),
        include_str!("style.css"),
        Text(&data.title),
        Text(&data.subtitle)
    )?;
    write_facts(&data.facts, out)?;
    write_checks(&data.checks, out)?;
    write_training(&data.training, out)?;
    write_timeline(data, out)?;
    write_memory(&data.memory, out)?;
    write_addresses(data, out)?;
    write_topology(data.topology.as_ref(), &data.routes, out)?;
    for table in &data.tables {
        write_section(&table.title, &table.note, out)?;
        write_table(table, out)?;
        out.push_str("</section>");
    }
    writeln!(
        out,
        "</main><footer>piton {} &middot; one file, nothing is fetched</footer><div id=\"tip\" role=\"tooltip\"></div>\
         <script>{}</script></body></html>",
        env!("CARGO_PKG_VERSION"),
        include_str!("script.js")
    )
}

fn write_section(title: &str, note: &str, out: &mut String) -> Result {
    write!(out, "<section><h2>{}</h2>", Text(title))?;
    if !note.is_empty() {
        write!(out, "<p class=\"note\">{}</p>", Text(note))?;
    }
    Ok(())
}

fn write_facts(facts: &[Fact], out: &mut String) -> Result {
    if facts.is_empty() {
        return Ok(());
    }
    out.push_str("<dl class=\"facts\">");
    for fact in facts {
        write!(
            out,
            "<div><dt>{}</dt><dd>{}",
            Text(&fact.label),
            Text(&fact.value)
        )?;
        write!(out, "<small>{}</small></dd></div>", Text(&fact.note))?;
    }
    out.push_str("</dl>");
    Ok(())
}

fn write_checks(checks: &[Check], out: &mut String) -> Result {
    if checks.is_empty() {
        return Ok(());
    }
    out.push_str("<ul class=\"checks\">");
    for check in checks {
        let (class, word) = if check.has_passed {
            ("good", "passed")
        } else {
            ("bad", "failed")
        };
        write!(
            out,
            "<li class=\"{class}\"><b>{word}</b><div><strong>{}</strong><p>{}</p></div></li>",
            Text(&check.name),
            Text(&check.detail)
        )?;
    }
    out.push_str("</ul>");
    Ok(())
}

fn write_training(training: &[TrainingPoint], out: &mut String) -> Result {
    if training.is_empty() {
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "steps stay far below 2^53")]
    let at = |point: &TrainingPoint| point.step as f64;
    let loss = training
        .iter()
        .map(|point| (at(point), point.loss))
        .collect();
    let accuracy = training
        .iter()
        .filter_map(|point| Some((at(point), point.accuracy?)))
        .collect();
    write_section("Training", "", out)?;
    out.push_str("<div class=\"charts\">");
    for (title, name, y_unit, points) in [
        ("Loss", "mean over the step's images", Unit::Number, loss),
        ("Accuracy", "on held-back images", Unit::Share, accuracy),
    ] {
        let series = Series {
            name: name.to_owned(),
            shape: Shape::Line,
            points,
        };
        let chart = Chart {
            title: title.to_owned(),
            x_label: "step".to_owned(),
            x_unit: Unit::Number,
            y_unit,
            series: vec![series],
        };
        out.push_str(&chart.to_figure());
    }
    out.push_str("</div></section>");
    Ok(())
}

fn write_timeline(data: &ReportData, out: &mut String) -> Result {
    let Some(timeline) = Timeline::of(data) else {
        return Ok(());
    };
    write_section("Timeline", "", out)?;
    out.push_str(if timeline.is_partial() {
        "<p class=\"note\">Above, how busy each device was over the whole run; the outlined part is shown in full below.</p>"
    } else {
        "<p class=\"note\">The whole run. Above, how busy each device was.</p>"
    });
    out.push_str(
        "<div class=\"bar\"><span class=\"buttons\"><button data-zoom=\"in\" title=\"zoom in (+)\">+</button>\
         <button data-zoom=\"out\" title=\"zoom out (-)\">&minus;</button><button data-zoom=\"left\" title=\"earlier\">&larr;</button>\
         <button data-zoom=\"right\" title=\"later\">&rarr;</button><button data-zoom=\"all\" title=\"whole window (0)\">all</button></span>\
         <span class=\"legend\">",
    );
    for (index, kind) in SpanKind::ALL.iter().enumerate() {
        let is_used = data
            .devices
            .iter()
            .flat_map(|device| &device.lanes)
            .flat_map(|lane| &lane.spans);
        if is_used.into_iter().any(|span| span.kind == *kind) {
            write!(
                out,
                "<span><i class=\"k{index}\"></i>{}</span>",
                Text(kind.label())
            )?;
        }
    }
    write!(
        out,
        "</span></div><canvas id=\"overview\"></canvas><canvas id=\"timeline\" tabindex=\"0\" \
         aria-label=\"timeline of streams; arrow keys move, plus and minus zoom\"></canvas>\
         <p class=\"note\">Drag to move, Ctrl + wheel or pinch to zoom, point at a span for its numbers. \
         An arrow leads from what was waited for to where the wait was over; arrows show when few are in view. \
         Keys: arrows, +, &minus;, 0.</p><noscript><p>The timeline needs script.</p></noscript>\
         <script type=\"application/json\" id=\"timeline-data\">{}</script></section>",
        script_json(&timeline)
    )
}

fn write_memory(memory: &[MemoryView], out: &mut String) -> Result {
    if memory.is_empty() {
        return Ok(());
    }
    let note = "Live: bytes the program has in use. Held: bytes the pool has from the driver. The gap is what pooling costs.";
    write_section("Memory over time", note, out)?;
    out.push_str("<div class=\"charts\">");
    for view in memory {
        out.push_str(&memory_chart(view).to_figure());
    }
    out.push_str("</div></section>");
    Ok(())
}

fn write_addresses(data: &ReportData, out: &mut String) -> Result {
    if data.addresses.is_empty() {
        return Ok(());
    }
    let note = "Addresses that ever had memory, the lowest at the bottom; stretches that never had any are left out. A cell \
                shows what most of its bytes were at that moment. What is held and free is what a pool costs.";
    write_section("Where memory lies", note, out)?;
    out.push_str("<div class=\"charts\">");
    for view in &data.addresses {
        address_map::write(view, out)?;
    }
    out.push_str("</div></section>");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a chart shows three digits")]
fn memory_chart(view: &MemoryView) -> Chart {
    let (x_unit, x_label) = match view.axis {
        TimeAxis::Nanoseconds => (Unit::Nanoseconds, "time"),
        TimeAxis::Events => (Unit::Number, "event"),
    };
    let curve = |value: fn(&super::MemorySample) -> u64| -> Vec<(f64, f64)> {
        view.samples
            .iter()
            .map(|sample| (sample.at as f64, value(sample) as f64))
            .collect()
    };
    let series = |name: &str, shape, points| Series {
        name: name.to_owned(),
        shape,
        points,
    };
    let mut all = vec![
        series("live", Shape::Area, curve(|sample| sample.live)),
        series("held", Shape::Line, curve(|sample| sample.held)),
    ];
    let others = view.others.iter();
    all.extend(others.map(|Curve { name, points }| series(name, Shape::Line, points.clone())));
    Chart {
        title: view.title.clone(),
        x_label: x_label.to_owned(),
        x_unit,
        y_unit: Unit::Bytes,
        series: all,
    }
}

fn write_topology(topology: Option<&Topology>, routes: &[RouteRow], out: &mut String) -> Result {
    if topology.is_none() && routes.is_empty() {
        return Ok(());
    }
    write_section(
        "Machine and routes",
        topology.map_or("", |topology| &topology.caption),
        out,
    )?;
    if let Some(topology) = topology {
        write!(out, "<div class=\"drawing\">{}</div>", topology.svg)?;
    }
    if !routes.is_empty() {
        write_table(&route_table(routes), out)?;
    }
    out.push_str("</section>");
    Ok(())
}

fn route_table(routes: &[RouteRow]) -> Table {
    let columns = vec![
        Column::text("from"),
        Column::text("to"),
        Column::text("route"),
        Column::number("copies"),
        Column::number("bytes"),
    ];
    let row = |row: &RouteRow| {
        let (copies, bytes) = (quantity::count(row.copies), quantity::bytes(row.bytes));
        vec![
            row.from.clone(),
            row.to.clone(),
            row.route.clone(),
            copies,
            bytes,
        ]
    };
    Table {
        columns,
        rows: routes.iter().map(row).collect(),
        ..Table::default()
    }
}

fn write_table(table: &Table, out: &mut String) -> Result {
    let class = |index: usize| match table.columns.get(index) {
        Some(column) if column.is_number => " class=\"n\"",
        _ => "",
    };
    out.push_str("<div class=\"table\"><table><thead><tr>");
    for (index, column) in table.columns.iter().enumerate() {
        write!(out, "<th{}>{}</th>", class(index), Text(&column.name))?;
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            write!(out, "<td{}>{}</td>", class(index), Text(cell))?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    Ok(())
}
