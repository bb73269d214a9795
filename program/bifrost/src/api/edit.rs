//! What a request makes of the running configuration. Its comments and its order stay.

use candidate::{Document, EditError, Path, Spot, Tree, Word};
use config::schema::{Shape, What};
use serde_json::Value;

use super::problem::{Kind, Problem};

/// A change of a configuration.
pub(super) enum Edit {
    /// It becomes this text.
    Whole(String),
    /// A merge patch (RFC 7396).
    Merge(Value),
    /// Set-lines.
    Lines(String),
    /// What stands at a place becomes this.
    Put(Vec<String>, Value),
    /// What stands at a place goes.
    Delete(Vec<String>),
}

/// What became of it.
pub(super) struct Edited {
    pub text: String,
    /// Whether it made something that was not there.
    pub made: bool,
}

impl Edit {
    /// The running configuration, changed.
    pub fn of(&self, raw: &str) -> Result<Edited, Problem> {
        if let Edit::Whole(text) = self {
            return Ok(Edited { text: text.clone(), made: false });
        }
        let mut document = Document::parse(raw).map_err(wrong)?;
        let before = document.tree();
        let mut tree = before.clone();
        let mut made = false;
        match self {
            Edit::Whole(_) => {}
            Edit::Merge(patch) => {
                if !patch.is_object() {
                    return Err(Kind::Malformed.because("a merge patch of a configuration is an object"));
                }
                tree.merge(patch).map_err(|error| Kind::Malformed.because(error.to_string()))?;
            }
            Edit::Lines(lines) => {
                for (number, line) in (1..).zip(lines.lines()) {
                    tree.run(line).map_err(|error| wrong(error).at(format_args!("line {number}")))?;
                }
            }
            Edit::Put(path, value) => made = put(&mut tree, path, value)?,
            Edit::Delete(path) => delete(&mut tree, path)?,
        }
        tree.uncover(&before);
        document.be(&tree).map_err(wrong)?;
        Ok(Edited { text: document.text().to_owned(), made })
    }
}

fn wrong(error: EditError) -> Problem {
    match error {
        EditError::Absent(_) => Kind::Absent.because(error.to_string()),
        EditError::Toml(_) => Kind::Malformed.because(error.to_string()),
        error => Kind::Wrong.because(error.to_string()).cure("GET /v1/openapi.json tells the keys"),
    }
}

/// Where a path leads; besides a rule's name, if it leads into rules.
pub(super) fn place(path: &[String]) -> Result<(Path, Option<&str>), Problem> {
    let words: Vec<Word> =
        path.iter().map(|part| Word { text: part.clone(), quoted: true, at: 0..0 }).collect();
    let found = Path::follow(&words).map_err(|error| Kind::Absent.because(error.to_string()))?;
    let rest = &path[found.used..];
    match (rest, found.spot) {
        ([], _) => Ok((found, None)),
        ([name], Spot::Value(Shape::Lines(What::Rule))) => Ok((found, Some(name))),
        _ => {
            let above = path[..found.used].join("/");
            Err(Kind::Absent.because(format!("/v1/config/{above} is a value: there is nothing below it")))
        }
    }
}

/// What stands at a place.
pub(super) fn at(tree: &Tree, path: &[String]) -> Result<Value, Problem> {
    let absent = || Kind::Absent.because(format!("there is no {}", path.join("/")));
    let (place, rule) = place(path)?;
    let found = tree.at(&place).ok_or_else(absent)?;
    match rule {
        None => Ok(found.json()),
        Some(name) => {
            let lines = found.text().ok_or_else(absent)?;
            let at = rule_of(lines, name).ok_or_else(absent)?;
            Ok(lines.lines().nth(at).unwrap_or_default().trim().into())
        }
    }
}

fn put(tree: &mut Tree, path: &[String], value: &Value) -> Result<bool, Problem> {
    let (place, rule) = place(path)?;
    let mut value = Tree::of_json(value).map_err(|error| Kind::Malformed.because(error.to_string()))?;
    let mut was = tree.at(&place).is_some();
    if let Some(name) = rule {
        let rule = value.text().filter(|rule| !rule.trim().is_empty() && !rule.contains('\n'));
        let rule = rule.ok_or_else(|| Kind::Malformed.because("a rule is a text of one line"))?.trim();
        let rule = match rule_of(rule, name) {
            Some(_) => rule.to_owned(),
            None if rule.split_whitespace().any(|word| word == "name") => {
                return Err(Kind::Malformed.because(format!("the rule has another name than {name}")));
            }
            None => format!("{rule} name {name}"),
        };
        let mut lines = rules_at(tree, &place)?;
        let at = rule_of(&lines.join("\n"), name);
        was = at.is_some();
        match at {
            Some(at) => lines[at] = rule,
            None => lines.push(rule),
        }
        value = Tree::Text(lines.join("\n") + "\n");
    }
    // A secret that was not seen stays: it is put back where the document is made.
    tree.put(&place, value).map_err(wrong)?;
    Ok(!was)
}

