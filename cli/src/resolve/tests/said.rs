//! What is sent where little is said: recordings, conversations, classes.

use super::*;

#[test]
fn what_is_said_must_not_contradict_itself() {
    are_refused(&[
        (&["--turn-isl", "5"], "add --turns"),
        (&["--sessions", "5"], "add --turns"),
        (&["--rate", "5", "--rates", "5@1s"], "--rate and --rates exclude each other"),
        (&["--trace", "a.jsonl", "--class", "name=a"], "--trace and --class exclude"),
        (&["--trace-speed", "2"], "add --rate, --rates or --trace"),
        (&["--rates", "fast"], "--rates fast: "),
        (&["--prefix-groups", "4"], "--prefix-tokens or --cached-share"),
        (&["--prefix-tokens", "9", "--cached-share", "50%"], "give one of them"),
        (&["--prefix-popularity", "zipf:1"], "add --prefix-groups"),
        (&["--prefix-tokens", "9", "--prefix-popularity", "zipf:0"], "zipf:S"),
        (&["--user-population", "3"], "--user-tokens"),
        (&["--cache-bust", "all"], "--cache-bust `all`: "),
        (&["--turns", "2", "--history", "some"], "--history `some`: "),
        (&["--think-time", "soon"], "--think-time: "),
        (&["--prompt-as", "token-ids"], "--token-ids FIRST-LAST"),
        (&["--token-ids", "1-9"], "needs --prompt-as token-ids"),
        (&["--prompt-as", "ids", "--token-ids", "9-1"], "no range of ids"),
        (&["--prompt-as", "numbers"], "text or token-ids"),
        (&["--isl", "9", "--seq-dist", "9,9:100"], "give one of them"),
        (&["--isl", "exp:9", "--isl-stddev", "2"], "a law of its own"),
        (&["--isl-stddev", "2", "--random-range-ratio", "0.2"], "both spread --isl"),
        (&["--class", "name=a", "--class", "name=a"], "two of them are named `a`"),
        (&["--class", "name=a weight=0"], "class a: weight 0"),
        (&["--class", "name=a slo=fast"], "class a: --slo 'fast'"),
        (&["--class", "name=a isl=fast"], "class a: --isl: "),
        (&["--data", "no/such.jsonl"], "no/such.jsonl"),
        (&["--data", "a.jsonl", "--isl", "9"], "a recording brings its own"),
        (&["--data", "a.jsonl", "--field", "prompt"], "expected WHAT=NAME"),
        (&["--tools", "no/such.json"], "--tools no/such.json: "),
    ]);
}

#[test]
fn run_toml_says_again_what_is_sent() {
    lead_to_the_same(&[
        &["--turns", "uniform:1,5", "--think-time", "exp:2s", "--history", "recorded"],
        &["--turns", "3", "--turn-isl", "20", "--sessions", "9", "--session-header", "X-S"],
        &["--isl", "normal:512,128", "--osl", "lognormal:median=100,p95=500"],
        &["--isl", "512", "--osl", "9", "--random-range-ratio", "0.2"],
        &["--isl", "512", "--isl-stddev", "100", "--isl-includes-template"],
        &["--seq-dist", "256|20,128|10:60;512,256:40"],
        &["--system-tokens", "100", "--prefix-groups", "4", "--prefix-tokens", "64"],
        &["--prefix-tokens", "exp:64", "--prefix-popularity", "zipf:1.1"],
        &["--cached-share", "50%", "--cache-bust", "run"],
        &["--user-tokens", "8", "--user-population", "5", "--cache-bust", "request"],
        &["--rates", "50@2s,100@2s", "--arrival", "constant"],
        &["--rate", "50", "--ramp", "2s", "--duration", "3s", "--warmup", "1s"],
        &[
            "--class",
            "name=a weight=3 isl=9 slo=p95(ttft)<1s slo=p50(e2e)<2s goodput='ttft:500 tpot:50'",
            "--class",
            "name=b model=x turns=2 think-time=exp:1s",
            "--system-tokens",
            "7",
        ],
        &[
            "--dialect",
            "openai-completions",
            "--prompt-as",
            "token-ids",
            "--token-ids",
            "1000-2000",
        ],
    ]);
}

