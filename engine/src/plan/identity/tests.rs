//! What makes another workload, and what does not.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::plan::data::DataSet;
use crate::workload::{
    Address, CacheBust, Cancel, CancelAfter, Connections, DataSpec, Dialect, Format, Limits,
    Overflow, RateSeries, Retries, Source, Tls, Until, sample,
};

fn hash_with(workload: &Workload, materials: &Materials) -> String {
    Identity::of(workload, materials).unwrap().with_load(workload)
}

fn hash(workload: &Workload) -> String {
    hash_with(workload, &Materials::default())
}

fn changed(change: impl FnOnce(&mut Workload)) -> String {
    let mut workload = sample();
    change(&mut workload);
    hash(&workload)
}

fn open(rate: f64, arrival: Arrival, max_in_flight: Option<u64>) -> Load {
    let schedule = Schedule::Rate { rate, arrival };
    Load::Open { schedule, max_in_flight, overflow: Overflow::Wait }
}

#[test]
fn where_it_goes_and_how_this_host_sends_are_left_out() {
    let plain = hash(&sample());
    assert!(plain.starts_with("sha256:") && plain.len() == 7 + 64, "{plain}");
    let same = [
        ("seed", changed(|workload| workload.seed = 99)),
        (
            "server",
            changed(|workload| {
                let endpoint = &mut workload.target.endpoints[0];
                endpoint.url = "https://elsewhere/x".into();
                endpoint.host = "elsewhere".into();
                endpoint.path = "/x/v1/chat/completions".into();
                endpoint.addresses = vec![Address::Unix("/run/s".into())];
                workload.target.tls = Tls { verify: false, ..Tls::default() };
                let second = workload.target.endpoints[0].clone();
                workload.target.endpoints.push(second);
            }),
        ),
        (
            "key",
            changed(|workload| {
                workload.target.headers.push(("Authorization".into(), "Bearer sk-1".into()));
            }),
        ),
        ("reactors", changed(|workload| workload.client = Client::on(vec![0, 1, 2]))),
        ("connections", changed(|workload| workload.client.connections = Connections::PerRequest)),
        ("kept", changed(|workload| workload.client.keep_text = true)),
        (
            "limits",
            changed(|workload| {
                workload.limits = Limits { request_ns: Some(1), ..Limits::default() };
            }),
        ),
        ("name of a class", changed(|workload| workload.mix[0].name = Some("a".into()))),
        (
            "objectives",
            changed(|workload| {
                workload.objectives.slo = vec!["p95(ttft)<1s".parse().unwrap()];
            }),
        ),
    ];
    for (what, other) in same {
        assert_eq!(other, plain, "{what}");
    }
}

#[test]
fn whatever_is_sent_or_when_makes_it_another() {
    let mut seen = vec![("plain", hash(&sample()))];
    let mut add = |what, other: String| {
        let like = seen.iter().find(|(_, hash)| *hash == other);
        assert!(like.is_none(), "{what} is like {}", like.unwrap().0);
        seen.push((what, other));
    };
    add("dialect", changed(|w| w.target.dialect = Dialect::OpenaiCompletions));
    add("model", changed(|w| w.target.model = "other".into()));
    add("stream", changed(|w| w.target.stream = false));
    add("forced length", changed(|w| w.target.force_length = false));
    add("token ids", changed(|w| w.target.return_token_ids = true));
    add("usage", changed(|w| w.target.continuous_usage = true));
    add("session header", changed(|w| w.target.session_header = Some("X-S".into())));
    add("header", changed(|w| w.target.headers.push(("X-Route".into(), "blue".into()))));
    add("body", changed(|w| drop(w.target.extra_body.insert("top_k".into(), 5.into()))));
    let lengths = |text: &str, other: &str| LengthLaw::Apart {
        input: Law::of_lengths(text).unwrap(),
        output: Law::of_lengths(other).unwrap(),
    };
    add("isl", changed(|w| w.mix[0].content.lengths = lengths("9", "8")));
    add("osl", changed(|w| w.mix[0].content.lengths = lengths("8", "uniform:1,9")));
    add("system prompt", changed(|w| w.mix[0].content.shared.system_tokens = 4));
    add("cache bust", changed(|w| w.mix[0].content.cache_bust = CacheBust::Run));
    add("pause", changed(|w| w.mix[0].content.think = Some(Law::constant_ns(5))));
    add("template tokens", changed(|w| w.mix[0].content.template_tokens = 3));
    add("a second class", changed(|w| w.mix.push(w.mix[0].clone())));
    add("weight", changed(|w| w.mix[0].weight = 2.0));
    add("model of a class", changed(|w| w.mix[0].model = Some("m".into())));
    add("users", changed(|w| w.load = Load::Closed { users: 2, ramp_ns: 0 }));
    add("ramp", changed(|w| w.load = Load::Closed { users: 1, ramp_ns: 7 }));
    add("rate", changed(|w| w.load = open(5.0, Arrival::Poisson, None)));
    add("another rate", changed(|w| w.load = open(5.5, Arrival::Poisson, None)));
    add("arrival", changed(|w| w.load = open(5.0, Arrival::Constant, None)));
    add("burstiness", changed(|w| w.load = open(5.0, Arrival::Gamma { burstiness: 0.5 }, None)));
    add("cap", changed(|w| w.load = open(5.0, Arrival::Poisson, Some(4))));
    let series = |text: &str| Load::Open {
        schedule: Schedule::Series {
            series: text.parse::<RateSeries>().unwrap(),
            arrival: Arrival::Poisson,
        },
        max_in_flight: None,
        overflow: Overflow::Wait,
    };
    add("rates", changed(|w| w.load = series("5@2s,6@1s")));
    add("other rates", changed(|w| w.load = series("5@2s,6@2s")));
    add("requests", changed(|w| w.stop.requests = Some(9)));
    add("duration", changed(|w| w.stop.duration_ns = Some(8)));
    add("warm-up", changed(|w| w.stop.warmup = Warmup::Requests(8)));
    add("warm-up by time", changed(|w| w.stop.warmup = Warmup::Time(8)));
    add("drain", changed(|w| w.stop.drain_ns = 8));
    let until: Until = "ci(p95(ttft))<3%".parse().unwrap();
    add("until", changed(|w| w.stop.until = Some(until)));
    add("retries", changed(|w| w.client.retries = Retries { max: 1, backoff_ns: 1 }));
    let cancel = Cancel { rate: 0.5, after: CancelAfter::Events(4) };
    add("cancelling", changed(|w| w.client.cancel = Some(cancel)));
}