fn delete(tree: &mut Tree, path: &[String]) -> Result<(), Problem> {
    let (place, rule) = place(path)?;
    let absent = || Kind::Absent.because(format!("there is no {}", path.join("/")));
    if let Some(name) = rule {
        let mut lines = rules_at(tree, &place)?;
        lines.remove(rule_of(&lines.join("\n"), name).ok_or_else(absent)?);
        if !lines.is_empty() {
            return tree.put(&place, Tree::Text(lines.join("\n") + "\n")).map(drop).map_err(wrong);
        }
    }
    if path.is_empty() {
        return Err(Kind::Malformed.because("say what: the configuration itself cannot be removed"));
    }
    tree.remove(&place).then_some(()).ok_or_else(absent)
}

/// The rules that stand there, a line each.
fn rules_at(tree: &Tree, place: &Path) -> Result<Vec<String>, Problem> {
    match tree.at(place) {
        None => Ok(Vec::new()),
        Some(Tree::Text(text)) => Ok(text.lines().map(str::to_owned).collect()),
        Some(_) => Err(Kind::Conflict
            .because("these rules are a list of texts: a rule of it cannot be told by its name")
            .cure("PUT all of them as one text")),
    }
}

/// The line of the rule that has this name.
fn rule_of(lines: &str, name: &str) -> Option<usize> {
    lines.lines().position(|line| {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        words.windows(2).any(|pair| pair[0] == "name" && pair[1].trim_matches('"') == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RAW: &str = "# mine\n[[port]]\nname = \"eth0\"\n\n[paths]\nkey = \"0123456789\"\n\n# to the lab\n[[route]]\n\
                       to = \"10.0.0.0/8\"\nvia = \"192.0.2.1\" # gw\n\n[filter.forward]\nrules = \"\"\"\n\
                       accept tcp port 80 name web\n# why\ndrop\n\"\"\"\n";

    fn path(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn edit(edit: Edit) -> Result<String, String> {
        edit.of(RAW).map(|edited| edited.text).map_err(|problem| problem.detail)
    }

    #[test]
    fn an_edit_keeps_comments_order_and_secrets() {
        let put = |at: &str, value: Value| edit(Edit::Put(path(at), value));
        let text = put("route 10.0.0.0/8", json!({"to": "10.0.0.0/8", "via": "192.0.2.1"})).unwrap();
        assert_eq!(text, RAW, "what says the same changes nothing");
        let text = put("route 10.1.0.0/16", json!({"via": "192.0.2.2"})).unwrap();
        assert_eq!(text.replace("[[route]]\nto = \"10.1.0.0/16\"\nvia = \"192.0.2.2\"\n\n", ""), RAW);
        let text = put("paths", json!({"key": "***"})).unwrap();
        assert_eq!(text, RAW, "a secret that was not seen stays");
        let text = put("filter forward rules web", json!("accept tcp port 443")).unwrap();
        assert_eq!(text, RAW.replace("port 80", "port 443"));
        let text = put("filter forward rules ssh", json!("accept tcp port 22 name ssh")).unwrap();
        assert_eq!(text, RAW.replace("drop\n", "drop\naccept tcp port 22 name ssh\n"));
        assert_eq!(
            edit(Edit::Delete(path("filter forward rules web"))).unwrap(),
            RAW.replace("accept tcp port 80 name web\n", "")
        );
        let merged = edit(Edit::Merge(json!({"route": null, "police": {"icmp": {"rate": 5}}}))).unwrap();
        assert!(
            merged.contains("[police]\nicmp = { rate = 5 }\n") && !merged.contains("10.0.0.0"),
            "{merged}"
        );
        let lines = "# a comment\n\nset route 10.0.0.0/8 metric 5\ndelete paths\n";
        let text = edit(Edit::Lines(lines.to_owned())).unwrap();
        assert!(
            text.contains("via = \"192.0.2.1\" # gw\nmetric = 5\n") && !text.contains("[paths]"),
            "{text}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (wrong, message) in [
            (Edit::Put(path("route 10.0.0.0/8"), json!({"to": "10.0.0.0/9"})), "in the path"),
            (Edit::Put(path("rout 10.0.0.0/8"), json!({})), "did you mean \"route\""),
            (Edit::Put(path("paths key x"), json!("y")), "nothing below it"),
            (Edit::Put(path("paths"), json!({"key": null})), "/key: null"),
            (Edit::Put(path("filter forward rules web"), json!("drop name other")), "another name"),
            (Edit::Put(path("route #3"), json!({})), "the next one is #1"),
            (Edit::Delete(path("route 10.9.0.0/16")), "there is no route/10.9.0.0/16"),
            (Edit::Delete(path("filter forward rules ssh")), "there is no"),
            (Edit::Lines("set paths key a\nset paths kye b\n".into()), "line 2: "),
            (Edit::Merge(json!([])), "is an object"),
        ] {
            let refused = edit(wrong).unwrap_err();
            assert!(refused.contains(message), "{refused}");
        }
        let tree = Document::parse(RAW).unwrap().tree();
        assert_eq!(
            at(&tree, &path("filter forward rules web")).ok(),
            Some(json!("accept tcp port 80 name web"))
        );
        assert_eq!(at(&tree, &path("route 10.0.0.0/8 via")).ok(), Some(json!("192.0.2.1")));
        assert!(at(&tree, &path("route 10.0.0.0/9")).is_err() && at(&tree, &path("ro")).is_err());
    }
}
