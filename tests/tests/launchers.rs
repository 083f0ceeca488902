//! What the files for launchers start: manifests and scripts are carried out as Kubernetes and Slurm would,
//! against the simulator, and their shards become one result.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tokclock_engine::clock::realtime_ns;
use tokclock_tests::command::{Tool, alone, json, names, stderr};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// What Kubernetes itself sets in a pod of an Indexed Job.
const INDEX: &str = "JOB_COMPLETION_INDEX";
const KEY: &str = "TOKCLOCK_API_KEY";

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The container of a manifest.
struct Pod {
    args: Vec<String>,
    /// Variables with their values; that of a secret has none.
    env: BTreeMap<String, String>,
}

impl Pod {
    /// Of a manifest as ours are written: an item of a list per line, a value after its name.
    fn of(manifest: &str) -> Self {
        let under = |key: &'static str| {
            let mut lines = manifest.lines().skip_while(move |line| line.trim() != key);
            let indent = lines.next().map_or(0, |line| line.len() - line.trim_start().len());
            lines.take_while(move |line| line.len() - line.trim_start().len() > indent)
        };
        let args = under("args:").filter_map(|line| line.trim().strip_prefix("- "));
        let mut env = BTreeMap::new();
        let mut name = String::new();
        for line in under("env:").map(str::trim) {
            if let Some(text) = line.strip_prefix("- name: ") {
                name = text.to_owned();
                env.insert(name.clone(), String::new());
            } else if let Some(text) = line.strip_prefix("value: ") {
                env.insert(name.clone(), text.trim_matches('"').to_owned());
            }
        }
        Self { args: args.map(str::to_owned).collect(), env }
    }

    /// The arguments as the container of this index gets them.
    fn expanded(&self, index: &str) -> Vec<String> {
        let mut env = self.env.clone();
        env.insert(INDEX.into(), index.into());
        let expand = |arg: &String| {
            env.iter()
                .fold(arg.clone(), |arg, (name, value)| arg.replace(&format!("$({name})"), value))
        };
        self.args.iter().map(expand).collect()
    }
}

/// The value of a key that stands once in a manifest.
fn number(manifest: &str, key: &str) -> u64 {
    let mut found =
        manifest.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
    let value = found.next().unwrap_or_else(|| panic!("no {key}")).parse().unwrap();
    assert!(found.next().is_none(), "{key} stands twice");
    value
}

#[test]
fn the_job_says_how_many_hosts_there_are_wherever_it_must() {
    let manifest = file("k8s/base/job.yaml");
    let pod = Pod::of(&manifest);
    let completions = number(&manifest, "completions");
    assert_eq!(number(&manifest, "parallelism"), completions);
    assert_eq!(pod.env["JOB_COMPLETIONS"], completions.to_string());
    assert!(pod.args.iter().any(|arg| arg == "--shard=auto"), "{:?}", pod.args);
}

#[test]
fn every_variable_of_an_argument_is_set_and_both_jobs_mean_one_folder() {
    let (load, merge) = (Pod::of(&file("k8s/base/job.yaml")), Pod::of(&file("k8s/job-merge.yaml")));
    for pod in [&load, &merge] {
        assert!(pod.args.len() > 2, "{:?}", pod.args);
        let left: Vec<String> =
            pod.expanded("0").into_iter().filter(|arg| arg.contains("$(")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let out =
        load.expanded("2").into_iter().find_map(|arg| Some(arg.strip_prefix("--out=")?.to_owned()));
    assert_eq!(out.as_deref(), Some(format!("{}/2", merge.expanded("")[1]).as_str()));
    assert!(load.args.contains(&format!("--api-key-env={KEY}")) && load.env[KEY].is_empty());
}

#[test]
fn workers_of_kubernetes_and_of_slurm_are_started_by_the_same_words() {
    for name in ["k8s/workers.yaml", "slurm/tokclock-sweep.sbatch"] {
        let text = file(name).replace("\n# ", " ");
        assert!(text.contains("--worker ") && text.contains(" tokclock worker"), "{name}");
    }
    let help = TOOL.run(Path::new("/"), "worker --help", &[]);
    assert!(help.status.success(), "{}", stderr(&help));
}

/// Starts what the containers of a Job would, with its load cut short.
fn shards(dir: &Path, manifest: &str, url: &str) -> Vec<Output> {
    let start_at = format!("{:.3}", realtime_ns() as f64 / 1e9 + 2.0);
    let pod = Pod::of(&manifest.replace("@START_AT@", &start_at));
    let start = |index: u64| {
        let words = pod.expanded(&index.to_string()).into_iter().map(|arg| match arg {
            arg if arg.starts_with("http://") => url.to_owned(),
            arg if arg.starts_with("--warmup=") => "--warmup=200ms".into(),
            arg if arg.starts_with("--duration=") => "--duration=1s".into(),
            arg => arg.replace("/results/", &format!("{}/", dir.display())),
        });
        let mut command = TOOL.command(dir);
        command.args(words).envs(&pod.env).env(INDEX, index.to_string()).env(KEY, "sk-of-a-secret");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // All of them before any is waited for.
    let mut started = Vec::new();
    started.extend((0..number(manifest, "completions")).map(start));
    started.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// What a result and its shards hold together: nothing was lost and nothing is there twice.
fn is_whole(merged: &Path, shards: &Path, count: usize) {
    let summary: Value = json(&merged.join("summary.json"));
    assert_eq!(summary["merge"]["present"], count, "{}", summary["merge"]);
    for lost in ["missing", "cut_off"] {
        assert_eq!(summary["merge"][lost], Value::Array(Vec::new()), "{}", summary["merge"]);
    }
    assert_eq!(summary["hosts"].as_array().unwrap().len(), count);
    let indices = |dir: PathBuf| -> Vec<u64> {
        let text = fs::read_to_string(dir.join("requests.jsonl")).unwrap();
        let index = |line| serde_json::from_str::<Value>(line).unwrap()["index"].as_u64().unwrap();
        text.lines().map(index).collect()
    };
    let mut apart: Vec<u64> =
        names(shards).iter().flat_map(|name| indices(shards.join(name))).collect();
    let mut together = indices(merged.to_owned());
    apart.sort_unstable();
    together.sort_unstable();
    assert_eq!(together, apart);
    assert!(!together.is_empty() && together.windows(2).all(|pair| pair[0] < pair[1]));
}

/// 0 and 3 are answers; a host that is too busy to be believed makes it 4, and 1 if it begins late. What
/// is whole all the same is looked at apart.
fn has_answer(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 1 | 3 | 4)), "{}", stderr(output));
}

#[test]
fn the_job_and_its_merge_make_one_result() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0");
    let outputs = shards(dir.path(), &file("k8s/base/job.yaml"), sim.url());
    assert_eq!(outputs.len(), 3);
    outputs.iter().for_each(has_answer);
    let merge = Pod::of(&file("k8s/job-merge.yaml")).expanded("");
    let local = |arg: &String| arg.replace("/results/", &format!("{}/", dir.path().display()));
    let merged = TOOL.command(dir.path()).args(merge.iter().map(local)).output().unwrap();
    has_answer(&merged);
    is_whole(&dir.path().join("demo/merged"), &dir.path().join("demo/shards"), 3);
    let found = Command::new("grep").args(["-rl", "sk-of-a-secret"]).arg(dir.path()).output();
    assert!(found.unwrap().stdout.is_empty(), "a key lies in a result");
}

