//! Every element is documented, in the form that the reference is made from.

use std::collections::BTreeSet;

use elements::CLASSES;
use graph::Class;
use graph::reference::{self, Page};

fn classes() -> impl Iterator<Item = &'static Class> {
    CLASSES.iter().copied().flatten().copied()
}

#[test]
fn every_element_has_a_page_in_the_form() {
    let mistakes: Vec<String> = classes()
        .filter_map(|class| Some((class, Page::parse(class.source, class.name).err()?)))
        .flat_map(|(class, mistakes)| {
            mistakes.into_iter().map(|mistake| format!("{}: {mistake}", class.name))
        })
        .collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn groups_are_the_folders() {
    let mut seen = BTreeSet::new();
    for folder in CLASSES {
        let pages = folder.iter().filter_map(|class| Page::parse(class.source, class.name).ok());
        let groups: BTreeSet<String> = pages.map(|page| page.group).collect();
        assert_eq!(groups.len(), 1, "groups of one folder");
        let group = groups.into_iter().next().unwrap();
        assert!(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(&group).is_dir(),
            "{group}"
        );
        assert!(seen.insert(group), "two folders are one group");
    }
}

#[test]
fn links_lead_to_elements() {
    let names: BTreeSet<&str> = classes().map(|class| class.name).collect();
    let pages = classes().filter_map(|class| Page::parse(class.source, class.name).ok());
    let dead: Vec<String> = pages
        .flat_map(|page| page.links().into_iter().map(move |link| (page.class.clone(), link)))
        .filter(|(_, link)| !names.contains(link.as_str()))
        .map(|(class, link)| format!("{class}: there is no {link}"))
        .collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn every_page_of_a_file_is_of_a_class() {
    let names: BTreeSet<&str> = classes().map(|class| class.name).collect();
    let strays: BTreeSet<&str> = classes()
        .flat_map(|class| reference::classes(class.source))
        .filter(|name| !names.contains(name))
        .collect();
    assert!(strays.is_empty(), "documented, but in no list of classes: {strays:?}");
}
