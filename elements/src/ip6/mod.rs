//! See [the library](crate).

use graph::Class;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[];
