//! `report.html`: left by runs and sweeps, made again by `tokclock report`, opened in a browser.
//!
//! The last test needs Chromium (`CHROMIUM`, else /usr/bin/chromium) and `unshare`, and is left out
//! unless it is asked for: `cargo test -p tokclock-tests --test page -- --ignored`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tokclock_tests::command::{Tool, alone, exits_with, names, one_clear_line, stderr};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// A short run of small requests.
const RUN: &str = "run -n 6 -c 2 --isl 16 --osl 4";
/// A page of a small run, at most: the script that draws is most of it.
const PAGE_MAX: usize = 3 << 20;

fn page(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("report.html")).unwrap()
}

/// Nothing in it is taken from elsewhere.
fn needs_nothing(page: &str) {
    assert!(page.len() < PAGE_MAX, "{} bytes", page.len());
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    for act in [" src=", "url(", "@import", "href=\"http", "href=\"//", "fetch(", "<link"] {
        assert!(!page.contains(act), "{act} in the page");
    }
    let (_, json) = page.split_once("<script id=\"charts\" type=\"application/json\">").unwrap();
    let (json, _) = json.split_once("</script>").unwrap();
    let charts: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(!charts.as_object().unwrap().is_empty());
}

#[test]
fn a_run_leaves_its_page_unless_it_is_told_not_to() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let output = TOOL.run(dir.path(), RUN, &["--out", "with"]);
    exits_with(&output, 0);
    assert!(stderr(&output).contains("page: with/report.html"), "{}", stderr(&output));
    let first = page(&dir.path().join("with"));
    needs_nothing(&first);
    assert!(first.contains("closed loop of 2 users, 16 tokens in and 4 out"));
    assert!(first.contains("<p class=\"value\">0 of 6</p>"));

    let output = TOOL.run(dir.path(), RUN, &["--out", "without", "--no-report", "-q"]);
    exits_with(&output, 0);
    let without = dir.path().join("without");
    assert!(!names(&without).contains(&"report.html".to_owned()));
    exits_with(&TOOL.run(dir.path(), "report without", &[]), 0);
    needs_nothing(&page(&without));

    exits_with(&TOOL.run(dir.path(), "report with without", &[]), 0);
    let both = page(dir.path());
    needs_nothing(&both);
    assert!(both.contains("<h1>2 results</h1>"));
    exits_with(&TOOL.run(dir.path(), "report with without --out both/pages", &[]), 0);
    assert_eq!(names(&dir.path().join("both/pages")), ["report.html"]);
}

#[test]
fn a_sweep_leaves_one_page_and_its_levels_none() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let line = "sweep -c 1,2 -d 200ms --warmup 0 --isl 16 --osl 4 --slo p95(ttft)<10s --out out -q";
    exits_with(&TOOL.run(dir.path(), line, &[]), 0);
    let out = dir.path().join("out");
    let whole = page(&out);
    needs_nothing(&whole);
    assert!(whole.contains("data-chart=\"frontier-ttft\""), "no frontier");
    for level in names(&out.join("levels")) {
        let level = out.join("levels").join(level);
        assert!(!names(&level).contains(&"report.html".to_owned()), "{level:?}");
    }
    exits_with(&TOOL.run(dir.path(), "report out/levels/01", &[]), 0);
    needs_nothing(&page(&out.join("levels/01")));
}

#[test]
fn a_result_whose_server_wrote_markup_shows_it_and_runs_none_of_it() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    exits_with(&TOOL.run(dir.path(), RUN, &["--out", "out", "--no-report", "-q"]), 0);
    let rows = dir.path().join("out/requests.jsonl");
    let text = std::fs::read_to_string(&rows).unwrap();
    let mut row: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    row["index"] = 6.into();
    row["outcome"] = "error".into();
    row["error"] = "server_error_event".into();
    row["error_text"] = "</script><script>alert(1)</script>".into();
    std::fs::write(&rows, format!("{text}{row}\n")).unwrap();
    exits_with(&TOOL.run(dir.path(), "report out", &[]), 0);
    let page = page(&dir.path().join("out"));
    needs_nothing(&page);
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("#6 server_error_event") && !page.contains("<script>alert"));
}

#[test]
fn what_is_no_result_is_one_clear_line() {
    let dir = TempDir::new().unwrap();
    one_clear_line(&TOOL.run(dir.path(), "report nowhere", &[]), 2, &["nowhere", "directory"]);
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    one_clear_line(&TOOL.run(dir.path(), "report empty", &[]), 2, &["empty", "summary.json"]);
    assert_eq!(names(&dir.path().join("empty")), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium"]
fn a_browser_without_a_network_draws_every_chart_and_complains_of_nothing() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    exits_with(&TOOL.run(dir.path(), RUN, &["--out", "out", "--chunks"]), 0);
    let file = dir.path().join("out/report.html");
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", &browser])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.path().join("browser").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let wanted = page(&dir.path().join("out")).matches("data-chart=").count();
    assert!(dom.contains("data-drawn=\"all\""), "not all is drawn; the browser said {said}");
    let drawn = dom.matches("class=\"main-svg\"").count();
    assert!(wanted >= 6 && drawn >= wanted, "{drawn} drawings of {wanted} charts");
    assert!(!dom.contains("class=\"wait\""), "a chart is still waited for");
}
