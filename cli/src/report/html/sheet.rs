//! The page as it grows: its sections, the charts that are to be drawn, headings in order.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::words;

/// A page under way.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Goes before each identifier, so that several results can stand on one page.
    prefix: String,
    /// Headings of results begin with this level.
    level: u8,
    charts: serde_json::Map<String, Value>,
    sections: Vec<(String, String)>,
}

/// A picture, what it says, and its figures.
pub(super) struct Figure {
    /// Its name on the page.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) title: String,
    /// The main finding, in words.
    pub(super) finding: String,
    /// Height in pixels.
    pub(super) height: u32,
    /// What plotly draws; nothing is shown of a figure without any.
    pub(super) traces: Vec<Value>,
    /// How plotly lays it out.
    pub(super) layout: Value,
    /// Heads and rows of the same figures.
    pub(super) data: (Vec<&'static str>, Vec<Vec<String>>),
}

impl Sheet {
    pub(super) fn new() -> Self {
        Self { level: 1, ..Self::default() }
    }

    /// From here on the parts of another result come, below a heading of the page.
    pub(super) fn begin(&mut self, number: usize, title: &str) -> String {
        self.prefix = format!("r{number}-");
        self.level = 2;
        let id = format!("r{number}");
        self.sections.push((id.clone(), title.to_owned()));
        id
    }

    /// The sections so far: identifiers and titles.
    pub(super) fn sections(&self) -> &[(String, String)] {
        &self.sections
    }

    /// The heading of a result.
    pub(super) fn title(&self, text: &str) -> Markup {
        heading(self.level, text)
    }

    /// A section of a result; nothing if it is empty.
    pub(super) fn section(&mut self, id: &str, title: &str, body: &Markup) -> Markup {
        if body.0.is_empty() {
            return html! {};
        }
        let id = format!("{}{id}", self.prefix);
        if self.level == 1 {
            self.sections.push((id.clone(), title.to_owned()));
        }
        html! {
            section #(id) aria-label=(title) {
                (heading(self.level + 1, title))
                (body)
            }
        }
    }

    /// The heading of a part of a section.
    pub(super) fn part(&self, title: &str) -> Markup {
        heading(self.level + 2, title)
    }

    /// A picture; nothing if it has nothing to show.
    pub(super) fn figure(&mut self, figure: Figure) -> Markup {
        if figure.traces.is_empty() {
            return html! {};
        }
        let id = format!("{}{}", self.prefix, figure.id);
        let said = format!("Chart: {}. {}", figure.title, figure.finding);
        let heading = self.part(&figure.title);
        let spec = serde_json::json!({ "data": figure.traces, "layout": figure.layout });
        self.charts.insert(id.clone(), spec);
        let (head, rows) = &figure.data;
        html! {
            figure {
                (heading)
                div.chart role="img" aria-label=(said) data-chart=(id) data-height=(figure.height)
                    style={ "height:" (figure.height) "px" } {
                    p.wait { "The chart needs JavaScript; its figures stand below." }
                }
                figcaption { (figure.finding) }
                @if !rows.is_empty() {
                    details {
                        summary { "Figures of this chart" }
                        (words::table("", head, rows))
                    }
                }
            }
        }
    }

    /// The charts as JSON that may stand in markup.
    pub(super) fn charts_json(&self) -> String {
        in_markup(&Value::Object(self.charts.clone()).to_string())
    }
}

/// JSON without letters that end a script or a line of one.
fn in_markup(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

fn heading(level: u8, text: &str) -> Markup {
    let level = level.clamp(1, 6);
    // A digit is nothing that could be misread.
    html! {
        (PreEscaped(format!("<h{level}>"))) (text) (PreEscaped(format!("</h{level}>")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_that_it_stands_in() {
        let hostile = serde_json::json!({ "a": "</script><!-- & \u{2028}\u{2029}" }).to_string();
        let safe = in_markup(&hostile);
        assert!(safe.is_ascii() && !safe.contains(['<', '>', '&']), "{safe}");
        let read: Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read["a"], "</script><!-- & \u{2028}\u{2029}");
    }

    #[test]
    fn a_figure_without_traces_is_nothing() {
        let mut sheet = Sheet::new();
        let figure = Figure {
            id: "x",
            title: String::new(),
            finding: String::new(),
            height: 1,
            traces: Vec::new(),
            layout: Value::Null,
            data: (Vec::new(), Vec::new()),
        };
        assert!(sheet.figure(figure).0.is_empty());
        assert!(sheet.section("s", "S", &html! {}).0.is_empty());
        assert_eq!(sheet.charts_json(), "{}");
    }
}