/// What stands in for Slurm's `srun`: so many tasks on this host, or one with this one's input.
const SRUN: &str = r#"
tasks=2
while [[ $1 == --* ]]; do
    case $1 in --ntasks=*) tasks=${1#--ntasks=} ;; esac
    shift
done
export SLURM_STEP_NUM_TASKS=$tasks
[[ $tasks -gt 1 ]] || SLURM_PROCID=0 exec "$@"
started=()
for ((i = 0; i < tasks; i++)); do
    SLURM_PROCID=$i "$@" &
    started+=($!)
done
code=0
for pid in "${started[@]}"; do wait "$pid" || code=$?; done
exit "$code"
"#;

/// Runs a batch script as Slurm would on the first of two nodes.
fn batch(dir: &Path, script: &str, words: &[&str]) -> Output {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let tool = format!("exec '{}' \"$@\"", TOOL.0);
    for (name, text) in
        [("srun", SRUN), ("scontrol", "echo n1; echo n2"), ("tokclock", tool.as_str())]
    {
        fs::write(bin.join(name), format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/slurm").join(script);
    let mut command = Command::new("bash");
    command.current_dir(dir).arg(script).args(words).env("XDG_STATE_HOME", dir);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    // A batch script has these two: they make no shard of it.
    command.env("SLURM_PROCID", "0").env("SLURM_NTASKS", "2").env("SLURM_CPUS_PER_TASK", "1");
    command.env("SLURM_SUBMIT_DIR", dir).env("SLURM_JOB_ID", "42");
    command.env("SLURM_JOB_NODELIST", "n[1-2]").env("TOKCLOCK_MARGIN", "2");
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_batch_script_of_slurm_makes_one_result() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0");
    let load = ["--rate", "40", "--warmup", "200ms", "--duration", "1s"];
    has_answer(&batch(dir.path(), "tokclock.sbatch", &[&[sim.url()], &load[..]].concat()));
    let out = dir.path().join("tokclock-results/42");
    is_whole(&out.join("merged"), &out.join("shards"), 2);
}

#[test]
fn the_batch_script_for_sweeps_leads_a_worker_on_each_node() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0");
    let load = ["-c", "2,4", "--warmup", "100ms", "--duration", "400ms", "--drain", "2s"];
    let words = [&["sweep", sim.url()], &load[..]].concat();
    has_answer(&batch(dir.path(), "tokclock-sweep.sbatch", &words));
    let levels = dir.path().join("tokclock-results/42/levels");
    assert_eq!(names(&levels).len(), 2);
    for level in names(&levels) {
        is_whole(&levels.join(&level), &levels.join(&level).join("shards"), 2);
    }
}

#[test]
fn a_script_without_words_says_how_it_is_used() {
    for script in ["tokclock.sbatch", "tokclock-sweep.sbatch"] {
        let dir = tempfile::tempdir().unwrap();
        let output = batch(dir.path(), script, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(&format!("{script}: no ")), "{}", stderr(&output));
    }
}
