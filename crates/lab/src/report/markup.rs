//! The HTML page around a report: one file that fetches nothing and runs nothing.

pub(crate) use forebay_picture::escape;

/// A whole page. `title` and `lead` are plain text, `body` is HTML.
pub(crate) fn page(title: &str, lead: &str, body: &str) -> String {
    let (title, lead) = (escape(title), escape(lead));
    let style = format!("{}{}", forebay_picture::STYLE, include_str!("style.css"));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{lead}</p>\n</header>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A section with a heading. `heading` is plain text, `body` is HTML.
pub(crate) fn section(heading: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escape(heading))
}

/// A paragraph of plain text.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// A folded block. `summary` is plain text, `body` is HTML.
pub(crate) fn details(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escape(summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "<script>\"&'";
        assert_eq!(escape(hostile), "&lt;script&gt;&quot;&amp;&#39;");
        for html in [page(hostile, hostile, ""), section(hostile, ""), details(hostile, "")] {
            assert!(!html.contains("<script>"), "{html}");
        }
    }
}
