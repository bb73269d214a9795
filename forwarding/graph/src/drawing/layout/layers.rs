//! Which layer each box is in.

use super::Link;

/// The layer of each box, and which links lead upwards.
pub(super) struct Layers {
    /// By box; 0 is at the top, none between is empty.
    pub layer: Vec<usize>,
    /// By link: it closes a cycle, and ends in its own layer or above.
    pub back: Vec<bool>,
}

/// Layers by the longest path from a source. Links that close a cycle, found by walking depth first
/// from the sources, have no say in it.
pub(super) fn layers(nodes: usize, links: &[Link]) -> Layers {
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut sources = vec![true; nodes];
    for (number, link) in links.iter().enumerate() {
        outgoing[link.from].push(number);
        if link.from != link.to {
            sources[link.to] = false;
        }
    }
    for list in &mut outgoing {
        list.sort_by_key(|number| links[*number].output);
    }
    let (back, downwards) = walk(&outgoing, &sources, links);

    let mut layer = vec![0; nodes];
    for node in &downwards {
        for link in outgoing[*node].iter().filter(|number| !back[**number]).map(|number| &links[*number]) {
            layer[link.to] = layer[link.to].max(layer[*node] + 1);
        }
    }
    // A source that joins far below would otherwise stand at the top, at the end of a long line.
    let mut incoming = vec![0; nodes];
    for (link, _) in links.iter().zip(&back).filter(|(_, back)| !**back) {
        incoming[link.to] += 1;
    }
    for node in downwards.iter().rev() {
        let below =
            || outgoing[*node].iter().filter(|number| !back[**number]).map(|number| layer[links[*number].to]);
        if below().count() > incoming[*node]
            && let Some(nearest) = below().min()
        {
            layer[*node] = nearest - 1;
        }
    }
    Layers { layer, back }
}

/// Which links close a cycle, and the boxes in an order in which all other links lead onwards.
fn walk(outgoing: &[Vec<usize>], sources: &[bool], links: &[Link]) -> (Vec<bool>, Vec<usize>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Not,
        Open,
        Done,
    }
    let mut back = vec![false; links.len()];
    let mut done = Vec::with_capacity(outgoing.len());
    let mut visit = vec![Visit::Not; outgoing.len()];
    let (first, rest): (Vec<usize>, Vec<usize>) = (0..outgoing.len()).partition(|node| sources[*node]);
    for start in first.into_iter().chain(rest) {
        if visit[start] != Visit::Not {
            continue;
        }
        visit[start] = Visit::Open;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(number) = outgoing[*node].get(*next) else {
                visit[*node] = Visit::Done;
                done.push(*node);
                path.pop();
                continue;
            };
            *next += 1;
            let to = links[*number].to;
            match visit[to] {
                Visit::Not => {
                    visit[to] = Visit::Open;
                    path.push((to, 0));
                }
                Visit::Open => back[*number] = true,
                Visit::Done => {}
            }
        }
    }
    done.reverse();
    (back, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: usize, pairs: &[(usize, usize)]) -> Layers {
        let links: Vec<Link> =
            pairs.iter().map(|(from, to)| Link { from: *from, output: 0, to: *to, input: 0 }).collect();
        layers(nodes, &links)
    }

    #[test]
    fn the_longest_path_counts() {
        assert_eq!(of(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]).layer, [0, 1, 2, 3]);
    }

    #[test]
    fn a_source_stands_above_what_it_feeds() {
        assert_eq!(of(5, &[(0, 1), (1, 2), (2, 3), (4, 3)]).layer, [0, 1, 2, 3, 2]);
    }

    #[test]
    fn cycles_are_cut_once() {
        let layers = of(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]);
        assert_eq!(layers.back, [false, false, true, false, true]);
        assert_eq!(layers.layer, [0, 1, 2, 3]);
        assert_eq!(of(2, &[(0, 1), (1, 0)]).back, [false, true]);
    }
}
