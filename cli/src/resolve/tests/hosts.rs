//! One load over several hosts: what is refused, what a part of it is.

use super::*;

const URL: &str = "http://127.0.0.1:8000";

fn part(options: &[&str]) -> Vec<String> {
    let fixed = ["--shard", "1/3", "--seed", "7", URL];
    fixed.iter().chain(options).map(|word| (*word).to_owned()).collect()
}

fn refused(options: &[&str]) -> String {
    let options = part(options);
    refusal(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_part_is_of_the_load_that_one_host_alone_would_send() {
    let options = part(&["--rate", "30", "--requests", "90"]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mine = draft(&options).unwrap();
    let whole = workload(&options[2..]);
    let shard = Shard::new(1, 3).unwrap();
    assert_eq!(of(&mine), Workload { shard, ..whole });
    assert_eq!(again(&mine), of(&mine), "run.toml is that of the part");
    assert!(mine.run_toml("m").unwrap().contains("shard = \"1/3\""));
}

#[test]
fn a_start_is_not_part_of_what_is_repeated() {
    let draft = draft(&["--start-at", "9999999999", URL]).unwrap();
    assert_eq!(
        draft.options().hosts.start_at.map(|at| at.ns()),
        Some(9_999_999_999 * 1_000_000_000)
    );
    assert!(!draft.run_toml("m").unwrap().contains("start-at"));
}

#[test]
fn a_start_in_a_file_gives_way_to_one_that_is_typed() {
    let at = |text: &str| parse_options(&["--start-at", text]);
    let both = at("9999999999").over(at("8888888888")).unwrap();
    assert_eq!(both.hosts, at("9999999999").hosts);
    let both = parse_options(&[]).over(at("8888888888")).unwrap();
    assert_eq!(both.hosts, at("8888888888").hosts);
}

#[test]
fn hosts_that_would_not_send_one_load_are_refused() {
    for (options, words) in [
        (&["--shard", "0/2", URL][..], "--shard needs --seed: all hosts must draw the same plan"),
        (&["--shard", "0/2", "--seed", "7"], "--shard needs a URL"),
        (&["--start-at", "1764547200", URL], "name an instant that is to come"),
    ] {
        let message = refusal(options);
        assert!(message.contains(words), "{message}");
    }
    for (options, words) in [
        (&["-c", "2"][..], "--concurrency 2 is too few for 3 hosts"),
        (&["-r", "9", "--max-in-flight", "2"], "--max-in-flight 2 is too few for 3 hosts"),
        (&["--warmup", "auto", "-c", "3"], "--warmup auto depends on what one host sees"),
        (&["--until", "ci(p95(ttft))<3%", "-c", "3"], "--until depends on what one host sees"),
    ] {
        let message = refused(options);
        assert!(message.starts_with(words), "{message}");
    }
}

#[test]
fn the_only_part_is_the_whole_and_bound_to_nothing() {
    let mine = workload(&["--shard", "0/1", "--warmup", "auto", "-c", "1"]);
    assert!(mine.shard.is_whole());
}

#[test]
fn cores_are_chosen_for_a_part() {
    let options = ["-c", "3000", "-n", "3000", "--seed", "7", URL];
    let alone = workload(&options).client.cpus.len();
    let third = workload(&[&options[..], &["--shard", "0/3"]].concat()).client.cpus.len();
    assert_eq!((alone, third), (3, 1));
}

#[test]
fn only_a_run_has_parts() {
    for option in [["--shard", "0/1"], ["--start-at", "9999999999"]] {
        let failure = shard::refuse(&parse_options(&option), "do this").unwrap_err();
        assert_eq!(failure.code as u8, 2);
        let start = format!("{} is for `tokclock run`", option[0]);
        assert!(failure.message.starts_with(&start), "{failure}");
        assert!(failure.message.ends_with("drop it, and do this"), "{failure}");
    }
    assert!(shard::refuse(&parse_options(&[URL]), "do this").is_ok());
}
