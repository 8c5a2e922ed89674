//! A drawing of the machine as SVG text, to be put into a page as it is.
//!
//! Tiers from top to bottom: memory, host bridges, switches, then devices and network controllers,
//! then switches of the device fabric. A box is as wide as what hangs below it, so a PCIe link is a
//! short line down; links of a device fabric are arcs below the devices. Links that carried traffic are
//! thick and coloured, and listed underneath.
//!
//! Colours follow the page: ink is `currentColor`, and `--topo-traffic`, `--topo-fabric`,
//! `--topo-device` and `--topo-nic` may be set by it. Nothing in the text runs or loads anything. Up
//! to sixteen devices are readable; more are drawn, but want a wide screen.

mod element;
mod layout;
mod legend;
mod traffic;

use element::{Class, Line, Rect, rect, text};
use layout::Layout;
use traffic::Traffic;

use crate::id::{DeviceId, LinkId, NodeId};
use crate::link::{Link, LinkKind};
use crate::machine::Machine;
use crate::node::NodeKind;

/// Copies between two devices, to be shown on the links they took.
#[derive(Clone, Copy, Debug)]
pub struct Highlight<'a> {
    /// Where they started.
    pub from: DeviceId,
    /// Where they ended.
    pub to: DeviceId,
    /// The links they took, as in [`Route::hops`](crate::Route::hops).
    pub hops: &'a [LinkId],
    /// What to say about them: `12 copies, 3.1 MB, direct`.
    pub label: &'a str,
    /// How much to make of them, relative to the others: bytes, for example.
    pub weight: u64,
}

/// Colours with fallbacks, as the page did not have to set them.
const STYLE: &str = "\
.topo{font:12px system-ui,sans-serif;color:inherit}\
.topo text{fill:currentColor}\
.topo .small{font-size:10.5px;opacity:.72}\
.topo rect{fill:currentColor;fill-opacity:.05;stroke:currentColor;stroke-opacity:.35}\
.topo .device{fill:var(--topo-device,#2f9e6e);fill-opacity:.16;stroke:var(--topo-device,#2f9e6e);stroke-opacity:.9}\
.topo .nic{fill:var(--topo-nic,#b7791f);fill-opacity:.14;stroke:var(--topo-nic,#b7791f);stroke-opacity:.8}\
.topo .link-switch{fill:var(--topo-fabric,#8b5cf6);fill-opacity:.12;stroke:var(--topo-fabric,#8b5cf6);stroke-opacity:.8}\
.topo path{fill:none;stroke:currentColor;stroke-opacity:.45;stroke-width:1.5}\
.topo .fabric{stroke:var(--topo-fabric,#8b5cf6);stroke-opacity:.75}\
.topo .smp{stroke-dasharray:5 4}\
.topo .unknown{stroke-dasharray:2 4}\
.topo .traffic{stroke:var(--topo-traffic,#e4572e);stroke-opacity:.85;stroke-linecap:round;stroke-dasharray:none}\
.topo rect.crossed{stroke:var(--topo-traffic,#e4572e);stroke-opacity:.85}\
.topo rect.bar{fill:var(--topo-traffic,#e4572e);fill-opacity:.85;stroke:none}";

