//! Every dependency has a licence that `.cargo/deny.toml` allows.

#![expect(clippy::unwrap_used, reason = "a test says by its panic what did not hold")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_dependency_has_an_allowed_licence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let allowed = allowed(&std::fs::read_to_string(root.join(".cargo/deny.toml")).unwrap());
    assert!(allowed.iter().any(|licence| licence == "MIT"), "the list was not read");

    let packages = packages(&root);
    assert!(packages.len() > 50, "the dependencies were not read");
    let refused: Vec<String> = packages
        .iter()
        .map(|package| (package["name"].as_str(), package["license"].as_str()))
        .filter(|(_, licence)| !licence.is_some_and(|licence| is_allowed(licence, &allowed)))
        .map(|(name, licence)| format!("{name:?}: {licence:?}"))
        .collect();
    assert!(refused.is_empty(), "not in .cargo/deny.toml: {refused:#?}");
}

#[test]
fn an_expression_needs_one_allowed_alternative_of_every_part() {
    let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned()];
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR X) AND Unicode-3.0"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "MIT WITH X-exception", "", "(GPL-3.0) AND MIT"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

fn allowed(deny: &str) -> Vec<String> {
    let deny: toml::Table = deny.parse().unwrap();
    let list = deny["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|licence| licence.as_str().unwrap().to_owned()).collect()
}

/// The packages that the lock file names for this platform: what a build here has fetched, so that
/// no network is needed.
fn packages(root: &Path) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", &platform])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether an SPDX expression holds with these licences. Crates write `AND` at the outside only,
/// and some an old `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        part.trim_matches(['(', ')', ' ']).split(" OR ").any(|licence| {
            let licence = licence.trim_matches(['(', ')', ' ']);
            allowed.iter().any(|known| known == licence)
        })
    })
}