fn recorded(text: &str) -> String {
    let spec = DataSpec { format: Format::Native, ..DataSpec::new(Source::Stdin) };
    let data = DataSet::read(&spec, "d.jsonl", Box::new(Cursor::new(text.to_owned())), None);
    let mut workload = sample();
    workload.mix[0].content.data = Some(spec);
    let data = vec![Some(Arc::new(data.unwrap()))];
    hash_with(&workload, &Materials { data, ..Materials::default() })
}

#[test]
fn an_edited_recording_is_another_workload_and_a_moved_one_is_not() {
    let line = |number: usize| format!("{{\"prompt\":\"number {number}\"}}\n");
    let text: String = (0..100).map(line).collect();
    let edited = text.replace("number 97", "number 79");
    assert_eq!(recorded(&text), recorded(&text));
    assert_ne!(recorded(&text), recorded(&edited), "far behind the bodies that are looked at");
    let shorter: String = (0..99).map(line).collect();
    assert_ne!(recorded(&text), recorded(&shorter));
}

#[test]
fn what_other_files_hold_counts_and_not_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let law = |path: &Path| {
        let law = Law::of_lengths(&format!("file:{}", path.display())).unwrap();
        changed(|w| {
            w.mix[0].content.lengths = LengthLaw::Apart { input: law, output: Law::constant(8) };
        })
    };
    let (one, two) = (write("a", "5\n6\n"), write("b", "5\n7\n"));
    assert_eq!(law(&one), law(&write("c", "5\n6\n")));
    assert_ne!(law(&one), law(&two));
    let corpus = |path: &Path| changed(|w| w.text.corpus = Some(path.to_owned()));
    assert_eq!(corpus(&one), corpus(&write("d", "5\n6\n")));
    assert_ne!(corpus(&one), corpus(&two));
}

proptest! {
    #[test]
    fn parts_are_not_taken_for_each_other(one in ".{0,6}", two in ".{0,6}", cut in 0_usize..7) {
        let both = format!("{one}{two}");
        let at = (0..=cut.min(both.len())).rev().find(|at| both.is_char_boundary(*at)).unwrap();
        let hash = |name: &str, value: &str| {
            let mut lines = Lines::new();
            lines.add(name, value);
            lines.finish()
        };
        prop_assert_eq!(hash(&one, &two) == hash(&both[..at], &both[at..]), at == one.len());
    }
}

#[test]
fn the_hash_is_that_of_every_build_and_host() {
    let mut lines = Lines::new();
    lines.add("a", "b");
    let whole = b"\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0b";
    let mut expected = "sha256:".to_owned();
    for byte in ring::digest::digest(&SHA256, whole).as_ref() {
        write!(expected, "{byte:02x}").unwrap();
    }
    assert_eq!(lines.finish(), expected);
}
