//! The curves.
//!
//! Between two layers is a gap that holds no box. A line leaves its port straight down to the gap,
//! swings over to where it has to be in the next layer, and passes that layer straight; so no line
//! touches a box. A line that leads upwards, and one for which there was no room between the boxes,
//! runs sideways in the gap to a track beside all boxes that it passes. Lines to the same input
//! share the track.

use std::collections::BTreeMap;

use super::layers::Layers;
use super::order::Layered;
use super::{Layout, Link, Point, Rect, Route, Shape, Step};

/// The least height of a gap.
const GAP: f64 = 30.0;
/// Room between two tracks, side by side or one above the other.
const TRACK: f64 = 9.0;
/// The radius of a track's corners.
const CORNER: f64 = 10.0;

/// A line beside the boxes, for all links to one input.
struct Track {
    links: Vec<usize>,
    to: usize,
    /// The layers that it passes.
    from_layer: usize,
    to_layer: usize,
    left: bool,
    x: f64,
    /// Which of the sideways lines it has in a gap.
    slots: BTreeMap<usize, usize>,
}

/// Where the layers are. Gap `i` is above layer `i`; the last one is below all layers.
struct Rows {
    top: Vec<f64>,
    bottom: Vec<f64>,
    /// Where the sideways lines of each gap begin.
    slots: Vec<f64>,
    height: f64,
}

pub(super) fn route(
    shapes: &[&Shape],
    links: &[Link],
    layers: &Layers,
    layered: &Layered,
    x: &[f64],
) -> Layout {
    let (mut tracks, slots, left, right) = tracks(shapes, links, layers, layered, x);
    for track in &mut tracks {
        track.x -= left;
    }
    let x: Vec<f64> = x.iter().map(|x| x - left).collect();
    let rows = rows(shapes, layered, &slots, &x);

    let boxes: Vec<Rect> = (shapes.iter().enumerate())
        .map(|(node, shape)| {
            let layer = layers.layer[node];
            let room = rows.bottom[layer] - rows.top[layer] - shape.height - shape.below;
            Rect {
                x: x[node] - shape.width / 2.0,
                y: rows.top[layer] + room / 2.0,
                width: shape.width,
                height: shape.height,
            }
        })
        .collect();
    let begin = |link: &Link| Point {
        x: x[link.from] + shapes[link.from].leave(link.output),
        y: boxes[link.from].y + boxes[link.from].height,
    };
    let end = |link: &Link| Point { x: x[link.to] + shapes[link.to].enter(link.input), y: boxes[link.to].y };

    let mut routes = vec![Route::default(); links.len()];
    for ((link, path), route) in links.iter().zip(&layered.paths).zip(&mut routes) {
        let inner = path.get(1..path.len().saturating_sub(1)).unwrap_or_default();
        let bends = inner.iter().map(|vertex| (layered.vertices[*vertex].layer, x[*vertex]));
        *route =
            between(begin(link), end(link), layers.layer[link.from], layers.layer[link.to], bends, &rows);
    }
    for track in &tracks {
        for number in &track.links {
            let link = &links[*number];
            let (begin, end) = (begin(link), end(link));
            let y =
                |gap: usize| rows.slots[gap] + TRACK * track.slots.get(&gap).map_or(0.0, |slot| *slot as f64);
            let (out, into) = (y(layers.layer[link.from] + 1), y(layers.layer[link.to]));
            routes[*number] = rounded(&[
                begin,
                Point { x: begin.x, y: out },
                Point { x: track.x, y: out },
                Point { x: track.x, y: into },
                Point { x: end.x, y: into },
                end,
            ]);
        }
    }
    Layout { width: right - left, height: rows.height, boxes, routes }
}

