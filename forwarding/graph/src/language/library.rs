//! Texts that require others: `require(library elements.click)`.

use super::parser::parse;
use super::report::{Report, Texts};
use super::tree::{MAX_NESTING, Saying, Tree};

/// Finds a library: given its name as required and the name of the text that requires it, a name to
/// know it by, and its text; or why there is none.
pub type FindLibrary<'a> = dyn FnMut(&str, &str) -> Result<(String, String), String> + 'a;

/// Like [`parse`], and reads the libraries that the text requires, and those that these require,
/// each in the place where it is required first. Where it is required again, it is there already.
pub fn parse_with_libraries(
    texts: &mut Texts,
    text: u32,
    find: &mut FindLibrary<'_>,
    report: &mut Report,
) -> Tree {
    read(texts, text, find, &mut vec![texts.name(text).to_owned()], 0, report)
}

fn read(
    texts: &mut Texts,
    text: u32,
    find: &mut FindLibrary<'_>,
    known: &mut Vec<String>,
    depth: usize,
    report: &mut Report,
) -> Tree {
    let mut tree = parse(texts, text, report);
    let requirements = tree.statements.iter_mut().filter_map(|statement| match &mut statement.what {
        Saying::Require(_, requirements) => Some(requirements),
        _ => None,
    });
    for requirement in requirements.flatten().filter(|requirement| requirement.kind == "library") {
        if depth + 1 >= MAX_NESTING {
            report.error(Some(requirement.at), "libraries require each other too deep");
            continue;
        }
        match find(&requirement.value, texts.name(text)) {
            Ok((name, _)) if known.contains(&name) => {}
            Ok((name, source)) => {
                known.push(name.clone());
                let library = texts.add(&name, &source);
                let tree = read(texts, library, find, known, depth + 1, report);
                requirement.library = Some(Box::new(tree));
            }
            Err(why) => report.error(Some(requirement.at), why),
        }
    }
    tree
}
