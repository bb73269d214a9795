//! Two texts, line by line, as `diff -u` writes what differs.

use diffy::DiffOptions;

/// What differs, under these names; nothing for texts that are the same.
pub fn unified(names: [&str; 2], [before, after]: [&str; 2]) -> String {
    if before == after {
        return String::new();
    }
    let [from, to] = names.map(str::to_owned);
    let mut options = DiffOptions::new();
    options.set_original_filename(from).set_modified_filename(to);
    options.create_patch(before, after).to_string()
}

#[cfg(test)]
mod tests {
    use chance::Random;
    use diffy::{Patch, apply};

    use super::unified;

    #[test]
    fn it_makes_the_one_of_the_other() {
        let mut chance = Random(1);
        for _ in 0..1000 {
            let mut text = || {
                let lines = chance.below(30);
                let lines: Vec<_> = (0..lines).map(|line| (line / 2 + chance.below(3)).to_string()).collect();
                lines.join("\n") + chance.pick(&["", "\n"])
            };
            let (before, after) = (text(), text());
            let diff = unified(["before", "after"], [&before, &after]);
            let made = match diff.as_str() {
                "" => before.clone(),
                diff => apply(&before, &Patch::from_str(diff).unwrap()).unwrap(),
            };
            assert_eq!(made, after, "{before:?}\n{diff}");
        }
    }

    #[test]
    fn it_names_both() {
        assert_eq!(
            unified(["revision 2", "the file"], ["a\nb\n", "a\nc"]),
            "--- revision 2\n+++ the file\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
    }
}