/// Draws `machine` with the links that `highlights` took made to stand out.
///
/// The answer is one `<svg>` element. It keeps its natural width where there is room, shrinks to two
/// thirds of it, and wants a box that scrolls sideways below that.
#[must_use]
pub fn svg(machine: &Machine, highlights: &[Highlight<'_>]) -> String {
    let layout = Layout::new(machine);
    let traffic = Traffic::new(machine, highlights);
    let legend = legend::draw(machine, highlights, &layout);
    let (width, height) = (layout.width.max(legend.width), legend.bottom);
    let mut page = format!(
        "<svg class=\"topo\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         viewBox=\"0 0 {width} {height}\" \
         style=\"width:100%;min-width:{}px;max-width:{width}px;height:auto\">\
         <title>Topology: {} devices, {} links</title><style>{STYLE}</style>\n",
        width * 2 / 3,
        machine.device_count(),
        machine.links().len(),
    );
    // Links first, so that boxes cover their ends; those with traffic over the others.
    let links = || (0..).map(LinkId::new).zip(machine.links());
    for carried in [false, true] {
        for (id, link) in links().filter(|(id, _)| traffic.tenths_wide(*id).is_some() == carried) {
            page.push_str(&draw_link(machine, &layout, &traffic, id, link));
        }
    }
    for node in machine.node_ids() {
        page.push_str(&draw_node(machine, &layout, &traffic, node));
    }
    page.push_str(&legend.markup);
    page.push_str("</svg>\n");
    page
}

fn draw_node(machine: &Machine, layout: &Layout, traffic: &Traffic, id: NodeId) -> String {
    let place = layout.place(id);
    let node = &machine.nodes()[id.index()];
    let class = match node.kind {
        NodeKind::Device(_) => Class::Device,
        NodeKind::Nic => Class::Nic,
        NodeKind::LinkSwitch => Class::LinkSwitch,
        NodeKind::Memory(_) | NodeKind::HostBridge | NodeKind::Switch => Class::Host,
    };
    let (first, second) = node_lines(machine, id);
    let mut markup = rect(place, class, traffic.crosses(id), &node_title(machine, id));
    let middle = place.middle();
    let lines = [(first, ""), (second, "small")];
    let shown: Vec<_> = lines.iter().filter(|(line, _)| !line.is_empty()).collect();
    let first_line = if shown.len() == 1 { 26 } else { 18 };
    for (position, (line, class)) in (0..).zip(shown) {
        let y = place.y + first_line + 15 * position;
        markup.push_str(&text(middle, y, class, "middle", &fit(line, place.width)));
    }
    markup
}

/// What is written in a node's box: its name, and what it is or how it is joined.
fn node_lines(machine: &Machine, id: NodeId) -> (String, String) {
    let node = &machine.nodes()[id.index()];
    let name = node.name.clone();
    match node.kind {
        NodeKind::Memory(numa) => {
            let cpus = machine.numa_node(numa).map(|numa| numa.cpus.to_string());
            let cpus = cpus.filter(|cpus| !cpus.is_empty());
            let cpus = cpus.map_or_else(String::new, |cpus| format!("CPUs {cpus}"));
            (numa.to_string(), cpus)
        }
        NodeKind::HostBridge if name.starts_with("host bridge") => (name, String::new()),
        NodeKind::HostBridge => (name, "host bridge".to_owned()),
        NodeKind::Switch => (name, "PCIe switch".to_owned()),
        NodeKind::LinkSwitch => (name, String::new()),
        NodeKind::Device(_) | NodeKind::Nic => (name, slot(machine, id)),
    }
}

/// The link that joins an endpoint to the host, if one does.
fn slot(machine: &Machine, id: NodeId) -> String {
    let links = machine.neighbours(id).iter();
    let mut links = links.map(|(link, _)| &machine.links()[link.index()]);
    let to_host = links.find(|link| !link.kind.is_fabric());
    to_host.map_or_else(String::new, |link| match link.kind {
        LinkKind::Pcie(_) => format!("{} x{}", link.kind, link.lanes),
        kind => kind.to_string(),
    })
}

fn node_title(machine: &Machine, id: NodeId) -> String {
    let node = &machine.nodes()[id.index()];
    let address = node.pci.map(|pci| format!(", {pci}"));
    format!("{}{}", node.name, address.unwrap_or_default())
}

/// Cuts a line that is too long for its box; the whole is in the tooltip.
fn fit(line: &str, width: i32) -> String {
    // A character of the font is about 6.5 wide.
    let room = usize::try_from((width - 6) * 2 / 13).unwrap_or(0);
    if line.chars().count() <= room {
        return line.to_owned();
    }
    let kept = line.chars().take(room.saturating_sub(1));
    kept.chain(std::iter::once('…')).collect()
}

fn draw_link(
    machine: &Machine,
    layout: &Layout,
    traffic: &Traffic,
    id: LinkId,
    link: &Link,
) -> String {
    let carried = traffic.tenths_wide(id);
    let line = Line {
        path: link_path(machine, layout, link),
        class: legend::link_class(link.kind),
        tenths_wide: carried.unwrap_or_else(|| legend::tenths_wide(link)),
        is_traffic: carried.is_some(),
    };
    line.markup(&link_title(machine, link))
}

fn link_title(machine: &Machine, link: &Link) -> String {
    let name = |node: NodeId| &machine.nodes()[node.index()].name;
    let (a, b) = (name(link.a), name(link.b));
    let rates = if link.up == link.down {
        format!("{} each way", link.up)
    } else {
        format!("{} to {b}, {} to {a}", link.up, link.down)
    };
    format!("{a} to {b}: {}, {} lanes, {rates}", link.kind, link.lanes)
}

/// The way the line of a link takes between its boxes.
fn link_path(machine: &Machine, layout: &Layout, link: &Link) -> String {
    let (a, b) = (layout.place(link.a), layout.place(link.b));
    let kind = |node: NodeId| machine.nodes()[node.index()].kind;
    if a.y == b.y {
        let above = !kind(link.a).is_endpoint();
        return side_by_side(a, b, above);
    }
    let (upper, lower) = if a.y < b.y { (a, b) } else { (b, a) };
    let (mut upper_x, mut lower_x) = (upper.middle(), lower.middle());
    // Straight down where one of the boxes reaches far enough, else from middle to middle.
    if upper.spans(lower_x) {
        upper_x = lower_x;
    } else if lower.spans(upper_x) {
        lower_x = upper_x;
    }
    format!(
        "M{upper_x} {}L{lower_x} {}",
        upper.y + upper.height,
        lower.y
    )
}

/// Neighbours of one tier: a line between their sides if they touch, else an arc above or below.
fn side_by_side(a: Rect, b: Rect, above: bool) -> String {
    let (left, right) = if a.x <= b.x { (a, b) } else { (b, a) };
    let gap = right.x - (left.x + left.width);
    let middle = left.y + left.height / 2;
    if above && gap <= layout::GAP {
        return format!("M{} {middle}L{} {middle}", left.x + left.width, right.x);
    }
    let (from, to) = (left.middle(), right.middle());
    let depth = layout::arc_depth(to - from);
    let (edge, bend) = if above {
        (left.y, left.y - depth / 2)
    } else {
        (left.y + left.height, left.y + left.height + depth)
    };
    format!("M{from} {edge}C{from} {bend} {to} {bend} {to} {edge}")
}
