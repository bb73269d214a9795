//! The pages that a user reads: their links lead somewhere, the commands that they show exist, the
//! index has all of them, and their lines have a width that a terminal shows. So have comments of
//! the source.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages at the root of the source. The others are those of docs/.
const ROOT_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

const COLUMNS: usize = 100;

/// Commands whose words are another program's to explain, and the one that explains.
const WITHOUT_OPTIONS: [&str; 4] = ["tcpdump", "extcap", "click", "help"];

fn house() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

struct Page {
    /// From the root of the source: `docs/nat.md`.
    name: String,
    text: String,
}

/// A line of a page, or a part of one.
struct Piece<'a> {
    line: usize,
    text: &'a str,
}

impl Page {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(house().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), text }
    }

    fn folder(&self) -> &Path {
        Path::new(&self.name).parent().unwrap()
    }

    /// Lines of prose, or of code between fences.
    fn lines(&self, of_code: bool) -> Vec<Piece<'_>> {
        let mut inside = false;
        let mut lines = Vec::new();
        for (number, text) in self.text.lines().enumerate() {
            if text.trim_start().starts_with("```") {
                inside = !inside;
            } else if inside == of_code {
                lines.push(Piece { line: number + 1, text });
            }
        }
        assert!(!inside, "{}: a fence is not closed", self.name);
        lines
    }

    /// What stands in prose between backticks, and all lines of code.
    fn code(&self) -> Vec<Piece<'_>> {
        let mut code = self.lines(true);
        for Piece { line, text } in self.lines(false) {
            code.extend(text.split('`').skip(1).step_by(2).map(|text| Piece { line, text }));
        }
        code
    }

    /// What its links lead to, as written.
    fn links(&self) -> Vec<Piece<'_>> {
        let mut links = Vec::new();
        for Piece { line, text } in self.lines(false) {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.map(|text| Piece { line, text }));
        }
        links
    }

    /// The anchors of its headings, by the rules of GitHub and mdBook.
    fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for heading in self.lines(false).iter().filter(|line| line.text.starts_with('#')) {
            let words = heading.text.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            let anchor = kept.collect::<String>().replace(' ', "-");
            let again = (1..).map(|number| format!("{anchor}-{number}"));
            let free = std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
            anchors.extend(free);
        }
        anchors
    }
}