/// A recording in a file of its own, which goes with the folder.
fn recording(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.jsonl");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn a_recording_is_sent_once_unless_something_else_is_said() {
    let (_dir, path) = recording("{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n");
    let once = draft(&["--data", &path]).unwrap();
    assert_eq!(of(&once).stop.requests, Some(2));
    assert!(once.notes.iter().any(|note| note.contains("2 entries")), "{:?}", once.notes);
    assert_eq!(of(&once), again(&once));
    let stop = workload(&["--data", &path, "--duration", "3s"]).stop;
    assert_eq!((stop.requests, stop.duration_ns), (None, Some(3_000_000_000)));
    let shuffled =
        draft(&["--data", &path, "--data-order", "shuffle", "--data-limit", "1"]).unwrap();
    assert_eq!(of(&shuffled).stop.requests, Some(1));
    assert_eq!(of(&shuffled), again(&shuffled));
    let message = refusal(&["--trace", &path]);
    assert!(message.contains("no `timestamp`"), "{message}");
}

#[test]
fn the_times_of_a_recording_are_kept_unless_something_else_is_said() {
    let line = |at| format!("{{\"timestamp\":{at},\"input_length\":8,\"output_length\":2}}\n");
    let (_dir, path) = recording(&[0, 40, 90].map(line).concat());
    let replay = |workload: &Workload| match &workload.load {
        Load::Open { schedule: Schedule::Replay(replay), .. } => Some(*replay),
        _ => None,
    };
    let kept = draft(&["--data", &path]).unwrap();
    assert_eq!(replay(&of(&kept)).map(|replay| replay.speed), Some(1.0));
    assert!(kept.notes.iter().any(|note| note.contains("times, which are kept")));
    assert_eq!(of(&kept), again(&kept));
    let twice = draft(&["--trace", &path, "--trace-speed", "2", "--trace-loops", "3"]).unwrap();
    assert_eq!((of(&twice).stop.requests, replay(&of(&twice)).unwrap().loops), (Some(9), 3));
    assert_eq!(of(&twice), again(&twice));
    let part = workload(&["--trace", &path, "--trace-start", "30ms", "--trace-end", "80ms"]);
    assert_eq!(part.stop.requests, Some(1), "as many as lie there");
    assert_eq!(replay(&workload(&["--data", &path, "--rate", "5"])), None);
    let class = format!("name=a data={path}");
    let of_class = draft(&["--class", &class]).unwrap();
    assert_eq!(replay(&of(&of_class)), None);
    assert!(!of_class.notes.iter().any(|note| note.contains("are kept")), "{:?}", of_class.notes);
    assert_eq!(replay(&workload(&["--data", &path, "--concurrency", "5"])), None);
}

#[test]
fn conversations_are_counted_where_nothing_says_how_many() {
    let stop = workload(&["--turns", "4"]).stop;
    assert_eq!((stop.requests, stop.sessions), (None, Some(50)), "200 requests or so");
    let stop = workload(&["--turns", "4", "--requests", "30"]).stop;
    assert_eq!((stop.requests, stop.sessions), (Some(30), None));
    let lines = "{\"turns\":[{\"prompt\":\"a\"},{\"prompt\":\"b\"}]}\n{\"prompt\":\"c\"}\n";
    let (_dir, path) = recording(lines);
    let stop = workload(&["--data", &path]).stop;
    assert_eq!((stop.requests, stop.sessions), (None, Some(2)));
}

#[test]
fn a_class_has_what_all_have_but_for_what_it_says() {
    let options = ["--isl", "9", "--osl", "7", "--turns", "2", "--class", "name=a isl=30"];
    let workload = workload(&[&options[..], &["--class", "osl=3 weight=2"]].concat());
    let means: Vec<_> = workload.mix.iter().map(|class| class.content.lengths.means()).collect();
    assert_eq!(means, [(30.0, 7.0), (9.0, 3.0)]);
    let names: Vec<_> = workload.mix.iter().map(|class| class.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("class-2")]);
    assert!(workload.mix.iter().all(|class| class.content.has_sessions()));
}
