//! What prompts share: system prompts, groups, users, a cached share; and what keeps caches from
//! knowing it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;
use crate::workload::{CacheBust, Groups, Law, Popularity, UserContext};

fn law(text: &str) -> Law {
    Law::of_lengths(text).unwrap()
}

fn groups(count: u32, tokens: &str, popularity: Popularity) -> Groups {
    Groups { count, tokens: Some(law(tokens)), popularity }
}

/// Prompts of 30 tokens besides what they share.
fn sharing(change: impl FnOnce(&mut Content)) -> Workload {
    let mut workload = workload();
    set_lengths(&mut workload, 30, 8);
    change(content(&mut workload));
    workload
}

/// The texts of the first items, each of which is as long as is said of it.
fn texts(plan: &Plan, items: u64) -> Vec<String> {
    let text = |item| {
        let (written, body) = said(plan, item);
        let text = prompt(&body).to_owned();
        assert_eq!(written.input_tokens, Some(tokens_of(&text)), "{text}");
        text
    };
    (0..items).map(text).collect()
}

/// What a cache without limits would know of the first items, in their order.
fn known(plan: &Plan, items: u64) -> Vec<u32> {
    let (mut scratch, mut walk) = (Scratch::default(), plan.walk());
    let one = |_| {
        let place = walk.step(plan);
        plan.write(&place, &mut scratch, &mut Vec::new()).unwrap().ideal_cached.unwrap()
    };
    (0..items).map(one).collect()
}

#[test]
fn a_system_prompt_stands_where_each_api_has_a_place_for_it() {
    let text_in = |member: &'static str| move |body: &Value| ("", body[member].clone());
    let messages = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        assert_eq!((messages.len(), &messages[0]["role"]), (2, &json!("system")));
        ("system", messages[0]["content"].clone())
    };
    let member = |name: &'static str| move |body: &Value| ("system", body[name].clone());
    type Place = Box<dyn Fn(&Value) -> (&'static str, Value)>;
    let cases: [(Dialect, Place); 11] = [
        (Dialect::OpenaiChat, Box::new(messages)),
        (Dialect::OllamaChat, Box::new(messages)),
        (Dialect::AnthropicMessages, Box::new(member("system"))),
        (Dialect::OpenaiResponses, Box::new(member("instructions"))),
        (Dialect::OpenaiCompletions, Box::new(text_in("prompt"))),
        (Dialect::OpenaiEmbeddings, Box::new(text_in("input"))),
        (Dialect::SglangGenerate, Box::new(text_in("text"))),
        (Dialect::TgiGenerate, Box::new(text_in("inputs"))),
        (Dialect::TritonGenerate, Box::new(text_in("text_input"))),
        (Dialect::LlamacppCompletion, Box::new(text_in("prompt"))),
        (Dialect::OllamaGenerate, Box::new(text_in("prompt"))),
    ];
    for (dialect, place) in cases {
        let mut workload = sharing(|content| content.shared.system_tokens = 20);
        workload.target.dialect = dialect;
        let plan = plan(&workload);
        let [(first, one), (_, other)] = [0, 1].map(|item| said(&plan, item));
        assert_eq!(first.input_tokens, Some(50), "{dialect}");
        let ((kind, text), (_, again)) = (place(&one), place(&other));
        let (text, again) = (text.as_str().unwrap(), again.as_str().unwrap());
        assert_eq!(words(text, 20), words(again, 20), "{dialect}");
        let whole = if kind == "system" { 20 } else { 50 };
        assert_eq!((tokens_of(text), tokens_of(again)), (whole, whole), "{dialect}");
        assert_ne!(one, other, "{dialect}");
    }
}

#[test]
fn beside_a_system_prompt_the_users_text_has_its_own_length() {
    let plan = plan(&sharing(|content| content.shared.system_tokens = 20));
    let (_, body) = said(&plan, 3);
    assert_eq!(body["messages"][1]["role"], "user");
    assert_eq!(tokens_of(body["messages"][1]["content"].as_str().unwrap()), 30);
}

#[test]
fn requests_of_a_group_begin_with_the_same_words() {
    let plan = plan(&sharing(|content| {
        content.shared.groups = Some(groups(4, "uniform:10,40", Popularity::Uniform));
    }));
    let mut members: HashMap<String, Vec<String>> = HashMap::new();
    for text in texts(&plan, 200) {
        members.entry(words(&text, 4)).or_default().push(text);
    }
    assert_eq!(members.len(), 4);
    let mut lengths = HashSet::new();
    for group in members.values() {
        let prefix = tokens_of(&group[0]) - 30;
        lengths.insert(prefix);
        assert!((10..=40).contains(&prefix), "{prefix}");
        assert!(group.iter().all(|text| words(text, prefix) == words(&group[0], prefix)));
        let whole: HashSet<&String> = group.iter().collect();
        assert_eq!(whole.len(), group.len(), "what follows is each one's own");
    }
    assert!(lengths.len() > 1, "{lengths:?}");
}

