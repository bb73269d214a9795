//! The order within the layers.
//!
//! A line that passes a layer has a vertex there like a box; lines to the same input share them,
//! for they mean the same from there on. Ordering by barycentre goes down and up through the layers
//! a few times: each vertex moves to the mean of where its neighbours are in the layer before. The
//! best order that was seen stays.

use std::collections::HashMap;

use super::layers::Layers;
use super::{Link, Shape};

/// How many vertices lines may have. In a graph with more than this, the longest lines take a track
/// at the side.
const MOST_BENDS: usize = 20_000;

/// How often to go down and up.
const SWEEPS: usize = 12;

/// A box, or a line that passes a layer.
pub(super) struct Vertex {
    pub layer: usize,
    /// The box, `None` for a line.
    pub node: Option<usize>,
    pub width: f64,
}

/// The piece of a line between two layers.
pub(super) struct Segment {
    pub upper: usize,
    pub lower: usize,
    /// Where it begins, from the middle of the upper vertex.
    pub out: f64,
    /// Where it ends, from the middle of the lower vertex.
    pub into: f64,
    /// How much it matters that it is straight.
    pub weight: f64,
}

/// A graph all of whose lines lead from a layer to the next.
pub(super) struct Layered {
    /// The boxes in their order, then the lines.
    pub vertices: Vec<Vertex>,
    pub segments: Vec<Segment>,
    /// The vertices of each layer from left to right.
    pub layers: Vec<Vec<usize>>,
    /// By vertex: the segments that end there.
    pub above: Vec<Vec<usize>>,
    /// By vertex: the segments that begin there.
    pub below: Vec<Vec<usize>>,
    /// By link: the vertices from its box to its box, empty if it takes a track at the side.
    pub paths: Vec<Vec<usize>>,
}

impl Layered {
    pub(super) fn new(shapes: &[&Shape], links: &[Link], layers: &Layers) -> Layered {
        let depth = layers.layer.iter().max().map_or(0, |deepest| deepest + 1);
        let mut layered = Layered {
            vertices: (shapes.iter().zip(&layers.layer).enumerate())
                .map(|(node, (shape, layer))| Vertex { layer: *layer, node: Some(node), width: shape.width })
                .collect(),
            segments: Vec::new(),
            layers: vec![Vec::new(); depth],
            above: vec![Vec::new(); shapes.len()],
            below: vec![Vec::new(); shapes.len()],
            paths: vec![Vec::new(); links.len()],
        };
        let span = |link: &Link| layers.layer[link.to] - layers.layer[link.from];
        let mut forward: Vec<usize> = (0..links.len()).filter(|number| !layers.back[*number]).collect();
        forward.sort_by_key(|number| span(&links[*number]));
        let mut bends = HashMap::new();
        for number in forward {
            let link = &links[number];
            if bends.len() + span(link) > MOST_BENDS {
                break;
            }
            layered.add(shapes, number, link, &mut bends);
        }
        layered.arrange(links);
        layered
    }

    /// Adds a link with a vertex in every layer that it passes, from its end upwards.
    fn add(
        &mut self,
        shapes: &[&Shape],
        number: usize,
        link: &Link,
        bends: &mut HashMap<(usize, usize, usize), usize>,
    ) {
        let (top, bottom) = (self.vertices[link.from].layer, self.vertices[link.to].layer);
        let mut path = vec![link.to];
        let (mut lower, mut into) = (link.to, shapes[link.to].enter(link.input));
        for layer in (top + 1..bottom).rev() {
            let next = self.vertices.len();
            let bend = *bends.entry((link.to, link.input, layer)).or_insert(next);
            if bend == next {
                self.vertices.push(Vertex { layer, node: None, width: 2.0 });
                self.above.push(Vec::new());
                self.below.push(Vec::new());
                let weight = if lower == link.to { 2.0 } else { 8.0 };
                self.connect(Segment { upper: bend, lower, out: 0.0, into, weight });
            }
            path.push(bend);
            (lower, into) = (bend, 0.0);
        }
        // Chains stay straight, and output 0 is where packets usually go.
        let straight = match (link.output, shapes[link.from].outputs.len()) {
            (0, 0 | 1) => 4.0,
            (0, _) => 2.0,
            _ => 1.0,
        };
        self.connect(Segment {
            upper: link.from,
            lower,
            out: shapes[link.from].leave(link.output),
            into,
            weight: straight,
        });
        path.push(link.from);
        path.reverse();
        self.paths[number] = path;
    }

    fn connect(&mut self, segment: Segment) {
        self.below[segment.upper].push(self.segments.len());
        self.above[segment.lower].push(self.segments.len());
        self.segments.push(segment);
    }

