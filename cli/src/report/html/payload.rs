//! The script that draws charts, packed so that it can lie in every page.

use std::io::{self, Write};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::exit::Failure;

/// Compression that takes no noticeable time: a stronger one saves a tenth of the size.
const LEVEL: u32 = 4;

/// plotly.js, compressed by gzip, as base64.
///
/// # Errors
/// If the library holds it in another form than is known.
pub(super) fn plotly() -> Result<String, Failure> {
    static PACKED: OnceLock<String> = OnceLock::new();
    if let Some(packed) = PACKED.get() {
        return Ok(packed.clone());
    }
    let failed = |why: &str| Failure::could_not_run(format!("plotly.js cannot be packed: {why}"));
    let sources = plotly::Plot::offline_js_sources();
    let script = first_script(&sources).ok_or_else(|| failed("its source is of another form"))?;
    let packed = packed(script).map_err(|error| failed(&error.to_string()))?;
    Ok(PACKED.get_or_init(|| packed).clone())
}

/// What stands in the first script element: plotly.js; after it comes MathJax, which no chart needs.
fn first_script(sources: &str) -> Option<&str> {
    let (_, inside) = sources.split_once("<script type=\"text/javascript\">")?;
    let (script, _) = inside.split_once("</script>")?;
    script.contains("plotly.js v").then_some(script)
}

fn packed(script: &str) -> io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder.write_all(script.as_bytes())?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_page_gets_plotly_alone_and_whole() {
        let bytes = STANDARD.decode(plotly().unwrap()).unwrap();
        let mut script = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut script).unwrap();
        assert!(script.contains("window.Plotly = Plotly"));
        assert!(!script.contains("</script") && !script.contains("MathJax-"));
        assert_eq!(first_script("<script>something else</script>"), None);
    }
}