#[test]
fn groups_are_as_popular_as_zipf_has_them() {
    const ITEMS: u64 = 6_000;
    let plan = plan(&sharing(|content| {
        content.lengths = LengthLaw::constant(1, 1);
        content.shared.groups = Some(groups(8, "4", Popularity::Zipf(1.0)));
    }));
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for item in 0..ITEMS {
        let (_, body) = said(&plan, item);
        *counts.entry(words(prompt(&body), 4)).or_default() += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let all: f64 = (1..=8).map(|number| 1.0 / f64::from(number)).sum();
    for (number, count) in (1..=8).zip(counts) {
        let share = 1.0 / f64::from(number) / all;
        let expected = share * ITEMS as f64;
        let sigma = (expected * (1.0 - share)).sqrt();
        let off = (count as f64 - expected) / sigma;
        assert!(off.abs() < 4.0, "number {number}: {count} and not {expected}");
    }
}

#[test]
fn a_user_brings_the_same_context_every_time() {
    let context = |population| {
        let user = Some(UserContext { tokens: law("uniform:6,20"), population });
        let plan = plan(&sharing(|content| content.shared.user = user));
        let heads: HashSet<String> = texts(&plan, 120).iter().map(|text| words(text, 6)).collect();
        heads.len()
    };
    assert_eq!(context(Some(5)), 5);
    assert_eq!(context(None), 120, "without a population everybody is another");
}

#[test]
fn a_cached_share_is_taken_out_of_the_input_length() {
    let with = |share, groups, lengths: &str| {
        plan(&sharing(|content| {
            content.lengths = content.lengths.with_input(law(lengths));
            content.shared.cached_share = Some(share);
            content.shared.groups = groups;
        }))
    };
    let half = texts(&with(0.5, None, "40"), 50);
    assert!(half.iter().all(|text| tokens_of(text) == 40));
    assert_eq!(half.iter().map(|text| words(text, 20)).collect::<HashSet<_>>().len(), 1);
    assert_eq!(half.iter().map(|text| words(text, 24)).collect::<HashSet<_>>().len(), 50);
    let three = Groups { count: 3, tokens: None, popularity: Popularity::Uniform };
    let grouped = texts(&with(0.5, Some(three), "40"), 50);
    assert_eq!(grouped.iter().map(|text| words(text, 20)).collect::<HashSet<_>>().len(), 3);
    // A longer prompt shares a longer beginning of the same text.
    let spread = texts(&with(0.5, None, "uniform:20,200"), 50);
    let longest = spread.iter().max_by_key(|text| tokens_of(text)).unwrap();
    for text in &spread {
        let shared = tokens_of(text) / 2;
        assert_eq!(words(text, shared), words(longest, shared));
    }
    let text = refusal(&sharing(|content| content.shared.cached_share = Some(1.0)));
    assert!(text.starts_with("cached share: "), "{text}");
}

#[test]
fn a_perfect_cache_knows_what_was_shared_before() {
    let alone = plan(&sharing(|_| {}));
    assert_eq!(known(&alone, 3), [0, 0, 0]);
    let shared = |bust| {
        plan(&sharing(|content| {
            content.shared.system_tokens = 20;
            content.shared.groups = Some(groups(1, "16", Popularity::Uniform));
            content.cache_bust = bust;
        }))
    };
    assert_eq!(known(&shared(CacheBust::None), 3), [0, 36, 36]);
    assert_eq!(known(&shared(CacheBust::Run), 3), [0, 40, 40], "with the words of the run");
    assert_eq!(known(&shared(CacheBust::Request), 3), [0, 0, 0]);
    // Two groups: the first of each is known as far as the system prompt alone.
    let two = plan(&sharing(|content| {
        content.shared.system_tokens = 20;
        content.shared.groups = Some(groups(2, "16", Popularity::Uniform));
    }));
    let mut seen = HashSet::new();
    let expected: Vec<u32> = (0..20)
        .map(|item| {
            let (_, body) = said(&two, item);
            let group = words(body["messages"][1]["content"].as_str().unwrap(), 16);
            let first = seen.is_empty();
            match (seen.insert(group), first) {
                (true, true) => 0,
                (true, false) => 20,
                (false, _) => 36,
            }
        })
        .collect();
    assert_eq!(known(&two, 20), expected);
    let share = plan(&sharing(|content| content.shared.cached_share = Some(0.5)));
    assert_eq!(known(&share, 3), [0, 15, 15]);
    let longer = plan(&sharing(|content| {
        content.lengths = content.lengths.with_input(law("uniform:64,200"));
        content.shared.cached_share = Some(0.5);
    }));
    // In whole blocks, but for the end of the shorter one.
    let lengths: Vec<u32> = texts(&longer, 30).iter().map(|text| tokens_of(text)).collect();
    for (item, cached) in known(&longer, 30).into_iter().enumerate().skip(1) {
        let before = *lengths[..item].iter().max().unwrap();
        let least = ((lengths[item].min(before) / 2) / 16) * 16;
        assert!(
            cached >= least && cached <= lengths[item] / 2 + 1,
            "{item}: {cached}, {lengths:?}"
        );
    }
}

#[test]
fn words_that_bust_a_cache_take_the_place_of_others() {
    let texts_of = |bust, run_id: &str| {
        let workload = sharing(|content| {
            content.shared.groups = Some(groups(1, "16", Popularity::Uniform));
            content.cache_bust = bust;
        });
        texts(&made(&workload, run_id).unwrap(), 20)
    };
    let heads = |texts: &[String]| texts.iter().map(|text| words(text, 4)).collect::<HashSet<_>>();
    assert_eq!(texts_of(CacheBust::None, "a"), texts_of(CacheBust::None, "b"));
    let [one, other] = ["a", "b"].map(|run_id| texts_of(CacheBust::Run, run_id));
    assert_eq!((heads(&one).len(), heads(&other).len()), (1, 1));
    assert!(heads(&one).is_disjoint(&heads(&other)));
    let shared = |text: &str| text.split(' ').skip(4).take(16).collect::<Vec<_>>().join(" ");
    assert_eq!(shared(&one[3]), shared(&other[7]), "what is shared stays as it is");
    let [one, other] = ["a", "b"].map(|run_id| texts_of(CacheBust::Request, run_id));
    assert_eq!(heads(&one).len(), 20);
    assert!(heads(&one).is_disjoint(&heads(&other)));
    for text in one {
        assert_eq!(tokens_of(&text), 46, "as long as without");
    }
}

#[test]
fn an_input_length_may_include_what_the_server_adds() {
    let plan = plan(&sharing(|content| content.template_tokens = 9));
    for text in texts(&plan, 5) {
        assert_eq!(tokens_of(&text), 21);
    }
    let short = sharing(|content| content.template_tokens = 90);
    assert_eq!(said(&super::plan(&short), 0).0.input_tokens, Some(1), "never nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_is_shared_the_tokens_are_as_many_as_is_said(
        input in 1_u32..80,
        system_tokens in 0_u32..40,
        prefix in proptest::option::of(1_u32..40),
        user in proptest::option::of(1_u32..40),
        share in proptest::option::of(0.0_f64..0.99),
        bust in 0_usize..3,
        seed: u64,
    ) {
        let mut workload = sharing(|content| {
            content.lengths = LengthLaw::constant(input, 8);
            content.shared.groups =
                prefix.map(|tokens| groups(3, &tokens.to_string(), Popularity::Uniform));
            content.shared.system_tokens = system_tokens;
            content.shared.user =
                user.map(|user| UserContext { tokens: law(&user.to_string()), population: Some(2) });
            content.shared.cached_share = share;
            content.cache_bust = [CacheBust::None, CacheBust::Run, CacheBust::Request][bust];
        });
        workload.seed = seed;
        let plan = plan(&workload);
        let (mut scratch, mut walk) = (Scratch::default(), plan.walk());
        for _ in 0..6 {
            let (place, mut out) = (walk.step(&plan), Vec::new());
            let written = plan.write(&place, &mut scratch, &mut out).unwrap();
            let body: Value = serde_json::from_slice(&out[written.body]).unwrap();
            let texts = body["messages"].as_array().unwrap().iter();
            let tokens: u32 = texts.map(|one| tokens_of(one["content"].as_str().unwrap())).sum();
            prop_assert_eq!(written.input_tokens, Some(tokens));
            // Where the words of a bust fit in, they take the place of others.
            let marks = if bust == 0 || input > 4 { 0 } else { 5 - input };
            let prefix = if share.is_some() { 0 } else { prefix.unwrap_or(0) };
            prop_assert_eq!(tokens, input + marks + system_tokens + prefix + user.unwrap_or(0));
            prop_assert!(written.ideal_cached.unwrap() < tokens, "its own words are never known");
        }
    }
}
