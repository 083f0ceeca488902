//! `report.html`: results as one page that needs nothing but a browser, now and later.
//!
//! ```text
//! Kept ─► Seen (rows, histograms) ─► sections ─► Sheet ─► page
//!                                      └► charts as JSON, drawn by the script in the page
//! ```
//! What came from a server or a person is escaped where it is put into markup; every figure of a chart
//! stands in a table too.

mod charts;
mod facts;
mod frontier;
mod gpus;
mod latency;
mod legs;
mod over_time;
mod payload;
mod run;
mod search;
mod seen;
mod servers;
mod several;
mod sheet;
mod single;
mod sweep;
mod sweep_charts;
#[cfg(test)]
mod tests;
mod words;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::exit::Failure;
use crate::output::Screen;
use crate::results::{Kept, ResultDir, What};
use sheet::Sheet;

/// The file of the page.
pub(crate) const REPORT: &str = "report.html";
/// A page loads nothing and sends nothing, whatever stands in it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data: blob:; font-src data:; connect-src 'none'; form-action 'none'; base-uri 'none'";

/// The page of one result, or of several with what they have in common.
///
/// # Errors
/// If its scripts cannot be packed.
pub(crate) fn page(kept: &[Kept]) -> Result<String, Failure> {
    let mut sheet = Sheet::new();
    let (title, body) = match kept {
        [one] => (name(one), result(&mut sheet, one)),
        several => {
            (format!("{} results", several.len()), several::write(&mut sheet, several, result))
        }
    };
    Ok(document(&title, &sheet, &body, &payload::plotly()?).into_string())
}

/// Writes the page of the result in `dir` into it. A result that has no page is whole nevertheless: what
/// went wrong is only told.
pub(crate) fn leave(dir: &ResultDir, screen: Screen) {
    let written = Kept::open(dir.path())
        .and_then(|kept| page(std::slice::from_ref(&kept)))
        .and_then(|page| dir.write_page(REPORT, &page));
    let shown = dir.path().display();
    match written {
        Ok(()) => screen.note(format_args!("page: {shown}/{REPORT}")),
        Err(failure) => screen.note(format_args!(
            "the page was not written ({failure}); the result is whole: tokclock report {shown} tries \
             again"
        )),
    }
}

/// What a result is called.
fn name(kept: &Kept) -> String {
    let own = match &kept.what {
        What::Run(summary) => summary.run.name.clone(),
        What::Sweep(curve) => curve.about.as_ref().map(|about| about.name.clone()),
        What::Search(report) => report.about.as_ref().map(|about| about.name.clone()),
    };
    let own = own.filter(|name| !name.trim().is_empty());
    let folder = || kept.path.file_name().map(|name| name.to_string_lossy().into_owned());
    words::safe(&own.or_else(folder).unwrap_or_else(|| kind(kept).to_owned()))
}

/// What it is.
fn kind(kept: &Kept) -> &'static str {
    match kept.what {
        What::Run(_) => "run",
        What::Sweep(_) => "sweep",
        What::Search(_) => "search",
    }
}

fn result(sheet: &mut Sheet, kept: &Kept) -> Markup {
    let name = name(kept);
    match &kept.what {
        What::Run(summary) => run::write(sheet, kept, summary, &name),
        What::Sweep(curve) => sweep::write(sheet, kept, curve, &name),
        What::Search(report) => search::write(sheet, kept, report, &name),
    }
}

fn document(title: &str, sheet: &Sheet, body: &Markup, plotly: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="generator" content={ "tokclock " (env!("CARGO_PKG_VERSION")) };
                title { (title) " – tokclock" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                a.skip href="#main" { "Skip to the result" }
                (bar(sheet))
                main #main { (body) }
                footer {
                    "Made by tokclock " (env!("CARGO_PKG_VERSION")) ". This page loads nothing and \
                     sends nothing. Charts are drawn by plotly.js (MIT licence), which lies in it."
                }
                script #charts type="application/json" { (PreEscaped(sheet.charts_json())) }
                script #plotly type="text/plain" { (PreEscaped(plotly)) }
                script { (PreEscaped(include_str!("page.js"))) }
            }
        }
    }
}

fn bar(sheet: &Sheet) -> Markup {
    html! {
        div.bar {
            nav aria-label="Sections" {
                ul {
                    @for (id, title) in sheet.sections() {
                        li { a href={ "#" (id) } { (title) } }
                    }
                }
            }
            button #theme type="button" hidden { "Dark colours" }
        }
    }
}
