//! Examples of elements, as texts that are shown with their documentation and run as tests. Their
//! form is described in `forwarding/elements/examples/README.md`.

use graph::reference::Example;

/// The files: the class that each is about, and its text.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// The examples of a class.
pub fn of(class: &str) -> Vec<Example<'static>> {
    all().into_iter().filter(|example| example.class == class).collect()
}

/// All examples, by class.
pub fn all() -> Vec<Example<'static>> {
    FILES.iter().flat_map(|&(class, text)| split(class, text)).collect()
}

/// What stands in a file from each `example:` to the next.
fn split<'a>(class: &'a str, text: &'a str) -> impl Iterator<Item = Example<'a>> {
    let begins =
        text.match_indices("example: ").map(|(at, _)| at).filter(|&at| at == 0 || text[..at].ends_with('\n'));
    let begins: Vec<usize> = begins.chain([text.len()]).collect();
    let pieces: Vec<&str> = begins.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
    pieces.into_iter().map(move |piece| {
        let (title, text) = piece.split_once('\n').unwrap_or((piece, ""));
        Example { class, title: title.trim_start_matches("example:").trim(), text: text.trim_end() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_of_a_class() {
        for (name, _) in FILES {
            let known = crate::CLASSES.iter().copied().flatten().any(|class| class.name == *name);
            assert!(known, "examples/{name}.txt: there is no element {name}");
        }
        assert_eq!(of("NoSuchElement"), []);
    }

    #[test]
    fn a_file_is_split_into_its_examples() {
        let text = "# about\n\nexample: one\nelement: A(example: x)\n\nexample: two\nprogram:\n  B;\n";
        let examples: Vec<Example<'_>> = split("A", text).collect();
        assert_eq!(
            examples,
            [
                Example { class: "A", title: "one", text: "element: A(example: x)" },
                Example { class: "A", title: "two", text: "program:\n  B;" },
            ]
        );
        assert_eq!(split("A", "nothing").count(), 0);
    }
}
