//! Where boxes and lines go: the layered drawing of Sugiyama, Tagawa and Toda (1981).
//!
//! Each connected part is laid out by itself and the parts are set side by side:
//!
//! 1. `layers`: links that close a cycle are set aside; what remains puts every box below those it
//!    hears from.
//! 2. `order`: lines that pass a layer get a place in it, and within the layers everything is
//!    ordered so that few lines cross.
//! 3. `place`: with the order fixed, everything moves to where its lines are straight, as far as
//!    there is room.
//! 4. `route`: the curves. Lines between layers bend only where no box is; those that lead upwards
//!    take a track beside the boxes.
//!
//! So no two boxes overlap and no line crosses a box, whatever the graph.

mod layers;
mod order;
mod place;
mod route;

/// A box that is to be placed. Lengths are in pixels.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub width: f64,
    pub height: f64,
    /// Room kept free below the box, as wide as it.
    pub below: f64,
    /// Where each input is, from the left edge.
    pub inputs: Vec<f64>,
    /// Where each output is, from the left edge.
    pub outputs: Vec<f64>,
}

/// A line from the lower edge of a box to the upper edge of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub from: usize,
    pub output: usize,
    pub to: usize,
    pub input: usize,
}

/// A point; y grows downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

/// Where a box is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// A piece of a line, from where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Straight to a point.
    Line(Point),
    /// A cubic Bézier curve: two control points and its end.
    Curve(Point, Point, Point),
}

/// A line from port to port.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Route {
    pub start: Point,
    pub steps: Vec<Step>,
}

/// A laid out graph, its upper left corner at 0, 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub width: f64,
    pub height: f64,
    /// A rectangle for each shape.
    pub boxes: Vec<Rect>,
    /// A route for each link.
    pub routes: Vec<Route>,
}

/// Room between two connected parts.
const APART: f64 = 36.0;

impl Shape {
    /// Where an output is, from the middle of the box.
    fn leave(&self, output: usize) -> f64 {
        self.outputs.get(output).map_or(0.0, |x| x - self.width / 2.0)
    }

    /// Where an input is, from the middle of the box.
    fn enter(&self, input: usize) -> f64 {
        self.inputs.get(input).map_or(0.0, |x| x - self.width / 2.0)
    }
}

impl Point {
    fn moved(self, by: Point) -> Point {
        Point { x: self.x + by.x, y: self.y + by.y }
    }
}

impl Route {
    fn moved(mut self, by: Point) -> Route {
        self.start = self.start.moved(by);
        for step in &mut self.steps {
            *step = match *step {
                Step::Line(end) => Step::Line(end.moved(by)),
                Step::Curve(a, b, end) => Step::Curve(a.moved(by), b.moved(by), end.moved(by)),
            };
        }
        self
    }
}

/// Lays out a graph. Every link must join two of the shapes.
pub(super) fn layout(shapes: &[Shape], links: &[Link]) -> Layout {
    let mut whole = Layout {
        boxes: vec![Rect::default(); shapes.len()],
        routes: vec![Route::default(); links.len()],
        ..Layout::default()
    };
    let parts = parts(shapes, links);
    let area: f64 = parts.iter().map(|part| (part.layout.width + APART) * (part.layout.height + APART)).sum();
    let widest = parts.iter().map(|part| part.layout.width).fold(0.0, f64::max);
    let line_width = widest.max((area * 1.6).sqrt());

    // Like words in lines.
    let (mut at, mut line_height) = (Point::default(), 0.0_f64);
    for part in parts {
        if at.x > 0.0 && at.x + part.layout.width > line_width {
            at = Point { x: 0.0, y: at.y + line_height + APART };
            line_height = 0.0;
        }
        for (node, rect) in part.nodes.into_iter().zip(part.layout.boxes) {
            whole.boxes[node] = Rect { x: rect.x + at.x, y: rect.y + at.y, ..rect };
        }
        for (link, route) in part.links.into_iter().zip(part.layout.routes) {
            whole.routes[link] = route.moved(at);
        }
        whole.width = whole.width.max(at.x + part.layout.width);
        whole.height = whole.height.max(at.y + part.layout.height);
        line_height = line_height.max(part.layout.height);
        at.x += part.layout.width + APART;
    }
    whole
}

/// A connected part: which shapes and links it has, and where they go.
struct Part {
    nodes: Vec<usize>,
    links: Vec<usize>,
    layout: Layout,
}

