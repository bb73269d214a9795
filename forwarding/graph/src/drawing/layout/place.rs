//! Where everything is from left to right.
//!
//! Each vertex would like to be where its lines are straight: at the mean of its neighbours,
//! weighted by how much each line matters. With the order and the room between two vertices given,
//! the positions of a layer that are nearest to these wishes are an isotonic regression, which
//! pooling adjacent violators solves in linear time. Going down and up through the layers brings
//! the wishes together.

use super::order::{Layered, Vertex};

/// Room between two boxes.
const BETWEEN_BOXES: f64 = 22.0;
/// Room between a line and what is beside it.
const BESIDE_LINES: f64 = 14.0;
/// How often to go through the layers, at least and at most.
const ROUNDS: (usize, usize) = (24, 160);
/// How many vertices to place in all, which limits the rounds of a large graph.
const PLACINGS: usize = 300_000;

/// Where the middle of each vertex is.
pub(super) fn place(layered: &Layered) -> Vec<f64> {
    let mut x = vec![0.0; layered.vertices.len()];
    let apart: Vec<Vec<f64>> =
        layered.layers.iter().map(|layer| distances(layer, &layered.vertices)).collect();
    for (layer, apart) in layered.layers.iter().zip(&apart) {
        let mut at = 0.0;
        for (index, vertex) in layer.iter().enumerate() {
            at += if index > 0 { apart[index - 1] } else { 0.0 };
            x[*vertex] = at;
        }
    }
    let depth = layered.layers.len();
    let rounds = (PLACINGS / x.len().max(1)).clamp(ROUNDS.0, ROUNDS.1);
    for round in 0..rounds {
        let downwards = round % 2 == 1;
        let phase = match round * 3 / rounds {
            0 if downwards => Phase::From { above: true, below: false },
            0 => Phase::From { above: false, below: true },
            1 => Phase::From { above: true, below: true },
            _ => Phase::BetweenLines,
        };
        for step in 0..depth {
            let layer = if downwards { step } else { depth - 1 - step };
            let wishes: Vec<(f64, f64)> =
                layered.layers[layer].iter().map(|vertex| wish(layered, *vertex, &x, phase)).collect();
            for (vertex, at) in layered.layers[layer].iter().zip(nearest(&wishes, &apart[layer])) {
                x[*vertex] = at;
            }
        }
        if phase == (Phase::From { above: true, below: true }) {
            straighten(layered, &apart, &mut x);
        }
    }
    x
}

/// What moves, and by whose wishes.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// Everything: first by the neighbours on one side, which carries a shift through all layers at
    /// once, then by both.
    From { above: bool, below: bool },
    /// Boxes only; the lines are straight and stay.
    BetweenLines,
}

/// Where a vertex would like to be, and how much.
fn wish(layered: &Layered, vertex: usize, x: &[f64], phase: Phase) -> (f64, f64) {
    let (above, below) = match phase {
        Phase::From { above, below } => (above, below),
        Phase::BetweenLines if layered.vertices[vertex].node.is_none() => return (x[vertex], 10_000.0),
        Phase::BetweenLines => (true, true),
    };
    let (mut sum, mut total) = (0.0, 0.0);
    let mut add = |at: f64, weight: f64| (sum, total) = (sum + at * weight, total + weight);
    if above {
        for segment in layered.above[vertex].iter().map(|segment| &layered.segments[*segment]) {
            add(x[segment.upper] + segment.out - segment.into, segment.weight);
        }
    }
    if below {
        for segment in layered.below[vertex].iter().map(|segment| &layered.segments[*segment]) {
            add(x[segment.lower] + segment.into - segment.out, segment.weight);
        }
    }
    // Without a wish, it gives way to the others.
    if total > 0.0 { (sum / total, total) } else { (x[vertex], 0.01) }
}

