//! A load over several hosts: a worker that is spoken with by hand, and a coordinator with workers of its
//! own, whole and lost.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokclock_engine::clock::realtime_ns;
use tokclock_engine::measure::Summary;
use tokclock_tests::command::{
    SimProcess, Tool, alone, exits_with, json, names, one_clear_line, stderr, wait_until,
};
use tokclock_tests::{MS, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
const LOAD: &str = "--osl 4 --max-error-rate 100% --seed 7 -q --no-report";

fn sim(dir: &Path) -> SimProcess {
    TOOL.sim(dir, "--port 0 --ttft 5ms --itl 2ms --model m")
}

/// A worker on this host, as a launcher would start it.
fn worker(dir: &Path) -> String {
    format!("env TMPDIR={} {} worker", dir.display(), TOOL.0)
}

/// The processes below `parent` whose command line holds a word.
fn processes(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(word)
    };
    pids.filter(is_it).collect()
}

fn kill(pid: i32) {
    // SAFETY: a plain system call on a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// A worker that is spoken with by hand.
struct Spoken {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Spoken {
    fn start(dir: &Path) -> Self {
        let mut command = TOOL.command(dir);
        command.arg("worker").env("TMPDIR", dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, request: &Value) {
        self.say(&request.to_string());
    }

    /// The next line that is none of progress.
    fn hear(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it has ended");
            let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if said["is"] != "progress" {
                return said;
            }
        }
    }

    fn heard(&mut self, request: &Value) -> Value {
        self.ask(request);
        self.hear()
    }

    fn prepare(&mut self, options: &str, name: &str) -> Value {
        self.heard(&json!({"do": "prepare", "name": name, "options": options, "shard": "0/1"}))
    }

    fn start_now(&mut self) {
        let at = realtime_ns() + 200 * MS;
        self.ask(&json!({"do": "start", "at_realtime_ns": at, "run_id": "0123456789abcd"}));
    }

    /// The names of the files that it sends.
    fn fetch(&mut self) -> Vec<String> {
        self.ask(&json!({"do": "fetch"}));
        let mut found = Vec::new();
        loop {
            let said = self.hear();
            match said["is"].as_str().unwrap() {
                "file" if said["last"] == true => {
                    found.push(said["name"].as_str().unwrap().to_owned());
                }
                "file" => {}
                "fetched" => return found,
                other => panic!("{other}: {said}"),
            }
        }
    }

    fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn options(url: &str) -> String {
    format!(
        "url = \"{url}\"\nmodel = \"m\"\nconcurrency = 2\nrequests = 6\nosl = 3\nseed = 7\n\
         no-server-facts = true\n"
    )
}

#[test]
fn a_worker_does_what_it_is_told_line_by_line() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let mut worker = Spoken::start(dir.path());
    let hello = worker.heard(&json!({"do": "hello"}));
    assert_eq!((&hello["is"], &hello["protocol"]), (&json!("hello"), &json!(1)));
    assert!(hello["facts"]["cpus"].is_array() && hello["host"].is_string(), "{hello}");

    for wrong in ["no JSON", "{\"do\":\"dance\"}", "[]"] {
        worker.say(wrong);
        assert_eq!(worker.hear()["is"], "error", "{wrong}");
    }
    assert_eq!(worker.heard(&json!({"do": "fetch"}))["is"], "error");
    let early = json!({"do": "start", "at_realtime_ns": 0, "run_id": "x"});
    assert_eq!(worker.heard(&early)["is"], "error");

    let failed = worker.prepare("rate = -5\nurl = \"http://127.0.0.1:1\"\n", "a");
    assert_eq!((&failed["is"], &failed["code"]), (&json!("failed"), &json!(2)), "{failed}");
    let secret = format!("{}header = [\"Authorization: <redacted>\"]\n", options(sim.url()));
    let failed = worker.prepare(&secret, "a");
    assert!(failed["message"].as_str().unwrap().contains("--api-key-env"), "{failed}");

    let ready = worker.prepare(&options(sim.url()), "levels/01");
    assert_eq!((&ready["is"], &ready["seed"]), (&json!("ready"), &json!(7)), "{ready}");
    assert!(ready["plan"].as_str().unwrap().starts_with("sha256:"), "{ready}");
    let before = realtime_ns();
    worker.ask(&json!({"do": "clock", "id": 5}));
    worker.start_now();
    let clock = worker.hear();
    let time = |name: &str| clock[name].as_u64().unwrap();
    assert_eq!((&clock["is"], &clock["id"]), (&json!("clock"), &json!(5)));
    assert!(before <= time("received_ns") && time("received_ns") <= time("sent_ns"), "{clock}");
    let done = worker.hear();
    assert_eq!((&done["is"], &done["code"]), (&json!("done"), &json!(0)), "{done}");
    let files = worker.fetch();
    for name in ["run.toml", "summary.json", "requests.jsonl", "shard.json", "seconds.hlog"] {
        assert!(files.iter().any(|file| file == name), "no {name} in {files:?}");
    }
    assert_eq!(worker.prepare(&options(sim.url()), "levels/01")["is"], "error", "forget it first");
    assert_eq!(worker.heard(&json!({"do": "forget"}))["is"], "forgotten");

    // Another load of the same content is the same plan but for its load; a wish ends it.
    let long = options(sim.url()).replace("requests = 6", "duration = \"30s\"");
    let ready = worker.prepare(&long, "levels/01");
    assert_eq!(ready["is"], "ready", "{ready}");
    worker.start_now();
    std::thread::sleep(std::time::Duration::from_millis(600));
    worker.ask(&json!({"do": "stop"}));
    assert_eq!(worker.hear()["code"], 130);
    worker.ask(&json!({"do": "bye"}));
    assert_eq!(worker.end(), 0);
    let left: Vec<String> =
        names(dir.path()).into_iter().filter(|name| name.contains("worker")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_worker_outlives_its_load_and_ends_with_its_input() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let mut worker = Spoken::start(dir.path());
    let long = options(sim.url()).replace("requests = 6", "duration = \"30s\"");
    assert_eq!(worker.prepare(&long, "run")["is"], "ready");
    worker.start_now();
    let mark = format!("--carry-out --dir {}", dir.path().display());
    std::thread::sleep(std::time::Duration::from_millis(800));
    let carriers = processes(&mark);
    assert_eq!(carriers.len(), 1, "{carriers:?}");
    kill(carriers[0]);
    let died = worker.hear();
    assert_eq!((&died["is"], &died["signal"]), (&json!("died"), &json!(9)));
    let files = worker.fetch();
    assert!(files.iter().any(|name| name == "requests.jsonl"), "{files:?}");
    assert!(files.iter().all(|name| name != "summary.json"), "{files:?}");
    assert_eq!(worker.heard(&json!({"do": "forget"}))["is"], "forgotten");

    assert_eq!(worker.prepare(&long, "run")["is"], "ready", "another process has taken over");
    worker.start_now();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(worker.end(), 0, "its input has ended");
    wait_until("the process for loads to end", || processes(&mark).is_empty());
    let kept = names(dir.path()).into_iter().find(|name| name.contains("worker")).unwrap();
    let kept = dir.path().join(kept).join("run");
    assert!(kept.join("summary.json").exists(), "{:?}", names(&kept));
    assert!(!rows(&kept).is_empty());
}

#[test]
fn a_load_over_three_workers_is_one_result() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let command = worker(dir.path());
    let line = format!("run {} {LOAD} -c 6 -n 24 --out out", sim.url());
    let workers = ["--worker", &command, "--worker", &command, "--worker", &command];
    let output = TOOL.run(dir.path(), &line, &workers);
    exits_with(&output, 0);
    let out = dir.path().join("out");
    let summary: Summary = json(&out.join("summary.json"));
    assert_eq!(summary.requests.ok, 24);
    assert_eq!(names(&out.join("shards")), ["0", "1", "2"]);
    let shards = ["0", "1", "2"].map(|shard| rows(&out.join("shards").join(shard)));
    assert_eq!(shards.each_ref().map(Vec::len), [8, 8, 8]);
    let mut all: Vec<u64> = shards.iter().flatten().map(|row| row.index).collect();
    all.sort_unstable();
    assert_eq!(all, (0..24).collect::<Vec<u64>>());
    let clocks: Value = json(&out.join("clocks.json"));
    let clocks = clocks["hosts"].as_array().unwrap();
    assert_eq!(clocks.len(), 3);
    for clock in clocks {
        let (offset, error) = (&clock["offset_ns"], &clock["error_ns"]);
        let (offset, error) = (offset.as_i64().unwrap(), error.as_u64().unwrap());
        assert!(offset.unsigned_abs() <= error, "it is one clock: {clock}");
        assert!(clock["exchanges"].as_u64().unwrap() >= 20, "{clock}");
    }
    let ids: Vec<&str> = shards.iter().flatten().map(|row| &row.request_id[..14]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one run id");
    let saved = std::fs::read_to_string(out.join("run.toml")).unwrap();
    assert!(!saved.contains("cpus") && !saved.contains("worker"), "{saved}");
    assert!(processes(&format!("--dir {}", dir.path().display())).is_empty());
    assert_eq!(sim.stop().len(), 24);
}

#[test]
fn what_does_not_go_with_workers_is_told_before_anything_is_sent() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let command = worker(dir.path());
    for (line, words) in [
        ("run".to_owned(), "--worker needs the URL"),
        (format!("run {} --warmup auto", sim.url()), "--warmup auto"),
        (format!("sweep {} -c 1,2 --until ci(p95(ttft))<3%", sim.url()), "--until"),
        (format!("trace {}", sim.url()), "trace"),
    ] {
        let output = TOOL.run(dir.path(), &line, &["--worker", &command]);
        one_clear_line(&output, 2, &[words]);
    }
    let line = format!("run {} {LOAD} -c 2 -n 4 --out out", sim.url());
    let output = TOOL.run(dir.path(), &line, &["--worker", "sh -c 'echo no such host >&2'"]);
    one_clear_line(&output, 1, &["worker 0", "no such host"]);
    let output = TOOL.run(dir.path(), &line, &["--worker", "/no/such/program"]);
    one_clear_line(&output, 1, &["/no/such/program"]);
    let output = TOOL.run(dir.path(), &line, &["--worker", "ssh 'a"]);
    one_clear_line(&output, 2, &["--worker"]);
    // The key is in the coordinator's environment, and not in that of the worker.
    let mut keyed = TOOL.command(dir.path());
    keyed.env("MY_KEY", "s3cret").args(line.split_whitespace());
    keyed.args(["--api-key-env", "MY_KEY", "--worker", &format!("env -u MY_KEY {command}")]);
    let output = keyed.output().unwrap();
    one_clear_line(&output, 2, &["worker 0", "MY_KEY"]);
    assert!(!stderr(&output).contains("s3cret"));
    assert!(!dir.path().join("out").exists());
    assert!(sim.stop().is_empty(), "nothing was sent");
}

#[test]
fn a_sweep_and_its_pilot_go_over_workers_that_stay_warm() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let command = worker(dir.path());
    let line = format!("sweep {} {LOAD} -c 1,4 -n 8 --warmup 0 --out out", sim.url());
    let output = TOOL.run(dir.path(), &line, &["--worker", &command, "--worker", &command]);
    exits_with(&output, 0);
    let levels = dir.path().join("out/levels");
    assert_eq!(names(&levels), ["01", "02"]);
    assert_eq!(names(&levels.join("01/shards")), ["0"], "one user is sent by one worker");
    assert_eq!(names(&levels.join("02/shards")), ["0", "1"]);
    for level in ["01", "02"] {
        let summary: Summary = json(&levels.join(level).join("summary.json"));
        assert_eq!(summary.requests.ok, 8, "{level}");
    }
    let curve: Value = json(&dir.path().join("out/curve.json"));
    assert_eq!(curve["levels"].as_array().unwrap().len(), 2);
}

#[test]
fn a_worker_that_is_lost_leaves_the_others_and_a_partial_result() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let (first, second) = (dir.path().join("one"), dir.path().join("two"));
    let third = dir.path().join("three");
    for own in [&first, &second, &third] {
        std::fs::create_dir(own).unwrap();
    }
    let commands = [&first, &second, &third].map(|own| worker(own));
    let line = format!("run {} --osl 4 -c 6 -d 2s --seed 7 --no-report --out out", sim.url());
    let workers = commands.iter().flat_map(|one| ["--worker", one]).collect::<Vec<_>>();
    let run = TOOL.start(dir.path(), &line, &workers);
    let has_begun = |own: &Path| {
        let dir = names(own).into_iter().next();
        dir.is_some_and(|name| tokclock_tests::command::finished(&own.join(name).join("run")) > 3)
    };
    wait_until("all to send", || [&first, &second, &third].iter().all(|own| has_begun(own)));
    // Of one the process for loads, of another all of it.
    let carrier = |own: &Path| processes(&format!("--carry-out --dir {}", own.display()));
    let outer = |pid: i32| -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    kill(carrier(&first)[0]);
    let orphan = carrier(&second)[0];
    kill(outer(orphan));
    let output = run.end();
    exits_with(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("worker 0") && said.contains("signal 9"), "{said}");
    assert!(said.contains("worker 1") && said.contains("partial"), "{said}");
    let out = dir.path().join("out");
    assert!(!rows(&out.join("shards/0")).is_empty(), "what it left was fetched");
    assert!(out.join("shards/2/summary.json").exists() && out.join("summary.json").exists());
    wait_until("no process to be left", || {
        [&first, &second, &third].iter().all(|own| carrier(own).is_empty())
    });
}