/// The tracks; how many sideways lines each gap has; how far the drawing reaches to the left and
/// right.
fn tracks(
    shapes: &[&Shape],
    links: &[Link],
    layers: &Layers,
    layered: &Layered,
    x: &[f64],
) -> (Vec<Track>, Vec<usize>, f64, f64) {
    let depth = layered.layers.len();
    let mut edges: Vec<(f64, f64)> = (layered.layers.iter())
        .map(|layer| {
            let side = |vertex: &usize, sign: f64| x[*vertex] + sign * layered.vertices[*vertex].width / 2.0;
            let left = layer.iter().map(|vertex| side(vertex, -1.0)).fold(f64::INFINITY, f64::min);
            (left, layer.iter().map(|vertex| side(vertex, 1.0)).fold(f64::NEG_INFINITY, f64::max))
        })
        .collect();

    let mut grouped: BTreeMap<(usize, usize, bool), Track> = BTreeMap::new();
    for (number, link) in links.iter().enumerate().filter(|(number, _)| layered.paths[*number].is_empty()) {
        let (out, into) = (layers.layer[link.from] + 1, layers.layer[link.to]);
        let first = out.min(into);
        let last = (out.max(into) - 1).max(first);
        let passed = &edges[first..=last];
        let (left_edge, right_edge) = passed
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        let begin = x[link.from] + shapes[link.from].leave(link.output);
        let end = x[link.to] + shapes[link.to].enter(link.input);
        let left = (begin + end) / 2.0 - left_edge < right_edge - (begin + end) / 2.0;
        let track = grouped.entry((link.to, link.input, left)).or_insert(Track {
            links: Vec::new(),
            to: link.to,
            from_layer: first,
            to_layer: last,
            left,
            x: 0.0,
            slots: BTreeMap::new(),
        });
        track.links.push(number);
        track.from_layer = track.from_layer.min(first);
        track.to_layer = track.to_layer.max(last);
    }
    let mut tracks: Vec<Track> = grouped.into_values().collect();
    tracks.sort_by_key(|track| track.to_layer - track.from_layer);

    let mut slots = vec![0; depth + 1];
    for track in &mut tracks {
        let passed = &mut edges[track.from_layer..=track.to_layer];
        if track.left {
            track.x = passed.iter().map(|edge| edge.0).fold(f64::INFINITY, f64::min) - TRACK - 4.0;
            passed.iter_mut().for_each(|edge| edge.0 = track.x);
        } else {
            track.x = passed.iter().map(|edge| edge.1).fold(f64::NEG_INFINITY, f64::max) + TRACK + 4.0;
            passed.iter_mut().for_each(|edge| edge.1 = track.x);
        }
        let outs = track.links.iter().map(|number| layers.layer[links[*number].from] + 1);
        for gap in outs.chain([layers.layer[track.to]]) {
            track.slots.entry(gap).or_insert_with(|| {
                slots[gap] += 1;
                slots[gap] - 1
            });
        }
    }
    let left = edges.iter().map(|edge| edge.0).fold(f64::INFINITY, f64::min);
    let right = edges.iter().map(|edge| edge.1).fold(f64::NEG_INFINITY, f64::max);
    (tracks, slots, left - 1.0, right + 1.0)
}

fn rows(shapes: &[&Shape], layered: &Layered, slots: &[usize], x: &[f64]) -> Rows {
    let depth = layered.layers.len();
    // Where a line has far to go sideways, a higher gap makes it less flat.
    let mut sideways = vec![0.0_f64; depth + 1];
    for segment in &layered.segments {
        let by = (x[segment.upper] + segment.out - x[segment.lower] - segment.into).abs();
        let gap = layered.vertices[segment.lower].layer;
        sideways[gap] = sideways[gap].max(by);
    }
    let mut rows = Rows { top: Vec::new(), bottom: Vec::new(), slots: Vec::new(), height: 0.0 };
    let mut y = 0.0;
    for gap in 0..=depth {
        let inner = gap > 0 && gap < depth;
        let least = if inner { GAP + (sideways[gap] * 0.07).min(50.0) } else { 0.0 };
        let taken = if slots[gap] > 0 { TRACK * (slots[gap] as f64 - 1.0) + 2.0 * CORNER } else { 0.0 };
        rows.slots.push(y + CORNER);
        y += if inner { least.max(taken + GAP / 2.0) } else { taken };
        if let Some(layer) = layered.layers.get(gap) {
            let heights = layer.iter().filter_map(|vertex| layered.vertices[*vertex].node);
            rows.top.push(y);
            y += heights.map(|node| shapes[node].height + shapes[node].below).fold(0.0, f64::max);
            rows.bottom.push(y);
        }
    }
    rows.height = y;
    rows
}

/// A line downwards, past the layers between by the given places.
fn between(
    begin: Point,
    end: Point,
    from_layer: usize,
    to_layer: usize,
    bends: impl Iterator<Item = (usize, f64)>,
    rows: &Rows,
) -> Route {
    let mut route = Route { start: begin, steps: Vec::new() };
    let mut at = begin;
    let mut from = Point { x: begin.x, y: rows.bottom[from_layer] };
    for (layer, x) in bends.chain([(to_layer, end.x)]) {
        let to = Point { x, y: rows.top[layer] };
        if (at.x - to.x).abs() >= 0.5 {
            let middle = (from.y + to.y) / 2.0;
            route.steps.push(Step::Line(from));
            route.steps.push(Step::Curve(Point { x: from.x, y: middle }, Point { x: to.x, y: middle }, to));
            at = to;
        }
        from = Point { x: at.x, y: rows.bottom[layer] };
    }
    route.steps.push(Step::Line(end));
    route
}

/// A line of straight pieces with round corners.
fn rounded(points: &[Point]) -> Route {
    let mut route = Route { start: points[0], steps: Vec::new() };
    let length = |a: Point, b: Point| (a.x - b.x).abs() + (a.y - b.y).abs();
    for corner in points.windows(3) {
        let (before, at, after) = (corner[0], corner[1], corner[2]);
        let radius = CORNER.min(length(before, at) / 2.0).min(length(at, after) / 2.0);
        let towards = |to: Point| {
            let length = length(at, to);
            if length > 0.0 {
                Point { x: at.x + (to.x - at.x) * radius / length, y: at.y + (to.y - at.y) * radius / length }
            } else {
                at
            }
        };
        route.steps.push(Step::Line(towards(before)));
        route.steps.push(Step::Curve(at, at, towards(after)));
    }
    route.steps.extend(points.last().map(|end| Step::Line(*end)));
    route
}
