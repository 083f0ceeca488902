//! Objectives and limits as users write them, right and wrong.

use proptest::prelude::*;

use super::*;

fn objective(text: &str) -> Objective {
    text.parse().unwrap()
}

fn limit(metric: Metric, limit_ms: u64) -> Limit {
    Limit { metric, limit_ns: limit_ms * 1_000_000 }
}

#[test]
fn an_objective_is_read_in_all_its_forms() {
    let cases = [
        ("p95(ttft)<500ms", Percentile::Quantile(0.95), Metric::Ttft, 500_000_000, false),
        ("p99.9(itl)<=40ms", Percentile::Quantile(0.999), Metric::Itl, 40_000_000, true),
        ("mean(e2e)<2s", Percentile::Mean, Metric::E2e, 2_000_000_000, false),
        ("max(ttft)<1s", Percentile::Max, Metric::Ttft, 1_000_000_000, false),
        (" P5 ( E2EL ) <= 0.25 s ", Percentile::Quantile(0.05), Metric::E2e, 250_000_000, true),
        ("p50(icl)<10us", Percentile::Quantile(0.5), Metric::Icl, 10_000, false),
        ("avg(ttfo)<7ns", Percentile::Mean, Metric::Ttfo, 7, false),
    ];
    for (text, percentile, metric, limit_ns, inclusive) in cases {
        let text_kept = text.trim().to_owned();
        let aim = Aim::Latency { percentile, metric, limit_ns };
        let expected = Objective { text: text_kept, aim, inclusive };
        assert_eq!(objective(text), expected);
    }
}

#[test]
fn a_share_is_bounded_on_the_side_where_it_hurts() {
    let cases = [
        ("error_rate<1%", Aim::ErrorRate(0.01), false),
        ("Error_Rate <= 0.05", Aim::ErrorRate(0.05), true),
        ("goodput_share>=0.95", Aim::GoodputShare(0.95), true),
        ("goodput_share > 99 %", Aim::GoodputShare(0.99), false),
    ];
    for (text, aim, inclusive) in cases {
        assert_eq!(objective(text), Objective { text: text.into(), aim, inclusive });
    }
}

#[test]
fn a_wrong_objective_names_the_part_and_shows_a_right_one() {
    let cases = [
        ("", "objective ``: write it like"),
        ("ttft<500ms", "objective `ttft<500ms`: write it like"),
        ("p95(ttft<500ms", "objective `"),
        ("p95(ttft)=500ms", "objective `"),
        ("p95(ttft)>500ms", "upper bound"),
        ("error_rate>1%", "upper bound"),
        ("goodput_share<0.95", "lower bound"),
        ("error_rate<150%", "limit `150%`: give a share"),
        ("error_rate<1ms", "limit `1ms`: give a share"),
        ("goodput_share>=", "limit ``: give a share"),
        ("p100(ttft)<500ms", "figure `p100`"),
        ("p0(ttft)<500ms", "figure `p0`"),
        ("p-5(ttft)<500ms", "figure `p-5`"),
        ("p9e1(ttft)<500ms", "figure `p9e1`"),
        ("p(ttft)<500ms", "figure `p`"),
        ("median(ttft)<500ms", "figure `median`"),
        ("p95(tfft)<500ms", "metric `tfft`"),
        ("p95(ttft)<500", "limit `500`: give a number and its unit"),
        ("p95(ttft)<5m", "limit `5m`: give a number and its unit"),
        ("p95(ttft)<ms", "limit `ms`: give a plain number"),
        ("p95(ttft)<-1ms", "limit `-1ms`: give a plain number"),
        ("p95(ttft)<1.2.3ms", "limit `1.2.3ms`: give a plain number"),
        ("p95(ttft)<0ms", "limit `0ms`"),
        ("p95(ttft)<99999999999s", "limit `99999999999s`"),
        ("p95(ttft)<500\u{b5}s", "limit `"),
    ];
    for (text, expected) in cases {
        let error = text.parse::<Objective>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn goodput_is_read_in_the_form_of_vllm() {
    let expected = Goodput {
        limits: vec![limit(Metric::Ttft, 500), limit(Metric::Tpot, 50), limit(Metric::E2e, 5_000)],
    };
    for text in ["ttft:500 tpot:50 e2el:5000", "ttft:500,tpot:50, e2e:5s"] {
        assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
    }
    assert_eq!(expected.to_string(), "ttft:500 tpot:50 e2e:5000");
    let fine: Goodput = "itl:0.25".parse().unwrap();
    assert_eq!(fine.limits, [Limit { metric: Metric::Itl, limit_ns: 250_000 }]);
    assert_eq!(fine.to_string(), "itl:0.25");
}

#[test]
fn a_wrong_goodput_names_the_part_and_shows_a_right_one() {
    let cases = [
        (" , ", "names no limit"),
        ("ttft", "goodput `ttft`: write a metric and its limit"),
        ("ttft:500 foo:5", "metric `foo`"),
        ("ttft:", "limit ``: give a plain number"),
        ("ttft:nan", "limit `nan`"),
        ("ttft:5 ttft:6", "ttft has two limits"),
        ("e2e:5 e2el:6", "e2e has two limits"),
        ("icl:5", "icl is many values per request"),
    ];
    for (text, expected) in cases {
        let error = text.parse::<Goodput>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn objectives_limit_requests_unless_goodput_does() {
    let slo =
        ["p95(ttft)<500ms", "p99(ttft)<=300ms", "mean(e2e)<2s", "p95(icl)<1ms", "p95(ttfb)<1ms"];
    let mut objectives = Objectives { slo: slo.map(objective).to_vec(), ..Objectives::default() };
    let expected = vec![limit(Metric::Ttft, 300), limit(Metric::E2e, 2_000)];
    assert_eq!(objectives.request_limits(), Some(expected));
    objectives.goodput = Some("tpot:50".parse().unwrap());
    assert_eq!(objectives.request_limits(), Some(vec![limit(Metric::Tpot, 50)]));
}

#[test]
fn without_limits_there_is_no_good_request() {
    assert_eq!(Objectives::default().request_limits(), None);
    let slo = vec![objective("p95(icl)<1ms")];
    assert_eq!(Objectives { slo, ..Objectives::default() }.request_limits(), None);
    let empty = Objectives { goodput: Some(Goodput::default()), ..Objectives::default() };
    assert_eq!(empty.request_limits(), None);
}

proptest! {
    #[test]
    fn percentiles_are_read_back_as_written(thousandths in 1u32..100_000) {
        let text = format!("{:.3}", f64::from(thousandths) / 1_000.0);
        let percentile: Percentile = format!("p{text}").parse().unwrap();
        prop_assert_eq!(percentile.to_string().parse(), Ok(percentile));
    }

    #[test]
    fn goodput_is_read_back_as_written(limit_ns in 1u64..1_000_000_000_000) {
        let goodput = Goodput { limits: vec![Limit { metric: Metric::Itl, limit_ns }] };
        prop_assert_eq!(goodput.to_string().parse(), Ok(goodput));
    }

    #[test]
    fn no_text_makes_the_readers_panic(text: String, marks in "[p0-9.()<=:a-z ]{0,24}") {
        for text in [text, marks] {
            let _ = text.parse::<Objective>();
            let _ = text.parse::<Goodput>();
        }
    }
}
