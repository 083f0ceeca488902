//! One seed, one load: the same requests at the same instants, whatever the number of reactors and of
//! hosts that share it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tokclock_engine::plan::data::DataSet;
use tokclock_engine::plan::{Materials, Plan};
use tokclock_engine::record::Phase;
use tokclock_engine::run::Control;
use tokclock_engine::workload::{
    Class, Content, DataSpec, Format, Groups, History, Law, LengthLaw, Load, Order, Overflow,
    Popularity, Replay, Schedule, Shard, Source, Stop, Turns, Warmup, Workload,
};
use tokclock_tests::{
    MS, Ran, Sim, carry_out_with, closed, on_reactors, poisson, requests, settings, workload,
};

/// What a server has seen of a load, and when its requests were meant to go.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// The hash of each body by its request's id.
    bodies: BTreeMap<String, String>,
    /// Of an open loop, ns since the load began, by the request's number; but for the later turns of
    /// conversations, which wait for answers.
    instants: BTreeMap<u64, u64>,
}

/// What is seen of a load that hosts of so many reactors each share.
fn seen(
    hosts: &[usize],
    load: &dyn Fn() -> Load,
    stop: Stop,
    materials: &Materials,
    change: &dyn Fn(&mut Workload),
) -> Seen {
    let sim = Sim::start(settings());
    let mut asked = workload(sim.address(), load(), stop);
    change(&mut asked);
    let is_open = !asked.load.is_closed();
    let mut instants = BTreeMap::new();
    for ran in parts(&asked, hosts, materials) {
        let own = ran.rows.iter().filter(|row| is_open && row.turn.unwrap_or(0) == 0);
        instants.extend(own.map(|row| (row.index, row.intended - ran.facts.load_start)));
    }
    let (report, truth) = sim.stop();
    let bodies: BTreeMap<String, String> =
        truth.into_iter().map(|one| (one.request_id.unwrap(), one.body_hash)).collect();
    assert_eq!(bodies.len() as u64, report.requests, "none twice");
    Seen { bodies, instants }
}

/// What becomes of the parts of a load, one after the other, on hosts of so many reactors each.
fn parts(whole: &Workload, hosts: &[usize], materials: &Materials) -> Vec<Ran> {
    let part = |(index, &reactors): (u32, &usize)| {
        let shard = Shard::new(index, hosts.len() as u32).unwrap();
        let part = on_reactors(Workload { shard, ..whole.clone() }, reactors);
        carry_out_with(&part, materials.clone(), &Arc::new(Control::new()))
    };
    (0..).zip(hosts).map(part).collect()
}

/// A load is the same on one reactor, on two and on three, and on hosts of one or more; another seed
/// gives another.
fn is_the_same(
    load: &dyn Fn() -> Load,
    stop: Stop,
    materials: &Materials,
    change: &dyn Fn(&mut Workload),
) -> Seen {
    let one = seen(&[1], load, stop, materials, change);
    for hosts in [&[3][..], &[2, 1, 1]] {
        assert_eq!(seen(hosts, load, stop, materials, change), one, "{hosts:?}");
    }
    one
}

fn law(text: &str) -> Law {
    Law::of_lengths(text).unwrap()
}

/// Two classes of spread lengths, of which one shares prefixes.
fn classes(workload: &mut Workload) {
    let spread = |input, output| {
        let mut content = Content::of_lengths(1, 1);
        content.lengths = LengthLaw::Apart { input: law(input), output: law(output) };
        content
    };
    let mut chat = spread("normal:64,16,min=8", "normal:6,2,min=1");
    chat.shared.groups = Some(Groups {
        count: 5,
        tokens: Some(law("normal:32,8,min=4")),
        popularity: Popularity::Zipf(1.0),
    });
    chat.shared.system_tokens = 12;
    let class = |name: &str, weight, content| Class {
        name: Some(name.to_owned()),
        weight,
        ..Class::only(content)
    };
    workload.mix =
        vec![class("chat", 3.0, chat), class("long", 1.0, spread("uniform:100,300", "2"))];
}

/// A file of requests, read as the only class's.
fn recording(text: &str, spec: &dyn Fn(DataSpec) -> DataSpec) -> (DataSpec, Materials) {
    let file = NamedTempFile::with_suffix(".jsonl").unwrap();
    std::fs::write(file.path(), text).unwrap();
    let spec = spec(DataSpec::new(Source::File(file.path().into())));
    let no_hub = |_: &str, _: Option<&str>, _: Option<&str>| Err("no hub".to_owned());
    let data = DataSet::load(&spec, None, &no_hub).unwrap();
    (spec, Materials { data: vec![Some(Arc::new(data))], ..Materials::default() })
}