/// The connected parts, those with links first.
fn parts(shapes: &[Shape], links: &[Link]) -> Vec<Part> {
    let mut parent: Vec<usize> = (0..shapes.len()).collect();
    for link in links {
        let (a, b) = (root(&mut parent, link.from), root(&mut parent, link.to));
        parent[a.max(b)] = a.min(b);
    }
    let mut part_of_root = vec![None; shapes.len()];
    let mut local = vec![0; shapes.len()];
    let mut members: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (node, place) in local.iter_mut().enumerate() {
        let root = root(&mut parent, node);
        let part = *part_of_root[root].get_or_insert_with(|| {
            members.push(Default::default());
            members.len() - 1
        });
        *place = members[part].0.len();
        members[part].0.push(node);
    }
    for (number, link) in links.iter().enumerate() {
        if let Some(part) = part_of_root[root(&mut parent, link.from)] {
            members[part].1.push(number);
        }
    }
    members.sort_by_key(|(_, links)| links.is_empty());
    (members.into_iter())
        .map(|(nodes, numbers)| {
            let shapes: Vec<&Shape> = nodes.iter().map(|node| &shapes[*node]).collect();
            let links: Vec<Link> = (numbers.iter())
                .map(|number| links[*number])
                .map(|link| Link { from: local[link.from], to: local[link.to], ..link })
                .collect();
            Part { layout: layout_part(&shapes, &links), nodes, links: numbers }
        })
        .collect()
}

fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