    /// A first order: depth first from the top, by outputs, so that what belongs together stands
    /// together.
    fn arrange(&mut self, links: &[Link]) {
        for list in &mut self.below {
            list.sort_by(|a, b| self.segments[*a].out.total_cmp(&self.segments[*b].out));
        }
        let mut hears = vec![false; self.vertices.len()];
        for link in links.iter().filter(|link| link.from != link.to) {
            hears[link.to] = true;
        }
        let boxes = self.vertices.iter().filter(|vertex| vertex.node.is_some()).count();
        let (first, rest): (Vec<usize>, Vec<usize>) = (0..boxes).partition(|vertex| !hears[*vertex]);
        let mut seen = vec![false; self.vertices.len()];
        for start in first.into_iter().chain(rest).chain(boxes..self.vertices.len()) {
            let mut open = vec![start];
            while let Some(vertex) = open.pop() {
                if std::mem::replace(&mut seen[vertex], true) {
                    continue;
                }
                self.layers[self.vertices[vertex].layer].push(vertex);
                open.extend(self.below[vertex].iter().rev().map(|segment| self.segments[*segment].lower));
            }
        }
    }

    /// Orders every layer so that few lines cross.
    pub(super) fn order(&mut self) {
        let mut place = vec![0.0; self.vertices.len()];
        for layer in &self.layers {
            note_places(layer, &mut place);
        }
        let mut best = (self.crossings(&place), self.layers.clone());
        for sweep in 0..SWEEPS {
            if best.0 == 0 {
                break;
            }
            let depth = self.layers.len();
            for step in 1..depth {
                if sweep % 2 == 0 {
                    self.order_layer(step, true, &mut place);
                } else {
                    self.order_layer(depth - 1 - step, false, &mut place);
                }
            }
            let crossings = self.crossings(&place);
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// Orders a layer by where its vertices' neighbours are, in the layer above or below. Those
    /// without keep their place.
    fn order_layer(&mut self, layer: usize, from_above: bool, place: &mut [f64]) {
        let barycentre = |vertex: usize| {
            let segments = if from_above { &self.above[vertex] } else { &self.below[vertex] };
            let ends = segments.iter().map(|segment| {
                let segment = &self.segments[*segment];
                if from_above {
                    place[segment.upper] + self.fraction(segment.upper, segment.out)
                } else {
                    place[segment.lower] + self.fraction(segment.lower, segment.into)
                }
            });
            (!segments.is_empty()).then(|| ends.sum::<f64>() / segments.len() as f64)
        };
        let mut moving: Vec<(f64, usize)> =
            self.layers[layer].iter().filter_map(|vertex| Some((barycentre(*vertex)?, *vertex))).collect();
        moving.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut moving = moving.into_iter();
        let ordered: Vec<usize> = (self.layers[layer].iter())
            .map(|vertex| match barycentre(*vertex) {
                Some(_) => moving.next().map_or(*vertex, |(_, vertex)| vertex),
                None => *vertex,
            })
            .collect();
        note_places(&ordered, place);
        self.layers[layer] = ordered;
    }

    /// Where a port is along its box, from -0.5 to 0.5.
    fn fraction(&self, vertex: usize, offset: f64) -> f64 {
        (offset / self.vertices[vertex].width.max(1.0)).clamp(-0.5, 0.5)
    }

    /// How many lines cross, between all layers.
    fn crossings(&self, place: &[f64]) -> u64 {
        let mut ends: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.layers.len()];
        for segment in &self.segments {
            ends[self.vertices[segment.upper].layer].push((
                place[segment.upper] + self.fraction(segment.upper, segment.out),
                place[segment.lower] + self.fraction(segment.lower, segment.into),
            ));
        }
        ends.into_iter().map(inversions).sum()
    }
}

fn note_places(layer: &[usize], place: &mut [f64]) {
    for (index, vertex) in layer.iter().enumerate() {
        place[*vertex] = index as f64;
    }
}

/// How many pairs are in one order on one side and in the other order on the other, with a binary
/// indexed tree.
fn inversions(mut ends: Vec<(f64, f64)>) -> u64 {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut lower: Vec<f64> = ends.iter().map(|end| end.1).collect();
    lower.sort_by(f64::total_cmp);
    lower.dedup();
    let mut tree = vec![0_u64; lower.len() + 1];
    let mut crossings = 0;
    for (before, end) in ends.iter().enumerate() {
        let rank = lower.partition_point(|x| *x < end.1) + 1;
        let mut left = 0;
        let mut index = rank;
        while index > 0 {
            left += tree[index];
            index &= index - 1;
        }
        crossings += before as u64 - left;
        let mut index = rank;
        while index < tree.len() {
            tree[index] += 1;
            index += index & index.wrapping_neg();
        }
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_are_counted() {
        assert_eq!(inversions(vec![(0.0, 0.0), (1.0, 1.0)]), 0);
        assert_eq!(inversions(vec![(0.0, 1.0), (1.0, 0.0)]), 1);
        assert_eq!(inversions(vec![(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)]), 3);
        // Lines that meet in an end do not cross.
        assert_eq!(inversions(vec![(0.0, 1.0), (0.0, 0.0), (1.0, 1.0), (2.0, 1.0)]), 0);
    }
}
