//! Examples of elements, as texts that are shown with their documentation and run as tests. Their form is described in
//! `elements/examples/README.md`.

/// All of them: the class that each is about, and its text.
pub const ALL: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// The examples of a class.
pub fn of(class: &str) -> Option<&'static str> {
    ALL.iter().find(|(name, _)| *name == class).map(|&(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_of_a_class() {
        for (name, _) in ALL {
            let known = crate::CLASSES.iter().copied().flatten().any(|class| class.name == *name);
            assert!(known, "examples/{name}.txt: there is no element {name}");
        }
        assert_eq!(of("NoSuchElement"), None);
    }
}
