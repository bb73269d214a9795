//! All pages as one document that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Example, Item, Page, markdown};
use crate::markup::escape;

/// The reference of all elements as an HTML document: an index by group with a search box, and an
/// article for each page, in the order of the index. The anchor of an article is its class.
pub fn html(pages: &[Page], examples: &[Example<'_>]) -> String {
    let names: BTreeSet<&str> = pages.iter().map(|page| page.class.as_str()).collect();
    let mut groups: BTreeMap<&str, Vec<&Page>> = BTreeMap::new();
    for page in pages {
        groups.entry(&page.group).or_default().push(page);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|page| page.class.to_lowercase());
    }
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Bifrost elements</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<aside>\n<b>Bifrost elements</b>\n\
         <input type=\"search\" placeholder=\"Search ( / )\" aria-label=\"Search\">\n<nav>\n",
        include_str!("style.css")
    );
    for (group, pages) in &groups {
        let _ = writeln!(text, "<section><h2>{}</h2><ul>", escape(group));
        for page in pages {
            let class = escape(&page.class);
            let _ = writeln!(text, "<li><a href=\"#{class}\">{class}</a></li>");
        }
        text += "</ul></section>\n";
    }
    text += "</nav>\n</aside>\n<main>\n<p id=\"none\" hidden>No element has all of these words.</p>\n";
    for page in groups.values().flatten() {
        let of_page = examples.iter().filter(|example| example.class == page.class);
        article(&mut text, page, of_page, &names);
    }
    let _ = writeln!(text, "</main>\n<script>\n{}</script>\n</body>\n</html>", include_str!("search.js"));
    text
}

fn article<'a>(
    text: &mut String,
    page: &Page,
    examples: impl Iterator<Item = &'a Example<'a>>,
    names: &BTreeSet<&str>,
) {
    let class = escape(&page.class);
    let _ = writeln!(
        text,
        "<article id=\"{class}\">\n<header><span class=\"group\">{}</span><h2><a href=\"#{class}\">{class}</a></h2>\n\
         <p>{}</p></header>",
        escape(&page.group),
        inline(&page.summary, names)
    );
    let usage: Vec<String> = page.usage.iter().map(|usage| escape(usage)).collect();
    let _ = writeln!(
        text,
        "<pre class=\"usage\"><code>{}</code></pre>\n<p>{}</p>",
        usage.join("\n"),
        inline(&page.ports, names)
    );
    *text += &render(&page.prose, names);
    table(text, "Arguments", &page.arguments, names);
    table(text, "Handlers", &page.handlers, names);
    for (number, example) in examples.enumerate() {
        if number == 0 {
            *text += "<h3>Examples</h3>\n";
        }
        if !example.title.is_empty() {
            let _ = writeln!(text, "<p>{}</p>", escape(example.title));
        }
        let _ = writeln!(text, "<pre><code>{}</code></pre>", escape(example.text.trim_end()));
    }
    if !page.see_also.is_empty() {
        let links: Vec<String> =
            page.see_also.iter().map(|name| inline(&format!("[{name}]"), names)).collect();
        let _ = writeln!(text, "<h3>See also</h3>\n<p>{}</p>", links.join(", "));
    }
    *text += "</article>\n";
}

fn table(text: &mut String, title: &str, items: &[Item], names: &BTreeSet<&str>) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "<h3>{title}</h3>\n<table>");
    for item in items {
        let kind = if item.kind.is_empty() {
            String::new()
        } else {
            format!("<small>{}</small>", escape(&item.kind))
        };
        let (name, words) = (escape(&item.name), render(&item.text, names));
        let _ = writeln!(text, "<tr><th><code>{name}</code>{kind}</th><td>{words}</td></tr>");
    }
    *text += "</table>\n";
}

/// Markdown as HTML. `[Name]` is a link if there is a page of that name.
fn render(text: &str, names: &BTreeSet<&str>) -> String {
    let mut html = String::new();
    let link = |name: &str| names.contains(name).then(|| format!("#{name}"));
    pulldown_cmark::html::push_html(&mut html, markdown(text, link));
    html
}

/// A line of markdown, without the paragraph around it.
fn inline(text: &str, names: &BTreeSet<&str>) -> String {
    let html = render(text, names);
    let html = html.trim();
    html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>")).unwrap_or(html).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(class: &str, group: &str, prose: &str) -> Page {
        Page {
            class: class.into(),
            group: group.into(),
            summary: "does <something>".into(),
            usage: vec![format!("{class}(A < B)")],
            ports: "1 input; `push`".into(),
            prose: prose.into(),
            arguments: vec![Item { name: "A".into(), kind: "byte".into(), text: "an *argument*".into() }],
            see_also: vec!["Zebra".into(), "Missing".into()],
            ..Page::default()
        }
    }

    #[test]
    fn pages_and_index_by_group() {
        let pages = [
            page("Zebra", "animals", "Like a [horse], unlike [Ant]; <b>see</b> [Unknown] and `code`."),
            page("Fern", "plants", "Grows.\n\n```\na -> b\n```"),
            page("Ant", "animals", "Small."),
        ];
        let document = html(&pages, &[Example { class: "Ant", title: "A & B", text: "in: 00\n" }]);
        let place =
            |part: &str| document.find(part).unwrap_or_else(|| panic!("{part} is not in\n{document}"));
        let order = [
            "<h2>animals</h2><ul>\n<li><a href=\"#Ant\">Ant</a></li>\n<li><a href=\"#Zebra\">Zebra</a></li>",
            "<h2>plants</h2><ul>\n<li><a href=\"#Fern\">Fern</a></li>",
            "<article id=\"Ant\">",
            "<pre class=\"usage\"><code>Ant(A &lt; B)</code></pre>\n<p>1 input; <code>push</code></p>",
            "<tr><th><code>A</code><small>byte</small></th><td><p>an <em>argument</em></p>",
            "<h3>Examples</h3>\n<p>A &amp; B</p>\n<pre><code>in: 00</code></pre>",
            "<h3>See also</h3>\n<p><a href=\"#Zebra\">Zebra</a>, [Missing]</p>",
            "<article id=\"Zebra\">",
            "Like a [horse], unlike <a href=\"#Ant\">Ant</a>; &lt;b&gt;see&lt;/b&gt; [Unknown] and <code>code</code>.",
            "<article id=\"Fern\">",
            "<pre><code>a -&gt; b\n</code></pre>",
        ];
        assert!(order.map(place).is_sorted());
        assert_eq!(document.matches("Handlers").count(), 0);
        assert!(!document.contains("src=") && !document.contains("<link"), "needs another file");
    }
}
