//! What is read, what is refused, and the figures that are computed and not drawn.

use std::io::Write;

use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::peers::{
    aiperf_seq_dist, genai_bench, guidellm, range_ratios, with_range_ratio, with_stddev,
};
use super::*;
use crate::plan::random::{Purpose, Streams};

fn lengths(text: &str) -> Law {
    Law::of_lengths(text).unwrap_or_else(|error| panic!("{error}"))
}

fn times(text: &str) -> Law {
    Law::of_times(text).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    Law::of_lengths(text).unwrap_err().to_string()
}

fn file(lines: &str) -> (NamedTempFile, String) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    let text = format!("file:{}", file.path().display());
    (file, text)
}

fn drawn_mean(law: &Law) -> f64 {
    let streams = Streams::new(3, Purpose::Sample);
    (0..20_000).map(|index| law.sample(&mut streams.at(index))).sum::<f64>() / 20_000.0
}

fn close(found: f64, exact: f64, bound: f64) {
    assert!((found / exact - 1.0).abs() < bound, "{found} for {exact}");
}

#[test]
fn a_law_reads_back_from_its_text() {
    let (_file, from_file) = file("1\n2\n");
    for text in [
        "512",
        "uniform:1,1024",
        "normal:512,128,min=1,max=4096",
        "lognormal:512,128",
        "lognormal:median=512,p95=4096,max=8192",
        "gamma:512,128",
        "exp:512,min=4",
        "zipf:1.2,4096",
        "mix:70%*512,30%*normal:4096,512,max=8192",
        "mix:1*uniform:1,2,2*exp:9,0.5*3",
        from_file.as_str(),
    ] {
        let law = lengths(text);
        assert_eq!(law.to_string(), text);
        assert_eq!(lengths(&law.to_string()), law);
    }
    for text in
        ["2s", "exp:500ms", "uniform:1s,5s", "lognormal:median=2s,p95=20s", "0", "mix:1*1m,1*1h"]
    {
        assert_eq!(times(&times(text).to_string()), times(text));
    }
    assert_eq!(Law::constant(512), lengths(" 512 "));
    assert_eq!(Law::constant(512).to_string(), "512");
    assert_eq!(Law::constant_ns(1_500_000), times("1.5ms"));
    assert_eq!(times(&Law::constant_ns(7).to_string()), Law::constant_ns(7));
    assert_ne!(Law::constant(7), Law::constant_ns(7));
}

#[test]
fn laws_without_spread_are_constants() {
    for text in [
        "512",
        "uniform:512,512",
        "normal:512,0",
        "lognormal:512,0",
        "gamma:512,0",
        "mix:9*512",
        "lognormal:median=512,p99=512",
        "600,max=512",
        "1,min=512",
    ] {
        assert!(lengths(text).is_constant(), "{text}");
        assert_eq!(lengths(text), Law::constant(512), "{text}");
        assert_eq!((lengths(text).mean(), lengths(text).max()), (512.0, Some(512.0)));
    }
    assert!(!lengths("exp:512").is_constant());
    assert_eq!(Law::constant(0).sample(&mut Streams::new(0, Purpose::Sample).at(0)), 0.0);
}