#[test]
fn synthetic_classes_are_the_same_in_a_closed_loop() {
    let seen = is_the_same(&|| closed(6), requests(120), &Materials::default(), &classes);
    assert_eq!(seen.bodies.len(), 120);
    let other = |workload: &mut Workload| {
        classes(workload);
        workload.seed += 1;
    };
    let other = self::seen(&[1], &|| closed(6), requests(120), &Materials::default(), &other);
    assert!(seen.bodies.iter().all(|(id, hash)| other.bodies[id] != *hash), "another seed");
}

#[test]
fn synthetic_classes_are_the_same_at_the_same_instants_in_an_open_loop() {
    let load = || poisson(400.0, None, Overflow::Wait);
    let seen = is_the_same(&load, requests(120), &Materials::default(), &classes);
    assert_eq!((seen.bodies.len(), seen.instants.len()), (120, 120));
}

#[test]
fn a_shuffled_data_set_is_the_same() {
    let mut text = String::new();
    for number in 0..40 {
        let _ = writeln!(text, "{{\"prompt\":\"prompt number {number}\",\"output_tokens\":3}}");
    }
    let shuffle = |spec| DataSpec { order: Order::Shuffle, ..spec };
    let (spec, materials) = recording(&text, &shuffle);
    let change = |workload: &mut Workload| workload.mix[0].content.data = Some(spec.clone());
    let seen = is_the_same(&|| closed(5), requests(80), &materials, &change);
    assert_eq!(seen.bodies.len(), 80);
    let mut times: BTreeMap<&String, u32> = BTreeMap::new();
    seen.bodies.values().for_each(|hash| *times.entry(hash).or_default() += 1);
    assert_eq!(times.len(), 40);
    assert!(times.values().all(|times| *times == 2), "each once in each pass");
}

#[test]
fn a_trace_of_blocks_is_the_same_at_the_times_of_its_lines() {
    let mut text = String::new();
    for number in 0..60_u64 {
        let (at, own) = (number * 25, 1_000 + number);
        let _ = writeln!(
            text,
            "{{\"timestamp\":{at},\"input_length\":1100,\"output_length\":4,\
             \"hash_ids\":[{},{},{own}]}}",
            number % 3,
            10 + number % 3,
        );
    }
    let (spec, materials) =
        recording(&text, &|spec| DataSpec { format: Format::Mooncake, is_trace: true, ..spec });
    let change = |workload: &mut Workload| workload.mix[0].content.data = Some(spec.clone());
    let replay = Replay { speed: 4.0, loops: 2, ..Replay::default() };
    let load = || Load::Open {
        schedule: Schedule::Replay(replay),
        max_in_flight: None,
        overflow: Overflow::Wait,
    };
    let seen = is_the_same(&load, requests(120), &materials, &change);
    assert_eq!((seen.bodies.len(), seen.instants.len()), (120, 120));
    let first = seen.instants[&0];
    for number in 0..60 {
        assert_eq!(seen.instants[&number] - first, number * 25 * MS / 4);
    }
}

#[test]
fn recorded_conversations_are_the_same() {
    let mut text = String::new();
    for number in 0..20 {
        let turns: Vec<String> = (0..1 + number % 4)
            .map(|turn| format!("{{\"prompt\":\"q {number} {turn}\",\"answer\":\"a {turn}\"}}"))
            .collect();
        let _ = writeln!(text, "{{\"turns\":[{}]}}", turns.join(","));
    }
    let (spec, materials) = recording(&text, &|spec| spec);
    let stop = Stop { requests: None, sessions: Some(20), ..requests(1) };
    for load in [&(|| closed(4)) as &dyn Fn() -> Load, &|| poisson(100.0, None, Overflow::Wait)] {
        let change = |workload: &mut Workload| {
            workload.mix[0].content.data = Some(spec.clone());
            workload.mix[0].content.conversation.history = History::Recorded;
        };
        let seen = is_the_same(load, stop, &materials, &change);
        assert_eq!(seen.bodies.len(), 50);
        assert!(seen.instants.is_empty() || seen.instants.len() == 20);
    }
}

#[test]
fn synthetic_conversations_are_the_same() {
    let stop = Stop { requests: None, sessions: Some(20), ..requests(1) };
    let change = |workload: &mut Workload| {
        classes(workload);
        for class in &mut workload.mix {
            class.content.conversation.history = History::Recorded;
        }
        // One class of conversations, one of single requests.
        let count = law("uniform:1,4");
        workload.mix[0].content.conversation.turns = Some(Turns { count, input: None });
    };
    let load = || poisson(100.0, None, Overflow::Wait);
    let seen = is_the_same(&load, stop, &Materials::default(), &change);
    assert!(seen.bodies.len() > 25, "{}", seen.bodies.len());
}