/// Makes each line that passes layers straight, as far as there is a place that is free in all of
/// them: below or above one of its ends if that is free, so that it bends once.
fn straighten(layered: &Layered, apart: &[Vec<f64>], x: &mut [f64]) {
    let mut index = vec![0; x.len()];
    for layer in &layered.layers {
        for (at, vertex) in layer.iter().enumerate() {
            index[*vertex] = at;
        }
    }
    let is_line = |vertex: usize| layered.vertices[vertex].node.is_none();
    let next = |vertex: &usize| {
        let segment = layered.below[*vertex].first()?;
        Some(layered.segments[*segment].lower).filter(|lower| is_line(*lower))
    };
    let begins = |vertex: &usize| {
        is_line(*vertex)
            && !layered.above[*vertex].iter().any(|segment| is_line(layered.segments[*segment].upper))
    };
    for first in (0..x.len()).filter(begins) {
        let line: Vec<usize> = std::iter::successors(Some(first), next).collect();
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            // As far as there is a place that is free in all layers.
            let (mut ends, mut room, mut count) = (Vec::new(), (f64::NEG_INFINITY, f64::INFINITY), 0);
            for vertex in rest {
                let (layer, at) = (layered.vertices[*vertex].layer, index[*vertex]);
                let left = at.checked_sub(1).map(|left| x[layered.layers[layer][left]] + apart[layer][left]);
                let right = layered.layers[layer].get(at + 1).map(|right| x[*right] - apart[layer][at]);
                let narrower = (room.0.max(left.unwrap_or(room.0)), room.1.min(right.unwrap_or(room.1)));
                if count > 0 && narrower.0 > narrower.1 {
                    break;
                }
                (room, count) = (narrower, count + 1);
                let above = layered.above[*vertex].iter().map(|segment| &layered.segments[*segment]);
                ends.extend(above.filter(|s| !is_line(s.upper)).map(|s| (x[s.upper] + s.out, s.weight)));
                let below = layered.below[*vertex].iter().map(|segment| &layered.segments[*segment]);
                ends.extend(below.filter(|s| !is_line(s.lower)).map(|s| (x[s.lower] + s.into, s.weight)));
            }
            let (run, after) = rest.split_at(count);
            let wish = median(ends).unwrap_or(x[run[0]]);
            for vertex in run {
                x[*vertex] = wish.max(room.0).min(room.1);
            }
            rest = after;
        }
    }
}

/// The position with the least weighted distance from all.
fn median(mut positions: Vec<(f64, f64)>) -> Option<f64> {
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = positions.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    let middle = positions.iter().find(|(_, weight)| {
        passed += weight;
        passed >= half
    });
    middle.map(|(at, _)| *at)
}

/// The distances between the middles of neighbours.
fn distances(layer: &[usize], vertices: &[Vertex]) -> Vec<f64> {
    (layer.windows(2))
        .map(|pair| {
            let (a, b) = (&vertices[pair[0]], &vertices[pair[1]]);
            let room = if a.node.is_some() && b.node.is_some() { BETWEEN_BOXES } else { BESIDE_LINES };
            (a.width + b.width) / 2.0 + room
        })
        .collect()
}

/// The positions with the least weighted squared distance from the wishes (position, weight), each
/// at least so far from the one before as `apart` says.
fn nearest(wishes: &[(f64, f64)], apart: &[f64]) -> Vec<f64> {
    /// Neighbours that touch: what they wish together, their weight, how many they are.
    struct Pool {
        at: f64,
        weight: f64,
        count: usize,
    }
    let mut pools: Vec<Pool> = Vec::with_capacity(wishes.len());
    let mut offset = 0.0;
    for (index, (wish, weight)) in wishes.iter().enumerate() {
        offset += if index > 0 { apart[index - 1] } else { 0.0 };
        let mut pool = Pool { at: wish - offset, weight: *weight, count: 1 };
        while let Some(last) = pools.pop_if(|last| last.at >= pool.at) {
            let weight = last.weight + pool.weight;
            pool.at = (last.at * last.weight + pool.at * pool.weight) / weight;
            pool.weight = weight;
            pool.count += last.count;
        }
        pools.push(pool);
    }
    let mut offset = 0.0;
    let mut placed = Vec::with_capacity(wishes.len());
    for pool in pools {
        for _ in 0..pool.count {
            offset += if placed.is_empty() { 0.0 } else { apart[placed.len() - 1] };
            placed.push(pool.at + offset);
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_come_true_where_there_is_room() {
        assert_eq!(nearest(&[(0.0, 1.0), (50.0, 1.0)], &[20.0]), [0.0, 50.0]);
    }

    #[test]
    fn the_median_is_where_most_weight_is() {
        assert_eq!(median(vec![(9.0, 1.0), (1.0, 1.0), (4.0, 1.0)]), Some(4.0));
        assert_eq!(median(vec![(9.0, 5.0), (1.0, 1.0), (4.0, 1.0)]), Some(9.0));
    }

    #[test]
    fn those_without_room_share_it_by_weight() {
        assert_eq!(nearest(&[(10.0, 1.0), (10.0, 1.0)], &[20.0]), [0.0, 20.0]);
        assert_eq!(nearest(&[(10.0, 1.0), (10.0, 3.0)], &[20.0]), [-5.0, 15.0]);
        assert_eq!(nearest(&[(5.0, 1.0), (0.0, 1.0), (30.0, 1.0)], &[1.0, 1.0]), [2.0, 3.0, 30.0]);
    }
}