#[test]
fn times_carry_their_units() {
    let values =
        ["5ns", "5us", "5ms", "5s", "5m", "5h", "0", "0.5s"].map(|text| times(text).mean());
    assert_eq!(values, [5.0, 5e3, 5e6, 5e9, 300e9, 18_000e9, 0.0, 5e8]);
    for (text, expected) in [
        ("2", "`2`: give a time with a unit"),
        ("exp:2d", "`2d`: give a time with a unit"),
        ("normal:2s,5", "standard deviation `5`: give a time with a unit"),
        ("400000h", "over a year"),
        ("-1s", "at least 0"),
        ("zipf:1,100", "zipf is a law of lengths"),
    ] {
        let found = Law::of_times(text).unwrap_err().to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn means_and_bounds_are_those_of_the_clamped_law() {
    for (text, mean, max) in [
        ("uniform:1,9", 5.0, Some(9.0)),
        ("uniform:0,9,max=5", (1.0 + 1.0 + 2.0 + 3.0 + 4.0 + 5.0 * 5.0) / 10.0, Some(5.0)),
        ("uniform:5,9,min=20", 20.0, Some(20.0)),
        ("zipf:1,3", 3.0 / (1.0 + 1.0 / 2.0 + 1.0 / 3.0), Some(3.0)),
        ("zipf:0,4,min=2,max=3", (2.0 + 2.0 + 3.0 + 3.0) / 4.0, Some(3.0)),
        ("normal:512,8", 512.0, None),
        ("gamma:512,64", 512.0, None),
        ("lognormal:512,64", 512.0, None),
        ("exp:512,min=100", 100.0 + 512.0 * (-100f64 / 512.0).exp(), None),
        ("exp:512,max=1024", 1.0 - 512.0 * ((-2f64).exp() - (-1f64 / 512.0).exp()), Some(1024.0)),
        ("mix:70%*512,30%*uniform:1,9", 0.7 * 512.0 + 0.3 * 5.0, Some(512.0)),
        ("mix:0*normal:9,1,3*512,1*100", 409.0, Some(512.0)),
        ("mix:1*normal:9,1,3*512", 386.25, None),
    ] {
        close(lengths(text).mean(), mean, 1e-9);
        assert_eq!(lengths(text).max(), max, "{text}");
    }
    let median = lengths("lognormal:median=512,p95=4096").mean();
    let sigma = 8f64.ln() / 1.644_853_626_951_472_2;
    close(median, 512.0 * (sigma * sigma / 2.0).exp(), 1e-4);
}

#[test]
fn drawn_means_meet_the_computed_ones_where_clamps_bite() {
    for text in [
        "normal:100,100,min=50,max=150",
        "normal:10,200",
        "lognormal:100,300,min=20,max=500",
        "gamma:100,200,min=30,max=400",
        "exp:100,min=80,max=90",
        "uniform:10,200,min=100,max=150",
        "zipf:1.1,1000,min=3,max=200",
    ] {
        // Five standard errors of a law whose spread is at most twice its mean: 7 %.
        close(drawn_mean(&lengths(text)), lengths(text).mean(), 0.03);
    }
    for text in ["uniform:1s,5s,max=2s", "lognormal:median=2s,p95=20s,max=30s", "exp:1s"] {
        close(drawn_mean(&times(text)), times(text).mean(), 0.03);
    }
}

#[test]
fn files_are_histograms_or_values() {
    let (_values, text) = file("# lengths\n10\n\n20\r\n60\n");
    assert_eq!((lengths(&text).mean(), lengths(&text).max()), (30.0, Some(60.0)));
    let (_histogram, text) = file("\u{feff}value,weight\n10,1\n20,3\n90,0\n");
    assert_eq!((lengths(&text).mean(), lengths(&text).max()), (17.5, Some(20.0)));
    assert_eq!(lengths(&format!("{text},min=15")).mean(), 18.75);
    assert_eq!(lengths(&format!("mix:1*{text},max=15,1*5")).mean(), (13.75 + 5.0) / 2.0);
    let (_times, text) = file("1s\n3s\n");
    assert_eq!(times(&text).mean(), 2e9);
    let (_one, text) = file("7\n7\n");
    assert_eq!(lengths(&text), Law::constant(7));
}

#[test]
fn broken_files_are_refused_by_line() {
    for (lines, expected) in [
        ("10\nx\n", "line 2: `x` is not a number"),
        ("10\n\n-3\n", "line 3: `-3`: give a finite number"),
        ("nan\n", "line 1: `nan`: give a finite number"),
        ("1,2\n2\n", "line 2: give a weight in every line"),
        ("1\n2,2\n", "line 2: give a weight in every line"),
        ("1,2,3\n", "line 1: give `value` or `value,weight`"),
        ("1,-2\n", "line 1: weight `-2`"),
        ("1,inf\n", "line 1: weight `inf`"),
        ("5000000\n", "line 1: `5000000` is too many tokens"),
        ("1,0\n2,0\n", "all weights are 0"),
        ("value\n", "no values in it"),
        ("", "no values in it"),
    ] {
        let (file, text) = file(lines);
        let found = refusal(&text);
        assert!(found.contains(expected), "{lines}: {found}");
        assert!(found.starts_with(&file.path().display().to_string()), "{found}");
        assert!(!found.contains('\n'));
    }
    assert!(refusal("file:/no/such").starts_with("/no/such: it cannot be read: No such file"));
    assert!(refusal("file:/").contains("it cannot be read"));
}

#[test]
fn laws_that_make_no_sense_are_refused() {
    for (text, expected) in [
        ("", "no law of this form"),
        ("abc", "no law of this form"),
        ("weibull:1,2", "`weibull` is no law"),
        ("normal:512", "normal takes other figures: write `normal:512,128`"),
        ("normal:512,1,2", "normal takes other figures"),
        ("normal:512,-1", "standard deviation `-1`: give a finite number of at least 0"),
        ("normal:nan,1", "`nan`: give a finite number"),
        ("gamma:inf,1", "`inf`: give a finite number"),
        ("gamma:0,1", "mean must be above 0"),
        ("exp:x", "`x` is not a number"),
        ("uniform:9,1", "the low end 9 is above the high end 1"),
        ("uniform:1.5,9", "`1.5` must be whole"),
        ("0", "at least 1 token"),
        ("1.5", "must be whole"),
        ("5000000", "too many tokens"),
        ("5,min=0", "min must be at least 1"),
        ("5,min=9,max=8", "min 9 is above max 8"),
        ("5,min=1,min=2", "min is given twice"),
        ("zipf:-1,9", "exponent `-1`"),
        ("zipf:nan,9", "exponent `nan`"),
        ("zipf:1,0", "max must be at least 1"),
        ("lognormal:median=9,p95=4", "below its median"),
        ("lognormal:median=9,p80=40", "write `lognormal:"),
        ("mix:50%*5,49%*6", "the weights are 99 % in sum"),
        ("mix:50%*5,1*6", "all weights in %, or none"),
        ("mix:0*5,0*6", "all weights are 0"),
        ("mix:-1*5,2*6", "weight `-1`"),
        ("mix:5,6", "WEIGHT*LAW"),
        ("mix:1*mix:1*5,1*6", "a mix in a mix"),
        ("mix:1*5,1*normal:5", "`normal:5`: normal takes other figures"),
    ] {
        let found = refusal(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

fn apart(input: &str, output: &str) -> LengthLaw {
    LengthLaw::Apart { input: lengths(input), output: lengths(output) }
}

#[test]
fn aiperf_lengths_are_read_in_all_their_forms() {
    let law = |text: &str| aiperf_seq_dist(text).unwrap();
    let plain = law("256|20,128|10:60;512|50,256|20:40");
    let expected = LengthLaw::Joint(vec![
        (60.0, lengths("normal:256,20"), lengths("normal:128,10")),
        (40.0, lengths("normal:512,50"), lengths("normal:256,20")),
    ]);
    assert_eq!(plain, expected);
    assert_eq!(law("[(256|20,128|10):60,(512|50,256|20):40]"), expected);
    let json = r#"{"pairs":[
        {"isl":256,"isl_stddev":20,"osl":128,"osl_stddev":10,"prob":60},
        {"isl":512,"isl_stddev":50.0,"osl":256,"osl_stddev":20,"prob":40}]}"#;
    assert_eq!(law(json), expected);
    let fixed = law("256,128:40; 512,256:60");
    assert_eq!(fixed, law("[(256,128):40, (512,256):60]"));
    close(fixed.means().0, 0.4 * 256.0 + 0.6 * 512.0, 1e-12);
    assert_eq!((fixed.input_max(), fixed.output_max()), (Some(512), Some(256)));
    assert_eq!(plain.input_max(), None);
    for (text, expected) in [
        ("256,128:40", "the weights are 40 % in sum"),
        ("256:100", "`256:100` is no pair"),
        ("256,128", "is no pair"),
        ("x,128:100", "`x`"),
        ("[(256,128):100", "no `]`"),
        ("{\"pairs\":[{\"isl\":5,\"prob\":100}]}", "a pair has no `osl`"),
        ("{", "not JSON"),
        ("", "no pairs in it"),
    ] {
        let found = aiperf_seq_dist(text).unwrap_err().to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn guidellm_lengths_are_read() {
    let law = |text: &str| guidellm(text).unwrap();
    assert_eq!(law("prompt_tokens=512,output_tokens=128"), apart("512", "128"));
    let expected = apart("normal:512,128,min=1,max=1024", "normal:128,10,min=78,max=178");
    let all = "kind=synthetic_text,prompt_tokens=512,prompt_tokens_stdev=128,prompt_tokens_min=1,\
               prompt_tokens_max=1024,output_tokens=128,output_tokens_stdev=10";
    assert_eq!(law(all), expected);
    let json = r#"{"kind":"synthetic_text","prompt_tokens":512,"prompt_tokens_stdev":128,
        "prompt_tokens_min":1,"prompt_tokens_max":1024,"output_tokens":128,
        "output_tokens_stdev":10,"output_tokens_min":null}"#;
    assert_eq!(law(json), expected);
    let bounds = law("prompt_tokens=5,prompt_tokens_min=1,prompt_tokens_max=9,output_tokens=1");
    assert_eq!(bounds, apart("uniform:1,9", "1"));
    for (text, expected) in [
        ("prompt_tokens=5,output_tokens=5,turns=3", "`turns` is not taken here: use --turns"),
        ("prompt_tokens=5,output_tokens=5,delay=2", "--think-time"),
        (r#"{"prompt_tokens":5,"output_tokens":5,"prefix_buckets":[]}"#, "use --prefix-groups"),
        ("prompt_tokens=5,output_tokens=5,colour=2", "give prompt_tokens and output_tokens"),
        ("prompt_tokens=5", "no `output_tokens`"),
        ("prompt_tokens=5,prompt_tokens=6", "given twice"),
        ("prompt_tokens=x,output_tokens=5", "`x`"),
        ("kind=file,prompt_tokens=5", "kind `file`"),
        ("prompt_tokens", "no KEY=VALUE"),
    ] {
        let found = guidellm(text).unwrap_err().to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn ratios_and_deviations_of_peers_give_their_laws() {
    assert_eq!(with_range_ratio(512, 0.2).unwrap(), lengths("uniform:409,615"));
    assert_eq!(with_range_ratio(512, 0.0).unwrap(), Law::constant(512));
    for ratio in [1.0, -0.1, f64::NAN] {
        assert!(with_range_ratio(512, ratio).is_err());
    }
    assert_eq!(range_ratios("0.2").unwrap(), (0.2, 0.2));
    assert_eq!(range_ratios(r#"{"input":0.2,"output":0.1}"#).unwrap(), (0.2, 0.1));
    assert_eq!(range_ratios(r#"{"output":0.1}"#).unwrap(), (0.0, 0.1));
    for text in ["x", "{}x", r#"{"in":1}"#, r#"{"input":"a"}"#] {
        assert!(range_ratios(text).is_err(), "{text}");
    }
    assert_eq!(with_stddev(512, 0.0).unwrap(), Law::constant(512));
    assert_eq!(with_stddev(512, 50.5).unwrap(), lengths("normal:512,50.5"));
    assert!(with_stddev(512, -1.0).is_err() && with_stddev(0, 0.0).is_err());
    assert_eq!(genai_bench("D(100,1000)").unwrap(), apart("100", "1000"));
    let normal = genai_bench("N(480,240)/(300,150)").unwrap();
    assert_eq!(normal, apart("normal:480,240", "normal:300,150"));
    let uniform = genai_bench("U(50,100)/(200,250)").unwrap();
    assert_eq!(uniform, apart("uniform:50,100", "uniform:200,250"));
    for text in ["", "D(100)", "N(1,2)", "E(64)", "D(1,2", "\u{e9}(1,2)"] {
        assert!(genai_bench(text).is_err(), "{text}");
    }
}

#[test]
fn pairs_are_read_from_their_file() {
    let pairs = |lines: &str| {
        let (file, _) = file(lines);
        LengthLaw::of_pairs(&format!("pairs:{}", file.path().display()))
    };
    let law = pairs("input,output,weight\n100,10,3\n500,0,1\n").unwrap();
    assert_eq!(law.means(), (200.0, 7.75));
    assert_eq!((law.input_max(), law.output_max()), (Some(500), Some(10)));
    assert_eq!(pairs("100,10\n300,20\n").unwrap().means(), (200.0, 15.0));
    for (lines, expected) in [
        ("output_tokens,input_tokens\n1,2\n", "line 1: the columns must be input,output"),
        ("1,2\n3\n", "line 2: give `input,output`"),
        ("1,2\n3,4,5\n", "line 2: give a weight in every line"),
        ("1,2.5\n", "line 1: `2.5`: give a whole number"),
        ("1,x\n", "line 1: `x` is not a number"),
        ("1,2,0\n", "all weights are 0"),
        ("a,b\n", "no pairs in it"),
    ] {
        let found = pairs(lines).unwrap_err().to_string();
        assert!(found.contains(expected), "{lines}: {found}");
    }
    assert_eq!(apart("5", "6"), LengthLaw::constant(5, 6));
    assert!(LengthLaw::of_pairs("pairs:/no/such").unwrap_err().to_string().contains("/no/such"));
}

proptest! {
    #[test]
    fn any_text_is_a_law_within_its_bounds_or_refused(
        name in "(|uniform:|normal:|lognormal:|lognormal:median=|gamma:|exp:|zipf:|mix:1\\*)",
        figures in "(0|1|7|300|1e6|1e-9|1e308|0.5|-1|x)(,(|p95=)(0|1|2|900|4e6|1e-9|1e308))?",
        end in "(|,min=2|,max=90|,min=9,max=8|,3\\*exp:4|,%)",
        seed: u64,
    ) {
        if let Ok(law) = Law::of_lengths(&format!("{name}{figures}{end}")) {
            let mut stream = Streams::new(seed, Purpose::Sample).at(0);
            let draws = [(); 8].map(|()| law.sample(&mut stream));
            let most = law.max().unwrap_or(f64::from(LENGTH_MAX));
            prop_assert!(draws.iter().all(|draw| (1.0..=most).contains(draw)), "{law}: {draws:?}");
            prop_assert!(draws.iter().all(|draw| draw.fract() == 0.0));
            let means = 1.0 - 1e-6..=most * (1.0 + 1e-9);
            // Laws over millions of values are summed up in the tests of means.
            let long = matches!(&law.shape, Shape::One(law) if law.bound() > Some(1e5));
            prop_assert!(long || means.contains(&law.mean()), "{law}: {}", law.mean());
        }
        for read in [aiperf_seq_dist, guidellm, genai_bench, LengthLaw::of_pairs] {
            let refused = read(&format!("{figures}{end}")).is_err();
            prop_assert!(refused);
        }
    }
}