/// The numbers of all measured requests of a load that these hosts share, and of those before them.
fn measured(hosts: &[usize], load: Load, stop: Stop) -> (BTreeSet<u64>, BTreeSet<u64>, Vec<Ran>) {
    let sim = Sim::start(settings());
    let ran = parts(&workload(sim.address(), load, stop), hosts, &Materials::default());
    let requests = sim.stop().0.requests;
    let of = |phase: Phase| -> BTreeSet<u64> {
        let rows = ran.iter().flat_map(|ran| &ran.rows);
        rows.filter(|row| row.phase == phase).map(|row| row.index).collect()
    };
    let (measured, before) = (of(Phase::Measure), of(Phase::Warmup));
    assert_eq!((measured.len() + before.len()) as u64, requests, "none twice, and none after");
    (measured, before, ran)
}

#[test]
fn the_measured_part_of_an_open_loop_is_the_same_on_any_number_of_hosts() {
    let warmups = [Warmup::None, Warmup::Requests(30), Warmup::Time(80 * MS)];
    for warmup in warmups {
        let load = || poisson(400.0, None, Overflow::Wait);
        let stop = Stop { warmup, ..requests(60) };
        let (one, before, ran) = measured(&[1], load(), stop);
        assert_eq!(one.len(), 60, "{warmup:?}");
        let first = before.len() as u64;
        assert_eq!(one, (first..first + 60).collect(), "{warmup:?}");
        let window = |ran: &Ran| ran.facts.window_start - ran.facts.load_start;
        let start = window(&ran[0]);
        for hosts in [&[1, 2][..], &[1, 1, 1]] {
            let (all, warm, ran) = measured(hosts, load(), stop);
            assert_eq!((&all, &warm), (&one, &before), "{warmup:?} {hosts:?}");
            assert!(ran.iter().all(|ran| window(ran) == start), "{warmup:?} {hosts:?}");
        }
    }
}

#[test]
fn as_many_are_measured_in_a_closed_loop_as_were_asked_for_on_any_number_of_hosts() {
    for warmup in [Warmup::None, Warmup::Requests(7), Warmup::Time(60 * MS)] {
        let stop = Stop { warmup, ..requests(31) };
        for hosts in [&[1][..], &[2, 1, 1]] {
            let (all, before, ran) = measured(hosts, closed(5), stop);
            assert_eq!(all.len(), 31, "{warmup:?} {hosts:?}");
            if let Warmup::Requests(requests) = warmup {
                assert_eq!(before, (0..requests).collect());
            }
            // Whose items they are follows from their numbers, whoever is quicker.
            for (index, ran) in (0..).zip(&ran) {
                let shard = Shard::new(index, hosts.len() as u32).unwrap();
                assert!(ran.rows.iter().all(|row| shard.has_item(row.index, 5)), "{hosts:?}");
            }
        }
    }
}

#[test]
fn conversations_by_requests_are_as_many_on_any_number_of_hosts() {
    let stop = Stop { warmup: Warmup::Requests(8), ..requests(40) };
    let count = law("uniform:1,4");
    for hosts in [&[1][..], &[2, 1]] {
        let sim = Sim::start(settings());
        let mut asked = workload(sim.address(), closed(6), stop);
        asked.mix[0].content.conversation.turns = Some(Turns { count: count.clone(), input: None });
        let ran = parts(&asked, hosts, &Materials::default());
        assert_eq!(sim.stop().0.requests, 48, "{hosts:?}");
        let rows = || ran.iter().flat_map(|ran| &ran.rows);
        assert_eq!(rows().filter(|row| row.phase == Phase::Measure).count(), 40, "{hosts:?}");
        let indices: BTreeSet<u64> = rows().map(|row| row.index).collect();
        assert_eq!(indices.len(), 48, "{hosts:?}");
    }
}

#[test]
fn a_load_that_hosts_cannot_share_is_refused() {
    let shard = Shard::new(2, 3).unwrap();
    let address = ([127, 0, 0, 1], 9).into();
    let few = poisson(5.0, Some(2), Overflow::Wait);
    let auto = Stop { warmup: Warmup::Auto(MS), ..requests(9) };
    let until = Stop { until: Some("ci(p95(ttft))<3%".parse().unwrap()), ..requests(9) };
    for (load, stop, words) in [
        (closed(2), requests(9), "2 users are too few for 3 hosts"),
        (few, requests(9), "max in flight 2 is too few for 3 hosts"),
        (closed(3), auto, "a warm-up until it is steady"),
        (closed(3), until, "an end once enough is known"),
    ] {
        let whole = workload(address, load, stop);
        let plan = |workload: &Workload| Plan::new(workload, &Materials::default(), "run");
        assert!(plan(&whole).is_ok(), "{words}");
        let error = plan(&Workload { shard, ..whole }).unwrap_err().to_string();
        assert!(error.starts_with(words) && !error.contains('\n'), "{error}");
    }
}
