//! What files and the command line make of each other.

use super::*;
use crate::values::Span;

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let error = Options::parse("seed = 1\nconcurency = 8\n").unwrap_err();
    assert!(error.starts_with(":2: unknown field `concurency`"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn keys_are_the_names_of_the_options() {
    let text = "max-in-flight = 4\nisl = 512\nosl = \"64\"\nwarmup = \"5s\"\nno-stream = true\n";
    let options = Options::parse(text).unwrap();
    assert_eq!(options.max_in_flight, Some(4));
    assert_eq!((options.content.isl, options.content.osl), (Some(512.into()), Some("64".into())));
    assert_eq!(options.no_stream, Some(true));
}

#[test]
fn a_bad_value_in_a_file_says_what_is_accepted() {
    let error = Options::parse("\ndrain = \"soon\"\n").unwrap_err();
    assert!(error.starts_with(":2: ") && error.contains("30s"), "{error}");
    let error = Options::parse("\n\nisl = [512]\n").unwrap_err();
    assert!(error.starts_with(":3: "), "{error}");
}

#[test]
fn an_error_about_a_header_does_not_quote_it() {
    for text in ["header = \"Authorization: Bearer s3cret\"", "header = [[\"s3cret\"]]"] {
        let error = Options::parse(text).unwrap_err();
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn the_command_line_wins_over_the_file() {
    let osl = Some(9.into());
    let content = ContentOptions { osl, ..ContentOptions::default() };
    let file = Options { seed: Some(1), content, ..Options::default() };
    let typed = Options { seed: Some(2), ..Options::default() };
    let both = typed.over(file).unwrap();
    assert_eq!((both.seed, both.content.osl), (Some(2), Some(9.into())));
}

#[test]
fn a_key_on_the_command_line_replaces_that_of_the_file_however_it_is_given() {
    let redacted = || vec!["Authorization: <redacted>".to_owned()];
    let file = Options { header: redacted(), ..Options::default() };
    let typed = Options { api_key_env: Some("KEY".to_owned()), ..Options::default() };
    assert!(typed.over(file).unwrap().header.is_empty());
    let file = Options { api_key_env: Some("KEY".to_owned()), ..Options::default() };
    let typed = Options { header: vec!["authorization: x".to_owned()], ..Options::default() };
    assert_eq!(typed.over(file).unwrap().api_key_env, None);
}

#[test]
fn a_key_is_given_in_one_way_whatever_header_carries_it() {
    let file = || Options {
        dialect: Some("anthropic-messages".to_owned()),
        header: vec!["X-Api-Key: <redacted>".to_owned(), "Authorization: a".to_owned()],
        api_key_env: Some("KEY".to_owned()),
        ..Options::default()
    };
    let typed = Options { api_key_file: Some("key".into()), ..Options::default() };
    let both = typed.over(file()).unwrap();
    assert_eq!(both.header, ["Authorization: a"]);
    assert_eq!((both.api_key_env, both.api_key_file), (None, Some("key".into())));
    let typed = Options { header: vec!["x-api-key: b".to_owned()], ..Options::default() };
    assert_eq!(typed.over(file()).unwrap().api_key_env, None);
}

#[test]
fn a_template_and_another_dialect_replace_each_other() {
    let template = || Options { template: Some("a.toml".into()), ..Options::default() };
    let dialect = || Options { dialect: Some("ollama-chat".into()), ..Options::default() };
    let both = template().over(dialect()).unwrap();
    assert_eq!((both.dialect, both.template), (None, Some("a.toml".into())));
    let both = dialect().over(template()).unwrap();
    assert_eq!((both.dialect, both.template), (Some("ollama-chat".into()), None));
}

#[test]
fn a_rate_on_the_command_line_replaces_the_users_of_the_file() {
    let file = Options {
        concurrency: Some(8.0.into()),
        ramp: Some(Span::from_ns(1)),
        requests: Some(200),
        ..Options::default()
    };
    let typed =
        Options { rate: Some(5.0.into()), duration: Some(Span::from_ns(9)), ..Options::default() };
    let both = typed.over(file).unwrap();
    assert_eq!((both.concurrency, both.ramp, both.requests), (None, None, None));
    assert_eq!(both.rate, Some(5.0.into()));
}
