//! See [the library](crate).

mod script;

use graph::Class;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[&script::DRIVER_MANAGER, &script::SCRIPT];