#[test]
fn a_sweep_ends_with_what_it_has_when_a_worker_is_lost() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let command = worker(dir.path());
    let line = format!("sweep {} --osl 4 -c 2,4 -d 500ms --warmup 0 --seed 7 --out out", sim.url());
    let workers = ["--worker", &command, "--worker", &command];
    let sweep = TOOL.start(dir.path(), &line, &workers);
    let levels = dir.path().join("out/levels");
    wait_until("the second level", || levels.join("02/run.toml").exists());
    let mark = format!("--carry-out --dir {}", dir.path().display());
    kill(processes(&mark)[0]);
    let output = sweep.end();
    one_clear_line(&output, 1, &["tokclock sweep --resume out"]);
    assert!(!levels.join("02/summary.json").exists(), "{:?}", names(&levels));
    let line = "sweep --resume out -q";
    exits_with(&TOOL.run(dir.path(), line, &workers), 0);
    let curve: Value = json(&dir.path().join("out/curve.json"));
    assert_eq!(curve["levels"].as_array().unwrap().len(), 2);
}

#[test]
fn ctrl_c_stops_all_and_leaves_a_result() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = sim(dir.path());
    let command = worker(dir.path());
    let line = format!("run {} --osl 4 -c 4 -d 30s --seed 7 --no-report --out out", sim.url());
    let run = TOOL.start(dir.path(), &line, &["--worker", &command, "--worker", &command]);
    let mark = format!("--carry-out --dir {}", dir.path().display());
    let has_begun = || {
        let all = names(dir.path()).into_iter().filter(|name| name.contains("worker"));
        let begun =
            |name: String| tokclock_tests::command::finished(&dir.path().join(name).join("run"));
        all.map(begun).filter(|finished| *finished > 2).count() == 2
    };
    wait_until("both to send", has_begun);
    run.signal(libc::SIGINT);
    let output = run.end();
    exits_with(&output, 130);
    let summary: Summary = json(&dir.path().join("out/summary.json"));
    assert!(summary.run.interrupted && summary.requests.ok > 4);
    assert!(processes(&mark).is_empty());
}