fn layout_part(shapes: &[&Shape], links: &[Link]) -> Layout {
    let layers = layers::layers(shapes.len(), links);
    let mut layered = order::Layered::new(shapes, links, &layers);
    layered.order();
    let middles = place::place(&layered);
    route::route(shapes, links, &layers, &layered, &middles)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    pub(super) fn shape(width: f64, height: f64, inputs: usize, outputs: usize) -> Shape {
        let spread = |n: usize| (0..n).map(|i| width * (i as f64 + 1.0) / (n as f64 + 1.0)).collect();
        Shape { width, height, below: 4.0, inputs: spread(inputs), outputs: spread(outputs) }
    }

    fn link(from: usize, output: usize, to: usize, input: usize) -> Link {
        Link { from, output, to, input }
    }

    fn apart(a: &Rect, b: &Rect) -> bool {
        a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y
    }

    /// Points along a route, close to each other.
    fn samples(route: &Route) -> Vec<Point> {
        let (mut from, mut points) = (route.start, vec![route.start]);
        for step in &route.steps {
            let (a, b, end) = match *step {
                Step::Line(end) => (from, end, end),
                Step::Curve(a, b, end) => (a, b, end),
            };
            for t in (1..=16).map(|t| f64::from(t) / 16.0) {
                let s = 1.0 - t;
                let along = |p: fn(&Point) -> f64| {
                    s * s * s * p(&from)
                        + 3.0 * s * s * t * p(&a)
                        + 3.0 * s * t * t * p(&b)
                        + t * t * t * p(&end)
                };
                points.push(Point { x: along(|p| p.x), y: along(|p| p.y) });
            }
            from = end;
        }
        points
    }

    /// Boxes inside of the drawing and apart, lines from port to port and not through boxes.
    fn check(shapes: &[Shape], links: &[Link]) -> Layout {
        let layout = layout(shapes, links);
        assert_eq!((layout.boxes.len(), layout.routes.len()), (shapes.len(), links.len()));
        for (number, a) in layout.boxes.iter().enumerate() {
            assert!(a.x > -0.01 && a.x + a.width < layout.width + 0.01, "{a:?} leaves the drawing");
            assert!(a.y > -0.01 && a.y + a.height < layout.height + 0.01, "{a:?} leaves the drawing");
            assert_eq!((a.width, a.height), (shapes[number].width, shapes[number].height));
            for b in &layout.boxes[number + 1..] {
                assert!(apart(a, b), "{a:?} overlaps {b:?}");
            }
        }
        for (link, route) in links.iter().zip(&layout.routes) {
            let (from, to) = (&layout.boxes[link.from], &layout.boxes[link.to]);
            let points = samples(route);
            let (first, last) = (points[0], points[points.len() - 1]);
            let out = from.x + from.width / 2.0 + shapes[link.from].leave(link.output);
            let into = to.x + to.width / 2.0 + shapes[link.to].enter(link.input);
            assert!((first.x - out).abs() < 0.01 && (first.y - from.y - from.height).abs() < 0.01);
            assert!((last.x - into).abs() < 0.01 && (last.y - to.y).abs() < 0.01);
            for point in points {
                let within = |p: f64, length: f64| -0.01 < p && p < length + 0.01;
                assert!(
                    within(point.x, layout.width) && within(point.y, layout.height),
                    "{link:?} leaves the drawing at {point:?}"
                );
                for rect in &layout.boxes {
                    let inside = |low: f64, p: f64, length: f64| low + 0.5 < p && p < low + length - 0.5;
                    assert!(
                        !(inside(rect.x, point.x, rect.width) && inside(rect.y, point.y, rect.height)),
                        "{link:?} runs through {rect:?} at {point:?}"
                    );
                }
            }
        }
        layout
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let shapes = [shape(60.0, 30.0, 0, 1), shape(140.0, 50.0, 1, 1), shape(80.0, 30.0, 1, 0)];
        let layout = check(&shapes, &[link(0, 0, 1, 0), link(1, 0, 2, 0)]);
        let middles: Vec<f64> = layout.boxes.iter().map(|rect| rect.x + rect.width / 2.0).collect();
        assert!(middles.iter().all(|x| (x - middles[0]).abs() < 1.0), "{middles:?}");
        assert!(layout.boxes[0].y < layout.boxes[1].y && layout.boxes[1].y < layout.boxes[2].y);
    }

    #[test]
    fn outputs_do_not_cross_without_need() {
        let shapes = [
            shape(90.0, 30.0, 0, 3),
            shape(40.0, 30.0, 1, 0),
            shape(40.0, 30.0, 1, 0),
            shape(40.0, 30.0, 1, 0),
        ];
        let layout = check(&shapes, &[link(0, 0, 3, 0), link(0, 1, 1, 0), link(0, 2, 2, 0)]);
        assert!(layout.boxes[3].x < layout.boxes[1].x && layout.boxes[1].x < layout.boxes[2].x);
    }

    #[test]
    fn cycles_and_loops_end() {
        let shapes = vec![shape(70.0, 40.0, 2, 2); 4];
        check(
            &shapes,
            &[link(0, 0, 1, 0), link(1, 0, 2, 0), link(2, 0, 0, 0), link(1, 1, 1, 1), link(3, 0, 3, 0)],
        );
    }

    #[test]
    fn nothing_is_a_drawing_too() {
        let layout = check(&[], &[]);
        assert_eq!((layout.width, layout.height), (0.0, 0.0));
        check(&[shape(50.0, 20.0, 0, 0)], &[]);
    }

    fn graph(nodes: usize, links: usize) -> impl Strategy<Value = (Vec<Shape>, Vec<Link>)> {
        (1..=nodes).prop_flat_map(move |n| {
            let shapes = prop::collection::vec(
                (20.0..200.0_f64, 15.0..90.0_f64, 0..5_usize, 0..5_usize)
                    .prop_map(|(w, h, i, o)| shape(w, h, i, o)),
                n,
            );
            let links = prop::collection::vec(
                (0..n, 0..6_usize, 0..n, 0..6_usize)
                    .prop_map(|(from, output, to, input)| link(from, output, to, input)),
                0..=links,
            );
            (shapes, links)
        })
    }

    proptest! {
        #[test]
        fn any_graph_is_laid_out((shapes, links) in graph(30, 60)) {
            check(&shapes, &links);
        }

        #[test]
        fn sparse_graphs_too((shapes, links) in graph(60, 30)) {
            check(&shapes, &links);
        }
    }

    /// Not a measurement: the bound is far above what it takes, and far below what an algorithm
    /// takes that explodes.
    #[test]
    fn large_graphs_are_laid_out_in_bounded_time() {
        let shapes = vec![shape(100.0, 40.0, 3, 3); 1000];
        let mut random = chance::Random(1);
        let mut random = |below: usize| random.below(below);
        let tangle: Vec<Link> =
            (0..3000).map(|_| link(random(1000), random(3), random(1000), random(3))).collect();
        let forward: Vec<Link> = (tangle.iter())
            .filter(|link| link.from != link.to)
            .map(|link| Link { from: link.from.min(link.to), to: link.from.max(link.to), ..*link })
            .collect();
        let chain: Vec<Link> = (0..999).map(|n| link(n, 0, n + 1, 0)).chain([link(999, 0, 0, 0)]).collect();
        for links in [tangle, chain, forward] {
            let begin = Instant::now();
            layout(&shapes, &links);
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
    }
}
