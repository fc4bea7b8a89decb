//! The HTML page around a report: one file that fetches nothing and runs nothing.

use maud::{Markup, PreEscaped, html};

/// A whole page with a headline and a sentence below it.
pub fn page(title: &str, lead: &str, body: Markup) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(forebay_picture::STYLE)) (PreEscaped(include_str!("style.css"))) }
            }
            body {
                main {
                    header {
                        h1 { (title) }
                        p class="lead" { (lead) }
                    }
                    (body)
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// A section with a heading.
pub fn section(heading: &str, body: Markup) -> Markup {
    html! { section { h2 { (heading) } (body) } }
}

/// A paragraph of plain text.
pub(crate) fn paragraph(text: &str) -> Markup {
    html! { p { (text) } }
}

/// A folded block, of which only the summary shows at first.
pub fn details(summary: &str, body: Markup) -> Markup {
    html! { details { summary { (summary) } (body) } }
}

/// A figure of adjacent panels, each with its name and an SVG picture, above a folded table.
pub(crate) fn figure(
    class: &str,
    panels: impl IntoIterator<Item = (String, String)>,
    caption: &str,
    table: Markup,
) -> Markup {
    html! {
        figure {
            div class=(class) {
                @for (name, svg) in panels { div { h3 { (name) } (PreEscaped(svg)) } }
            }
            figcaption { (caption) }
            (details("The figures behind this picture", table))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "<script>\"&";
        let nothing = || html! {};
        for html in [
            page(hostile, hostile, nothing()),
            section(hostile, nothing()).into_string(),
            details(hostile, nothing()).into_string(),
        ] {
            assert!(
                html.contains("&lt;script&gt;&quot;&amp;") && !html.contains("<script>"),
                "{html}"
            );
        }
    }
}
