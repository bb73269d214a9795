//! A graph as a picture: for Graphviz, and as an SVG that needs no other program.
//!
//! A [`Picture`] is what is to be drawn and nothing more, so that whatever has boxes with ports can
//! be drawn. It is made from a [`Description`](crate::Description), and [`Figures`] are written
//! into it. The notation is Click's. Packets flow downwards; inputs are triangles at the upper edge
//! of a box, outputs are squares at the lower one; filled for push, open for pull, with a second
//! outline where the element is agnostic.
//!
//! | file | what it is |
//! |---|---|
//! | `depict` | from a description to a picture with figures |
//! | [`dot`](fn@dot) | the text for Graphviz |
//! | [`svg`](fn@svg) | the drawing |
//! | `sketch` | what is written in a box, and how large that makes it |
//! | `layout` | where boxes and lines go |

mod depict;
mod dot;
mod layout;
mod sketch;
mod svg;

pub use depict::Figures;
pub use dot::dot;
pub use svg::svg;

/// What is to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Stands above the drawing; may be empty.
    pub title: String,
    /// The boxes.
    pub nodes: Vec<PictureNode>,
    /// The lines. One that begins or ends at a box that does not exist is left out; one at a port
    /// that the box does not have ends in the middle of the box's edge.
    pub edges: Vec<PictureEdge>,
}

/// A box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PictureNode {
    /// The element's name, different from every other's.
    pub name: String,
    /// The element's class.
    pub class: String,
    /// Its configuration, without the outer parentheses. Shortened in the drawing, whole where the
    /// mouse rests.
    pub configuration: String,
    /// How each input works.
    pub inputs: Vec<Port>,
    /// How each output works.
    pub outputs: Vec<Port>,
    /// Lines in small type, such as "1.23 Mpps", "34 cycles/packet" or "dropped 12".
    pub notes: Vec<String>,
    /// How much the box stands out, from 0 to 1.
    pub heat: f64,
    /// What the box stands for.
    pub kind: Kind,
}

/// A line from an output to an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureEdge {
    /// The box that it begins at, an index into [`Picture::nodes`].
    pub from: usize,
    /// The output of that box.
    pub output: usize,
    /// The box that it ends at.
    pub to: usize,
    /// The input of that box.
    pub input: usize,
    /// Stands where the line begins.
    pub label: Option<String>,
    /// The lower end asks for packets.
    pub pull: bool,
}

/// How an input or output works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The lower element asks for packets; otherwise the upper one hands them on.
    pub pull: bool,
    /// The element would do either; `pull` is what its neighbours made of it.
    pub agnostic: bool,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// An element.
    #[default]
    Element,
    /// A way around the graph: packets that the network card's driver forwards itself.
    Lane,
}

impl PictureNode {
    /// Whether the name says more than the class: not for `Counter@3`, whose name was made up.
    fn is_named(&self) -> bool {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        let made_up = last
            .strip_prefix(self.class.as_str())
            .and_then(|rest| rest.strip_prefix('@'))
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        !made_up && self.name != self.class
    }

    /// The element as Click writes its declaration.
    fn declaration(&self) -> String {
        if self.configuration.is_empty() {
            format!("{} :: {}", self.name, self.class)
        } else {
            format!("{} :: {}({})", self.name, self.class, self.configuration)
        }
    }
}