fn pages_of_docs() -> Vec<String> {
    let files = fs::read_dir(house().join("docs")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    pages
}

fn pages() -> Vec<Page> {
    let docs = pages_of_docs().into_iter().map(|name| format!("docs/{name}"));
    let pages: Vec<Page> =
        ROOT_PAGES.map(str::to_owned).into_iter().chain(docs).map(|name| Page::read(&name)).collect();
    assert!(pages.len() > 15, "{}", pages.len());
    pages
}

/// docs/ is installed, and made into a site, without the rest of the source: its links stay inside.
#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    let mut seen = 0;
    for page in pages().into_iter().chain([Page::read("ARCHITECTURE.md")]) {
        for Piece { line, text: link } in page.links() {
            seen += 1;
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = match file {
                "" => page.name.clone(),
                file => page.folder().join(file).to_str().unwrap().to_owned(),
            };
            let leaves = page.name.starts_with("docs/") && file.contains("..");
            let there = house().join(&target).exists();
            let marked = anchor.is_none_or(|anchor| there && Page::read(&target).anchors().contains(anchor));
            if leaves || !there || !marked {
                dead.push(format!("{}:{line}: {link}", page.name));
            }
        }
    }
    assert!(seen > 60, "{seen}");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Whether what stands behind this command cannot be asked of its help.
fn has_no_options(path: &[String]) -> bool {
    path.first().is_some_and(|name| WITHOUT_OPTIONS.contains(&name.as_str()))
}

/// The program's commands, asked of its help as they are met.
#[derive(Default)]
struct Commands {
    helps: HashMap<Vec<String>, String>,
}

impl Commands {
    fn help(&mut self, path: &[String]) -> &str {
        self.helps.entry(path.to_vec()).or_insert_with(|| {
            let output =
                Command::new(env!("CARGO_BIN_EXE_bifrost")).args(path).arg("--help").output().unwrap();
            assert!(output.status.success(), "bifrost {path:?} --help");
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// The one command below `path` that `word` names, whole, by an alias, or shortened.
    fn below(&mut self, path: &[String], word: &str) -> Option<String> {
        let help = self.help(path);
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let mut shortened = Vec::new();
        for line in listed.take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            let aliases = line.split_once("[alias: ").or_else(|| line.split_once("[aliases: "));
            let mut aliases = aliases.map_or("", |(_, rest)| rest.trim_end_matches(']')).split(", ");
            if name == word || aliases.any(|alias| alias == word) {
                return Some(name.to_owned());
            }
            shortened.extend(name.starts_with(word).then(|| name.to_owned()));
        }
        (shortened.len() == 1).then(|| shortened.remove(0))
    }

    /// Whether `path` is nothing without a further command.
    fn is_incomplete(&mut self, path: &[String]) -> bool {
        self.help(path).lines().any(|line| line.starts_with("Usage:") && line.contains("<COMMAND>"))
    }

    /// What is wrong with the words that stand behind `bifrost`.
    fn mistake(&mut self, words: &[&str]) -> Option<String> {
        let mut path: Vec<String> = Vec::new();
        for word in words {
            // PLACEHOLDERS, comments, options and what is optional are no commands.
            let is_name = word.starts_with(|letter: char| letter.is_ascii_lowercase());
            if !is_name || has_no_options(&path) {
                break;
            }
            match self.below(&path, word) {
                Some(name) => path.push(name),
                None if self.is_incomplete(&path) => return Some(format!("no command {word}")),
                None => break,
            }
        }
        if has_no_options(&path) || self.is_incomplete(&path) {
            return None;
        }
        let help = self.help(&path).to_owned();
        let names = words.iter().filter_map(|word| {
            let end = word.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            let name = &word[..end.unwrap_or(word.len())];
            (name.starts_with("--") && name.len() > 2).then_some(name)
        });
        let unknown = names.into_iter().find(|name| !help.contains(*name));
        unknown.map(|name| format!("bifrost {} has no option {name}", path.join(" ")))
    }
}

#[test]
fn commands_exist() {
    let mut commands = Commands::default();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for Piece { line, text } in page.code() {
            // What another program, a comment or a shell's list makes of the rest is not ours.
            let own = text.split(" # ").next().unwrap().split(" | ").next().unwrap();
            let words: Vec<&str> =
                own.split_whitespace().map(|word| word.trim_matches(['[', ']', ','])).collect();
            let ours = words.iter().position(|word| *word == "bifrost" || word.ends_with("/bifrost"));
            // In `systemctl restart bifrost` and the like it is a service's name, and the last
            // word.
            let Some(at) = ours.filter(|at| at + 1 < words.len()) else { continue };
            seen += 1;
            if let Some(mistake) = commands.mistake(&words[at + 1..]) {
                wrong.push(format!("{}:{line}: {text}: {mistake}", page.name));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `make docs` makes a site of what the index names, and of nothing else.
#[test]
fn the_index_has_every_page() {
    let index = Page::read("docs/SUMMARY.md");
    let mut named: Vec<String> = index.links().iter().map(|link| link.text.to_owned()).collect();
    named.sort();
    let mut there = pages_of_docs();
    there.retain(|name| name != "SUMMARY.md");
    assert_eq!(named, there);
    for entry in index.text.lines().filter(|line| line.contains("](")) {
        let said = entry.split_once("): ").is_some_and(|(_, said)| said.len() > 10);
        assert!(said, "the index does not say what this page is about: {entry}");
    }
    assert!(fs::read_to_string(house().join("book.toml")).unwrap().contains("src = \"docs\""));
}

/// Files of the source with one of these extensions, without what is built, from its root.
fn sources(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(house().join(&folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            let is_source = !name.starts_with('.') && name != "target";
            if is_source && entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|is| extensions.iter().any(|wanted| is == *wanted)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn lines_fit_a_terminal() {
    let mut long = Vec::new();
    let nested = sources(&["md"]).into_iter().filter(|path| path.ends_with("README.md"));
    let nested = nested.map(|path| Page::read(path.to_str().unwrap()));
    for page in pages().into_iter().chain(nested) {
        for Piece { line, text } in page.lines(false).into_iter().chain(page.lines(true)) {
            let is_table = text.starts_with('|');
            if !is_table && text.chars().count() > COLUMNS {
                long.push(format!("{}:{line}", page.name));
            }
        }
    }
    assert!(long.is_empty(), "lines of more than {COLUMNS} columns: {long:#?}");
}

/// Tables, drawings between fences, and the usage of elements have lines that cannot be broken.
#[test]
fn comments_fit_a_terminal() {
    let (mut long, mut seen) = (Vec::new(), 0);
    for path in sources(&["rs", "c", "h"]) {
        let text = fs::read_to_string(house().join(&path)).unwrap();
        let is_c = path.extension().is_some_and(|is| is != "rs");
        let (mut fenced, mut in_block) = (false, false);
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let opens = is_c && code.starts_with("/*");
            if !code.starts_with("//") && !opens && !in_block {
                fenced = false;
                continue;
            }
            in_block = (opens || in_block) && !code.contains("*/");
            seen += 1;
            let said = code.trim_start_matches(['/', '!', '*']).trim_start();
            let is_fence = said.starts_with("```");
            fenced ^= is_fence;
            let is_whole = fenced || is_fence || said.starts_with('|') || said.starts_with("Usage: ");
            if !is_whole && line.chars().count() > COLUMNS {
                long.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(seen > 10_000, "{seen}");
    assert!(long.is_empty(), "comments of more than {COLUMNS} columns: {long:#?}");
}
