//! Planning copies: one pair's plan over all its routes, a route that is cached, the matrices of large machines; beside
//! petgraph's maximum flow and shortest paths on the same graph.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use petgraph::algo::{dijkstra, maximum_flow::dinics};
use petgraph::graph::{DiGraph, NodeIndex};
use piton_topology::{
    DeviceId, LinkKind, Machine, NvLinkVersion, PeerAccess, Residual, Router, StripeOptions,
    StripePlanner, Transit,
};

const NVLINK: LinkKind = LinkKind::NvLink(NvLinkVersion::V3);
const BYTES: u64 = 1 << 30;

fn mesh(devices: u16) -> Option<Machine> {
    Machine::mesh(devices, NVLINK, 1).ok()
}

/// The machine as petgraph has it: an arc for each direction of each link.
fn others(machine: &Machine) -> DiGraph<(), u64> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = machine.nodes().iter().map(|_| graph.add_node(())).collect();
    for link in machine.links() {
        let (a, b) = (nodes[link.a.index()], nodes[link.b.index()]);
        graph.add_edge(a, b, link.up.get());
        graph.add_edge(b, a, link.down.get());
    }
    graph
}

fn planning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("topology/plan");
    let [from, to] = [0, 1].map(DeviceId::new);
    for devices in [8, 16, 64] {
        let Some(machine) = mesh(devices) else {
            continue;
        };
        let planner = StripePlanner::new(&machine, PeerAccess::all(), StripeOptions::default());
        let free = Residual::of(&machine);
        group.bench_function(BenchmarkId::new("striped", devices), |bencher| {
            bencher.iter(|| black_box(planner.plan(from, to, black_box(BYTES), &free)));
        });
        group.bench_function(BenchmarkId::new("max-flow", devices), |bencher| {
            bencher.iter(|| black_box(planner.max_flow(from, to, black_box(&free))));
        });
        let graph = others(&machine);
        let ends = [from, to].map(|id| machine.devices()[id.index()].index());
        let [source, sink] = ends.map(NodeIndex::new);
        group.bench_function(BenchmarkId::new("petgraph-dinics", devices), |bencher| {
            bencher.iter(|| black_box(dinics(black_box(&graph), source, sink)));
        });
        let router = Router::new(&machine, &PeerAccess::all());
        group.bench_function(BenchmarkId::new("cached-route", devices), |bencher| {
            bencher.iter(|| black_box(router.route(from, to, black_box(BYTES)).is_ok()));
        });
    }
    group.finish();
}

fn matrices(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("topology/matrix");
    group.sample_size(10);
    for devices in [64, 1_024] {
        let Ok(machine) = Machine::star(devices, NVLINK, 12) else {
            continue;
        };
        group.bench_function(BenchmarkId::new("distances", devices), |bencher| {
            bencher.iter(|| black_box(machine.distances()));
        });
        group.bench_function(BenchmarkId::new("latencies", devices), |bencher| {
            bencher.iter(|| black_box(machine.latencies(Transit::HostOnly)));
        });
        let graph = others(&machine);
        group.bench_function(BenchmarkId::new("petgraph-dijkstra", devices), |bencher| {
            bencher.iter(|| {
                for device in machine.devices() {
                    let source = NodeIndex::new(device.index());
                    black_box(dijkstra(&graph, source, None, |edge| *edge.weight()));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, planning, matrices);
criterion_main!(benches);
